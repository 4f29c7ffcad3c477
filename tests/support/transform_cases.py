"""Functions to be transformed, each written once for adjoint and for PyTorch.

A case is a function `f(lib, x)` of one array, which returns a vector; `lib` is a namespace that
both libraries have. The arrays are small, so that every pair of transforms can be tried on each.
"""

import itertools
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional


class Case(NamedTuple):
    """`branches`: the function looks at values, so that it can't be traced."""

    name: str
    f: Callable[[Any, Any], Any]
    x: np.ndarray
    branches: bool = False


class Layer(NamedTuple):
    w: Any
    b: Any


def softmax(lib, x):
    return lib.sum(lib.softmax(x, -1) * x, -1)


def layer_norm(lib, x):
    return lib.sum(lib.layer_norm(x) * lib.const([[1.0, -2.0, 0.5]]), 0)


def vector_norms(lib, x):
    return lib.concat([lib.norm(x, 1), lib.norm(x * x, 1)], 0)


def einsum(lib, x):
    return lib.einsum("ij,kj,i->k", x, lib.sin(x), x[:, 0])


def advanced_indexing(lib, x):
    rows, columns = lib.integers([0, 1, 1]), lib.integers([2, 0, 2])
    return x[rows, columns] ** 3 * x[0, columns]


def assignment(lib, x):
    y = lib.put(x, (lib.integers([0, 1]), lib.integers([1, 1])), lib.exp(x[:, 0]))
    return lib.sum(lib.put(y, (0,), y[1] * y[0], add=True) ** 2, 0)


def convolution(lib, x):
    w = x[:, 1:4].reshape(2, 1, 3)
    return lib.sum(lib.conv1d(x.reshape(1, 2, 4), w, 2), 2).reshape(-1) ** 2


def pooling(lib, x):
    y = (x * x).reshape(1, 2, 4)
    return lib.concat([lib.avg_pool1d(y, 2), lib.max_pool1d(y, 2)], 2).reshape(-1)


def branch(lib, x):
    y = x
    for _ in range(3):
        y = lib.sin(y) if y[0] > 0.5 else y * y * x
    return y


def cumulative_product(lib, x):
    return lib.cumulative_prod(x, 0)[2] + lib.cumulative_prod(x, 1)[:, 1][:2].sum()


def logsumexp(lib, x):
    return lib.logsumexp(x * x, 0) * x[0]


def matmul_chain(lib, x):
    square = x @ x.T
    return (square @ lib.tanh(square) @ x)[0]


def concat_and_split(lib, x):
    first, second = lib.split(x * x, 2, 0)
    return lib.sum(lib.concat([first * second, lib.exp(first)], 1).reshape(3, 2), 1)


def sorting(lib, x):
    return lib.sort(x * lib.const([[1.0, -1.0, 2.0]]), 1)[0] ** 2 * x[1]


def where_and_clip(lib, x):
    return lib.sum(lib.where(x > 0.6, x**3, lib.sin(x)) * lib.clip(x, -0.5, 1.2), 0)


def containers(lib, x):
    def loss(layers, scales):
        first, second = scales["s"]
        (a, b), c = layers
        return lib.sum(lib.tanh(first * a) * b) + lib.sum(lib.tanh(second * c.w) * c.b)

    layers = [Layer(x[0] * x[1], x[1]), Layer(x[1] ** 2, x[0])]
    grads, scales = lib.grad(loss, argnums=(0, 1))(layers, {"s": (x[0, 0], x[1, 2])})
    return grads[0].w * grads[1].b * scales["s"][0] + grads[1].w


def calls_grad(lib, x):
    return lib.grad(lambda y: lib.sum(y**3 * x + lib.sin(x * y)))(x * x)


def calls_jvp(lib, x):
    out, tangent = lib.jvp(lambda y: lib.exp(y * x[0]) * y, (x,), (x * x,))
    return out * tangent


def perceptron(lib, x):
    w = lib.const([[0.5, -1.0, 0.25], [1.0, 0.3, -0.7]])
    return lib.logsumexp(lib.gelu(x @ w.T) @ w, 1)


def deviations(lib, x):
    return lib.concat([lib.std(x * x, 1), lib.var(x, 0)], 0)


def checkpointed(lib, x):
    return lib.checkpoint(lambda y: lib.tanh(y * x) * lib.exp(y), x * x)[0]


def attention(lib, x):
    q = x.reshape(1, 2, 3)
    return lib.attention(q, lib.sin(q), q * q).reshape(-1)[:3]


MATRIX = np.array([[0.7, 1.3, -0.4], [1.1, 0.5, 0.9]])
VECTOR = np.array([0.8, 1.2, -0.6])
WIDE = np.array([[0.7, 1.3, -0.4, 0.2], [1.1, 0.5, 0.9, -0.8]])
WITH_ZERO = np.array([[0.7, 0.0], [1.1, 0.5], [0.9, -0.8]])

CASES = {
    f.__name__: Case(f.__name__, f, x, f is branch)
    for f, x in {
        softmax: MATRIX,
        layer_norm: MATRIX,
        vector_norms: MATRIX,
        einsum: MATRIX,
        advanced_indexing: MATRIX,
        assignment: MATRIX,
        convolution: WIDE,
        pooling: WIDE,
        branch: VECTOR,
        cumulative_product: WITH_ZERO,
        logsumexp: MATRIX,
        matmul_chain: MATRIX,
        concat_and_split: MATRIX,
        sorting: MATRIX,
        where_and_clip: MATRIX,
        containers: MATRIX,
        calls_grad: VECTOR,
        calls_jvp: VECTOR,
        perceptron: MATRIX,
        deviations: MATRIX,
        checkpointed: MATRIX,
        attention: MATRIX,
    }.items()
}


def put(x, index, value, add=False):
    return x.at[index].add(value) if add else x.at[index].set(value)


ADJOINT = SimpleNamespace(
    const=lambda values: ad.asarray(values, dtype=ad.float64),
    integers=ad.asarray,
    numpy=lambda x: x.detach().numpy(),
    sum=lambda x, axis=None: ad.sum(x, axis=axis),
    softmax=lambda x, axis: ad.softmax(x, axis=axis),
    layer_norm=lambda x: F.layer_norm(x, (3,)),
    norm=lambda x, axis: ad.linalg.vector_norm(x, axis=axis),
    concat=lambda xs, axis: ad.concat(xs, axis=axis),
    split=lambda x, sections, axis: ad.split(x, sections, axis=axis),
    cumulative_prod=lambda x, axis: ad.cumulative_prod(x, axis=axis),
    logsumexp=lambda x, axis: ad.logsumexp(x, axis=axis),
    sort=lambda x, axis: ad.sort(x, axis=axis),
    einsum=ad.einsum,
    sin=ad.sin,
    exp=ad.exp,
    tanh=ad.tanh,
    gelu=lambda x: ad.gelu(x),
    where=ad.where,
    clip=ad.clip,
    put=put,
    conv1d=lambda x, w, groups: F.conv1d(x, w, groups=groups),
    avg_pool1d=F.avg_pool1d,
    max_pool1d=F.max_pool1d,
    std=lambda x, axis: ad.std(x, axis=axis),
    var=lambda x, axis: ad.var(x, axis=axis),
    checkpoint=ad.checkpoint,
    attention=F.scaled_dot_product_attention,
    grad=ad.grad,
    value_and_grad=ad.value_and_grad,
    vjp=ad.vjp,
    jvp=ad.jvp,
    jacobian=ad.jacobian,
    jacobian_forward=lambda f: ad.jacobian(f, mode="forward"),
    hessian=ad.hessian,
    hvp=lambda f, x, v: ad.hvp(f, (x,), (v,))[0],
    vmap=ad.vmap,
)


def pytorch() -> Any:
    """The same names for PyTorch, which must be installed.

    Where PyTorch's own function has no derivatives of some order and mode, or wrong ones (layer
    norm's, forward over reverse), it is made of simple ones.
    """
    torch: Any = pytest.importorskip("torch")

    def centered(x, axis):
        return x - torch.mean(x, axis, keepdim=True)

    def var(x, axis):
        return torch.mean(centered(x, axis) ** 2, axis)

    def layer_norm(x):
        return centered(x, -1) / torch.sqrt(var(x, -1)[..., None] + 1e-5)

    def cumulative_prod(x, axis):
        products = itertools.accumulate(torch.unbind(x, axis), operator.mul)
        return torch.stack(list(products), axis)

    def torch_put(x, index, value, add=False):
        index = tuple(torch.tensor(k) if isinstance(k, int) else k for k in index)
        return torch.index_put(x, index, value, accumulate=add)

    def grad_and_value(f):
        def value_first(x):
            g, value = torch.func.grad_and_value(f)(x)
            return value, g

        return value_first

    nn = torch.nn.functional
    return SimpleNamespace(
        const=lambda values: torch.tensor(np.asarray(values), dtype=torch.float64),
        integers=torch.tensor,
        numpy=lambda x: x.detach().numpy(),
        sum=torch.sum,
        softmax=torch.softmax,
        layer_norm=layer_norm,
        norm=lambda x, axis: torch.sqrt(torch.sum(x * x, axis)),
        concat=torch.cat,
        split=lambda x, sections, axis: torch.tensor_split(x, sections, axis),
        cumulative_prod=cumulative_prod,
        logsumexp=torch.logsumexp,
        sort=lambda x, axis: torch.sort(x, dim=axis).values,
        einsum=torch.einsum,
        sin=torch.sin,
        exp=torch.exp,
        tanh=torch.tanh,
        gelu=nn.gelu,
        where=torch.where,
        clip=torch.clip,
        put=torch_put,
        conv1d=lambda x, w, groups: nn.conv1d(x, w, groups=groups),
        avg_pool1d=nn.avg_pool1d,
        max_pool1d=nn.max_pool1d,
        std=lambda x, axis: torch.sqrt(var(x, axis)),
        var=var,
        checkpoint=lambda f, *args: f(*args),
        attention=lambda q, k, v: torch.softmax(q @ k.mT / 3**0.5, -1) @ v,
        grad=torch.func.grad,
        value_and_grad=grad_and_value,
        vjp=torch.func.vjp,
        jvp=torch.func.jvp,
        jacobian=torch.func.jacrev,
        jacobian_forward=torch.func.jacfwd,
        hessian=torch.func.hessian,
        hvp=lambda f, x, v: torch.func.jvp(torch.func.grad(f), (x,), (v,))[1],
        vmap=torch.func.vmap,
    )


# Transforms of a function from an array to a vector, as functions of the same kind.


def weights(size: int) -> np.ndarray:
    return np.linspace(1.0, -0.5, size)


def direction(shape: tuple[int, ...]) -> np.ndarray:
    return np.linspace(-0.7, 1.1, int(np.prod(shape))).reshape(shape)


SCALES = np.array([0.9, 1.05])


def number(lib, f):
    """The weighted sum of what f returns."""

    def of(x):
        out = f(x)
        return lib.sum(out * lib.const(weights(out.shape[0])))

    return of


def vector(lib, *parts):
    return lib.concat([part.reshape(-1) for part in parts], 0)


def by_vjp(lib, f):
    def of(x):
        out, pullback = lib.vjp(f, x)
        return vector(lib, *pullback(lib.const(weights(out.shape[0]))), out)

    return of


def by_vmap(lib, f):
    def of(x):
        scales = lib.const(SCALES).reshape(-1, *(1 for _ in x.shape))
        return vector(lib, lib.vmap(f)(x * scales))

    return of


TRANSFORMS: dict[str, Callable] = {
    "itself": lambda lib, f: f,
    "grad": lambda lib, f: lambda x: vector(lib, lib.grad(number(lib, f))(x)),
    "value_and_grad": lambda lib, f: lambda x: vector(lib, *lib.value_and_grad(number(lib, f))(x)),
    "vjp": by_vjp,
    "jvp": lambda lib, f: (
        lambda x: vector(lib, *lib.jvp(f, (x,), (lib.const(direction(x.shape)),)))
    ),
    "jacobian": lambda lib, f: lambda x: vector(lib, lib.jacobian(f)(x)),
    "jacobian_forward": lambda lib, f: lambda x: vector(lib, lib.jacobian_forward(f)(x)),
    "hessian": lambda lib, f: lambda x: vector(lib, lib.hessian(number(lib, f))(x)),
    "hvp": lambda lib, f: (
        lambda x: vector(lib, lib.hvp(number(lib, f), x, lib.const(direction(x.shape))))
    ),
    "vmap": by_vmap,
}


def transformed(lib: Any, case: Case, *names: str) -> Callable[[np.ndarray], np.ndarray]:
    """A case after transforms, innermost first, as a function on NumPy arrays."""

    def f(x):
        return case.f(lib, x)

    for name in names:
        f = TRANSFORMS[name](lib, f)
    return lambda x: lib.numpy(f(lib.const(x)))


def differences(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The Jacobian of f by central differences: one row per result, one column per element."""
    eps, columns = 1e-5, []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = eps
        step = step.reshape(x.shape)
        columns.append((f(x + step) - f(x - step)) / (2 * eps))
    return np.stack(columns, 1)
