"""Functions of the kernel language, compiled, against more digits: few last digits are wrong."""

import functools
import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest

from adjoint.backends.cpu.lowering.launchers import Launcher
from adjoint.kernels import exponential, logarithmic, powers, special, trigonometric
from adjoint.kernels.frame import Loops
from adjoint.kernels.language import F32, F64, Kernel, Type, element
from adjoint.kernels.llvm import render
from tests.kernels.programs import evaluated
from tests.support.function_references import BINARY, PRECISE, UNARY, largest_term
from tests.support.helpers import needs_kernels
from tests.support.precise import Truth, ulps

pytestmark = needs_kernels

LIMIT = {F32: 2.0, F64: 4.0}
MODULES = (exponential, logarithmic, trigonometric, special, powers)
FUNCTIONS: dict[str, Callable] = {
    name: getattr(module, name)
    for name in (*UNARY, *BINARY)
    for module in MODULES
    if getattr(getattr(module, name, None), "__module__", None) == module.__name__
}
SPECIAL = [
    *(0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 0.1, 5.0, 1e-30, 1e30, 2.0**24, 2.0**24 + 1, 2.0**53, np.inf),
    *(88.72, 89.4, 103.9, 104.1, 709.7, 710.4, 745.1, 746.0),
]
types = pytest.mark.parametrize("type", [F32, F64], ids=repr)


@functools.cache
def compiled(name: str, type: Type) -> Callable[..., np.ndarray]:
    launcher = Launcher(Kernel((described(name, type),)))
    return lambda *arrays: launcher.map(arrays)[0]


def described(name: str, type: Type):
    return FUNCTIONS[name](*(element(k, type) for k in range(2 if name in BINARY else 1)))


def special_numbers(type: Type) -> np.ndarray:
    info = np.finfo(type.dtype)
    ends = [info.tiny, info.smallest_subnormal, info.max, info.eps]
    near_one = 1 + np.arange(-9, 9) * (info.eps / 2)
    values = np.concatenate([SPECIAL, ends, near_one]).astype(type.dtype)
    return np.concatenate([values, -values, [np.nan]]).astype(type.dtype)


def numbers(type: Type, count: int, seed: int = 0) -> np.ndarray:
    """Half of them of all sizes, the others where functions have their shape; and special ones."""
    rng = np.random.default_rng(seed)
    word = type.signed.dtype
    info = np.iinfo(word)
    any_bits = rng.integers(info.min, info.max, count // 2, word, endpoint=True).view(type.dtype)
    eighth = count // 8
    shapes = [
        rng.standard_normal(eighth),
        rng.uniform(-1, 1, eighth),
        rng.standard_normal(eighth) * 30,
        np.exp(rng.standard_normal(eighth) / 4),
    ]
    with np.errstate(all="ignore"):
        numbers = np.concatenate([any_bits, *shapes, special_numbers(type)])
        return numbers.astype(type.dtype)


def doubtful(error: np.ndarray) -> np.ndarray:
    """Where results differ most from NumPy's, and some of the others: precise numbers are slow."""
    ranked = np.argsort(-error)
    return np.append(ranked[:1000], ranked[1000 :: 1 + len(ranked) // 1000])


def worst(name: str, type: Type, arrays: list[np.ndarray], size: np.ndarray | None = None) -> str:
    """The largest error, and where it is."""
    out = compiled(name, type)(*arrays)
    with np.errstate(all="ignore"):
        truth = Truth.of_floats({**UNARY, **BINARY}[name](*(x.astype("f8") for x in arrays)))
    error = ulps(out, truth, size)
    if type == F64:
        chosen = doubtful(error)
        arrays, out = [x[chosen] for x in arrays], out[chosen]
        truth = Truth.of(PRECISE[name], truth.near[chosen], *arrays)
        error = ulps(out, truth, None if size is None else size[chosen])
    k = int(error.argmax())
    where = ", ".join(repr(x[k]) for x in arrays)
    return "" if error[k] <= LIMIT[type] else f"{name}({where}) = {out[k]!r}: {error[k]:.2f} ulp"


@types
@pytest.mark.parametrize("name", UNARY)
def test_results_are_right_but_for_the_last_digits(name, type):
    assert not worst(name, type, [numbers(type, 1_000_000)])


@types
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_near_multiples_of_half_pi_remainders_keep_their_digits(name, type):
    x = (np.arange(-300_000, 300_000, 7) * (np.pi / 2)).astype(type.dtype)
    assert not worst(name, type, [x])


@types
@pytest.mark.parametrize("name", ["pow", "hypot", "atan2"])
def test_results_of_two_numbers_are_right_but_for_the_last_digits(name, type):
    x = numbers(type, 400_000, 1)
    y = np.random.default_rng(2).permutation(numbers(type, 400_000, 3))
    assert not worst(name, type, [x, y])


@types
@pytest.mark.parametrize("name", BINARY)
def test_results_of_each_pair_of_special_numbers(name, type):
    x = special_numbers(type)
    x, y = (np.ascontiguousarray(z) for z in np.array(list(itertools.product(x, x))).T)
    assert not worst(name, type, [x, y], largest_term(x, y) if name == "logaddexp" else None)


@types
def test_powers_of_positive_numbers(type):
    """Where results neither overflow nor are 1 or 0: nearly all pairs of any numbers do."""
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-20, 20, 300_000)).astype(type.dtype)
    y = rng.uniform(-1, 1, 300_000) * (np.finfo(type.dtype).maxexp + 30) / np.log2(x)
    assert not worst("pow", type, [x, y.astype(type.dtype)])


@types
def test_logaddexp_has_the_digits_of_its_largest_term(type):
    """Its two terms may cancel: of -log(2) and -log(2) there is nearly nothing left."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(60_000).astype(type.dtype) * 8 for _ in range(2))
    y[::3] = x[::3] + rng.standard_normal(20_000).astype(type.dtype)
    assert not worst("logaddexp", type, [x, y], largest_term(x, y))


@types
@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("exp", 0, 1),
        ("cos", 0, 1),
        ("cosh", 0, 1),
        ("sigmoid", 0, 0.5),
        ("log", 1, 0),
        ("acos", 1, 0),
        ("acosh", 1, 0),
        ("tanh", 30, 1),
        ("erf", 7, 1),
        ("sigmoid", 60, 1),
        ("gelu", 60, 60),
    ],
)
def test_exact_results(name, x, y, type):
    out = compiled(name, type)(np.array([x], type.dtype))
    assert out[0] == y and not np.signbit(out[0])


@types
def test_powers_of_two_have_exact_logarithms(type):
    k = np.arange(np.finfo(type.dtype).minexp, np.finfo(type.dtype).maxexp)
    out = compiled("log2", type)(np.ldexp(type.dtype.type(1), k))
    np.testing.assert_array_equal(out, k.astype(type.dtype))


@types
@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "erf", "sigmoid"])
def test_what_is_at_most_one_is_never_more(name, type):
    out = compiled(name, type)(numbers(type, 200_000))
    assert np.nanmax(np.abs(out)) <= 1


@types
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rendered_functions_are_what_the_language_says(name, type):
    """Bit for bit, also the functions' own errors: other renderers will have the same."""
    value = described(name, type)
    fast = value.args[2] if value.op == "library" else value
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(24).astype(type.dtype) * 3 for _ in range(2)]
    kernel = Kernel((fast,))
    (expected,) = evaluated(kernel, arrays)
    np.testing.assert_array_equal(Launcher(kernel).map(arrays[: len(kernel.sources)])[0], expected)


# Processors that kernels are compiled for, and a fused multiply-add of their longest vectors.
TARGETS = {
    "x86-64-v3": ("x86_64-unknown-linux-gnu", {F32: "vfn?m.*ps.*ymm", F64: "vfn?m.*pd.*ymm"}),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", {F32: "vfn?m.*ps.*zmm", F64: "vfn?m.*pd.*zmm"}),
    "generic": ("aarch64-unknown-linux-gnu", {F32: r"fml[as].*\.4s", F64: r"fml[as].*\.2d"}),
}


@types
@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_vectors_on_every_processor(name, cpu, type):
    """Nothing calls another function, but for sines of numbers that are too large."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, multiply_add = TARGETS[cpu]
    kernel = Kernel((described(name, type),))
    loops = Loops("c" * (len(kernel.sources) + 1), 0, lanes=512 // type.bits)
    text = render(kernel, loops).text
    module = llvm.parse_assembly(text)
    module.triple = triple
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
    assembly = machine.emit_assembly(module)
    own = re.findall(r"^define .*@(\w+)\(", text, re.MULTILINE)
    calls = re.findall(r"(?:\$|\t(?:bl|callq?)\t)([A-Za-z_]\w*)", assembly)
    assert re.search(multiply_add[type], assembly)
    assert not {*calls} - {*own, name if type == F64 else f"{name}f"}
