"""The exceptions of adjoint: each is an `AdjointError` and the builtin that fits; and warnings."""


class AdjointError(Exception):
    """Base of every error that adjoint raises on purpose."""


class ShapeError(AdjointError, ValueError):
    """Shapes that don't go together."""


class ArgumentError(AdjointError, ValueError):
    """A value that the function can't work with."""


class RangeError(ArgumentError, OverflowError):
    """A number that its dtype can't hold."""


class AxisError(ArgumentError, IndexError):
    """An axis that the tensor doesn't have."""


class DTypeError(AdjointError, TypeError):
    """A dtype, or a Python type, that the function can't work with."""


class KeywordError(AdjointError, TypeError):
    """A keyword that the function doesn't have."""


class DeviceError(AdjointError, RuntimeError):
    """Tensors on different devices, or a device that can't do what was asked."""


class IndexingError(AdjointError, IndexError):
    """An index that doesn't fit the tensor."""


class GradientError(AdjointError, RuntimeError):
    """A gradient that can't be had, or a derivative rule that is wrong."""


class AnomalyError(GradientError):
    """The first NaN or infinity under `detect_anomaly`."""


class CheckError(AdjointError, AssertionError):
    """A derivative that doesn't agree with finite differences."""


class TraceError(AdjointError, RuntimeError):
    """Something that needs a value, where only its shape and dtype are known."""

    @classmethod
    def escaped(cls, function: str) -> "TraceError":
        return cls(
            f"{function}: a traced value was used after its trace ended, or in another thread; "
            "return it from the traced function"
        )


class FileError(AdjointError, OSError):
    """A file that can't be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """A file, or a folder for it, that isn't there."""


class DamagedFileError(AdjointError, ValueError):
    """A file whose contents aren't those of its format, or have changed since it was written."""


class MissingPackageError(AdjointError, ImportError):
    """A package that isn't installed, and that what was asked for needs."""


class ForkError(AdjointError, RuntimeError):
    """Something with threads, used in a forked process, which has none of them."""


class RankError(AdjointError, RuntimeError):
    """Another rank of a distributed program has failed, or does something else than this one."""


class StrayStopError(AdjointError, RuntimeError):
    """A StopIteration that nobody meant for the loop over the batches."""

    @classmethod
    def of(cls, where: str) -> "StrayStopError":
        return cls(
            f"DataLoader: {where} raised StopIteration, as next() does at the end of an iterator; "
            "that would end the epoch: give next() a default, or catch it"
        )


class KernelError(AdjointError, RuntimeError):
    """A kernel that can't be compiled or loaded: a fault of ours, not of who called us."""

    @classmethod
    def refused(cls, what: str, error: Exception, text: str) -> "KernelError":
        return cls(
            f"{what}: {error}\nThis is a bug of adjoint, please report it. ADJOINT_JIT=0 in the "
            f"environment lets NumPy compute everything. The kernel was\n{text}"
        )


class LostGraphWarning(UserWarning):
    """A copy of values of tensors that require grad, through which no gradient flows to them."""


class LostAssignmentWarning(UserWarning):
    """An assignment to a tensor that nobody holds, such as x[0][1] = 5."""


__all__ = [name for name in dir() if not name.startswith("_")]  # type: ignore[reportUnsupportedDunderAll]
for _name in __all__:  # in tracebacks and pickles they are called as users call them
    globals()[_name].__module__ = "adjoint"
