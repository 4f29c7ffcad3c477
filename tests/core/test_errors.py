"""Errors as a feature: each says what was asked, what is wrong, and what to do instead."""

import copy
import inspect
import operator
import pickle
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import adjoint as ad
from adjoint import backends, nn
from adjoint._foundation import errors
from adjoint._foundation.modes import mode
from adjoint.functions import hints
from adjoint.functions._arguments import KeywordError
from adjoint.nn import _hints as nn_hints
from adjoint.nn import functional as F
from adjoint.random import _hints as random_hints
from tests.support.misuse import Misuse, ints, ones

ShapeError, ArgumentError, DTypeError = ad.ShapeError, ad.ArgumentError, ad.DTypeError
IndexingError, GradientError, TraceError = ad.IndexingError, ad.GradientError, ad.TraceError
DeviceError, AnomalyError, AdjointError = ad.DeviceError, ad.AnomalyError, ad.AdjointError


BUILTIN: dict[type, type[Exception]] = {
    ShapeError: ValueError,
    ArgumentError: ValueError,
    DTypeError: TypeError,
    DeviceError: RuntimeError,
    IndexingError: IndexError,
    GradientError: RuntimeError,
    TraceError: RuntimeError,
    KeywordError: TypeError,
}


def check(misuse: Misuse) -> None:
    """The error is ours and the builtin that fits, and its message has all the parts.

    Where several classes would fit, `error` is AdjointError: it only has to be one of ours.
    """
    with pytest.raises(Exception) as caught:
        misuse.call()
    raised = f"{caught.type.__name__}: {caught.value}"
    assert isinstance(caught.value, misuse.error), raised
    assert isinstance(caught.value, BUILTIN.get(misuse.error, Exception)), raised
    message = str(caught.value).lower()
    missing = [part for part in misuse.mentions.split(" | ") if part.lower() not in message]
    assert not missing, f"{missing} missing from {raised}"


def param(*shape: int) -> ad.Tensor:
    return ad.ones(shape, requires_grad=True)


def assign(x: ad.Tensor, index: Any, value: Any) -> None:
    x[index] = value


def under_no_grad(call: Callable[[], Any]) -> None:
    with ad.no_grad():
        call()


SHAPES = [
    Misuse(ShapeError, lambda: ones(2, 3) + ones(4), "add | (2, 3) | (4,)"),
    Misuse(ShapeError, lambda: ones(2, 3) + ones(4, 3), "axis -2"),
    Misuse(ShapeError, lambda: ones(2) - ones(3), "subtract | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) * ones(3), "multiply | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) / ones(3), "divide | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) ** ones(3), "pow | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) == ones(3), "equal | (2,) | (3,)"),
    Misuse(ShapeError, lambda: np.ones(2, np.float32) + ones(3), "add | (2,) | (3,)"),
    Misuse(
        ShapeError,
        lambda: ad.where(ad.asarray([True, False]), ones(3), ones(3)),
        "where | (2,) | (3,)",
    ),
    Misuse(ShapeError, lambda: ad.clip(ones(2), ad.zeros((3,)), 1.0), "clip | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2, 3) @ ones(2, 3), "matmul | (2, 3)"),
    Misuse(ShapeError, lambda: ones(4, 2, 3) @ ones(5, 3, 2), "matmul | batch"),
    Misuse(ShapeError, lambda: ones(4, 2, 3) @ ones(5, 3, 2), "matmul | (4, 2, 3) | (5, 3, 2)"),
    Misuse(ShapeError, lambda: ones(2) @ ones(3), "matmul | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) @ ones(3, 4), "matmul | (2,) | (3, 4)"),
    Misuse(ShapeError, lambda: ones() @ ones(2), "matmul | 0-d | *"),
    Misuse(ShapeError, lambda: ones(2, 2) @ 3.0, "matmul | 0-d | *"),
    Misuse(
        ShapeError,
        lambda: ad.concat([ones(2, 3), ones(2, 4)]),
        "concat | (2, 3) | (2, 4) | axes but 0",
    ),
    Misuse(ShapeError, lambda: ad.concat([ones(2, 3), ones(3)]), "concat | (2, 3) | (3,)"),
    Misuse(ArgumentError, lambda: ad.concat([]), "concat | one tensor"),
    Misuse(ArgumentError, lambda: ad.concat([ones(), ones()]), "concat | axis 0 | 0 axes"),
    Misuse(ShapeError, lambda: ad.stack([ones(2), ones(3)]), "stack | (2,) | (3,)"),
    Misuse(ArgumentError, lambda: ad.stack([]), "stack | one tensor"),
    Misuse(ArgumentError, lambda: ad.stack([ones(2)], axis=3), "stack | axis 3 | out of range"),
    Misuse(ShapeError, lambda: ones(2, 3).reshape(4), "reshape | (2, 3) | (4,) | 6"),
    Misuse(ShapeError, lambda: ones(2, 3).reshape(4, -1), "reshape | (2, 3) | (4, -1)"),
    Misuse(ShapeError, lambda: ones(2, 3).reshape(-1, -1), "reshape | (-1, -1) | one"),
    Misuse(DTypeError, lambda: ones(4).reshape(2.0, 2), "reshape | integer"),
    Misuse(ShapeError, lambda: ones(4).reshape(-2, 2), "reshape | negative"),
    Misuse(
        ShapeError, lambda: ad.broadcast_to(ones(2, 3), (2, 4)), "broadcast_to | (2, 3) | (2, 4)"
    ),
    Misuse(ShapeError, lambda: ad.broadcast_to(ones(1, 3), (3,)), "broadcast_to | (1, 3) | (3,)"),
    Misuse(ShapeError, lambda: ad.broadcast_shapes((2,), (3,)), "broadcast_shapes | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ad.squeeze(ones(2, 1), 0), "squeeze | axis 0 | (2, 1)"),
    Misuse(
        ArgumentError,
        lambda: ad.permute_dims(ones(2, 3), (0,)),
        "permute_dims | (0,) | (2, 3) | once",
    ),
    Misuse(
        ArgumentError, lambda: ad.permute_dims(ones(2, 3), (0, 0)), "permute_dims | (0, 0) | once"
    ),
    Misuse(ArgumentError, lambda: ad.transpose(ones(2, 3), (0,)), "transpose: | (2, 3)"),
    Misuse(ShapeError, lambda: ones(2, 3, 4).T, "T | (2, 3, 4) | mT"),
    Misuse(ShapeError, lambda: ones(2).mT, "matrix_transpose | (2,) | 2 axes"),
    Misuse(
        ArgumentError, lambda: ad.pad(ones(2, 2), ((1, 1), (1, 1), (1, 1))), "pad | 2 axes | (2, 2)"
    ),
    Misuse(ArgumentError, lambda: ad.pad(ones(2), (1, 2, 3)), "pad | pair"),
    Misuse(ArgumentError, lambda: ad.pad(ones(2), -1), "pad | negative"),
    Misuse(AdjointError, lambda: ad.pad(ones(2), 1.5), "pad | 1.5 | int"),
    Misuse(AdjointError, lambda: ad.pad(ones(2), (1.5, 1)), "pad"),
    Misuse(ArgumentError, lambda: ad.pad(ones(2), 1, mode="mean"), "pad | mean | constant"),
    Misuse(ShapeError, lambda: ad.zeros((-1,)), "zeros | negative"),
    Misuse(DTypeError, lambda: ad.ones((1.5,)), "ones | integer"),
    Misuse(AdjointError, lambda: ad.eye(-1), "eye | negative"),
]

AXES = [
    Misuse(ArgumentError, lambda: ones(2, 3).sum(axis=2), "sum | axis 2 | out of range | 2 axes"),
    Misuse(ArgumentError, lambda: ones(2).sum(axis=-2), "sum | axis -2"),
    Misuse(ArgumentError, lambda: ones().softmax(axis=0), "softmax | 0 axes"),
    Misuse(ArgumentError, lambda: ones(2, 3).sum(axis=(0, -2)), "sum | twice"),
    Misuse(DTypeError, lambda: ones(2).sum(axis=0.0), "sum | axis | integer"),
    Misuse(ArgumentError, lambda: ad.flip(ones(2), axis=1), "flip | axis 1"),
    Misuse(ArgumentError, lambda: ad.unstack(ones(2), axis=1), "unstack | axis 1"),
    Misuse(ArgumentError, lambda: ad.expand_dims(ones(2), 5), "expand_dims | axis 5"),
    Misuse(ArgumentError, lambda: ad.cumulative_sum(ones(2, 2)), "cumulative_sum | axis | (2, 2)"),
    Misuse(ArgumentError, lambda: ad.take(ones(2, 2), ints(0)), "take | axis | (2, 2)"),
    Misuse(ArgumentError, lambda: ad.topk(ones(3), 4), "topk | k=4 | (3,)"),
    Misuse(ArgumentError, lambda: ad.topk(ones(3), -1), "topk | k=-1"),
    Misuse(DTypeError, lambda: ad.topk(ones(3), cast(Any, 1.5)), "topk | 1.5"),
    Misuse(ArgumentError, lambda: ad.max(ad.zeros((0,))), "max | (0,)"),
    Misuse(ArgumentError, lambda: ad.max(ad.zeros((2, 0)), axis=1), "max | (2, 0)"),
    Misuse(ArgumentError, lambda: ad.argmax(ad.zeros((0,))), "argmax | (0,)"),
]

WINDOWS = [
    Misuse(
        ShapeError,
        lambda: F.conv2d(ones(8, 8), ones(4, 3, 3, 3)),
        "conv2d | (N, C, H, W) | (8, 8)",
    ),
    Misuse(
        ShapeError,
        lambda: F.conv2d(ones(1, 3, 8, 8), ones(4, 2, 3, 3)),
        "conv2d | 3 channels | (4, 2, 3, 3)",
    ),
    Misuse(
        ArgumentError,
        lambda: F.conv2d(ones(1, 3, 8, 8), ones(4, 1, 3, 3), groups=2),
        "conv2d | groups=2 | 3 | 4",
    ),
    Misuse(
        ArgumentError,
        lambda: F.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3), groups=0),
        "conv2d | groups=0",
    ),
    Misuse(
        ShapeError,
        lambda: F.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3), ones(3)),
        "conv2d | bias | (3,) | (4,)",
    ),
    Misuse(
        ShapeError,
        lambda: F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 3, 3)),
        "conv2d | (3, 3) | (2, 2) | larger",
    ),
    Misuse(
        ShapeError,
        lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), dilation=2),
        "conv2d | dilation (2, 2)",
    ),
    Misuse(
        ArgumentError,
        lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), stride=0),
        "conv2d | stride | at least 1",
    ),
    Misuse(
        ArgumentError,
        lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), padding=cast(Any, (1, 2, 3))),
        "conv2d | padding | pair",
    ),
    Misuse(DTypeError, lambda: F.conv2d([1.0], ones(1, 1, 3, 3)), "conv2d | list | asarray"),
    Misuse(
        ArgumentError,
        lambda: F.max_pool2d(ones(1, 1, 4, 4), 2, padding=2),
        "max_pool2d | (2, 2) | half",
    ),
    Misuse(ShapeError, lambda: F.max_pool2d(ones(4, 4), 2), "max_pool2d | (4, 4) | (N, C, H, W)"),
    Misuse(
        ShapeError,
        lambda: F.max_pool2d(ones(1, 1, 2, 2), 3),
        "max_pool2d | (3, 3) | (2, 2) | larger",
    ),
    Misuse(
        DTypeError, lambda: F.max_pool2d(ones(1, 1, 2, 2, dtype=ad.bool), 2), "max_pool2d | bool"
    ),
]

INDICES = [
    Misuse(IndexingError, lambda: ones(2, 3)[0, 0, 0], "too many | (2, 3)"),
    Misuse(IndexingError, lambda: ones()[0], "too many | ()"),
    Misuse(IndexingError, lambda: ones(2, 3)[0, 3], "index 3 | axis 1 | (2, 3)"),
    Misuse(IndexingError, lambda: ones(2)[-3], "index -3 | axis 0 | (2,)"),
    Misuse(IndexingError, lambda: ones(2, 3)[ints(0, 5)], "index 5 | axis 0 | (2, 3)"),
    Misuse(IndexingError, lambda: ones(2)[[0, -3]], "-3 | (2,)"),
    Misuse(IndexingError, lambda: ones(2)[1.0], "1.0 | integers"),
    Misuse(IndexingError, lambda: ones(2)[ones(2)], "float32 | integers"),
    Misuse(IndexingError, lambda: ones(2)[[0.5]], "integers | float"),
    Misuse(IndexingError, lambda: ones(2)[1.5:], "1.5 | integer"),
    Misuse(IndexingError, lambda: ones(2)["a"], "'a' | integers"),
    Misuse(IndexingError, lambda: ones(2)[["a"]], "integers"),
    Misuse(IndexingError, lambda: ones(2)[[[0], [0, 1]]], "index"),
    Misuse(
        IndexingError,
        lambda: ones(2, 3)[ad.asarray([True, False, True])],
        "boolean | (3,) | (2, 3)",
    ),
    Misuse(IndexingError, lambda: ones(2)[ones(2, 2, dtype=ad.bool)], "too many | (2,)"),
    Misuse(IndexingError, lambda: ones(2, 2)[..., ...], "ellipsis | one"),
    Misuse(IndexingError, lambda: ones(2)[::0], "step | 0"),
    Misuse(AdjointError, lambda: ones(4, 4)[ints(0, 1), ints(0, 1, 2)], "index | (2,) | (3,)"),
    Misuse(IndexingError, lambda: ad.take(ones(3), ones(2)), "take | integer | float32"),
    Misuse(IndexingError, lambda: ad.take(ones(3), ints(3)), "index 3 | (3,)"),
    Misuse(
        ShapeError,
        lambda: ad.take_along_axis(ones(2, 3), ints(0, 1), axis=1),
        "take_along_axis | (2, 3) | (2,)",
    ),
    Misuse(
        ShapeError,
        lambda: ad.scatter_add(ones(3), ints(0, 1), ones(3)),
        "scatter_add | (2,) | (3,)",
    ),
    Misuse(
        DTypeError,
        lambda: ad.scatter_add(ints(0, 0), ints(0), ad.asarray([0.5])),
        "scatter_add | float32 | int64",
    ),
    Misuse(ShapeError, lambda: ad.nonzero(ones()), "nonzero | 0-d"),
]

ASSIGNMENTS = [
    Misuse(ShapeError, lambda: assign(ones(2, 3), 0, ones(2)), "assignment | (2,) | (3,)"),
    Misuse(ShapeError, lambda: assign(ones(2), ..., ones(3)), "assignment | (3,) | (2,)"),
    Misuse(DTypeError, lambda: assign(ints(1, 2), 0, 0.5), "assignment | float | int64 | astype"),
    Misuse(DTypeError, lambda: assign(ones(2), ..., [1.0, 2.0]), "assignment | list | asarray"),
    Misuse(AdjointError, lambda: assign(ones(2, dtype=ad.int8), 0, 300), "300 | int8"),
    Misuse(IndexingError, lambda: assign(ones(2), ints(5), 0.0), "5 | (2,)"),
    Misuse(GradientError, lambda: assign(param(2), 0, 1.0), "assignment | leaf | no_grad"),
    Misuse(GradientError, lambda: operator.iadd(param(2), 1.0), "in-place add | leaf | no_grad"),
    Misuse(
        GradientError,
        lambda: under_no_grad(lambda: assign(ad.enable_grad(lambda: param(2) * 2)(), 0, 1.0)),
        "assignment | no_grad | detach",
    ),
    Misuse(
        GradientError,
        lambda: under_no_grad(lambda: operator.imul(ad.enable_grad(lambda: param(2) * 2)(), 2)),
        "in-place multiply | no_grad | detach",
    ),
    Misuse(ShapeError, lambda: operator.iadd(ones(3), ones(2, 3)), "in-place add | (3,) | (2, 3)"),
    Misuse(DTypeError, lambda: operator.iadd(ints(1), 0.5), "in-place add | float32 | int64"),
    Misuse(DTypeError, lambda: operator.itruediv(ints(1), 2), "in-place divide | int64"),
    Misuse(ShapeError, lambda: ones(2, 3).at[0].set(ones(2)), "at.set | (2,) | (3,)"),
    Misuse(DTypeError, lambda: ints(1, 2).at[0].add(0.5), "at.add | float32 | int64"),
]


def backward_twice() -> None:
    x = param(2)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()


def linear_twice() -> None:
    """No rule on the way needs anything saved: it is released all the same."""
    x = param(2)
    loss = (-x).sum()
    loss.backward()
    loss.backward()


def set_grad(x: ad.Tensor, value: Any) -> None:
    x.grad = value


def hooked(hook: Callable) -> None:
    x = param(2)
    x.register_hook(hook)
    x.sum().backward()


GRADIENTS = [
    Misuse(GradientError, backward_twice, "second time | retain_graph=True | sum"),
    Misuse(GradientError, linear_twice, "second | retain_graph=True"),
    Misuse(
        ShapeError,
        lambda: (param(2, 3) * 2).backward(),
        "backward | (2, 3) | .sum() | .mean() | gradient=",
    ),
    Misuse(ShapeError, lambda: ad.gradients(param(2) * 2), "gradients: | (2,) | .sum()"),
    Misuse(
        ShapeError,
        lambda: ad.autograd.grad(param(2) * 2, param(2)),
        "autograd.grad | (2,) | grad_outputs=",
    ),
    Misuse(
        GradientError, lambda: ones().backward(), "backward | doesn't require grad | requires_grad_"
    ),
    Misuse(DTypeError, lambda: ad.gradients(cast(Any, 3.0)), "gradients | float"),
    Misuse(ShapeError, lambda: (param(2) * 2).backward(ones(3)), "backward | [2] | [3]"),
    Misuse(ShapeError, lambda: (param(2) * 2).backward(ones(1)), "backward | [1] | [2]"),
    Misuse(
        DTypeError,
        lambda: (param(2) * 2).backward(ones(2, dtype=ad.float64)),
        "backward | float64 | float32",
    ),
    Misuse(DTypeError, lambda: (param() * 2).backward(1.0), "backward | tensor | float"),
    Misuse(
        GradientError,
        lambda: ad.autograd.grad((param(2) * 2).sum(), [param(3)]),
        "autograd.grad | inputs[0] | float32[3] | allow_unused=True",
    ),
    Misuse(
        GradientError,
        lambda: ad.autograd.grad((param(2) * 2).sum(), [ones(2)]),
        "autograd.grad | inputs[0] | doesn't require grad | requires_grad_",
    ),
    Misuse(
        DTypeError,
        lambda: ad.autograd.grad((param(2) * 2).sum(), [cast(Any, 2.0)]),
        "autograd.grad | inputs[0] | float",
    ),
    Misuse(
        ArgumentError,
        lambda: ad.autograd.grad([param() * 2, param() * 3], [param()], [ones()]),
        "autograd.grad | 2 outputs | 1 grad_outputs",
    ),
    Misuse(DTypeError, lambda: ad.tensor([1, 2], requires_grad=True), "float | int64 | astype"),
    Misuse(DTypeError, lambda: ad.asarray([True]).requires_grad_(), "float | bool"),
    Misuse(GradientError, lambda: (param(2) * 2).requires_grad_(), "leaves | multiply | detach()"),
    Misuse(
        GradientError,
        lambda: ones(2).register_hook(lambda g: g),
        "register_hook | require grad | requires_grad_()",
    ),
    Misuse(
        GradientError,
        lambda: ones(2).retain_grad(),
        "retain_grad | require grad | requires_grad_()",
    ),
    Misuse(
        GradientError,
        lambda: (param(2) * 2).register_post_accumulate_grad_hook(lambda x: None),
        "register_post_accumulate_grad_hook | leaves | multiply | register_hook",
    ),
    Misuse(GradientError, lambda: hooked(lambda g: 1.0), "hook | float | tensor or None"),
    Misuse(GradientError, lambda: hooked(lambda g: ones(3)), "hook | (3,) | (2,)"),
    Misuse(ShapeError, lambda: set_grad(param(2), ones(3)), "grad | [2] | [3]"),
    Misuse(
        DTypeError,
        lambda: set_grad(param(2), ones(2, dtype=ad.float64)),
        "grad | float64 | float32",
    ),
    Misuse(DTypeError, lambda: set_grad(param(2), 1.0), "grad | float | None"),
    Misuse(GradientError, lambda: pickle.dumps(param(2) * 2), "pickle | multiply | detach()"),
    Misuse(GradientError, lambda: copy.deepcopy(param(2) * 2), "deepcopy | multiply | detach()"),
    Misuse(DTypeError, lambda: ad.astype(param(2), ad.complex64), "complex | gradients"),
]

VALUES = [
    Misuse(ShapeError, lambda: bool(ones(2)), "bool() | (2,) | ad.any | ad.all"),
    Misuse(ShapeError, lambda: 1 if ones(2) > 0 else 0, "ambiguous | ad.any"),
    Misuse(ShapeError, lambda: bool(ad.zeros((0,))), "bool() | (0,)"),
    Misuse(ShapeError, lambda: float(ones(2)), "float() | (2,)"),
    Misuse(DTypeError, lambda: range(cast(Any, ones())), "integer | float32"),
    Misuse(ShapeError, lambda: ones(2).item(), "item | (2,) | tolist()"),
    Misuse(GradientError, lambda: param(2).numpy(), "numpy | requires grad | detach().numpy()"),
    Misuse(GradientError, lambda: np.asarray(param(2)), "requires grad | detach().numpy()"),
    Misuse(DTypeError, lambda: list(ones()), "0-d | iterate"),
    Misuse(DTypeError, lambda: len(ones()), "0-d | len"),
    Misuse(DTypeError, lambda: ad.Tensor([1.0]), "ad.tensor | asarray"),
]

CREATION = [
    Misuse(DeviceError, lambda: ad.zeros((2,), device="cuda"), "'cuda' | cpu"),
    Misuse(DeviceError, lambda: ones(2).to("cuda"), "'cuda' | cpu"),
    Misuse(DeviceError, lambda: ad.asarray([1.0], device="tpu"), "'tpu' | cpu"),
    Misuse(DeviceError, lambda: ad.random.uniform((2,), device="tpu"), "'tpu' | cpu"),
    Misuse(DTypeError, lambda: ad.zeros((2,), dtype="float8"), "'float8' | float32"),
    Misuse(DTypeError, lambda: ones(2).astype(object), "object | float32"),
    Misuse(DTypeError, lambda: ad.zeros((2,), dtype=[1]), "float32"),
    Misuse(DTypeError, lambda: ad.asarray(np.array(["a"])), "U1"),
    Misuse(DTypeError, lambda: ones(2) + np.array(["a", "b"]), "U1"),
    Misuse(DTypeError, lambda: ones(2) + np.array([1, None]), "object"),
    Misuse(DTypeError, lambda: ad.add(ones(2), [1.0, 2.0]), "add | list | asarray"),
    Misuse(DTypeError, lambda: ad.exp(None), "exp | NoneType"),
    Misuse(DTypeError, lambda: ad.maximum(ones(2), "a"), "maximum | str"),
    Misuse(DTypeError, lambda: ad.sum([1.0]), "sum | list | asarray"),
    Misuse(DTypeError, lambda: ones(1, dtype=ad.uint64) + ints(1), "add | uint64 | int64 | cast"),
    Misuse(AdjointError, lambda: ones(1, dtype=ad.int8) + 300, "add | 300 | int8"),
    Misuse(AdjointError, lambda: ones(1) + 10**400, "add"),
    Misuse(AdjointError, lambda: ad.asarray([300], dtype=ad.int8), "asarray | int8"),
    Misuse(AdjointError, lambda: ad.full((2,), 300, dtype=ad.int8), "full | 300 | int8"),
    Misuse(ShapeError, lambda: ad.full((2,), ones(3)), "full | fill_value | 0-d | (3,)"),
    Misuse(DTypeError, lambda: ad.asarray([True]) - ad.asarray([True]), "subtract | bool"),
    Misuse(DTypeError, lambda: -ad.asarray([True]), "negative | bool"),
    Misuse(DTypeError, lambda: ones(2) & ones(2), "bitwise_and | float32"),
    Misuse(DTypeError, lambda: ~ones(2), "bitwise_invert | float32"),
    Misuse(ArgumentError, lambda: ints(2) ** -1, "pow | negative"),
    Misuse(DTypeError, lambda: ad.clip(ad.asarray([True]), 0), "clip | bool"),
    Misuse(ShapeError, lambda: ad.asarray([ones(2), ones(3)]), "stack | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ad.tensor([[param()], ones()]), "stack | ()"),
    Misuse(ArgumentError, lambda: ad.asarray([[1.0], [1.0, 2.0]]), "length"),
    Misuse(DTypeError, lambda: ad.asarray("abc"), "asarray | str"),
    Misuse(DTypeError, lambda: ad.tensor(["a", "b"]), "list | numeric"),
    Misuse(DTypeError, lambda: ad.asarray(None), "asarray | None"),
    Misuse(ArgumentError, lambda: ad.asarray([1.0], copy=False), "asarray | list | copy=False"),
    Misuse(
        ArgumentError,
        lambda: ad.asarray(np.ones(2), dtype=ad.float32, copy=False),
        "asarray | float32 | copy=False",
    ),
    Misuse(DTypeError, lambda: ad.set_default_dtype(ad.int32), "set_default_dtype | float | int32"),
    Misuse(ArgumentError, lambda: ad.arange(0, 5, 0), "arange | step"),
    Misuse(ArgumentError, lambda: ad.random.seed(-1), "random.seed | -1"),
    Misuse(DTypeError, lambda: ad.random.seed(cast(Any, 1.5)), "random.seed | 1.5"),
    Misuse(
        DTypeError, lambda: ad.random.normal((2,), dtype=ad.int32), "random.normal | float | int32"
    ),
    Misuse(ArgumentError, lambda: ad.optim.SGD([param(2) * 2]), "SGD | leaves"),
]

LOSSES = [
    Misuse(
        DTypeError,
        lambda: F.cross_entropy(ones(2, 3), ones(2)),
        "cross_entropy | integer | float32 | (2, 3)",
    ),
    Misuse(
        ShapeError,
        lambda: F.cross_entropy(ones(2, 3), ints(0, 1, 2)),
        "cross_entropy | (2, 3) | (2,) | (3,)",
    ),
    Misuse(IndexingError, lambda: F.cross_entropy(ones(2, 3), ints(0, 3)), "3 | (2, 3)"),
    Misuse(AdjointError, lambda: F.cross_entropy(ones(2, 3), ints(0, -1)), "-1"),
    Misuse(ShapeError, lambda: F.cross_entropy(ones(), ints(0)), "0-d | (N, C"),
    Misuse(
        ArgumentError,
        lambda: F.cross_entropy(ones(2, 3), ints(0, 1), reduction="max"),
        "cross_entropy | 'max' | 'mean'",
    ),
    Misuse(IndexingError, lambda: F.embedding(ones(2), ones(3, 3)), "integer | float32"),
]


def traced(function: Callable, *args: Any) -> Any:
    return ad.trace(function, *args)


def leaked() -> ad.Tensor:
    """A tensor of a trace that is over."""
    out = []
    ad.trace(lambda x: out.append(x * 2), ones(2))
    return out[0]


GRAPH = ad.trace(lambda x, n: x * n, ones(2), 3)

TRACES = [
    Misuse(
        TraceError, lambda: traced(lambda x: x if x > 0 else -x, ones()), "bool | traced | ad.where"
    ),
    Misuse(TraceError, lambda: traced(lambda x: x.item(), ones()), "item"),
    Misuse(TraceError, lambda: traced(float, ones()), "float | float32"),
    Misuse(TraceError, lambda: traced(lambda x: x.numpy(), ones(2)), "numpy | (2,) | return"),
    Misuse(TraceError, lambda: traced(lambda x: x.tolist(), ones(2)), "tolist"),
    Misuse(TraceError, lambda: traced(lambda x: x[x > 0], ones(2)), "shape | mask | ad.where"),
    Misuse(TraceError, lambda: traced(ad.nonzero, ones(2)), "nonzero"),
    Misuse(ShapeError, lambda: traced(operator.add, ones(2), ones(3)), "(3,)"),
    Misuse(ShapeError, lambda: GRAPH(ones(3), 3), "argument 0 | [2] | [3]"),
    Misuse(
        DTypeError, lambda: GRAPH(ones(2, dtype=ad.float64), 3), "argument 0 | float64 | float32"
    ),
    Misuse(ArgumentError, lambda: GRAPH(ones(2), 4), "argument 1 | 3 | 4"),
    Misuse(ArgumentError, lambda: GRAPH(ones(2), ones()), "argument 1"),
    Misuse(AdjointError, lambda: GRAPH(2.0, 3), "argument 0 | 2.0"),
    Misuse(ArgumentError, lambda: GRAPH(ones(2)), "a tuple of 1, not a tuple of 2"),
    Misuse(
        ArgumentError,
        lambda: ad.trace(lambda x, y: x[0] + y, [ones()], ones())(ones(), [ones()]),
        "graph",
    ),
    Misuse(
        TraceError,
        lambda: traced(ad.op.other("shapeless", x=lambda g: g, kernels={"cpu": np.copy}), ones(2)),
        "shapeless | shape=",
    ),
]

# A value of a trace that is over, at every place of an op.
LEAKS = [
    Misuse(TraceError, call, "trace ended | return it")
    for call in (
        lambda: leaked() + 1,
        lambda: ones(2) + leaked(),
        lambda: 1 - leaked(),
        lambda: ones(2, 2) @ leaked(),
        lambda: leaked().sum(),
        lambda: ad.concat([ones(2), leaked()]),
        lambda: ad.where(ad.asarray([True, False]), ones(2), leaked()),
        lambda: leaked()[0],
        lambda: operator.iadd(ones(2), leaked()),
        lambda: assign(ones(2), ..., leaked()),
    )
]


def run(op: Callable, *inputs: ad.Tensor) -> None:
    op(*inputs).sum().backward()


def double(x: ad.Tensor) -> ad.Tensor:
    return x * 2


DECLARATIONS = [
    Misuse(
        ArgumentError, lambda: ad.op.elementwise("f", inputs="x", y=lambda g: g), "op f | 'y' | 'x'"
    ),
    Misuse(
        ArgumentError,
        lambda: ad.op.elementwise("f", x=lambda g, alpha: g * alpha),
        "op f | 'alpha' | attrs=",
    ),
    Misuse(
        ArgumentError,
        lambda: ad.op.other("f", x=lambda g: g, vjp=lambda g: (g,)),
        "op f | vjp | not both",
    ),
    Misuse(
        AdjointError, lambda: ad.op.elementwise("f", x=lambda g: g, linaer=True), "op f | linaer"
    ),
    Misuse(AdjointError, lambda: ad.op.elementwise("f", x=operator.neg), "op f"),
    Misuse(
        ArgumentError,
        lambda: ad.op.elementwise("nowhere", x=lambda g: g)(ones(2)),
        "nowhere | cpu | forward= | kernels=",
    ),
    Misuse(
        AdjointError,
        lambda: ad.op.other("f", x=lambda g: g, forward=double)(ones(2), alpha=2),
        "alpha",
    ),
    Misuse(
        ShapeError,
        lambda: run(
            ad.op.elementwise("f", x=lambda g, x: g if x > 0 else -g, forward=double), param(2)
        ),
        "bool() | (2,) | ambiguous",
    ),
    Misuse(
        GradientError,
        lambda: run(
            ad.op.other("pair", inputs="x y", vjp=lambda g: (g,), forward=lambda x, y: x + y),
            param(2),
            param(2),
        ),
        "`pair` returned 1 gradients, expected 2",
    ),
    Misuse(
        GradientError,
        lambda: run(ad.op.other("short", x=lambda g: ad.sum(g), forward=double), param(2)),
        "`short` | shape () | (2,)",
    ),
    Misuse(
        GradientError,
        lambda: run(
            ad.op.elementwise("narrow", inputs="x y", x=lambda g, y: y, forward=lambda x, y: x * y),
            param(2),
            ones(1),
        ),
        "`narrow` | (1,) | (2,)",
    ),
    Misuse(
        GradientError,
        lambda: run(
            ad.op.other("wide", x=lambda g: ad.astype(g, ad.float64), forward=double), param(2)
        ),
        "`wide` | float64 | float32",
    ),
    Misuse(
        GradientError,
        lambda: run(ad.op.other("plain", x=lambda g, x_shape: 1.0, forward=double), param(2)),
        "`plain` | float | `x` | tensor",
    ),
    Misuse(
        GradientError,
        lambda: run(ad.op.other("nothing", x=lambda g, x_shape: None, forward=double), param(2)),
        "`nothing` | NoneType | `x`",
    ),
    Misuse(
        GradientError,
        lambda: run(
            ad.op.other("raw", x=lambda g, x_shape: np.ones(2, np.float32), forward=double),
            param(2),
        ),
        "`raw` | ndarray | tensor",
    ),
]

TABLES = {
    "shapes": SHAPES,
    "axes": AXES,
    "windows": WINDOWS,
    "indices": INDICES,
    "assignments": ASSIGNMENTS,
    "gradients": GRADIENTS,
    "values": VALUES,
    "creation": CREATION,
    "losses": LOSSES,
    "traces": TRACES,
    "leaks": LEAKS,
    "declarations": DECLARATIONS,
}


@pytest.mark.parametrize(
    "misuse",
    [
        pytest.param(misuse, id=f"{table}: {misuse.mentions}")
        for table, rows in TABLES.items()
        for misuse in rows
    ],
)
def test_misuse_is_explained(misuse: Misuse):
    check(misuse)


# One vocabulary.


def takes(function: Any, parameter: str) -> bool:
    return inspect.isfunction(function) and parameter in inspect.signature(function).parameters


def functions_with(parameter: str) -> list[Any]:
    found = {}
    for namespace in (ad, F):
        for name, function in vars(namespace).items():
            if takes(function, parameter) and function.__doc__:
                found.setdefault(function, f"{namespace.__name__}.{name}")
    return [pytest.param(function, id=name) for function, name in found.items()]


def required(function: Callable) -> list[Any]:
    """An argument for each parameter that must be given, but for the axis."""
    known = {"k": 1, "xs": [ones(2, 2)], "indices": ints(0), "index": ints(0)}
    names = inspect.signature(function).parameters.values()
    return [
        known.get(p.name, ones(2, 2))
        for p in names
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.name != "axis"
    ]


@pytest.mark.parametrize("function", functions_with("axis"))
def test_dim_is_called_axis(function):
    says = f"{function.__name__} | dim= | axis="
    check(Misuse(KeywordError, lambda: function(*required(function), dim=0), says))


@pytest.mark.parametrize("function", functions_with("keepdims"))
def test_keepdim_is_called_keepdims(function):
    says = f"{function.__name__} | keepdim= | keepdims="
    check(Misuse(KeywordError, lambda: function(*required(function), keepdim=True), says))


# Devices. There is one real device, so a second one is made up.


class FakeArray:
    """An array that NumPy won't touch, as that of a GPU would be."""

    __array_ufunc__ = None
    device = "fake"

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.shape, self.dtype, self.size = values.shape, values.dtype, values.size


def on_fake(function: Callable) -> Callable:
    def kernel(*arrays: Any, **attrs: Any) -> Any:
        if not all(isinstance(x, FakeArray) for x in arrays):
            raise TypeError("a foreign array")
        return FakeArray(np.asarray(function(*(x.values for x in arrays), **attrs)))

    return kernel


@pytest.fixture
def fake(monkeypatch):
    """A function that puts values on the device "fake", which exists during the test."""
    module: Any = SimpleNamespace(
        DEVICE="fake",
        Array=FakeArray,
        FUNCTIONS={
            name: on_fake(kernel) for name, kernel in backends.backend("cpu").FUNCTIONS.items()
        },
        function_of=lambda op: module.FUNCTIONS.get(op.name),
        from_numpy=FakeArray,
        to_numpy=lambda x: x.values,
        scalar=lambda value, dtype: FakeArray(np.array(value, dtype)),
        exclusive=lambda array, holders: False,
        copy=lambda x: FakeArray(x.values.copy()),
    )
    monkeypatch.setitem(sys.modules, "fake_device", module)
    monkeypatch.setitem(backends.MODULES, "fake", "fake_device")
    monkeypatch.setitem(backends.LOADED, FakeArray, module)
    return lambda values: ad.asarray(np.array(values, np.float32), device="fake")


MIXTURES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "matmul": lambda x, y: x.reshape(1, 2) @ y.reshape(2, 1),
    "concat": lambda x, y: ad.concat([x, y]),
    "where": lambda x, y: ad.where(x > 0, x, y),
    "clip": lambda x, y: ad.clip(x, y, 1.0),
    "in-place": lambda x, y: operator.iadd(x, y),
    "assignment": lambda x, y: assign(x, ..., y),
    "part-assignment": lambda x, y: assign(x, slice(1), y[:1]),
}


@pytest.mark.parametrize("order", ["cpu-first", "fake-first"])
@pytest.mark.parametrize("name", MIXTURES)
def test_mixing_devices_names_both(fake, name, order):
    x, y = ones(2), fake([1.0, 2.0])
    if order == "fake-first":
        x, y = y, x
    check(Misuse(DeviceError, lambda: MIXTURES[name](x, y), "cpu | fake | .to("))


def test_gradient_on_another_device_names_both(fake):
    loss = param(2) * 2
    misuse = Misuse(DeviceError, lambda: loss.backward(fake([1.0, 1.0])), "backward | cpu | fake")
    check(misuse)


def test_grad_set_on_another_device_names_both(fake):
    x = param(2)
    check(Misuse(DeviceError, lambda: set_grad(x, fake([1.0, 1.0])), "grad | cpu | fake"))


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "right": lambda x: x - 2,
    "left": lambda x: 2 - x,
    "left-power": lambda x: 2**x,
    "only-numbers-in-where": lambda x: ad.where(x > 0, 1.0, 0.0) * x,
    "clip": lambda x: ad.clip(x, 0, 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_belong_to_every_device(fake, name):
    expected = NUMBERS[name](ad.asarray([1.0, 2.0]))
    out = NUMBERS[name](fake([1.0, 2.0]))
    assert out.device == "fake"
    np.testing.assert_array_equal(out.numpy(), expected.numpy())


# The classes.

CLASSES = [x for x in vars(errors).values() if isinstance(x, type) and x is not AdjointError]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_an_adjoint_error_and_a_builtin_and_warnings_are_the_users(cls):
    assert issubclass(cls, (AdjointError, UserWarning))
    assert any(base.__module__ == "builtins" for base in cls.__mro__[: -len(Exception.__mro__)])
    assert getattr(ad, cls.__name__) is cls
    assert cls.__doc__


def subclasses(cls: type) -> set[type]:
    return {cls}.union(*map(subclasses, cls.__subclasses__()))


def test_all_error_classes_live_in_one_place():
    _ = ad.testing, ad.nn, ad.optim
    errors = {x for x in CLASSES if issubclass(x, AdjointError)}
    assert subclasses(AdjointError) == {AdjointError, *errors}


@pytest.mark.parametrize("cls", CLASSES)
def test_errors_pickle(cls):
    """Errors cross process borders."""
    again = pickle.loads(pickle.dumps(cls("why")))
    assert type(again) is cls and again.args == ("why",)


# After an error all is as it was.


class State(NamedTuple):
    word: int
    trace: Any
    data: Any
    node: Any
    grad: Any
    random: Any

    @classmethod
    def of(cls, x: ad.Tensor) -> "State":
        return cls(mode.word, mode.trace, x.raw, x.node, x._grad, ad.random.default._state.raw)


def same(before: State, after: State) -> bool:
    return all(
        a is b or (isinstance(a, int) and a == b) for a, b in zip(before, after, strict=True)
    )


def changes_everything(x: ad.Tensor) -> None:
    (x * ad.random.uniform((2,))).sum().backward()
    with ad.no_grad():
        x -= cast(Any, x.grad)
    x.grad = None
    x.requires_grad_(False)
    x[0] = 5.0


def fails(x: ad.Tensor) -> None:
    changes_everything(x)
    raise KeyError("mine")


def test_an_error_in_a_trace_restores_all_state():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.grad = ones(2)
    before = State.of(x)
    with pytest.raises(KeyError, match="mine"):
        ad.trace(lambda: fails(x))
    assert same(before, State.of(x))
    assert x.tolist() == [1.0, 2.0] and x.grad.tolist() == [1.0, 1.0]


def test_an_error_in_a_nested_trace_restores_all_state():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    before = State.of(x)

    def outer(y: ad.Tensor) -> ad.Tensor:
        with pytest.raises(KeyError, match="mine"):
            ad.trace(lambda: fails(x))
        return x * y

    graph = ad.trace(outer, ones(2))
    assert same(before, State.of(x))
    assert graph(ones(2)).tolist() == [1.0, 2.0]


def test_a_trace_restores_all_state():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    before = State.of(x)
    ad.trace(lambda: changes_everything(x))
    assert same(before, State.of(x))


def test_an_error_of_an_op_in_a_trace_restores_all_state():
    x = param(2)
    before = State.of(x)
    with pytest.raises(ShapeError):
        ad.trace(lambda y: changes_everything(x) or x + y, ones(3))
    assert same(before, State.of(x))


def raising(error: Exception) -> Callable:
    def raises(*_: Any) -> None:
        raise error

    return raises


def with_failing_rule(x: ad.Tensor) -> ad.Tensor:
    op = ad.op.other("bad", x=raises_in_rule, forward=double)
    return op(x).sum()


def raises_in_rule(g, x_shape):
    raise ZeroDivisionError("in the rule")


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("place", ["rule", "hook", "root-hook", "callback", "post-hook"])
def test_an_error_in_backward_restores_all_state(place, create_graph):
    x = param(2)
    untouched = param(2)
    middle = x * 2
    loss = (middle * untouched).sum() if place != "rule" else with_failing_rule(middle)
    error = ZeroDivisionError("mine")
    callback = raising(error) if place == "callback" else None
    if place == "hook":
        middle.register_hook(raising(error))
    elif place == "root-hook":
        loss.register_hook(raising(error))
    elif place == "post-hook":
        x.register_post_accumulate_grad_hook(raising(error))
    before = State.of(x)
    with pytest.raises(ZeroDivisionError):
        loss.backward(create_graph=create_graph, on_leaf_grad=callback)
    after = State.of(x)
    if place in ("post-hook", "callback"):  # a gradient that was complete stays
        before = before._replace(grad=after.grad)
    assert same(before, after)
    assert ad.is_grad_enabled()


def test_backward_works_after_one_that_failed():
    x = param(2)
    handle = x.register_hook(raising(ZeroDivisionError("mine")))
    with pytest.raises(ZeroDivisionError):
        (x * 3).sum().backward()
    handle.remove()
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("switch", [ad.no_grad, ad.enable_grad, ad.detect_anomaly])
def test_an_error_in_a_switch_restores_the_mode(switch):
    before = mode.word
    with pytest.raises(KeyError), switch():
        raise KeyError
    assert mode.word == before
    with pytest.raises(KeyError):
        switch()(raising(KeyError()))()
    assert mode.word == before


def test_a_failed_assignment_changes_nothing():
    x = ad.tensor([1.0, 2.0])
    for index, value in ((5, 0.0), (ints(0, 9), 7.0), (..., ones(3)), (0, ones(2))):
        with pytest.raises(AdjointError):
            x[index] = value
    with pytest.raises(AdjointError):
        x += ones(2, 2)
    assert x.tolist() == [1.0, 2.0]


def test_a_failed_rule_leaves_no_traces_of_symbols():
    op = ad.op.elementwise("branching", x=lambda g, x: g if x > 0 else -g, forward=double)
    y = op(param(2))
    with pytest.raises(ShapeError, match="ambiguous"):
        y.sum().backward()
    assert mode.word == 1
    assert (ones(2) + 1).tolist() == [2.0, 2.0]


# Anomalies show where the value came from.


def test_forward_anomaly_shows_op_shapes_and_line():
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        ad.log(ad.zeros((2, 3)))  # the culprit
    message = str(caught.value)
    assert "log(float32[2, 3])" in message and "infinity" in message
    assert "the culprit" in message and re.search(r"line \d+", message)


def test_backward_anomaly_shows_the_line_of_the_forward_call():
    x = ad.zeros((2,), requires_grad=True)
    with pytest.raises(AnomalyError) as caught, ad.detect_anomaly():
        y = ad.sqrt(x)  # the culprit
        y.sum().backward()
    message = str(caught.value)
    assert "sqrt" in message and "(2,)" in message
    assert "the culprit" in message


# Functions of sorting, arrangement, reductions and places.


FUNCTIONS = [
    Misuse(ArgumentError, lambda: ad.prod(ones(2), axis=1), "prod | axis 1 | out of range"),
    Misuse(ArgumentError, lambda: ad.min(ad.zeros((2, 0)), axis=1), "min | (2, 0)"),
    Misuse(ArgumentError, lambda: ad.argmin(ad.zeros((0,))), "argmin | (0,)"),
    Misuse(ArgumentError, lambda: ad.std(ones(2), axis=(0, 0)), "std | twice"),
    Misuse(
        AdjointError, lambda: ad.std(ones(2), correction=cast(Any, "a")), "std | correction | 'a'"
    ),
    Misuse(
        AdjointError, lambda: ad.var(ones(2), correction=cast(Any, None)), "var | correction | None"
    ),
    Misuse(ArgumentError, lambda: ad.logsumexp(ones(2), axis=-2), "logsumexp | axis -2"),
    Misuse(
        ArgumentError, lambda: ad.cumulative_prod(ones(2, 2)), "cumulative_prod | axis | (2, 2)"
    ),
    Misuse(
        DTypeError,
        lambda: ad.cumulative_sum(ones(2, 2), axis=cast(Any, (0, 1))),
        "cumulative_sum | axis | integer | (0, 1)",
    ),
    Misuse(
        DTypeError,
        lambda: ad.softmax(ones(2, 2), axis=cast(Any, None)),
        "softmax | axis | integer | None",
    ),
    Misuse(KeywordError, lambda: ad.mean(ones(2), dtype=ad.float64), "mean | dtype="),
    Misuse(KeywordError, lambda: ad.triu(ones(2, 2), diagonal=1), "triu | diagonal= | k="),
    Misuse(KeywordError, lambda: ad.tril(ones(2, 2), diagonal=1), "tril | diagonal= | k="),
    Misuse(KeywordError, lambda: ad.load("w.npz", weights_only=True), "weights_only= | leave it"),
    Misuse(KeywordError, lambda: ad.load("w.npz", map_location="cpu"), "map_location= | device="),
    Misuse(KeywordError, lambda: ad.prod(ones(2), out=ones()), "prod | out="),
    Misuse(ArgumentError, lambda: ad.sort(ones()), "sort | 0 axes"),
    Misuse(ArgumentError, lambda: ad.argsort(ones(2), axis=1), "argsort | axis 1"),
    Misuse(DTypeError, lambda: ad.sort(ad.asarray([1j])), "sort | complex"),
    Misuse(KeywordError, lambda: ad.topk(ones(2), 1, sorted=True), "topk | sorted="),
    Misuse(
        ArgumentError,
        lambda: ad.searchsorted(ones(2), ones(2), side="middle"),
        "searchsorted | 'left' | 'middle'",
    ),
    Misuse(ShapeError, lambda: ad.searchsorted(ones(2, 2), 1.0), "searchsorted | 1-d | (2, 2)"),
    Misuse(
        AdjointError,
        lambda: ad.searchsorted(ones(2), 1.0, sorter=ones(2)),
        "searchsorted | integer | float32",
    ),
    Misuse(DTypeError, lambda: ad.isin(ones(2), cast(Any, "a")), "isin | str"),
    Misuse(DTypeError, lambda: ad.unique_values(cast(Any, [1.0])), "unique | list | asarray"),
    Misuse(DTypeError, lambda: ad.roll(ones(2), 1.5), "roll | shift | integer | 1.5"),
    Misuse(ArgumentError, lambda: ad.roll(ones(2, 2), (1, 2), axis=(0,)), "roll | (1, 2) | (0,)"),
    Misuse(ArgumentError, lambda: ad.roll(ones(2), 1, axis=1), "roll | axis 1"),
    Misuse(ArgumentError, lambda: ad.tile(ones(2), -1), "tile | negative | -1"),
    Misuse(DTypeError, lambda: ad.tile(ones(2), 1.5), "tile | integer | 1.5"),
    Misuse(ArgumentError, lambda: ad.repeat(ones(2), -1), "repeat | negative | -1"),
    Misuse(ShapeError, lambda: ad.repeat(ones(2), [1, 2, 3]), "repeat | (3,) | 2"),
    Misuse(DTypeError, lambda: ad.repeat(ones(2), 1.5), "repeat | integers | 1.5"),
    Misuse(AdjointError, lambda: ad.repeat(ones(2), [[1], [1, 2]]), "repeat | [[1], [1, 2]]"),
    Misuse(ArgumentError, lambda: ad.repeat(ones(2), 2, axis=1), "repeat | axis 1"),
    Misuse(
        ArgumentError, lambda: ad.pad(ones(2, 2), ((1,), (1, 2))), "pad | ((1,), (1, 2)) | pair"
    ),
    Misuse(ArgumentError, lambda: ad.pad(ones(2), 1, mode=cast(Any, None)), "pad | mode | None"),
    Misuse(ShapeError, lambda: ad.pad(ad.zeros((0,)), 1, "edge"), "pad | edge | (0,)"),
    Misuse(DTypeError, lambda: ad.pad(ints(1), 1, constant_values=0.5), "pad | 0.5 | int64"),
    Misuse(
        DTypeError,
        lambda: ad.pad(ints(1), 1, constant_values=cast(Any, np.float32(2.5))),
        "pad | int64",
    ),
    Misuse(DTypeError, lambda: ad.pad(ones(1), 1, constant_values=cast(Any, 1j)), "pad | float32"),
    Misuse(AdjointError, lambda: ad.pad(ones(1), 1, constant_values=cast(Any, "a")), "pad | 'a'"),
    Misuse(
        AdjointError,
        lambda: ad.pad(ones(1, dtype=ad.int8), 1, constant_values=300),
        "pad | 300 | int8",
    ),
    Misuse(ShapeError, lambda: ad.tril(ones(2)), "tril | 2 axes | (2,)"),
    Misuse(DTypeError, lambda: ad.triu(ones(2, 2), k=cast(Any, 0.5)), "triu | k | integer | 0.5"),
    Misuse(ArgumentError, lambda: ad.diagonal(ones(2)), "diagonal | axis 1"),
    Misuse(ArgumentError, lambda: ad.diagonal(ones(2, 2), 0, 1, -1), "diagonal | axis1 | axis2"),
    Misuse(DTypeError, lambda: ad.diagonal(ones(2, 2), cast(Any, 1.5)), "diagonal | offset | 1.5"),
    Misuse(DTypeError, lambda: ad.diagflat(ones(2), cast(Any, "a")), "diagflat | k | 'a'"),
    Misuse(ArgumentError, lambda: ad.diff(ones(2), n=-1), "diff | n | -1"),
    Misuse(ArgumentError, lambda: ad.diff(ones()), "diff | 0 axes"),
    Misuse(DTypeError, lambda: ad.diff(ones(2), prepend="a"), "diff | str"),
    Misuse(ShapeError, lambda: ad.diff(ones(2, 3), prepend=ones(3, 1)), "diff | (3, 1) | (2, 3)"),
    Misuse(ArgumentError, lambda: ad.split(ones(5), 2), "split | 5 | 2"),
    Misuse(ArgumentError, lambda: ad.split(ones(5), 0), "split | 5 | 0"),
    Misuse(DTypeError, lambda: ad.split(ones(5), [1.5]), "split | integer | 1.5"),
    Misuse(ArgumentError, lambda: ad.split(ones(), 1), "split | 0 axes"),
    Misuse(
        ArgumentError, lambda: ad.moveaxis(ones(2, 2), (0, 1), (0,)), "moveaxis | (0, 1) | (0,)"
    ),
    Misuse(ArgumentError, lambda: ad.moveaxis(ones(2, 2), 0, 5), "moveaxis | axis 5"),
    Misuse(ArgumentError, lambda: ad.swapaxes(ones(2, 2), 0, -3), "swapaxes | axis -3"),
    Misuse(ShapeError, lambda: ad.broadcast_arrays(ones(2), ones(3)), "broadcast_arrays | (2,)"),
    Misuse(ShapeError, lambda: ad.meshgrid(ones(2, 2)), "meshgrid | 1-d | (2, 2)"),
    Misuse(ArgumentError, lambda: ad.meshgrid(ones(2), indexing="ab"), "meshgrid | 'xy' | 'ab'"),
    Misuse(
        ArgumentError, lambda: ad.gelu(ones(2), cast(Any, True)), "gelu | 'none' | 'tanh' | True"
    ),
    Misuse(AdjointError, lambda: ad.elu(ones(2), cast(Any, "a")), "elu | alpha | 'a'"),
    Misuse(
        AdjointError, lambda: ad.leaky_relu(ones(2), cast(Any, None)), "leaky_relu | slope | None"
    ),
    Misuse(AdjointError, lambda: ad.elu(ones(2), cast(Any, param())), "elu | alpha"),
    Misuse(DTypeError, lambda: ad.clip(ones(2), cast(Any, "a")), "clip | str"),
    Misuse(ShapeError, lambda: ad.hypot(ones(2), ones(3)), "hypot | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ad.logaddexp(ones(2), ones(3)), "logaddexp | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) % ones(3), "remainder | (2,) | (3,)"),
    Misuse(ShapeError, lambda: ones(2) // ones(3), "floor_divide | (2,) | (3,)"),
    Misuse(DTypeError, lambda: ones(2) << 1, "bitwise_left_shift | float32"),
    Misuse(
        ArgumentError, lambda: ad.index_select(ones(2), ints(0), axis=1), "index_select | axis 1"
    ),
    Misuse(
        ShapeError,
        lambda: ad.index_select(ones(2), ad.asarray([[0]])),
        "index_select | 1-d | (1, 1) | take",
    ),
    Misuse(IndexingError, lambda: ad.index_select(ones(2), ones(1)), "index_select | float32"),
    Misuse(IndexingError, lambda: ad.gather(ones(2, 2), ad.asarray([[2]])), "2 | axis 0 | (2, 2)"),
    Misuse(ShapeError, lambda: ad.gather(ones(2, 2), ints(0)), "gather | (2, 2) | (1,)"),
    Misuse(
        ShapeError,
        lambda: ad.gather(ones(2, 2), ad.asarray([[0, 0, 0]])),
        "gather | (2, 2) | (1, 3) | axis 0",
    ),
    Misuse(IndexingError, lambda: ad.gather(ones(2), ones(2)), "gather | integer | float32"),
    Misuse(ArgumentError, lambda: ad.gather(ones(), ad.asarray(0)), "gather | 0 axes"),
    Misuse(
        ShapeError,
        lambda: ad.take_along_axis(ones(2, 3), ad.asarray([[0], [0], [0]]), axis=1),
        "take_along_axis | (2, 1) | (3, 1)",
    ),
    Misuse(IndexingError, lambda: ad.scatter_add(ones(2), ints(2), ones(1)), "2 | axis 0 | (2,)"),
    Misuse(
        ArgumentError,
        lambda: ad.scatter_add(ones(2), ints(0), ones(1), axis=1),
        "scatter_add | axis 1",
    ),
    Misuse(
        IndexingError, lambda: ad.scatter_add(ones(2), ones(1), ones(1)), "scatter_add | float32"
    ),
    Misuse(IndexingError, lambda: ones(2).at[[2]].multiply(2.0), "index 2 | (2,)"),
    Misuse(IndexingError, lambda: ones(2).at[[0, -3]].max(2.0), "-3 | (2,)"),
    Misuse(IndexingError, lambda: ones(2).at[0, 0].add(2.0), "too many | (2,)"),
    Misuse(ShapeError, lambda: ones(2).at[[0]].multiply(ones(2)), "at.multiply | (2,) | (1,)"),
    Misuse(ShapeError, lambda: ones(2).at[[0]].min(ones(3)), "at.min | (3,) | (1,)"),
    Misuse(DTypeError, lambda: ints(1).at[[0]].subtract(0.5), "at.subtract | float32 | int64"),
    Misuse(DTypeError, lambda: ints(1).at[0].divide(2), "at.divide | int64 | astype"),
    Misuse(DTypeError, lambda: ones(2).at[0].max(cast(Any, "a")), "at.max | str"),
]


@pytest.mark.parametrize("misuse", FUNCTIONS, ids=lambda misuse: misuse.mentions)
def test_misuse_of_functions_is_explained(misuse: Misuse):
    check(misuse)


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (lambda: ad.cat, "cat | ad.concat"),
        (lambda: ones(2).unsqueeze(0), "tensor | unsqueeze | ad.expand_dims"),
        (lambda: ones(2).clone(), "clone | x.copy()"),
        (lambda: ad.clone(ones(2)), "clone | ad.copy"),
        (lambda: ones(2).flatten(1), "flatten | x.reshape((x.shape[0], -1))"),
        (lambda: ones(2).numel(), "numel | x.size"),
        (lambda: ones(2).detach_(), "detach_ | x.detach()"),
        (lambda: ones(2).cuda(), 'cuda | x.to("webgpu")'),
        (lambda: ones(2).exp_(), "exp_ | x = x.exp()"),
        (lambda: ones(2).unsqueeze_(0), "unsqueeze_ | ad.expand_dims | new tensor"),
        (lambda: ones(2, 2).max(axis=1).indices, "indices | x.argmax(axis)"),
        (lambda: ones(2).sum().grad_fn, "grad_fn | ad.graph(x)"),
        (lambda: ones(2).multinomial(1), "multinomial | ad.random.categorical(ad.log(x))"),
        (lambda: ad.multinomial(ones(2), 1), "multinomial | ad.random.categorical(ad.log(p))"),
        (lambda: ad.LongTensor([1]), "LongTensor | ad.tensor(values, dtype=ad.int64)"),
        (lambda: ad.optim.swa_utils, "adjoint.optim | swa_utils | ad.optim.EMA"),
        (lambda: ad.optim.nonsense, "adjoint.optim | nonsense"),
        (lambda: ad.randn(2, 3), "randn | ad.random.normal((2, 3))"),
        (lambda: ad.rand(2, 3), "rand | ad.random.uniform((2, 3))"),
        (lambda: ad.inference_mode(), "inference_mode | ad.no_grad"),
        (lambda: ad.utils, "utils | ad.data | ad.checkpoint"),
        (lambda: ad.random.randn, "adjoint.random | randn | ad.random.normal((2, 3))"),
        (lambda: ad.random.manual_seed, "manual_seed | ad.random.seed"),
        (lambda: ad.random.nonsense, "adjoint.random | nonsense"),
        (lambda: nn.Softmax2d, "adjoint.nn | Softmax2d | nn.Softmax(axis=-3)"),
        (lambda: nn.nonsense, "adjoint.nn | nonsense"),
        (lambda: nn.utils.rnn, "adjoint.nn.utils | rnn | packed"),
        (lambda: nn.ReLU().cuda(), 'ReLU | cuda | model.to("webgpu")'),
        (lambda: nn.ReLU()._parameters, "ReLU | _parameters | named_parameters"),
        (lambda: nn.ReLU().register_full_backward_hook(print), "x.register_hook"),
        (lambda: nn.ReLU().nonsense, "ReLU | nonsense"),
        (lambda: ad.profile().export_chrome_trace, "export_chrome_trace | p.save_trace"),
        (lambda: ad.nonsense, "adjoint | nonsense"),
        (lambda: ones(2).nonsense, "tensor | nonsense"),
    ],
)
def test_names_of_other_libraries_are_translated(look: Callable, says: str) -> None:
    with pytest.raises(AttributeError) as found:
        look()
    assert all(part in str(found.value) for part in says.split(" | "))


def test_every_translation_exists() -> None:
    for name, there in hints.FUNCTIONS.items():
        assert not hasattr(ad, name)
        for path in there.split(", or "):
            assert callable(operator.attrgetter(path.removeprefix("ad."))(ad))
    assert not any(hasattr(ad, name) for name in hints.IDIOMS)
    assert not any(hasattr(ad.Tensor, name) for name in hints.METHODS)
    assert not any(hasattr(ad.random, name) for name in random_hints.RANDOM)
    assert not any(hasattr(nn, name) for name in nn_hints.LAYERS)
    assert not any(hasattr(nn.utils, name) for name in nn_hints.LAYER_UTILITIES)
    assert not any(hasattr(nn.Module, name) for name in nn_hints.MODULES)
    assert not any(hasattr(ad.optim, name) for name in ad.optim._HINTS)


@pytest.mark.parametrize(
    "table",
    [
        hints.FUNCTIONS,
        hints.IDIOMS,
        hints.METHODS,
        random_hints.RANDOM,
        nn_hints.LAYERS,
        nn_hints.LAYER_UTILITIES,
        nn_hints.MODULES,
        ad.optim._HINTS,
    ],
)
def test_every_name_in_a_translation_exists(table: dict[str, str]) -> None:
    for hint in table.values():
        for path in re.findall(r"\b(?:ad|nn)(?:\.\w+)+", hint):
            operator.attrgetter(path.removeprefix("ad."))(ad)
        for name in re.findall(r"\bx\.(\w+)", hint):
            assert hasattr(ones(2, 2), name), hint


def test_an_error_inside_a_property_of_a_module_is_seen() -> None:
    class Broken(nn.Module):
        @property
        def width(self) -> int:
            return self.inner.width

    with pytest.raises(AttributeError, match="'inner'"):
        _ = Broken().width


# Calls that are right in PyTorch.
HABITS = [
    Misuse(KeywordError, lambda: cast(Any, ad.zeros)(2, 3), "zeros | tuple | ad.zeros((2, 3))"),
    Misuse(KeywordError, lambda: cast(Any, ad.ones)(2, 3, 4), "ones | ad.ones((2, 3, 4))"),
    Misuse(
        KeywordError, lambda: cast(Any, ad.empty)(2, 3, dtype=ad.int64), "empty | ad.empty((2, 3))"
    ),
    Misuse(
        KeywordError,
        lambda: ad.random.normal(2, 3),
        "random.normal | tuple | ad.random.normal((2, 3)) | mean=3",
    ),
    Misuse(
        KeywordError, lambda: ad.random.uniform(2, 3, 4), "ad.random.uniform((2, 3, 4)) | low=3"
    ),
    Misuse(KeywordError, lambda: ad.random.Generator(0).normal(2, 3), "random.normal | (2, 3)"),
    Misuse(KeywordError, lambda: ones(2, 3).transpose(0, 1), "transpose | x.swapaxes(0, 1)"),
    Misuse(KeywordError, lambda: ones(2, 3).repeat(2, 1), "repeat | x.tile((2, 1)) | axis=1"),
    *(
        Misuse(KeywordError, call, f"{name} | inplace= | tensors are values | leave it out")
        for name, call in {
            "ReLU": lambda: nn.ReLU(inplace=True),
            "ReLU6": lambda: nn.ReLU6(True),
            "SiLU": lambda: nn.SiLU(inplace=False),
            "LeakyReLU": lambda: nn.LeakyReLU(0.1, True),
            "ELU": lambda: nn.ELU(inplace=True),
            "CELU": lambda: nn.CELU(1.0, True),
            "Hardtanh": lambda: nn.Hardtanh(-1.0, 1.0, inplace=True),
            "Threshold": lambda: nn.Threshold(0.0, 1.0, True),
            "Dropout": lambda: nn.Dropout(0.1, inplace=True),
            "Dropout2d": lambda: nn.Dropout2d(0.1, True),
        }.items()
    ),
    Misuse(KeywordError, lambda: nn.ReLU(3), "ReLU | too many | 3"),
    Misuse(KeywordError, lambda: nn.Dropout(0.1, q=1), "Dropout | q="),
    Misuse(
        KeywordError,
        lambda: nn.TransformerEncoder(nn.Identity(), 2, enable_nested_tensor=False),
        "TransformerEncoder | enable_nested_tensor= | leave it out",
    ),
    Misuse(
        KeywordError,
        lambda: nn.TransformerEncoder(nn.Identity(), 2, mask_check=True),
        "TransformerEncoder | mask_check= | leave it out",
    ),
    Misuse(KeywordError, lambda: nn.Embedding(2, 3, max_norm=1.0), "Embedding | max_norm="),
    Misuse(KeywordError, lambda: nn.Embedding(2, 3, sparse=True), "Embedding | sparse= | dense"),
    *(
        Misuse(
            KeywordError,
            lambda kind=kind, name=name: getattr(ad.optim, kind)([ones(2)], **{name: True}),
            f"{kind} | {name}= | step | leave it out",
        )
        for kind in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")
        for name in ("foreach", "fused", "capturable")
    ),
    Misuse(KeywordError, lambda: ad.optim.Adam([ones(2)], rate=0.1), "Adam | rate="),
]


@pytest.mark.parametrize("misuse", HABITS, ids=lambda misuse: misuse.mentions)
def test_habits_of_pytorch_are_explained(misuse: Misuse):
    check(misuse)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.random.normal(2),
        lambda: ad.random.normal(2, 3.0),
        lambda: ad.random.normal(2, mean=3),
        lambda: ad.random.uniform((2,), 0, 5),
        lambda: ad.zeros(2),
        lambda: ones(1, 2).transpose((1, 0))[:, 0],
        lambda: ones(1).repeat(2),
    ],
)
def test_one_length_is_a_shape(call: Callable) -> None:
    assert call().shape == (2,)
