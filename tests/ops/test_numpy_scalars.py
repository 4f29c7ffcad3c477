"""Beside a tensor a NumPy scalar is the Python number of its value; alone it keeps its dtype."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import DEVICES
from tests.support.samples import OPS

F = ad.nn.functional
Call = Callable[[ad.Tensor, Any], Any]


def filled(x: ad.Tensor, value: Any, index: Any = 0) -> ad.Tensor:
    out = x.copy()
    out[index] = value
    return out


def exchanged(operation: Callable) -> Call:
    return lambda x, v: operation(v, x)


def changed(operation: Callable) -> Call:
    return lambda x, v: operation(x.copy(), v)


OPERATORS = "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split()
CALLS: dict[str, Call] = {
    **{f"x {name} v": getattr(operator, name) for name in OPERATORS},
    **{f"v {name} x": exchanged(getattr(operator, name)) for name in OPERATORS},
    **{f"x i{name} v": changed(getattr(operator, f"i{name}")) for name in OPERATORS[:7]},
    **{
        name: lambda x, v, name=name: getattr(ad, name)(x, v)
        for name, op in OPS.items()
        if op.kind == "elementwise" and len(op.inputs) == 2 and hasattr(ad, name)
    },
    "where": lambda x, v: ad.where(x > 0, x, v),
    "where of numbers": lambda x, v: ad.where(x > 0, v, v),
    "clip": lambda x, v: ad.clip(x, v, v),
    "clip by one": lambda x, v: ad.clip(x, max=v),
    "clip of a number": lambda x, v: ad.clip(v, x, x),
    "clip method": lambda x, v: x.clip(v),
    "x[0] = v": filled,
    "x[...] = v": lambda x, v: filled(x, v, ...),
    "x[mask] = v": lambda x, v: filled(x, v, x > 0),
    "at.set": lambda x, v: x.at[0].set(v),
    "at.add": lambda x, v: x.at[[0, 0]].add(v),
    "at.multiply": lambda x, v: x.at[[0, 0]].multiply(v),
    "at.min": lambda x, v: x.at[[0, 0]].min(v),
    "add_ alpha": lambda x, v: x.copy().add_(x, alpha=v),
    "sub_ alpha": lambda x, v: x.copy().sub_(x, alpha=v),
    **{
        name: lambda x, v, name=name: getattr(x.copy(), name)(v)
        for name in ("add_", "sub_", "mul_", "div_", "clamp_", "fill_", "copy_")
    },
    "x.data": lambda x, v: x.copy().data.mul_(v) + v,
    "stack": lambda x, v: ad.stack([x[0, 0], v]),
    "concat": lambda x, v: ad.concat([x, v], axis=None),
    "asarray of a list": lambda x, v: ad.asarray([x[0, 0], v]),
    "einsum": lambda x, v: ad.einsum("ij,->ij", x, v),
    "tensordot": lambda x, v: ad.tensordot(x, v, axes=0),
    "kron": ad.kron,
    "inner": ad.inner,
    "isin": ad.isin,
    "searchsorted": lambda x, v: ad.searchsorted(x[0], v),
    "diff": lambda x, v: ad.diff(x[0], prepend=v, append=v),
    "pad": lambda x, v: ad.pad(x, 1, constant_values=v),
    "full_like": ad.full_like,
    "result_type": lambda x, v: ad.zeros((), dtype=ad.result_type(x, v), device=x.device),
    "result_type of a dtype": lambda x, v: ad.zeros(
        (), dtype=ad.result_type(v, x.dtype), device=x.device
    ),
    "mse_loss": lambda x, v: F.mse_loss(x[0, 0], v),
    "gaussian_nll_loss": lambda x, v: F.gaussian_nll_loss(x, x, v),
    "bce weight": lambda x, v: F.binary_cross_entropy_with_logits(x, x, weight=v, pos_weight=v),
    "linear bias": lambda x, v: F.linear(x, x, v),
    "prelu": F.prelu,
    "threshold": lambda x, v: F.threshold(x, v, v),
    "hardtanh": lambda x, v: F.hardtanh(x, -1, v),
    "attention mask": lambda x, v: F.scaled_dot_product_attention(x, x, x, v),
    "attention scale": lambda x, v: F.scaled_dot_product_attention(x, x, x, scale=v),
    "jvp": lambda x, v: ad.jvp(ad.sin, (x[0, 0],), (v,))[1],
    "vjp": lambda x, v: ad.vjp(ad.sin, x[0, 0])[1](v)[0],
    "normal": lambda x, v: ad.random.Generator(0).normal((2,), mean=x[0, 0], std=v),
    "uniform": lambda x, v: ad.random.Generator(0).uniform((2,), low=v, high=x[0, 0] + 9),
    "traced": lambda x, v: ad.trace(lambda x: x * v + v, x)(x),
    "vmap": lambda x, v: ad.vmap(lambda row: row * v)(x),
    "gradient": lambda x, v: ad.grad(lambda x: (x * v).sum())(x),
}
NUMBERS = (np.float64(0.3), np.int64(300), np.longdouble(0.1), np.float16(2), np.uint8(2), np.True_)
VALUES = {"cpu": NUMBERS, "webgpu": NUMBERS[:2]}
DTYPES = {"cpu": (ad.float32, ad.float16, ad.int32, ad.int8), "webgpu": (ad.float32, ad.int32)}


def outcome(call: Call, x: ad.Tensor, value: Any) -> tuple:
    """What comes out of a call, to the last bit, or the kind of its error."""
    try:
        out = call(x, value)
    except (ad.AdjointError, OverflowError) as error:
        return (type(error),)
    return out.dtype, out.device, out.shape, out.to("cpu").numpy().tobytes()


def python(value: np.generic) -> Any:
    return {"b": bool, "i": int, "u": int, "f": float}[value.dtype.kind](value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_beside_a_tensor_a_numpy_scalar_is_a_python_number(call: Call, device: str) -> None:
    for dtype in DTYPES[device]:
        x = ad.asarray([[1, 2], [3, 4]], dtype=dtype, device=device)
        for value in VALUES[device]:
            expected = outcome(call, x, python(value))
            assert outcome(call, x, value) == expected, (dtype, value)


def test_a_float32_network_stays_one() -> None:
    model = ad.nn.Sequential(ad.nn.Linear(8, 4), ad.nn.ReLU(), ad.nn.Linear(4, 2))
    out = model(ad.ones((3, 8)) / np.sqrt(8)) * np.float64(2)
    out.sum().backward()
    assert out.dtype is ad.float32 and model[0].weight.grad.dtype is ad.float32


def test_large_exponents_are_those_of_python_bit_for_bit() -> None:
    x = ad.random.Generator(0).normal((100_003,))
    for exponent in (2, 2.0, 3.0):
        same = (x ** np.asarray(exponent)[()]).numpy()
        np.testing.assert_array_equal(same, (x**exponent).numpy())


def test_an_integer_that_does_not_fit_is_an_error() -> None:
    x = ad.asarray([1, 2], dtype=ad.int8)
    uses: list[Call] = [operator.add, ad.maximum, filled, lambda x, v: ad.stack([x[0], v])]
    for use in uses:
        with pytest.raises(ad.RangeError, match="300"):
            use(x, np.int64(300))


def test_integers_with_a_numpy_float_are_the_default_float() -> None:
    x = ad.asarray([1, 2])
    assert (x + np.float64(0.5)).dtype is ad.float32
    assert (x * np.complex128(1j)).dtype is ad.complex64
    assert (ad.ones(2) * np.clongdouble(1j)).dtype is ad.complex64
    assert (x + np.uint64(3)).dtype is ad.int64
    assert ((x > 1) & np.bool_(True)).dtype is ad.bool


ALONE = {
    "sin": lambda: ad.sin(np.float64(1)),
    "two of them": lambda: ad.add(np.float64(1), np.float32(2)),
    "beside a Python number": lambda: ad.add(np.float64(1), 2.0),
    "beside an array": lambda: ad.add(np.ones(2, "f4"), np.float64(1)),
    "asarray": lambda: ad.asarray(np.float64(1)),
    "a list": lambda: ad.asarray([1.0, np.float64(1)]),
    "full": lambda: ad.full((2,), np.float64(1)),
    "clip": lambda: ad.clip(np.float64(0.5), 0, 1),
    "where": lambda: ad.where(np.True_, np.float64(1), 0),
    "grad": lambda: ad.grad(ad.sin)(np.float64(1)),
    "normal": lambda: ad.random.normal((2,), std=np.float64(2)),
    "result_type": lambda: ad.zeros(2, dtype=ad.result_type(np.float64(1), np.float32(2))),
    "sum": lambda: ad.sum(np.float64(1)),
    "stack": lambda: ad.stack([np.float64(1), np.float32(2), 3.0]),
}


@pytest.mark.parametrize("call", ALONE.values(), ids=ALONE)
def test_where_no_tensor_stands_beside_it_it_keeps_its_dtype(call: Callable[[], Any]) -> None:
    assert call().dtype is ad.float64


def test_arrays_without_axes_keep_their_dtype_beside_a_tensor() -> None:
    x = ad.ones(2)
    for out in (x + np.array(2.0), ad.where(x > 0, x, np.array(2.0)), ad.maximum(x, np.ones(()))):
        assert out.dtype is ad.float64
    assert ad.result_type(x, np.array(2.0)) is ad.float64
    assert (x + ad.asarray(2.0, dtype=ad.float64)).dtype is ad.float64


def test_python_numbers_are_weak_where_tensors_are_joined_or_clipped() -> None:
    x = ad.ones((), dtype=ad.float16)
    for out in (ad.stack([x, 1.0]), ad.concat([x, 2], axis=None), ad.clip(5.0, x, x)):
        assert out.dtype is ad.float16


@pytest.mark.parametrize(
    "scalar", [np.str_("a"), np.bytes_(b"a"), np.datetime64("2020"), np.timedelta64(5, "ns")]
)
def test_what_is_no_number_is_refused_and_never_equal(scalar: Any) -> None:
    x = ad.ones(2)
    uses: list[Call] = [operator.mul, filled, ad.maximum, lambda x, v: ad.stack([x[0], v])]
    for use in uses:
        with pytest.raises(ad.DTypeError, match="isn't"):
            use(x, scalar)
    assert (x == scalar) is False and (x != scalar) is True


def test_a_longdouble_alone_is_refused() -> None:
    with pytest.raises(ad.DTypeError, match=r"isn't a dtype of adjoint"):
        ad.sin(np.longdouble(1))


def test_rules_may_use_numpy_scalars() -> None:
    def rule(g: Any, x: Any) -> Any:
        return g * np.sqrt(2.0) * (np.float64(2) * x)

    scaled = ad.op.elementwise("scaled", x=rule, forward=lambda x: x * x)
    x = ad.ones(3, requires_grad=True)
    scaled(x).sum().backward()
    assert x.grad is not None and x.grad.dtype is ad.float32
    np.testing.assert_allclose(x.grad.numpy(), np.sqrt(8.0), rtol=1e-6)
