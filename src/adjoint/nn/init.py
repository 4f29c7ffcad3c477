"""Values to start training from, written into tensors; each function returns its tensor.

`fan_in` is the number of inputs that an output of a weight (outputs, inputs, *kernel) sees,
`fan_out` the number of outputs that an input reaches. Numbers come from `generator`, an
`ad.random.Generator`, or from the global one.
"""

import math
from typing import Any

from .. import random
from .._core.tensor import Tensor, describe
from .._foundation.errors import ArgumentError, DTypeError, GradientError, ShapeError
from .._foundation.modes import no_grad
from ..functions._arguments import as_integer, as_number
from ..functions.creation import eye, zeros
from ..functions.elementwise import clip
from ..functions.shapes import matrix_transpose, reshape
from ..functions.sorting import argsort
from ..linalg import diagonal, qr
from ..primitives.elementwise import where

__all__ = ["calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_"]
__all__ += ["normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_"]
__all__ += ["xavier_normal_", "xavier_uniform_", "zeros_"]

GAINS = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
} | {f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How much larger weights before an activation function are, so that signals keep their size.

    `param` is the slope of "leaky_relu", 0.01 unless given.

    >>> ad.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else as_number("calculate_gain", "param", param)
        return math.sqrt(2 / (1 + slope * slope))
    if nonlinearity not in GAINS:
        raise ArgumentError(
            f"calculate_gain: nonlinearity={nonlinearity!r} is none of "
            f"{', '.join([*GAINS, 'leaky_relu'])}"
        )
    return GAINS[nonlinearity]


# The same for all elements.


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers drawn uniformly from a to b.

    >>> ad.nn.init.uniform_(ad.zeros(2), -0.1, 0.1).shape
    (2,)
    """
    options = like("uniform_", tensor)
    return fill(tensor, random.uniform(tensor.shape, a, b, generator=generator, **options))


def uniform_within(bound: float, *tensors: Any) -> None:
    """Fill tensors, those that aren't None, with numbers drawn uniformly from ±bound."""
    for tensor in tensors:
        if tensor is not None:
            uniform_(tensor, -bound, bound)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers of the normal distribution.

    >>> ad.nn.init.normal_(ad.zeros((2, 3)), std=0.02).shape
    (2, 3)
    """
    options = like("normal_", tensor)
    return fill(tensor, random.normal(tensor.shape, mean, std, generator=generator, **options))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Numbers of the normal distribution, only those between a and b.

    >>> x = ad.nn.init.trunc_normal_(ad.zeros(1000), std=3.0)
    >>> ad.all(ad.abs(x) <= 2)
    tensor(True)
    """
    options = like("trunc_normal_", tensor)
    std = as_number("trunc_normal_", "std", std)
    if not std > 0 or not a < b:
        raise ArgumentError(f"trunc_normal_: std={std} is above 0, and a={a} below b={b}")
    bounds = (a - mean) / std, (b - mean) / std
    drawn = random.truncated_normal(
        tensor.shape, *bounds, mean, std, generator=generator, **options
    )
    return fill(tensor, clip(drawn, a, b))  # rounding must not pass them


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere.

    >>> ad.nn.init.constant_(ad.zeros(2), 0.3)
    tensor([0.3, 0.3])
    """
    like("constant_", tensor)
    return fill(tensor, as_number("constant_", "val", val))


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere.

    >>> ad.nn.init.ones_(ad.zeros(2))
    tensor([1., 1.])
    """
    like("ones_", tensor)
    return fill(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere.

    >>> ad.nn.init.zeros_(ad.ones(2))
    tensor([0., 0.])
    """
    like("zeros_", tensor)
    return fill(tensor, 0.0)


# Maps that keep what they are given.


def eye_(tensor: Tensor) -> Tensor:
    """The identity, as far as a matrix that isn't square can be one.

    >>> ad.nn.init.eye_(ad.zeros((2, 3)))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    options = like("eye_", tensor)
    check_rank("eye_", tensor, (2,), "a matrix")
    return fill(tensor, eye(*tensor.shape, **options))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes on each channel as it is, in each of its groups.

    >>> ad.nn.init.dirac_(ad.zeros((2, 2, 3)))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    options = like("dirac_", tensor)
    check_rank("dirac_", tensor, (3, 4, 5), "a weight (outputs, inputs, *kernel)")
    groups = as_integer("dirac_", "groups", groups)
    if groups < 1 or tensor.shape[0] % groups:
        raise ArgumentError(
            f"dirac_: {tensor.shape[0]} outputs can't be in groups={groups} of equal size"
        )
    outputs, inputs, *kernel = tensor.shape
    share = outputs // groups
    places = [(k, k % share) for k in range(outputs) if k % share < inputs]
    out = zeros(tensor.shape, **options)
    for row, column in places:
        out[(row, column, *(n // 2 for n in kernel))] = 1
    return fill(tensor, out)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """A random matrix with orthonormal rows or columns, whichever are fewer, times `gain`; axes
    after the first count as one.

    >>> x = ad.nn.init.orthogonal_(ad.zeros((2, 3)))
    >>> ad.all(ad.abs(x @ x.mT - ad.eye(2)) < 1e-5)
    tensor(True)
    """
    options = like("orthogonal_", tensor)
    check_rank("orthogonal_", tensor, range(2, 99), "a weight of two axes or more")
    if not tensor.size:
        return tensor
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    shape = (max(rows, columns), min(rows, columns))
    q, r = qr(random.normal(shape, generator=generator, **options))
    q = q * where(diagonal(r) < 0, -1.0, 1.0)  # else some of them come more often than others
    out = matrix_transpose(q) if rows < columns else q
    return fill(tensor, reshape(out, tensor.shape) * as_number("orthogonal_", "gain", gain))


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """A matrix of normal numbers, of which the part `sparsity` in each column is 0.

    >>> x = ad.nn.init.sparse_(ad.ones((10, 3)), sparsity=0.4)
    >>> ad.count_nonzero(x, axis=0)
    tensor([6, 6, 6])
    """
    options = like("sparse_", tensor)
    check_rank("sparse_", tensor, (2,), "a matrix")
    sparsity = as_number("sparse_", "sparsity", sparsity)
    if not 0 <= sparsity <= 1:
        raise ArgumentError(f"sparse_: sparsity={sparsity} is a part, from 0 to 1")
    none = math.ceil(sparsity * tensor.shape[0])
    order = argsort(random.uniform(tensor.shape, generator=generator, **options), axis=0)
    std = as_number("sparse_", "std", std)
    numbers = random.normal(tensor.shape, 0.0, std, generator=generator, **options)
    return fill(tensor, where(order < none, 0, numbers))


# Sizes that depend on the numbers of inputs and outputs.


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers drawn uniformly from ±gain * sqrt(6 / (fan_in + fan_out)).

    >>> ad.nn.init.xavier_uniform_(ad.zeros((2, 3))).shape
    (2, 3)
    """
    bound = math.sqrt(3) * xavier_std("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers of standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    >>> ad.nn.init.xavier_normal_(ad.zeros((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, xavier_std("xavier_normal_", tensor, gain), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Numbers drawn uniformly from ±gain * sqrt(3 / fan); the gain is that of the nonlinearity,
    whose slope is `a` if it is "leaky_relu".

    >>> ad.nn.init.kaiming_uniform_(ad.zeros((2, 3)), nonlinearity="relu").shape
    (2, 3)
    """
    std = kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -math.sqrt(3) * std, math.sqrt(3) * std, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal numbers of standard deviation gain / sqrt(fan), else as `kaiming_uniform_`.

    >>> ad.nn.init.kaiming_normal_(ad.zeros((8, 3, 5, 5)), mode="fan_out").shape
    (8, 3, 5, 5)
    """
    std = kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)


def xavier_std(function: str, tensor: Tensor, gain: float) -> float:
    fans = fan_in_and_out(function, tensor)
    return as_number(function, "gain", gain) * math.sqrt(2 / max(sum(fans), 1))


def kaiming_std(function: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), fan_in_and_out(function, tensor), strict=True))
    if mode not in fans:
        raise ArgumentError(f"{function}: mode is 'fan_in' or 'fan_out', got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fans[mode], 1))


def fan_in_and_out(function: str, tensor: Tensor) -> tuple[int, int]:
    like(function, tensor)
    check_rank(function, tensor, range(2, 99), "a weight (outputs, inputs, ...)")
    outputs, inputs, *kernel = tensor.shape
    return inputs * math.prod(kernel), outputs * math.prod(kernel)


# What they share.


def like(function: str, tensor: Any) -> dict[str, Any]:
    """How to make numbers for a tensor, which must have floats."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"{function}: a tensor is needed, got a {type(tensor).__name__}")
    if tensor.dtype.kind != "float":
        raise DTypeError(f"{function}: a tensor of floats is needed, got {describe(tensor)}")
    return {"dtype": tensor.dtype, "device": tensor.device}


def fill(tensor: Tensor, values: Any) -> Tensor:
    if isinstance(values, Tensor) and values.requires_grad:
        raise GradientError(
            "nn.init: a number that values are made with requires grad, and they are written "
            "without a graph; pass number.detach()"
        )
    with no_grad():
        tensor[...] = values
    return tensor


def check_rank(function: str, tensor: Tensor, ranks: Any, what: str) -> None:
    if tensor.ndim not in ranks:
        raise ShapeError(f"{function}: {what} is needed, got shape {tensor.shape}")
