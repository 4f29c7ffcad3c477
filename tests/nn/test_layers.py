"""Layers are PyTorch's: results, gradients, buffers, names; their options are checked early."""

import copy
import itertools
import math
import pickle
import re
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from tests.nn import layer_cases, layer_cases_sequence
from tests.nn.layer_cases import Case, made, reals, results
from tests.support.helpers import close, leaf, values

TABLES = (layer_cases.CASES, layer_cases_sequence.CASES)
EVERY = {key: case for table in TABLES for key, case in table.cases.items()}
STORED = {key: arrays for table in TABLES for key, arrays in table.load().items()}
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-5}
CONTAINERS = {"Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}

each_case = pytest.mark.parametrize("case", EVERY.values(), ids=EVERY.keys())
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE)
# What PyTorch has to say about calls that are right.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even",
    "ignore:reduction. 'mean' div",
    "ignore:LSTM with projections",
)


def alike(found: layer_cases.Arrays, expected: layer_cases.Arrays, tolerance: float) -> None:
    """Equal names and shapes, nearly equal values."""
    assert found.keys() == expected.keys()
    for name, array in found.items():
        size = max(1, np.abs(expected[name]).max(initial=0))
        assert array.shape == expected[name].shape, name
        np.testing.assert_allclose(
            array, expected[name], rtol=tolerance, atol=tolerance * size, err_msg=name
        )


def ours(code: str) -> Any:
    """The layer that an expression makes."""
    return made(code, nn, ad.tensor)


# Results, gradients and buffers.


@each_dtype
@each_case
def test_like_pytorch(case: Case, dtype: Any) -> None:
    found = results(case, dtype)
    alike(found, STORED[case.id], TOLERANCE[dtype])
    if find_spec("torch") is None:
        return
    expected = results(case, dtype, "torch")
    alike(found, expected, TOLERANCE[dtype])
    assert {k: x.dtype for k, x in found.items()} == {k: x.dtype for k, x in expected.items()}


def test_values_are_stored_for_all_cases() -> None:
    assert STORED.keys() == EVERY.keys()


def test_all_layers_are_in_a_table() -> None:
    kinds = {
        name
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module)
    }
    used = {word for case in EVERY.values() for word in re.findall(r"\w+", case.code)}
    assert kinds - used - CONTAINERS == {"Hardsigmoid"}  # see the test of it


def test_hardsigmoid_is_the_function() -> None:
    x = leaf(reals(3, 4))
    close(nn.Hardsigmoid()(x), values(nn.functional.hardsigmoid(x)), 0)


@pytest.mark.webgpu
@pytest.mark.parametrize(
    "key",
    [
        "Sequential(Linear(3, 4), Tanh(), Linear(4, 2)) 2x3",
        "Conv2d(4, 6, 2, stride=2, padding=1, groups=2, bias=False) 1x4x4x3",
        "Conv1d(4, 1, 2, padding=1, padding_mode='circular') 1x4x7",
        "ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False) "
        "1x4x4x3",
        "MaxPool2d(2) 1x2x4x5",
        "AdaptiveAvgPool2d(2) 1x2x4x5",
        "BatchNorm2d(2, 0.1, momentum=None) 3x2x2x3",
        "BatchNorm2d(2) 3x2x2x3 eval",
        "LayerNorm(3) 2x3",
        "GroupNorm(2, 4) 2x4x3",
        "Embedding(5, 3, padding_idx=-2) 2x3",
        "Dropout(p=1.0) 5",
        "GELU() 3x4",
        "CrossEntropyLoss(array(0.5, 2.0, 0.25, 1.5), label_smoothing=0.1, reduction='mean') 3x4 3",
        "BCEWithLogitsLoss(array(0.5, 2.0, 0.25, 1.5)) 3x4 3x4",
    ],
)
def test_on_the_gpu(key: str) -> None:
    alike(results(EVERY[key], np.float32, device="webgpu"), STORED[key], 1e-4)


@pytest.mark.webgpu
@pytest.mark.parametrize(
    "code",
    [
        *("Linear(2, 3", "Conv2d(2, 3, 2", "ConvTranspose2d(2, 3, 2", "BatchNorm1d(2", "PReLU(2"),
        *("LayerNorm(2", "GroupNorm(1, 2", "RMSNorm(2", "Embedding(2, 3, padding_idx=0"),
    ],
)
def test_made_on_the_gpu(code: str) -> None:
    layer = ours(f"{code}, device='webgpu')")
    assert {p.device for p in layer.parameters()} == {"webgpu"}
    there = {name: x.device for name, x in layer.named_buffers()}
    assert there.pop("num_batches_tracked", "cpu") == "cpu"
    assert set(there.values()) <= {"webgpu"}
    layer.reset_parameters()


# Names.


@each_case
def test_state_and_repr_have_pytorch_s_names(case: Case) -> None:
    torch = pytest.importorskip("torch")
    layer, theirs = ours(case.code), made(case.torch_code, torch.nn, torch.tensor)
    assert set(layer.state_dict()) == set(theirs.state_dict())
    shown = repr(theirs).replace(", inplace=False", "").replace("NonDynamicallyQuantizable", "")
    shown = re.sub(r"\b(start_|end_|)dim=", r"\1axis=", shown)
    if "AvgPool1d" in shown:  # in PyTorch it is the only one that shows numbers as tuples
        shown = re.sub(r"\((\d),\)", r"\1", shown)
        assert re.sub(r"\((\d),\)", r"\1", repr(layer)) == shown
    else:
        assert repr(layer) == shown


@each_case
def test_layers_can_be_copied_and_pickled(case: Case) -> None:
    layer = ours(case.code)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(other) == repr(layer)
        for name, x in layer.state_dict().items():
            np.testing.assert_array_equal(values(other.state_dict()[name]), values(x))


# How training starts.


@pytest.mark.parametrize(
    "code, fan",
    [
        ("Linear(50, 80)", 50),
        ("Conv1d(12, 40, 5)", 60),
        ("Conv2d(16, 40, (3, 2), groups=2)", 48),
        ("Conv3d(4, 40, 3)", 108),
        ("ConvTranspose1d(40, 12, 5)", 60),
        ("ConvTranspose2d(40, 16, (3, 2), groups=2)", 48),
    ],
)
def test_weights_start_uniformly_between_bounds(code: str, fan: int) -> None:
    layer, bound = ours(code), 1 / math.sqrt(fan)
    for x in (values(layer.weight), values(layer.bias)):
        assert 0.9 * bound < np.abs(x).max() <= bound
        assert abs(x.mean()) < 0.4 * bound
    before = values(layer.weight).copy()
    layer.reset_parameters()
    assert not np.array_equal(values(layer.weight), before)


def test_embeddings_start_normally_with_zeros_as_padding() -> None:
    weight = values(nn.Embedding(200, 50, padding_idx=-1).weight)
    assert not weight[-1].any()
    assert abs(weight[:-1].std() - 1) < 0.03 and abs(weight.mean()) < 0.03


@pytest.mark.parametrize("code", ["BatchNorm1d(3)", "LayerNorm(3)", "GroupNorm(1, 3)", "PReLU(3)"])
def test_reset_parameters_restores_the_start(code: str) -> None:
    layer = ours(code)
    start = {name: values(x).copy() for name, x in layer.state_dict().items()}
    layer(ad.asarray(reals(4, 3), dtype=ad.float32))
    layer_cases.fill(layer, lambda x: ad.tensor(x.astype(np.float32)))
    layer.reset_parameters()
    for name, x in layer.state_dict().items():
        np.testing.assert_array_equal(values(x), start[name])


@pytest.mark.parametrize(
    "code",
    [
        *("Conv1d(2, 3, 2", "ConvTranspose3d(2, 3, 2", "BatchNorm1d(2", "RMSNorm(2", "PReLU(2"),
        *("InstanceNorm1d(2, affine=True", "LayerNorm(2", "GroupNorm(1, 2", "Embedding(2, 3"),
    ],
)
def test_layers_are_made_in_a_dtype(code: str) -> None:
    layer = made(f"{code}, dtype=float64)", nn, ad.tensor, float64=ad.float64)
    assert {x.dtype for x in layer.parameters()} == {ad.float64}
    floats = {name: x.dtype for name, x in layer.named_buffers() if "batches" not in name}
    assert set(floats.values()) <= {ad.float64}


# Batch norms.


def test_a_checkpoint_counts_a_batch_once() -> None:
    plain, again = nn.BatchNorm1d(2, momentum=None), nn.BatchNorm1d(2, momentum=None)
    for factor in (1, 2):
        x = leaf(reals(3, 2) * factor, np.float32)
        plain(x)
        ad.checkpoint(again, x).sum().backward()
    assert again.num_batches_tracked.item() == 2
    for name, x in plain.state_dict().items():
        np.testing.assert_array_equal(values(again.state_dict()[name]), values(x))


def test_a_saved_state_doesn_t_move_on() -> None:
    layer = nn.BatchNorm1d(2)
    saved = layer.state_dict()
    layer(ad.asarray(reals(3, 2), dtype=ad.float32))
    close(saved["running_mean"], [0, 0])
    assert saved["num_batches_tracked"].item() == 0
    assert layer.num_batches_tracked.item() == 1
    layer.load_state_dict(saved)
    assert layer.num_batches_tracked.item() == 0


def test_a_batch_that_is_refused_isn_t_counted() -> None:
    layer = nn.BatchNorm1d(2)
    with pytest.raises(ad.ShapeError, match="more than one value per channel"):
        layer(ad.ones((1, 2)))
    assert layer.num_batches_tracked.item() == 0


def test_evaluation_changes_nothing() -> None:
    layer = nn.BatchNorm2d(2).eval()
    before = {name: values(x).copy() for name, x in layer.state_dict().items()}
    layer(ad.ones((1, 2, 3, 3)))
    for name, x in layer.state_dict().items():
        np.testing.assert_array_equal(values(x), before[name])


def test_the_count_keeps_its_dtype() -> None:
    layer = nn.BatchNorm1d(2).half()
    assert layer.num_batches_tracked.dtype == ad.int64
    assert layer.running_mean.dtype == ad.float16


def test_statistics_that_are_no_longer_tracked_stay() -> None:
    layer, x = nn.BatchNorm1d(2), ad.asarray(reals(3, 2), dtype=ad.float32)
    layer(x)
    before = {name: values(value).copy() for name, value in layer.state_dict().items()}
    layer.track_running_stats = False
    out = layer(x)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(values(value), before[name])
    close(ad.mean(out, axis=0), [0, 0], 1e-6)  # the batch's statistics are used all the same
    assert not np.allclose(values(ad.mean(layer.eval()(x), axis=0)), 0)  # and now the running ones
    instance = nn.InstanceNorm1d(2, track_running_stats=True)
    instance.track_running_stats = False
    for mode in (True, False):
        out = instance.train(mode)(ad.asarray(reals(3, 2, 4), dtype=ad.float32))
        close(instance.running_mean, [0, 0])
        close(ad.mean(out, axis=2), np.zeros((3, 2)), 1e-6)


def runs_of_norm(library: Any, kind: str, tensor: Any, *case: Any) -> list[Any]:
    """What a norm gives and has after calls with settings that change on the way."""
    training, tracks_first, tracks_later, momentum, buffers = case
    layer = getattr(library, kind)(2, momentum=momentum, track_running_stats=tracks_first)
    layer(tensor(reals(3, 2, 4)))
    layer.track_running_stats = tracks_later
    if not buffers:
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None
    layer.train(training)
    found: list[Any] = []
    for seed in range(2):
        try:
            found.append(layer(tensor(reals(3, 2, 4, seed=seed + 1))))
        except (RuntimeError, ValueError):
            return ["an error"]
    if kind == "BatchNorm1d" or tracks_later:  # else PyTorch goes on to change them, even here
        found += [layer.running_mean, layer.running_var, layer.num_batches_tracked]
    return [None if x is None else x.detach().numpy().copy() for x in found]


@pytest.mark.parametrize("kind", ["BatchNorm1d", "InstanceNorm1d"])
def test_norms_track_as_those_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    both = (True, False)
    for case in itertools.product(both, both, both, (0.3, None), both):
        ours = runs_of_norm(nn, kind, lambda a: ad.asarray(a, dtype=ad.float32), *case)
        theirs = runs_of_norm(torch.nn, kind, lambda a: torch.tensor(a).float(), *case)
        for x, y in zip(ours, theirs, strict=True):
            if isinstance(y, np.ndarray):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=str(case))
            else:
                assert x is y or x == y, case


# Dropout.


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d"])
def test_dropout_drops_a_part_and_scales_the_rest(name: str) -> None:
    layer = getattr(nn, name)(0.25)
    shape = {"Dropout1d": (40, 50, 2), "Dropout3d": (40, 50, 1, 2, 1)}.get(name, (40, 50, 2, 2))
    x = leaf(np.ones(shape))
    out = layer(x)
    assert set(np.unique(values(out))) == {0, 1 / 0.75}
    assert abs(values(out).mean() - 1) < 0.05
    out.sum().backward()
    np.testing.assert_array_equal(values(x.grad), values(out))


def test_dropout_follows_the_seed() -> None:
    layer, x = nn.Dropout(), ad.ones(100)
    ad.random.seed(3)
    first, second = values(layer(x)), values(layer(x))
    ad.random.seed(3)
    np.testing.assert_array_equal(values(layer(x)), first)
    assert not np.array_equal(first, second)


# Embeddings.


def test_given_vectors_are_values_and_draw_nothing() -> None:
    vectors = ad.eye(3)
    layer = nn.Embedding.from_pretrained(vectors, freeze=False)
    drawn = ad.random.normal((2,))
    ad.random.seed(0)
    close(ad.random.normal((2,)), values(drawn), 0)
    layer(ad.asarray([0])).sum().backward()
    ad.optim.SGD(layer.parameters(), lr=1.0).step()
    close(layer.weight, [[0, -1, -1], [0, 1, 0], [0, 0, 1]])
    close(vectors, np.eye(3))


def test_padding_stays_zero_in_training() -> None:
    layer = nn.Embedding(4, 2, padding_idx=1)
    optimizer = ad.optim.SGD(layer.parameters(), lr=1.0)
    layer(ad.asarray([0, 1, 1])).sum().backward()
    optimizer.step()
    close(layer.weight[1], [0, 0])


# What is wrong is said when the layer is made, with its name.

WRONG = [
    ("Conv2d(3, 4, 3, groups=2)", ValueError, "Conv2d: in_channels=3 must be divisible by .*=2"),
    ("Conv2d(4, 3, 3, groups=2)", ValueError, "out_channels=3 must be divisible by groups=2"),
    ("Conv2d(0, 3, 3)", ValueError, "Conv2d: in_channels=0 must be at least 1"),
    ("Conv2d(1.5, 3, 3)", TypeError, "Conv2d: in_channels must be an integer, got 1.5"),
    ("Conv2d(1, -3, 3)", ValueError, "Conv2d: out_channels=-3 must be at least 1"),
    ("Conv2d(1, 3, 3, groups=0)", ValueError, "Conv2d: groups=0 must be at least 1"),
    ("Conv2d(1, 3, (3, 3, 3))", ValueError, "Conv2d: kernel_size .* pair .* got \\(3, 3, 3\\)"),
    ("Conv2d(1, 3, 0)", ValueError, "Conv2d: kernel_size .* at least 1"),
    ("Conv2d(1, 3, 3, stride=0)", ValueError, "Conv2d: stride .* at least 1"),
    ("Conv2d(1, 3, 3, padding=-1)", ValueError, "Conv2d: padding .* at least 0"),
    ("Conv2d(1, 3, 3, padding='some')", ValueError, "Conv2d: padding 'some' isn't"),
    ("Conv2d(1, 3, 3, stride=2, padding='same')", ValueError, "padding='same' needs stride 1"),
    ("Conv2d(1, 3, 3, padding_mode='edge')", ValueError, "Conv2d: padding_mode='edge' is none of"),
    ("Conv2d(1, 3, 3, dilation=0.5)", ValueError, "Conv2d: dilation must be an integer"),
    ("ConvTranspose2d(1, 3, 3, output_padding=1)", ValueError, "output_padding .* smaller"),
    ("ConvTranspose2d(1, 3, 3, padding='same')", ValueError, "ConvTranspose2d: padding must be"),
    ("ConvTranspose2d(1, 3, 3, padding_mode='reflect')", ValueError, "padding_mode is 'zeros'"),
    ("MaxPool2d(0)", ValueError, "MaxPool2d: kernel_size .* at least 1"),
    ("MaxPool2d(2, stride=0)", ValueError, "MaxPool2d: stride .* at least 1"),
    ("MaxPool2d(2, padding=2)", ValueError, "MaxPool2d: padding .* more than half"),
    ("MaxPool2d(2, dilation=0)", ValueError, "MaxPool2d: dilation .* at least 1"),
    ("AvgPool2d(2, divisor_override=0)", ValueError, "AvgPool2d: divisor_override must not be 0"),
    ("AdaptiveAvgPool2d((1, 2, 3))", ValueError, "AdaptiveAvgPool2d: output_size must be"),
    ("AdaptiveMaxPool1d(-1)", ValueError, "AdaptiveMaxPool1d: output_size must be"),
    ("BatchNorm1d(0)", ValueError, "BatchNorm1d: num_features=0 must be at least 1"),
    ("BatchNorm1d(2.5)", TypeError, "BatchNorm1d: num_features must be an integer, got 2.5"),
    ("BatchNorm1d(2, momentum='a')", TypeError, "BatchNorm1d: momentum must be a Python number"),
    ("LayerNorm(())", ValueError, "LayerNorm: normalized_shape must have at least one axis"),
    ("LayerNorm((2, -3))", ValueError, "LayerNorm: a shape has no negative lengths"),
    ("GroupNorm(2, 3)", ValueError, "GroupNorm: num_channels=3 must be divisible by num_groups=2"),
    ("Embedding(5, -1)", ValueError, "Embedding: embedding_dim=-1 must be at least 0"),
    ("Embedding(5, 2, padding_idx=5)", ValueError, "Embedding: padding_idx=5 isn't a row"),
    ("Embedding.from_pretrained(array(1, 2))", ValueError, "are needed, got shape \\(2,\\)"),
    ("Embedding(5, 2, max_norm=1.0)", TypeError, "max_norm"),
    ("Dropout(1.5)", ValueError, "Dropout: p=1.5 isn't a probability"),
    ("Dropout2d('a')", TypeError, "Dropout2d: p must be a Python number"),
    ("Flatten(0.5)", TypeError, "Flatten: start_axis must be an integer"),
    ("Unflatten(1, (-1, -1))", ValueError, "Unflatten: unflattened_size must be lengths"),
    ("Upsample()", ValueError, "Upsample: give either size or scale_factor"),
    ("Upsample(2, mode='best')", ValueError, "Upsample: mode='best' is none of nearest"),
    ("Upsample(2, align_corners=True)", ValueError, "Upsample: align_corners goes with"),
    ("Upsample(scale_factor=(2, -1))", ValueError, "Upsample: scale_factor=-1 must be above 0"),
    ("PixelShuffle(0)", ValueError, "PixelShuffle: upscale_factor=0 must be at least 1"),
    ("ZeroPad2d((1, 2))", ValueError, "ZeroPad2d: padding must be one width or 4 of them"),
    ("GELU('erf')", ValueError, "GELU: approximate='erf' is none of none, tanh"),
    ("Hardtanh(1.0, 1.0)", ValueError, "Hardtanh: min_val=1.0 must be below max_val=1.0"),
    ("CELU(0)", ValueError, "CELU: alpha must not be 0"),
    ("LeakyReLU('a')", TypeError, "LeakyReLU: negative_slope must be a Python number"),
    ("PReLU(0)", ValueError, "PReLU: num_parameters=0 must be at least 1"),
    ("Softmax(dim=1)", TypeError, "Softmax: there is no argument dim=; adjoint calls it axis="),
    ("CosineSimilarity(dim=1)", TypeError, "CosineSimilarity: .* adjoint calls it axis="),
    ("PairwiseDistance(keepdim=True)", TypeError, "adjoint calls it keepdims="),
    ("ReLU(inplace=True)", TypeError, "ReLU: there is no argument inplace="),
    ("ELU(inplace=True)", TypeError, "inplace"),
    ("MSELoss(reduction='avg')", ValueError, "MSELoss: reduction 'avg' isn't"),
    ("MSELoss(reduction='batchmean')", ValueError, "MSELoss: reduction 'batchmean' isn't"),
    ("HuberLoss(delta=0)", ValueError, "HuberLoss: delta=0 must be above 0"),
    ("SmoothL1Loss(beta=-1)", ValueError, "SmoothL1Loss: beta=-1 must not be negative"),
    ("CrossEntropyLoss(label_smoothing=2)", ValueError, "label_smoothing=2 isn't between 0 and 1"),
    ("CrossEntropyLoss([1.0, 2.0])", TypeError, "CrossEntropyLoss: a tensor is needed, got list"),
]


@pytest.mark.parametrize("code, error, message", WRONG, ids=[code for code, _, _ in WRONG])
def test_wrong_options_are_refused_when_the_layer_is_made(
    code: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        ours(code)
    plain = ("inplace", "max_norm")  # which Python itself refuses
    assert isinstance(raised.value, ad.AdjointError) or message in plain


WRONG_CALLS = [
    ("BatchNorm2d(3)", (2, 3), "in BatchNorm2d: \\(N, C, H, W\\) is needed, got shape \\(2, 3\\)"),
    ("BatchNorm1d(3)", (2, 3, 4, 5), "\\(N, C\\) or \\(N, C, L\\) is needed"),
    ("BatchNorm2d(3)", (2, 4, 5, 5), "has 4 channels, the layer was made for 3"),
    ("BatchNorm1d(3)", (1, 3), "more than one value per channel"),
    ("InstanceNorm2d(3)", (3, 4), "\\(C, H, W\\) or \\(N, C, H, W\\) is needed"),
    ("InstanceNorm1d(3)", (4, 5), "has 4 channels, the layer was made for 3"),
    ("GroupNorm(1, 3)", (2, 4), "in GroupNorm: \\(N, 3, ...\\) is needed, got shape \\(2, 4\\)"),
    ("LayerNorm(3)", (2, 4), "normalized_shape \\(3,\\) isn't the end of the shape \\(2, 4\\)"),
    ("Conv2d(3, 2, 2)", (1, 4, 5, 5), "have 4 channels"),
    ("Conv2d(3, 2, 2, padding=6, padding_mode='reflect')", (1, 3, 5, 5), "one less than its leng"),
    ("Flatten()", (2,), "start_axis: axis 1 is out of range"),
    ("Flatten(2, 1)", (2, 3, 4), "start_axis=2 comes after end_axis=1"),
    ("Unflatten(1, (2, 2))", (2, 5), "axis 1 of shape \\(2, 5\\) can't be parted"),
    ("Sequential(Flatten(), Linear(3, 2))", (2, 4), "in layer 1 \\(Linear\\)"),
]


@pytest.mark.parametrize("code, shape, message", WRONG_CALLS)
def test_wrong_inputs_are_refused_by_name(code: str, shape: tuple, message: str) -> None:
    with pytest.raises((ad.ShapeError, ad.ArgumentError), match=message):
        ours(code)(ad.ones(shape))


@pytest.mark.parametrize("size", [(12,), (4, 11, 11), (5, 3, 13, 11), (13, 11), (10, 11), (11.5,)])
def test_output_sizes_that_can_t_be_had_are_refused(size: tuple) -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2)
    assert layer(ad.ones((5, 2, 5, 5)), output_size=(5, 3, 12, 11)).shape == (5, 3, 12, 11)
    with pytest.raises(ad.AdjointError, match="output_size"):
        layer(ad.ones((5, 2, 5, 5)), output_size=size)
    with pytest.raises(ad.ShapeError, match="got shape \\(5, 5\\)"):
        layer(ad.ones((5, 5)), output_size=(11, 11))


def test_negative_indices_are_no_rows_of_an_embedding() -> None:
    with pytest.raises(IndexError, match=r"index -1 is negative; indices from 0 to 2"):
        nn.Embedding(3, 2)(ad.asarray([0, -1]))


def test_an_empty_batch_is_normalised_to_nothing() -> None:
    layer = nn.BatchNorm1d(3)
    assert layer(ad.ones((0, 3))).shape == (0, 3)
    assert layer.running_mean.tolist() == [0, 0, 0] and layer.running_var.tolist() == [1, 1, 1]
