"""Other libraries take tensors, give tensors back, and never change one behind our back."""

import copy
import functools
import importlib
import json
import math
import operator
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.support.processes import python

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128"
).split()


def sample(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


# SciPy and scikit-learn read SCIPY_ARRAY_API when they are imported: a fresh interpreter runs the
# whole table, and says for each entry what was wrong.


def parts_of(package: str, names: str) -> list[Any]:
    return [importlib.import_module(f"{package}.{name}") for name in names.split()]


def scipy_functions() -> dict[str, Callable[[Any, Any], Any]]:
    """Functions of two matrices of positive numbers, 8 by 3."""
    cluster, differentiate, fft, integrate, ndimage, optimize, signal, special, stats = parts_of(
        "scipy", "cluster differentiate fft integrate ndimage optimize signal special stats"
    )
    return {
        "special.logsumexp": lambda x, y: special.logsumexp(x, axis=1),
        "special.softmax": lambda x, y: special.softmax(x, axis=1),
        "special.log_softmax": lambda x, y: special.log_softmax(x, axis=0),
        "special.expit": lambda x, y: special.expit(x),
        "special.xlogy": lambda x, y: special.xlogy(x, y),
        "special.gammaln": lambda x, y: special.gammaln(x),
        "stats.zscore": lambda x, y: stats.zscore(x, axis=0),
        "stats.skew": lambda x, y: stats.skew(x),
        "stats.kurtosis": lambda x, y: stats.kurtosis(x, axis=1),
        "stats.moment": lambda x, y: stats.moment(x, 3),
        "stats.gmean": lambda x, y: stats.gmean(x),
        "stats.entropy": lambda x, y: stats.entropy(x),
        "stats.sem": lambda x, y: stats.sem(x),
        "stats.quantile": lambda x, y: stats.quantile(x, 0.3, axis=0),
        "stats.ttest_ind": lambda x, y: stats.ttest_ind(x, y).pvalue,
        "stats.pearsonr": lambda x, y: stats.pearsonr(x[:, 0], y[:, 0]).statistic,
        "cluster.vq.whiten": lambda x, y: cluster.vq.whiten(x),
        "cluster.vq.vq": lambda x, y: cluster.vq.vq(x, y[:3, :])[1],
        "integrate.trapezoid": lambda x, y: integrate.trapezoid(x, y, axis=0),
        "optimize.rosen": lambda x, y: optimize.rosen(x[:, 0]),
        "differentiate.derivative": lambda x, y: differentiate.derivative(lambda t: t**3, x).df,
        "fft.rfft": lambda x, y: fft.rfft(x, axis=0),
        "ndimage.gaussian_filter": lambda x, y: ndimage.gaussian_filter(x, 1.0),
        "signal.detrend": lambda x, y: signal.detrend(x, axis=0),
    }


def estimators() -> dict[str, Callable[[Any, Any, Any], Any]]:
    """What scikit-learn learns from rows x, numbers y and classes c."""
    decomposition, discriminant_analysis, linear_model, metrics, preprocessing = parts_of(
        "sklearn", "decomposition discriminant_analysis linear_model metrics preprocessing"
    )

    def pca(solver: str, **options: Any) -> Callable[[Any, Any, Any], Any]:
        settings = {"n_components": 2, "svd_solver": solver, "random_state": 0, **options}
        return lambda x, y, c: decomposition.PCA(**settings).fit_transform(x)

    return {
        "StandardScaler": lambda x, y, c: preprocessing.StandardScaler().fit_transform(x),
        "MinMaxScaler": lambda x, y, c: preprocessing.MinMaxScaler().fit_transform(x),
        "Normalizer": lambda x, y, c: preprocessing.Normalizer().fit_transform(x),
        "LabelEncoder": lambda x, y, c: preprocessing.LabelEncoder().fit_transform(c),
        "PCA(full)": pca("full"),
        "PCA(covariance_eigh)": pca("covariance_eigh"),
        "PCA(randomized)": pca("randomized", power_iteration_normalizer="QR"),
        "PCA(whiten)": pca("full", whiten=True),
        "Ridge(svd)": lambda x, y, c: linear_model.Ridge(solver="svd").fit(x, y).predict(x),
        "RidgeClassifier": lambda x, y, c: (
            linear_model.RidgeClassifier(solver="svd").fit(x, c).predict(x)
        ),
        "LinearDiscriminantAnalysis": lambda x, y, c: (
            discriminant_analysis.LinearDiscriminantAnalysis().fit(x, c).predict_proba(x)
        ),
        "euclidean_distances": lambda x, y, c: metrics.pairwise.euclidean_distances(x),
        "r2_score": lambda x, y, c: metrics.r2_score(y, y + x[:, 0]),
    }


def run_scipy() -> dict[str, str]:
    x, y = np.abs(sample(8, 3)) + 0.5, np.abs(sample(8, 3, seed=1)) + 0.5
    return {name: compare(f, x, y) for name, f in scipy_functions().items()}


def run_sklearn() -> dict[str, str]:
    sklearn: Any = importlib.import_module("sklearn")
    x = sample(40, 5)
    y = x @ np.arange(1.0, 6.0)
    out = {}
    for name, function in estimators().items():
        for dtype in ("float32", "float64"):
            given = x.astype(dtype), y.astype(dtype), (y > 0).astype("int64")
            with sklearn.config_context(array_api_dispatch=True):
                out[f"{name} {dtype}"] = compare(function, *given, tolerance=2e-4)
    return out


def run_scipy_gradients() -> dict[str, str]:
    """Functions that SciPy composes of the standard's have gradients of every order."""
    names = "special.logsumexp special.softmax stats.zscore stats.skew stats.gmean".split()
    names += ["stats.moment", "integrate.trapezoid", "optimize.rosen"]
    functions = scipy_functions()
    x = np.abs(sample(4, 3)) + 0.5
    return {name: gradient_error(functions[name], x) for name in names}


def gradient_error(function: Callable, x: np.ndarray) -> str:
    try:
        ad.testing.check_grads(lambda t: function(t, ad.asarray(2 * x)), (x,), order=2)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def compare(function: Callable, *arrays: np.ndarray, tolerance: float = 1e-9) -> str:
    """What is wrong with a function's result on tensors, compared with NumPy's; "" if nothing."""
    expected = function(*arrays)
    try:
        out = function(*(ad.asarray(a) for a in arrays))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if np.ndim(expected) and not isinstance(out, ad.Tensor):
        return f"{type(out).__name__} instead of Tensor"
    expected, out = np.asarray(expected), np.asarray(out)
    if out.dtype != expected.dtype or out.shape != expected.shape:
        return f"{out.dtype}{out.shape} instead of {expected.dtype}{expected.shape}"
    if not np.allclose(out, expected, rtol=tolerance, atol=tolerance):
        return f"off by {np.max(np.abs(out - expected))}"
    return ""


@functools.cache
def in_a_fresh_interpreter(function: str) -> dict[str, str]:
    """The table that a function of this module makes where SCIPY_ARRAY_API is set."""
    code = f"import json, {__name__} as t; print(json.dumps(t.{function}()))"
    done = python("-W", "ignore", "-c", code, SCIPY_ARRAY_API="1", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("package", "function"),
    [("scipy", "run_scipy"), ("sklearn", "run_sklearn"), ("scipy", "run_scipy_gradients")],
)
def test_library_with_array_api_dispatch(package: str, function: str) -> None:
    pytest.importorskip(package)
    results = in_a_fresh_interpreter(function)
    wrong = {name: text for name, text in results.items() if text}
    assert results
    assert not wrong


# einops


@pytest.fixture
def einops() -> Any:
    return pytest.importorskip("einops.array_api")


EINOPS: dict[str, Callable[[Any, Any], Any]] = {
    "rearrange": lambda e, x: e.rearrange(x, "a b c -> (a c) b"),
    "split and join": lambda e, x: e.rearrange(x, "a b (c d) -> (d a) c b", d=2),
    "reduce max": lambda e, x: e.reduce(x, "a b c -> a c", "max"),
    "reduce mean": lambda e, x: e.reduce(x, "a b (c d) -> b d", "mean", c=2),
    "reduce sum": lambda e, x: e.reduce(x, "a b c -> ", "sum"),
    "reduce prod": lambda e, x: e.reduce(x, "a b c -> a 1 c", "prod"),
    "repeat": lambda e, x: e.repeat(x, "a b c -> a (b r) c d", r=2, d=3),
    "pack": lambda e, x: e.pack([x, x[0]], "* b c")[0],
    "unpack": lambda e, x: e.unpack(x, [(1,), (1,)], "* b c")[1],
}


@pytest.mark.parametrize("name", EINOPS)
def test_einops(einops: Any, name: str) -> None:
    x = sample(2, 3, 4)
    expected = EINOPS[name](einops, x)
    out = EINOPS[name](einops, ad.asarray(x))
    assert isinstance(out, ad.Tensor)
    assert out.dtype == ad.float64
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("name", EINOPS)
def test_einops_carries_gradients(einops: Any, name: str) -> None:
    ad.testing.check_grads(lambda x: EINOPS[name](einops, x), (sample(2, 3, 4),), order=2)


# jaxtyping


@pytest.mark.parametrize(
    ("annotation", "shape", "dtype", "fits"),
    [
        (("Float32", "a b"), (2, 3), "float32", True),
        (("Float32", "a b"), (2,), "float32", False),
        (("Float32", "a a"), (2, 3), "float32", False),
        (("Float32", "a a"), (2, 2), "float32", True),
        (("Float64", "a b"), (2, 3), "float32", False),
        (("Float", "2 3"), (2, 3), "float64", True),
        (("Float", "*batch 3"), (5, 4, 3), "float32", True),
        (("Int", "n"), (4,), "int32", True),
        (("Int", "n"), (4,), "uint8", False),
        (("Bool", "..."), (1, 2), "bool", True),
        (("Complex64", ""), (), "complex64", True),
        (("Num", "n"), (3,), "bool", False),
        (("Shaped", "n"), (3,), "bool", True),
    ],
)
def test_jaxtyping(annotation: tuple[str, str], shape: tuple, dtype: str, fits: bool) -> None:
    jaxtyping = pytest.importorskip("jaxtyping")
    name, axes = annotation
    hint = getattr(jaxtyping, name)[ad.Tensor, axes]
    assert isinstance(ad.ones(shape, dtype=getattr(ad, dtype)), hint) is fits


# Exchange of memory


def exported(x: Any) -> np.ndarray:
    """What NumPy gets by DLPack."""
    return np.from_dlpack(x)


@pytest.fixture(scope="module")
def jnp() -> Any:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return pytest.importorskip("jax.numpy")


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_both_ways(torch: Any, dtype: str) -> None:
    x = ad.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    theirs = torch.from_dlpack(x)
    assert theirs.dtype is getattr(torch, dtype)
    assert theirs.tolist() == x.tolist()
    for back in (ad.from_dlpack(theirs), ad.asarray(theirs), ad.tensor(theirs)):
        assert back.dtype == x.dtype
        assert back.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", "bool int8 int32 uint8 float16 float32 complex64".split())
def test_jax_both_ways(jnp: Any, dtype: str) -> None:
    x = ad.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    theirs = jnp.from_dlpack(x)
    assert theirs.dtype == dtype
    assert theirs.tolist() == x.tolist()
    for back in (ad.from_dlpack(theirs), ad.asarray(theirs), ad.tensor(theirs)):
        assert back.dtype == x.dtype
        assert back.tolist() == x.tolist()


@pytest.mark.parametrize(
    "view", [lambda x: x.T, lambda x: x[::-1], lambda x: x[:, 1:], lambda x: x[0, 0]]
)
def test_views_are_exchanged_with_torch(torch: Any, view: Callable) -> None:
    x = ad.asarray(sample(3, 4))
    assert torch.from_dlpack(view(x)).tolist() == view(x).tolist()


def test_torch_writing_to_what_we_gave_leaves_the_tensor_alone(torch: Any) -> None:
    x = ad.ones(3)
    theirs = torch.from_dlpack(x)
    theirs[0] = 100.0
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_writing_to_a_tensor_leaves_what_we_gave_alone(torch: Any, jnp: Any) -> None:
    x = ad.ones(3)
    given = [np.asarray(x), exported(x), torch.from_dlpack(x), jnp.from_dlpack(x)]
    x[0] = 100.0
    x += 1.0
    assert x.tolist() == [101.0, 2.0, 2.0]
    assert all(theirs.tolist() == [1.0, 1.0, 1.0] for theirs in given)


def test_writing_to_a_tensor_leaves_what_we_took_alone(torch: Any, jnp: Any) -> None:
    for theirs in (torch.ones(3), jnp.ones(3), np.ones(3, "float32")):
        for x in (ad.from_dlpack(theirs), ad.asarray(theirs)):
            x[0] = 100.0
            x += 1.0
            assert x.tolist() == [101.0, 2.0, 2.0]
            assert theirs.tolist() == [1.0, 1.0, 1.0]


def test_copies_of_what_we_took_are_ours_alone(torch: Any) -> None:
    theirs = torch.ones(3)
    taken = [ad.from_dlpack(theirs, copy=True), ad.asarray(theirs, copy=True), ad.tensor(theirs)]
    theirs[0] = 100.0
    assert all(x.tolist() == [1.0, 1.0, 1.0] for x in taken)


def test_a_torch_tensor_that_requires_grad_is_refused(torch: Any) -> None:
    with pytest.raises(ad.AdjointError, match="detach"):
        ad.from_dlpack(torch.ones(2, requires_grad=True))


# NumPy


def test_numpy_reads_without_a_copy_and_writes_only_to_copies() -> None:
    x = ad.asarray([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    assert not np.asarray(x).flags.writeable
    for array in (np.array(x), np.asarray(x, copy=True), np.array(x, dtype="float64")):
        array[0] = 100.0
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float64", "int8", np.complex64, ad.float64])
def test_numpy_converts(dtype: Any) -> None:
    array = np.asarray(ad.asarray([1.0, 2.0]), dtype=dtype)
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == [1, 2]


def test_numpy_without_a_copy_cannot_convert() -> None:
    with pytest.raises(ValueError, match="copy"):
        np.asarray(ad.asarray([1.0]), dtype="float64", copy=False)


def test_a_tensor_that_requires_grad_is_not_read() -> None:
    with pytest.raises(ad.GradientError, match="detach"):
        np.asarray(ad.tensor([1.0], requires_grad=True))


LEFT = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
    *(operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
]


@pytest.mark.parametrize("operation", LEFT)
@pytest.mark.parametrize(
    "left", [np.array([4, 5], "float32"), np.float32(3), np.array(2.0), np.float64(2), np.int64(2)]
)
def test_numpy_on_the_left_of_an_operator_gives_a_tensor(operation: Callable, left: Any) -> None:
    right = np.array([2.0, 3.0], "float32")
    out = operation(left, ad.asarray(right))
    assert isinstance(out, ad.Tensor)
    np.testing.assert_allclose(out.numpy(), operation(left, right), rtol=1e-6)


def test_numpy_on_the_left_of_matmul_gives_a_tensor() -> None:
    x = sample(3, 2)
    out = sample(4, 3) @ ad.asarray(x)
    assert isinstance(out, ad.Tensor)
    np.testing.assert_allclose(out.numpy(), sample(4, 3) @ x, rtol=1e-14)


def test_numpy_on_the_left_keeps_the_graph() -> None:
    x = ad.tensor([2.0, 3.0], requires_grad=True)
    (np.array([4.0, 5.0], "float32") * x).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]


BINARY_UFUNCS = [
    *(np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.power),
    *(np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.matmul),
]


@pytest.mark.parametrize("ufunc", BINARY_UFUNCS)
def test_ufuncs_of_operators_give_tensors(ufunc: Callable) -> None:
    x, y = np.array([4.0, 5.0], "float32"), np.array([2.0, 3.0], "float32")
    for left, right in ((x, ad.asarray(y)), (ad.asarray(x), y), (ad.asarray(x), ad.asarray(y))):
        out = ufunc(left, right)
        assert isinstance(out, ad.Tensor)
        np.testing.assert_allclose(out, ufunc(x, y), rtol=1e-6)


@pytest.mark.parametrize("ufunc", [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift])
def test_ufuncs_of_operators_on_integers_give_tensors(ufunc: Callable) -> None:
    x, y = np.array([4, 5]), np.array([2, 3])
    out = ufunc(x, ad.asarray(y))
    assert isinstance(out, ad.Tensor) and out.tolist() == ufunc(x, y).tolist()


@pytest.mark.parametrize("ufunc", [np.negative, np.positive, np.absolute, np.invert])
def test_ufuncs_of_one_operand_give_tensors(ufunc: Callable) -> None:
    out = ufunc(ad.asarray([-1, 2]))
    assert isinstance(out, ad.Tensor) and out.tolist() == ufunc(np.array([-1, 2])).tolist()


@pytest.mark.parametrize("operation", LEFT)
def test_numbers_of_numpy_are_weak_on_the_left_too(operation: Callable) -> None:
    x, y = ad.asarray([0.1, 0.2]), np.array([0.1, 0.2], "float32")
    out = operation(np.float64(0.1), x)
    expected = operation(np.float32(0.1), y)
    assert out.numpy().dtype == expected.dtype
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_ufuncs_of_operators_keep_the_graph() -> None:
    x = ad.tensor([2.0, 3.0], requires_grad=True)
    np.multiply(np.array([4.0, 5.0], "float32"), x).sum().backward()
    (np.float32(2) * x).sum().backward()
    assert x.grad.tolist() == [6.0, 7.0]


# What a call that can't be made says to write instead.
INSTEAD: dict[str, tuple[Callable, str]] = {
    "a ufunc": (lambda x: np.sin(x), "use ad.sin(x), or np.sin(x.numpy())"),
    "a ufunc of another name": (lambda x: np.arcsin(x), "use ad.asin(x), or np.arcsin(x.numpy())"),
    "a ufunc that isn't here": (lambda x: np.cbrt(x), "use np.cbrt(x.numpy())"),
    "a ufunc of two": (lambda x: np.hypot(x, 2.0), "ad.hypot(x, 2.0), or np.hypot(x.numpy(), 2.0)"),
    "where=": (lambda x: np.add(x, 1, where=x > 0), "ad.add(x, 1), or np.add(x.numpy(), 1, where="),
    "reduce": (lambda x: np.add.reduce(x), "use ad.sum(x), or np.add.reduce(x.numpy())"),
    "accumulate": (lambda x: np.add.accumulate(x), "use ad.cumulative_sum(x)"),
    "outer": (lambda x: np.multiply.outer(x, x), "use ad.outer(x, y)"),
    "at": (lambda x: np.add.at(x, 0, 1), "x.at[index].add(values)"),
    "divmod": (lambda x: divmod(np.ones(2), x), "use np.divmod(..., x.numpy())"),
    "+=": (lambda x: operator.iadd(np.ones(2), x), "y = y + x, which is a tensor, or y += x.numpy"),
    "@=": (lambda x: operator.imatmul(np.eye(2), x), "write y = y @ x"),
    "out=": (lambda x: np.multiply(x, 2, out=np.ones(2)), "write y = y * x"),
    "mean": (lambda x: np.mean(x), "use ad.mean(x), or np.mean(x.numpy())"),
    "sum": (lambda x: np.sum(x, axis=0), "ad.sum(x, axis=0), or np.sum(x.numpy(), axis=0)"),
    "std": (lambda x: np.std(x), "use ad.std(x), or np.std(x.numpy())"),
    "var": (lambda x: np.var(x), "use ad.var(x), or np.var(x.numpy())"),
    "max": (lambda x: np.max(x), "use ad.max(x), or np.max(x.numpy())"),
    "prod": (lambda x: np.prod(x), "use ad.prod(x), or np.prod(x.numpy())"),
    "any": (lambda x: np.any(x), "use ad.any(x), or np.any(x.numpy())"),
    "ptp": (lambda x: np.ptp(x), "use np.ptp(x.numpy())"),
    "array2string": (lambda x: np.array2string(x), "use np.array2string(x.numpy())"),
    "like=": (lambda x: np.ones(3, like=x), "use ad.ones(3"),
}


@pytest.mark.parametrize("name", INSTEAD)
def test_numpy_functions_say_what_to_write_for_tensors(name: str) -> None:
    call, says = INSTEAD[name]
    with pytest.raises(TypeError) as raised:
        call(ad.asarray([1.0, 2.0]))
    assert isinstance(raised.value, ad.AdjointError) and says in str(raised.value)


# What would give an array is refused where that has lost a graph.
LOSING: dict[str, tuple[Callable, str]] = {
    "sin": (lambda x: np.sin(x), "use ad.sin(x), or np.sin(x.detach().numpy())"),
    "mean": (lambda x: np.mean(x), "use ad.mean(x), or np.mean(x.detach().numpy())"),
    "clip": (lambda x: np.clip(x, 0, 1), "use ad.clip(x, 0, 1), or"),
    "reshape": (lambda x: np.reshape(x, (2, 1)), "use ad.reshape(x, (2, 1)), or"),
    "sort": (lambda x: np.sort(x), "use ad.sort(x), or np.sort(x.detach().numpy())"),
    "concatenate": (lambda x: np.concatenate([x, x]), "use ad.concat([x, y]), or"),
    "where": (lambda x: np.where([True, False], x, 0), "ad.where("),
    "norm": (lambda x: np.linalg.norm(x), "use ad.linalg.vector_norm, or"),
    "inv": (lambda x: np.linalg.inv(x), "use ad.linalg.inv(x), or"),
    "fft": (lambda x: np.fft.fft(x), "use ad.fft.fft(x), or"),
    "save": (lambda x: np.save(os.devnull, x), "x.detach().numpy()"),
}


@pytest.mark.parametrize("name", LOSING)
def test_numpy_functions_say_what_to_write_for_tensors_that_require_grad(name: str) -> None:
    call, says = LOSING[name]
    with pytest.raises(TypeError, match="graph of a tensor that requires grad") as raised:
        call(ad.tensor([1.0, 2.0], requires_grad=True))
    assert isinstance(raised.value, ad.AdjointError) and says in str(raised.value)


READING: list[Callable] = [
    *(np.asarray, np.array, np.shape, np.ndim, np.size, np.sort, np.median, np.isclose, np.cumsum),
    *(np.atleast_1d, np.ones_like, np.diff, np.argsort, np.unique, np.flatnonzero, np.copy),
    *(np.linalg.norm, np.fft.fft, np.nanmean, np.average, np.count_nonzero, np.transpose),
    lambda x: np.allclose(x, x),
    lambda x: np.array_equal(x, x),
    lambda x: np.concatenate([x, x]),
    lambda x: np.column_stack([x, x]),
    lambda x: np.broadcast_arrays(x, x[:1])[1],
    lambda x: np.clip(x, 1.5, 2.5),
    lambda x: np.reshape(x, (3, 1)),
    lambda x: np.where([True, False, True], x, 0),
    lambda x: np.interp([1.5], x, x),
    lambda x: np.histogram(x)[0],
    lambda x: np.quantile(x, 0.5),
    lambda x: np.einsum("i,i", x, x),
]


@pytest.mark.parametrize("function", READING)
def test_numpy_functions_that_read_values_take_tensors(function: Callable) -> None:
    values = np.array([1.0, 3.0, 2.0])
    if function is np.isclose:
        function = functools.partial(np.isclose, b=values)
    np.testing.assert_array_equal(function(ad.asarray(values)), function(values))


def test_functions_of_numpy_that_call_methods_keep_the_graph() -> None:
    x = ad.tensor([[1.0, 2.0]], requires_grad=True)
    np.squeeze(np.transpose(x)).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]]


def test_errors_of_numpy_functions_themselves_are_left_as_they_are() -> None:
    with pytest.raises(ValueError, match="cannot reshape array of size 2"):
        np.reshape(ad.asarray([1.0, 2.0]), (3, 1))


def test_numpy_testing() -> None:
    x = ad.asarray([1.0, 2.0])
    np.testing.assert_allclose(x, [1.0, 2.0])
    np.testing.assert_array_equal(x, x)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(x, [1.0, 2.5])


def test_numpy_takes_dtypes_and_indices() -> None:
    assert np.zeros(2, ad.float32).dtype == np.float32
    assert np.dtype(ad.int8) == np.int8
    array = np.arange(5)
    assert array[ad.asarray([0, 2])].tolist() == [0, 2]
    assert array[ad.asarray(3)] == 3
    array[:2] = ad.asarray([7, 8])
    assert array.tolist() == [7, 8, 2, 3, 4]


# Python


PYTHON: list[tuple[Callable, Any, Any]] = [
    (len, [1.0, 2.0], 2),
    (float, 2.5, 2.5),
    (int, 2.5, 2),
    (bool, 0.0, False),
    (complex, 2.5, 2.5 + 0j),
    (operator.index, 3, 3),
    (math.sqrt, 4.0, 2.0),
    (math.floor, 2.5, 2),
    (hex, 255, "0xff"),
    (lambda x: [10, 20, 30][x], 1, 20),
    (lambda x: list(range(x)), 3, [0, 1, 2]),
    (lambda x: [v.item() for v in x], [1, 2], [1, 2]),
    (lambda x: [v.item() for v in reversed(x)], [1, 2], [2, 1]),
    (lambda x: 2.0 in x, [1.0, 2.0], True),
    (lambda x: 3.0 in x, [1.0, 2.0], False),
    (lambda x: sum(x).item(), [1.0, 2.0], 3.0),
    (lambda x: max(x).item(), [1.0, 2.0], 2.0),
    (lambda x: sorted(x)[0].item(), [3, 1, 2], 1),
    (lambda x: f"{x:.2f}", 2.5, "2.50"),
    (lambda x: dict.fromkeys([x, x]) == {x: None}, 1.0, True),
]


@pytest.mark.parametrize(("function", "data", "expected"), PYTHON)
def test_python(function: Callable, data: Any, expected: Any) -> None:
    out = function(ad.asarray(data))
    assert type(out) is type(expected)
    assert out == expected


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", DTYPES)
def test_pickle(dtype: str, protocol: int) -> None:
    x = ad.asarray(np.arange(6).reshape(2, 3).astype(dtype))[:, ::2]
    back = pickle.loads(pickle.dumps(x, protocol))
    assert back.dtype is x.dtype
    assert back.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x.dtype, protocol)) is x.dtype


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: ad.tensor(x)],
)
def test_copies_are_independent(copied: Callable) -> None:
    x = ad.asarray([1.0, 2.0])
    y = copied(x)
    y[0] = 100.0
    assert x.tolist() == [1.0, 2.0]
    x[1] = 50.0
    assert y.tolist() == [100.0, 2.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_leaves_require_grad(copied: Callable) -> None:
    x = ad.tensor([1.0], requires_grad=True)
    y = copied(x)
    assert y.requires_grad
    (y * 2).sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [2.0]


# hypothesis


def test_hypothesis_strategies() -> None:
    """`make_strategies_namespace` finds the version, the dtypes and their limits by itself."""
    from hypothesis import given, settings
    from hypothesis.extra.array_api import make_strategies_namespace

    xps = make_strategies_namespace(ad)
    drawn = set()

    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(xps.arrays(xps.scalar_dtypes(), xps.array_shapes(min_dims=0, min_side=0, max_side=3)))
    def run(x: ad.Tensor) -> None:
        assert isinstance(x, ad.Tensor)
        drawn.add(x.dtype.name)
        y = ad.reshape(ad.flip(ad.flip(x)), (x.size,))
        assert ad.all((y == ad.reshape(x, (x.size,))) | (y != y))

    run()
    assert drawn <= set(DTYPES) - {"float16"}
    assert len(drawn) > 8
