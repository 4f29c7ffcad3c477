"""Layers, how they are made and called; results and gradients are compared with PyTorch's.

A line of the table is `add("Conv2d(4, 6, 3, stride=2)", reals(1, 4, 5, 5))`: the layer is made by
this expression, whose names are those of `nn`, in both libraries; where PyTorch's option has
another name, `torch="Softmax(dim=1)"` says so, and `array` in it makes a tensor of an array.
Parameters and running statistics get values that depend only on their names and shapes. The inputs
may be in tuples, and have names; floats among them are differentiated, integers and bools aren't.
Outputs may be tensors, tuples of them, and None.

Another table is `CASES = Table("layer_values_other.npz")` in a file of its own; a line of
test_layers.py reads it in. `python -m tests.nn.layer_cases` (with PyTorch installed) writes the
values that layers must give where PyTorch isn't there; run it after each change of a table.
"""

import importlib
import json
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.support.neural_cases import classes, fractions, positives, reals, signs
from tests.support.paths import DATA

Arrays = dict[str, np.ndarray]


class Case(NamedTuple):
    """A layer, and a call of it.

    `calls`: how often it is called, each time with smaller inputs; the last call is compared, and
    what the buffers are after it.
    """

    code: str
    torch_code: str
    inputs: tuple
    named: dict[str, Any]
    training: bool
    calls: int

    @property
    def id(self) -> str:
        shapes = [
            "x".join(map(str, x.shape)) if isinstance(x, np.ndarray) else str(x)
            for x in leaves((self.inputs, self.named))
        ]
        words = [self.code, *shapes, *self.named, "" if self.training else "eval"]
        return " ".join(filter(None, words))


class Table:
    """Cases, and the file of what PyTorch gives for them."""

    def __init__(self, file: str) -> None:
        self.cases: dict[str, Case] = {}
        self.file = DATA / file

    def add(
        self,
        code: str,
        *inputs: Any,
        torch: str | None = None,
        training: bool = True,
        calls: int = 1,
        **named: Any,
    ) -> None:
        case = Case(code, torch or code, inputs, named, training, calls)
        if case.id in self.cases:
            raise ValueError(f"there are two cases {case.id!r}")
        self.cases[case.id] = case

    def save(self) -> None:
        """Write PyTorch's values in one row of numbers, and what they are in a text."""
        found = {key: results(case, np.float64, "torch") for key, case in self.cases.items()}
        shapes = {
            key: {name: array.shape for name, array in arrays.items()}
            for key, arrays in found.items()
        }
        row = np.concatenate([a.ravel() for arrays in found.values() for a in arrays.values()])
        text = np.frombuffer(json.dumps(shapes).encode(), np.uint8)
        np.savez_compressed(self.file, values=row.astype(np.float64), shapes=text)

    def load(self) -> dict[str, Arrays]:
        """PyTorch's values by the ids of cases."""
        with np.load(self.file) as file:
            row, shapes = file["values"], json.loads(file["shapes"].tobytes())
        found: dict[str, Arrays] = {}
        start = 0
        for key, arrays in shapes.items():
            found[key] = {}
            for name, shape in arrays.items():
                stop = start + math.prod(shape)
                found[key][name] = row[start:stop].reshape(shape)
                start = stop
        return found


def results(case: Case, dtype: Any, library: str = "adjoint", device: str = "cpu") -> Arrays:
    """Outputs, gradients of inputs and parameters, and buffers, by their names."""
    lib = importlib.import_module(library)

    def tensor(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        cast = value.astype(dtype) if value.dtype.kind == "f" else value
        if device != "cpu" and cast.dtype == np.int64:
            cast = cast.astype(np.int32)  # GPUs have no others
        return lib.tensor(cast).to(device)

    module = made(case.code if library == "adjoint" else case.torch_code, lib.nn, tensor)
    module.double() if dtype == np.float64 else module.float()
    fill(module, tensor)
    module.to(device).train(case.training)
    inputs, out = (), None
    for factor in range(case.calls, 0, -1):
        inputs = mapped(lambda x, k=factor: variable(tensor(times(x, k))), case.inputs)
        named = mapped(lambda x, k=factor: variable(tensor(times(x, k))), case.named)
        out = module(*inputs, **named)
        inputs = inputs, named
    outputs = dict(numbered("out", leaves(out)))
    differentiate(outputs, tensor)
    differentiated = dict(numbered("gradient of input", leaves(inputs)))
    differentiated |= {f"gradient of {name}": p for name, p in module.named_parameters()}
    found = outputs | {k: x.grad for k, x in differentiated.items() if is_float(x)}
    found |= {f"buffer {name}": x for name, x in module.named_buffers()}
    return {k: np.asarray(x.detach().to("cpu").numpy()) for k, x in found.items() if x is not None}


def made(code: str, nn: Any, tensor: Callable, **names: Any) -> Any:
    """The layer that an expression makes; it may use further names."""
    names["array"] = lambda *x: tensor(np.array(x, np.float64))
    return eval(code, {**vars(nn), **names})


def fill(module: Any, tensor: Callable) -> None:
    """Give parameters that are trained, and running statistics, values of our own."""
    state = module.state_dict()
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    for name, old in state.items():
        if name in trained or "running" in name:
            state[name] = tensor(initial(name, tuple(old.shape))).to("cpu")
    module.load_state_dict(state)


def initial(name: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.uniform(0.5, 2, shape) if name.endswith("var") else rng.standard_normal(shape) / 2


def times(x: Any, factor: int) -> Any:
    return x * factor if isinstance(x, np.ndarray) and x.dtype.kind == "f" and factor > 1 else x


def variable(x: Any) -> Any:
    return x.requires_grad_() if is_float(x) else x


def is_float(x: Any) -> bool:
    return "float" in str(getattr(x, "dtype", ""))


def differentiate(outputs: dict[str, Any], tensor: Callable) -> None:
    """Backward of a weighted sum of all outputs."""
    parts = [
        (x * tensor(reals(*x.shape, seed=k))).sum()
        for k, x in enumerate(outputs.values())
        if is_float(x) and x.requires_grad
    ]
    if parts:
        sum(parts[1:], parts[0]).backward()


def numbered(word: str, items: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{word} {k}", x) for k, x in enumerate(items) if x is not None)


def mapped(function: Callable, tree: Any) -> Any:
    if isinstance(tree, tuple):
        return tuple(mapped(function, x) for x in tree)
    if isinstance(tree, dict):
        return {name: mapped(function, x) for name, x in tree.items()}
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple | dict):
        for x in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(x)
    else:
        yield tree


CASES = Table("layer_values.npz")
add = CASES.add

# Linear maps.
add("Linear(3, 4)", reals(2, 3))
add("Linear(3, 4, bias=False)", reals(3))
add("Identity(54, unused=0.1)", reals(2, 3))
add("Sequential(Linear(3, 4), Tanh(), Linear(4, 2))", reals(2, 3))

# Convolutions.
for axes, size in ((1, (7,)), (2, (4, 3)), (3, (2, 3, 2))):
    x = reals(1, 4, *size)
    add(f"Conv{axes}d(4, 2, 2)", reals(2, 4, *size))
    add(f"Conv{axes}d(4, 6, 2, stride=2, padding=1, groups=2, bias=False)", x)
    add(f"Conv{axes}d(4, 2, 2, dilation=2, padding={(1,) * axes})", x[0])
    add(f"Conv{axes}d(4, 1, 2, padding='same')", x)
    add(f"Conv{axes}d(4, 1, 2, padding='valid')", x)
    for mode in ("reflect", "replicate", "circular"):
        add(f"Conv{axes}d(4, 1, 2, padding=1, padding_mode='{mode}')", x)
    add(f"ConvTranspose{axes}d(4, 2, 2)", reals(2, 4, *size))
    options = "stride=2, padding=1, output_padding=1, groups=2, bias=False"
    add(f"ConvTranspose{axes}d(4, 2, 3, {options})", x)
    add(f"ConvTranspose{axes}d(4, 1, 2, dilation=2)", x[0])
    add(f"ConvTranspose{axes}d(4, 1, 2, 2)", x, output_size=tuple(2 * n + 1 for n in size))
    whole = (1, 1, *(2 * n for n in size))
    add(f"ConvTranspose{axes}d(4, 1, 2, 2)", x, output_size=whole)
add("Conv2d(2, 2, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2))", reals(1, 2, 4, 5))
add(
    "Conv2d(1, 1, (3, 2), padding='same', dilation=(1, 2), padding_mode='reflect')",
    reals(1, 1, 4, 5),
)
add("Conv2d(1, 1, 2, padding='same', padding_mode='circular')", reals(1, 1, 4, 5))
add("ConvTranspose2d(2, 1, (3, 2), (3, 1), (1, 0), (2, 0))", reals(1, 2, 3, 2))

# Pooling.
for axes, size in ((1, (7,)), (2, (4, 5)), (3, (3, 4, 3))):
    x = reals(1, 2, *size)
    for kind in ("Max", "Avg"):
        add(f"{kind}Pool{axes}d(2)", x)
        add(f"{kind}Pool{axes}d(3, 2, 1)", x[0])
        add(f"{kind}Pool{axes}d(2, stride=3, ceil_mode=True)", x)
        add(f"Adaptive{kind}Pool{axes}d(2)", x)
    add(f"MaxPool{axes}d(2, stride=1, padding=1, dilation=2, return_indices=True)", x)
    add(f"AdaptiveMaxPool{axes}d(2, return_indices=True)", x[0])
    options = "padding=1, ceil_mode=True, count_include_pad=False"
    add(f"AvgPool{axes}d({(3,) * axes}, {(2,) * axes}, {options})", x)
add("AvgPool2d((3, 2), (1, 2), divisor_override=5)", reals(1, 1, 4, 5))
add("AvgPool3d(2, divisor_override=3)", reals(1, 1, 3, 2, 2))
add("AdaptiveAvgPool2d((None, 3))", reals(1, 2, 3, 4))
add("AdaptiveMaxPool2d((3, None))", reals(2, 4, 3))

# Norms.
for axes, size in ((1, (3,)), (2, (2, 3)), (3, (2, 1, 2))):
    x = reals(3, 2, *size)
    for training in (True, False):
        for kind in ("Batch", "Instance"):
            if kind == "Batch" or axes < 3:
                add(f"{kind}Norm{axes}d(2)", x, training=training)
            options = "affine=False, track_running_stats=False"
            if kind == "Instance":
                options = "affine=True, track_running_stats=True"
            add(f"{kind}Norm{axes}d(2, {options})", x, training=training)
    add(f"BatchNorm{axes}d(2, 0.1, momentum=None)", x, calls=3)
    add(f"InstanceNorm{axes}d(2, eps=0.1, momentum=0.3)", x[0])
add("BatchNorm1d(4)", reals(3, 4))
add("BatchNorm1d(4)", reals(3, 4), training=False)
add("BatchNorm1d(4, momentum=0.3, affine=False)", reals(3, 4), calls=2)
add("BatchNorm1d(4, momentum=None, track_running_stats=False)", reals(3, 4))
add("BatchNorm1d(4, bias=False)", reals(3, 4))
add("InstanceNorm1d(2, affine=True, bias=False)", reals(3, 2, 3))
add("LayerNorm(3)", reals(2, 3))
add("LayerNorm((2, 3), eps=0.1)", reals(2, 2, 3))
add("LayerNorm([3], elementwise_affine=False)", reals(2, 3))
add("LayerNorm(3, bias=False)", reals(2, 3))
add("GroupNorm(2, 4)", reals(2, 4, 3))
add("GroupNorm(1, 4, eps=0.1, affine=False)", reals(2, 4))
add("GroupNorm(4, 4, bias=False)", reals(2, 4, 2, 2))
add("RMSNorm(3)", reals(2, 3))
add("RMSNorm((2, 3), eps=0.1)", reals(2, 2, 3))
add("RMSNorm(3, elementwise_affine=False)", reals(3))

# Look-ups.
add("Embedding(5, 3)", classes(5, 2, 3))
add("Embedding(5, 3, padding_idx=-2)", np.array([[3, 1, 3], [0, 3, 4]]))
vectors = "array([1, 2], [3, 4], [5, 6])"
add(f"Embedding.from_pretrained({vectors})", np.array([2, 0]))
add(f"Embedding.from_pretrained({vectors}, freeze=False, padding_idx=2)", np.array([2, 0]))

# Dropout of nothing, of everything, and in evaluation.
for suffix, shape in (("", (5,)), ("1d", (2, 3)), ("2d", (1, 2, 2, 2)), ("3d", (2, 1, 2, 2))):
    add(f"Dropout{suffix}(0.0)", reals(*shape))
    add(f"Dropout{suffix}(p=1.0)", reals(*shape))
    add(f"Dropout{suffix}()", reals(*shape), training=False)
add("AlphaDropout(0.0)", reals(5))
add("AlphaDropout(0.5)", reals(5), training=False)

# Shapes.
x = reals(2, 3, 4)
add("Flatten()", x)
add("Flatten(0)", np.array(3.0))
add("Flatten(0, 1)", x)
add("Flatten(-2, 2)", x)
add("Unflatten(1, (3, 2))", reals(2, 6))
add("Unflatten(-1, (1, -1, 2))", x)
add("PixelShuffle(2)", reals(1, 4, 2, 3))
add("PixelUnshuffle(2)", reals(1, 4, 2))
add("Unfold(2)", reals(2, 2, 3, 4))
add("Unfold((3, 2), dilation=(1, 2), padding=(1, 0), stride=2)", reals(2, 4, 5))
add("Fold((4, 5), 2)", reals(2, 8, 12))
add("Fold((4, 5), (3, 2), (1, 2), (1, 0), 2)", reals(12, 4))
add("Upsample(5)", reals(1, 1, 3))
add("Upsample(scale_factor=2)", reals(1, 2, 2, 3))
add("Upsample((3, 5), mode='nearest-exact')", reals(1, 1, 2, 3))
add("Upsample(scale_factor=(2, 1.5), mode='bilinear', align_corners=True)", reals(1, 1, 2, 4))
add("Upsample(scale_factor=2, mode='bicubic')", reals(1, 1, 2, 3))
add("Upsample(scale_factor=2, mode='linear')", reals(1, 1, 3))
add("Upsample(scale_factor=2, mode='trilinear')", reals(1, 1, 1, 2, 2))
for axes, size in ((1, (4,)), (2, (2, 3)), (3, (2, 3, 2))):
    x, uneven = reals(1, 2, *size), tuple(k % 2 for k in range(2 * axes))
    for kind in ("Zero", "Reflection", "Replication", "Circular"):
        add(f"{kind}Pad{axes}d(1)", x)
        add(f"{kind}Pad{axes}d({uneven})", x)
    add(f"ConstantPad{axes}d(1, 3.5)", x)
add("ZeroPad2d((-1, 2, 0, 1))", reals(1, 1, 2, 3))

# Distances.
add("CosineSimilarity()", reals(2, 3, 2), reals(2, 3, 2, seed=1))
add("CosineSimilarity(-1, 0.5)", reals(2, 3), reals(2, 3, seed=1))
add("CosineSimilarity(axis=0)", reals(3), reals(3, seed=1), torch="CosineSimilarity(dim=0)")
add("PairwiseDistance()", reals(2, 3), reals(2, 3, seed=1))
add(
    "PairwiseDistance(p=1, keepdims=True)",
    reals(2, 3),
    reals(2, 3, seed=1),
    torch="PairwiseDistance(p=1, keepdim=True)",
)

# Activations. There is no Hardsigmoid: in PyTorch its 1 / 6 has float32's digits.
x = reals(3, 4)
for code in (
    "ReLU() ReLU6() SELU() SiLU() Mish() Sigmoid() LogSigmoid() Tanh() Softsign() "
    "Hardswish() LeakyReLU() LeakyReLU(0.2) ELU() ELU(1.5) CELU() CELU(0.5) GELU() GELU('tanh') "
    "Softplus() Softplus(2.0,1.5) Hardtanh() Hardtanh(-0.5,1.5) Threshold(0.1,20) Softmax(1) "
    "LogSoftmax(0) Softmin(1) GLU() GLU(1) PReLU() PReLU(4,0.1)"
).split():
    add(code, x)
add("PReLU(2)", reals(1, 2, 3))
add("Softmax(axis=-1)", x, torch="Softmax(dim=-1)")
add("LogSoftmax(axis=1)", x, torch="LogSoftmax(dim=1)")
add("Softmin(axis=0)", x, torch="Softmin(dim=0)")
add("GLU(axis=1)", x, torch="GLU(dim=1)")

# Losses.
x, y = reals(3, 4), reals(3, 4, seed=1)
p, q = fractions(3, 4), fractions(3, 4, seed=1)
labels, some = np.array([3, 0, 1]), np.array([3, 0, -100])
weights = "array(0.5, 2.0, 0.25, 1.5)"
for how in ("mean", "sum", "none"):
    ending = f"reduction='{how}')"
    add(f"MSELoss({ending}", x, y)
    add(f"L1Loss({ending}", x, y)
    add(f"SmoothL1Loss({ending}", x, y)
    add(f"HuberLoss({ending}", x, y)
    add(f"CrossEntropyLoss({ending}", x, labels)
    add(f"CrossEntropyLoss({weights}, label_smoothing=0.1, {ending}", x, some)
    add(f"CrossEntropyLoss(weight={weights}, {ending}", x, q)
    add(f"NLLLoss({weights}, {ending}", x, some)
    add(f"BCELoss({ending}", p, q)
    add(f"BCEWithLogitsLoss(pos_weight={weights}, {ending}", x, q)
    add(f"KLDivLoss({ending}", x, q)
    add(f"PoissonNLLLoss({ending}", x, positives(3, 4))
    add(f"GaussianNLLLoss({ending}", x, y, positives(3, 4))
    add(f"HingeEmbeddingLoss({ending}", x, signs(3, 4).astype(int))
    add(f"MarginRankingLoss({ending}", x, y, signs(3, 4).astype(int))
    add(f"CosineEmbeddingLoss({ending}", x, y, signs(3).astype(int))
    add(f"TripletMarginLoss({ending}", x, y, reals(3, 4, seed=2))
add("SmoothL1Loss(beta=0.5)", x, y)
add("SmoothL1Loss(beta=0)", x, y)
add("HuberLoss('sum', 0.5)", x, y)
add("CrossEntropyLoss(ignore_index=3)", x, labels)
add("CrossEntropyLoss(label_smoothing=0.2)", reals(2, 3, 2), np.array([[0, 2], [1, 1]]))
add("CrossEntropyLoss()", reals(4), np.array(2))
add("NLLLoss()", reals(2, 3, 2), np.array([[0, 2], [1, 1]]))
add("NLLLoss(ignore_index=0)", x, labels)
add(f"BCELoss({weights})", p, q)
add(f"BCEWithLogitsLoss({weights})", x, q)
add("KLDivLoss(reduction='batchmean')", x, q)
add("KLDivLoss(log_target=True)", x, -q)
add("PoissonNLLLoss(False)", positives(3, 4), positives(3, 4, seed=1))
add("PoissonNLLLoss(full=True)", x, positives(3, 4) * 2)
add("PoissonNLLLoss(False, eps=0.1)", positives(3, 4), positives(3, 4, seed=1))
add("GaussianNLLLoss(full=True, eps=0.5)", x, y, positives(3, 1))
add("HingeEmbeddingLoss(0.3)", x, signs(3, 4).astype(int))
add("MarginRankingLoss(0.3)", x, y, signs(3, 4).astype(int))
add("CosineEmbeddingLoss(0.3)", x, y, signs(3).astype(int))
add("TripletMarginLoss(2.0, p=1.0, eps=1e-3, swap=True)", x, y, reals(3, 4, seed=2))

if __name__ == "__main__":
    for name in ("layer_cases", "layer_cases_sequence"):
        importlib.import_module(f"tests.nn.{name}").CASES.save()
