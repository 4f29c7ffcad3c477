"""Recurrent layers, attention and transformers, beyond the table of cases in layer_cases_sequence:
derivatives, transforms, devices, masks, and what is refused."""

import copy
import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import _recurrent
from tests.nn import layer_cases_sequence
from tests.nn.layer_cases import reals, results
from tests.support.helpers import close, leaf, values

X = reals(4, 2, 3)
LAYERS = ("RNN", "GRU", "LSTM")
each_layer = pytest.mark.parametrize("name", LAYERS)
each_direction = pytest.mark.parametrize("reverse", [False, True])

# An op, its attributes, the shapes of its inputs: 3 steps, a batch of 2, states of 2.
OPS: dict[str, tuple[Any, dict[str, Any], list[tuple[int, ...]]]] = {
    "rnn": (_recurrent.rnn, {"nonlinearity": "tanh"}, [(3, 2, 2), (2, 2), (2, 2)]),
    "gru": (_recurrent.gru, {}, [(3, 2, 6), (2, 2), (6, 2), (6,)]),
    "gru without bias": (_recurrent.gru, {}, [(3, 2, 6), (2, 2), (6, 2)]),
    "lstm": (_recurrent.lstm, {}, [(3, 2, 8), (2, 2), (2, 2), (8, 2)]),
    "lstm with projection": (_recurrent.lstm, {}, [(3, 2, 8), (2, 1), (2, 2), (8, 1), (1, 2)]),
}
each_op = pytest.mark.parametrize("name", OPS)


def first(out: Any) -> ad.Tensor:
    return out[0] if isinstance(out, tuple) else out


def layer_in_float64(name: str, **options: Any) -> Any:
    return getattr(nn, name)(3, 5, dtype=ad.float64, **options)


# Derivatives.


@each_direction
@each_op
def test_recurrences_have_second_derivatives(name: str, reverse: bool) -> None:
    op, attrs, shapes = OPS[name]
    args = [leaf(reals(*shape, seed=k) / 2) for k, shape in enumerate(shapes)]

    def all_outputs(*inputs: ad.Tensor) -> Any:
        out = op(*inputs, **attrs, reverse=reverse)
        return sum((x * x).sum() for x in (out if isinstance(out, tuple) else (out,)))

    ad.testing.check_grads(all_outputs, args, order=2)


@each_direction
@each_op
@pytest.mark.parametrize("shared", [True, False], ids=["weights shared", "weights of each"])
def test_recurrences_of_many_examples_are_those_of_each(
    name: str, reverse: bool, shared: bool
) -> None:
    op, attrs, shapes = OPS[name]
    states = 3 if "lstm" in name else 2
    axes = tuple(None if shared and k >= states else 0 for k in range(len(shapes)))
    inputs = [
        ad.asarray(reals(*(() if axis is None else (4,)), *shape, seed=k))
        for k, (shape, axis) in enumerate(zip(shapes, axes, strict=True))
    ]

    def call(*args: ad.Tensor) -> Any:
        return op(*args, **attrs, reverse=reverse)

    found = ad.vmap(call, axes)(*inputs)
    for k in range(4):
        own = [x if axis is None else x[k] for x, axis in zip(inputs, axes, strict=True)]
        expected = call(*own)
        pairs = zip(found, expected, strict=True) if type(found) is tuple else [(found, expected)]
        for x, y in pairs:
            close(x[k], values(y))


@each_layer
def test_a_layer_is_its_cell_step_by_step(name: str) -> None:
    layer, cell = layer_in_float64(name), layer_in_float64(f"{name}Cell")
    cell.load_state_dict({key[:-3]: x for key, x in layer.state_dict().items()})
    out, _ = layer(ad.asarray(X))
    state = None
    for t in range(len(X)):
        state = cell(ad.asarray(X[t]), state)
        close(first(state), values(out[t]))


@each_layer
def test_a_sequence_can_be_continued(name: str) -> None:
    layer = layer_in_float64(name, num_layers=2)
    whole, _ = layer(ad.asarray(X))
    start, state = layer(ad.asarray(X[:1]))
    rest, _ = layer(ad.asarray(X[1:]), state)
    close(ad.concat([start, rest]), values(whole))


@each_layer
def test_a_traced_layer_replays(name: str) -> None:
    layer = layer_in_float64(name, bidirectional=True)
    traced = ad.trace(lambda x: layer(x)[0], ad.asarray(X))
    close(traced(ad.asarray(2 * X)), values(layer(ad.asarray(2 * X))[0]))


@each_layer
def test_half_precision_is_computed_in_single_precision(name: str) -> None:
    half = getattr(nn, name)(3, 5, num_layers=2).half()
    single = copy.deepcopy(half).float()
    out, state = half(ad.asarray(X.astype(np.float16)))
    expected, _ = single(ad.asarray(X.astype(np.float16).astype(np.float32)))
    assert out.dtype == first(state).dtype == ad.float16
    np.testing.assert_array_equal(values(out), values(expected).astype(np.float16))


@each_layer
def test_dropout_is_between_layers_only(name: str) -> None:
    layer = layer_in_float64(name, num_layers=2, dropout=0.5)
    x = ad.asarray(X)
    ad.random.seed(0)
    one, other = values(layer(x)[0]), values(layer(x)[0])
    assert not np.allclose(one, other)
    assert np.all(one != 0)  # nothing is dropped after the last layer
    ad.random.seed(0)
    np.testing.assert_array_equal(values(layer(x)[0]), one)


def test_dropout_without_a_layer_after_it_is_told() -> None:
    with pytest.warns(UserWarning, match="LSTM: dropout=0.5 is between layers, and num_layers=1"):
        nn.LSTM(3, 5, dropout=0.5)


@each_layer
def test_recurrent_weights_start_uniformly_between_bounds(name: str) -> None:
    layer = getattr(nn, name)(30, 25, bidirectional=True)
    for x in map(values, layer.parameters()):
        assert 0.9 / 5 < np.abs(x).max() <= 1 / 5


# Attention.


def attention(**options: Any) -> Any:
    return nn.MultiheadAttention(4, 2, dtype=ad.float64, **options)


def test_one_projection_gives_what_three_give() -> None:
    layer = attention()
    x, same = leaf(reals(3, 2, 4)), leaf(reals(3, 2, 4))
    one, _ = layer(x, x, x)
    three, _ = layer(same, same * 1, same * 1)
    close(one, values(three))
    (one * one).sum().backward()
    (three * three).sum().backward()
    close(x.grad, values(same.grad))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_causal_needs_no_mask(need_weights: bool, padded: bool) -> None:
    layer, x = attention(), ad.asarray(reals(3, 2, 4))
    later = ad.asarray(np.triu(np.ones((3, 3), bool), 1))
    padding = ad.asarray(np.array([[0, 0, 1], [0, 0, 0]], bool)) if padded else None
    found, _ = layer(x, x, x, padding, need_weights, is_causal=True)
    expected, _ = layer(x, x, x, padding, need_weights, attn_mask=later)
    close(found, values(expected))


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_attend_to_nothing_gets_the_output_of_zeros(need_weights: bool) -> None:
    layer, x = attention(), leaf(reals(3, 2, 4))
    nothing = np.zeros((3, 3), bool)
    nothing[1] = True
    out, weights = layer(x, x, x, need_weights=need_weights, attn_mask=ad.asarray(nothing))
    close(out[1], np.broadcast_to(values(layer.out_proj.bias), (2, 4)))
    if weights is not None:
        close(weights[:, 1], np.zeros((2, 3)))
    out.sum().backward()
    assert np.isfinite(values(x.grad)).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_masks_of_both_kinds_go_together(need_weights: bool) -> None:
    layer, x = attention(), ad.asarray(reals(3, 2, 4))
    floats = ad.asarray(reals(3, 3, seed=1))
    padding = np.array([[0, 0, 1], [0, 1, 0]], bool)
    found, _ = layer(x, x, x, ad.asarray(padding), need_weights, floats)
    added = ad.asarray(np.where(padding, -np.inf, 0))
    close(found, values(layer(x, x, x, added, need_weights, floats)[0]))
    assert not np.allclose(values(found), values(layer(x, x, x, None, need_weights, floats)[0]))


def test_attention_drops_weights_in_training_only() -> None:
    layer, x = attention(dropout=0.5), ad.asarray(reals(8, 2, 4))
    _, dropped = layer(x, x, x, average_attn_weights=False)
    assert 0.2 < (values(dropped) == 0).mean() < 0.8
    _, weights = layer.eval()(x, x, x)
    close(weights.sum(axis=-1), np.ones((2, 8)))


def test_attention_starts_as_xavier_has_it() -> None:
    layer = nn.MultiheadAttention(24, 2)
    bound = math.sqrt(6 / (24 + 72))
    assert 0.9 * bound < np.abs(values(layer.in_proj_weight)).max() <= bound
    assert not values(layer.in_proj_bias).any() and not values(layer.out_proj.bias).any()


# Transformers.


def encoder_layer(**options: Any) -> Any:
    options = {"dropout": 0.0, "dtype": ad.float64} | options
    return nn.TransformerEncoderLayer(4, 2, 5, **options)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_causal_encoder_doesn_t_see_later_steps(norm_first: bool) -> None:
    model = nn.TransformerEncoder(encoder_layer(norm_first=norm_first), 2)
    x, changed = reals(4, 2, 4), reals(4, 2, 4)
    changed[2:] += 1
    before, after = (model(ad.asarray(v), is_causal=True) for v in (x, changed))
    close(before[:2], values(after[:2]))
    assert not np.allclose(values(before[2:]), values(after[2:]))


def test_the_layers_of_an_encoder_are_copies() -> None:
    layer = encoder_layer()
    model = nn.TransformerEncoder(layer, 2)
    with ad.no_grad():
        model.layers[0].linear1.weight[...] = 0
    assert values(model.layers[1].linear1.weight).any() and values(layer.linear1.weight).any()
    np.testing.assert_array_equal(
        values(model.layers[1].linear1.weight), values(layer.linear1.weight)
    )


def test_an_activation_can_be_a_function() -> None:
    layer = encoder_layer(activation="gelu")
    other = encoder_layer(activation=lambda x: nn.functional.gelu(x))
    other.load_state_dict(layer.state_dict())
    x = ad.asarray(reals(3, 2, 4))
    close(other(x), values(layer(x)))


def test_the_mask_of_a_transformer_is_pytorch_s() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    close(mask, [[0, -math.inf, -math.inf], [0, 0, -math.inf], [0, 0, 0]])
    x = ad.asarray(reals(3, 2, 4))
    layer = encoder_layer()
    close(layer(x, mask), values(layer(x, is_causal=True)))


# Other devices.


@pytest.mark.webgpu
@pytest.mark.parametrize(
    "key",
    [
        "RNN(3, 5, nonlinearity='relu', bidirectional=True) 4x2x3 2x2x5",
        "GRU(3, 5) 4x2x3 1x2x5",
        "LSTM(3, 5, proj_size=2) 4x2x3 1x2x2 1x2x5",
        "LSTMCell(3, 5) 2x3",
        "MultiheadAttention(4, 2) 3x2x4 4x2x4 4x2x4 2x4 key_padding_mask",
        "TransformerEncoderLayer(4, 2, 5, dropout=0.0) 3x2x4 3x3",
    ],
)
def test_on_the_gpu(key: str) -> None:
    table = layer_cases_sequence.CASES
    found, expected = results(table.cases[key], np.float32, device="webgpu"), table.load()[key]
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)


# What is refused.

ONES = ad.ones((4, 2, 3))
WRONG = [
    (lambda: nn.LSTM(0, 5), "LSTM: input_size=0 must be at least 1"),
    (lambda: nn.GRU(3, 2.5), "GRU: hidden_size must be an integer, got 2.5"),  # type: ignore[arg-type]
    (lambda: nn.RNN(3, 5, num_layers=0), "RNN: num_layers=0 must be at least 1"),
    (lambda: nn.RNN(3, 5, nonlinearity="gelu"), "nonlinearity='gelu' is none of tanh, relu"),
    (lambda: nn.LSTM(3, 5, 2, dropout=1.5), "LSTM: dropout=1.5 isn't a probability"),
    (lambda: nn.LSTM(3, 5, proj_size=5), "proj_size=5 must be below hidden_size=5"),
    (lambda: nn.LSTM(3, 5)(ad.ones(3)), r"x is \(L, N, input_size\), or .* got shape \(3,\)"),
    (lambda: nn.LSTM(4, 5)(ONES), r"\(4, 2, 3\) has 3 features, the layer takes input_size=4"),
    (lambda: nn.GRU(3, 5)(ONES[:0]), r"GRU: x of shape \(0, 2, 3\) has no steps"),
    (lambda: nn.GRU(3, 5)(ONES, ad.ones((1, 3, 5))), r"h of shape \(1, 3, 5\) .* \(1, 2, 5\)"),
    (lambda: nn.LSTM(3, 5)(ONES, ad.ones((1, 2, 5))), r"LSTM: hx is a pair \(h, c\), got a Tensor"),
    (lambda: nn.GRU(3, 5)(ONES, (ONES, ONES)), "GRU: hx is one tensor h, got a tuple"),
    (
        lambda: nn.LSTM(3, 5)(ONES, (ad.ones((1, 2, 5)), ad.ones((1, 2, 4)))),
        r"c of shape \(1, 2, 4\) .* \(1, 2, 5\)",
    ),
    (lambda: nn.GRUCell(3, 5)(ONES), r"x is \(N, input_size\) or \(input_size,\), got"),
    (lambda: nn.MultiheadAttention(5, 2), "embed_dim=5 must be divisible by num_heads=2"),
    (lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True), "there is no add_bias_kv"),
    (lambda: attention()(ONES, ONES, ONES), r"where E is 4, 4 and 4.* got shapes \(4, 2, 3\)"),
    (
        lambda: attention()(ad.ones((3, 2, 4)), ad.ones((5, 2, 4)), ad.ones((4, 2, 4))),
        "key and value have the same L",
    ),
    (
        lambda: attention()(*[ad.ones((3, 2, 4))] * 3, attn_mask=ad.ones((2, 3)) > 0),
        r"attn_mask has shape \(3, 3\) or \(4, 3, 3\), got \(2, 3\)",
    ),
    (
        lambda: attention()(*[ad.ones((3, 2, 4))] * 3, ad.ones((3, 2)) > 0),
        r"key_padding_mask has shape \(2, 3\), got \(3, 2\)",
    ),
    (
        lambda: attention()(*[ad.ones((3, 2, 4))] * 3, attn_mask=ad.asarray(np.eye(3, dtype=int))),
        "attn_mask is booleans, true where attention is forbidden, or floats; got int64",
    ),
    (lambda: encoder_layer(activation="swish"), "activation='swish' is none of relu, gelu"),
    (lambda: nn.TransformerEncoder("layer", 2), "TransformerEncoder: a layer is needed"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("call, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_said(call: Any, message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call()


@pytest.mark.parametrize("shape", [(3, 0, 4), (0, 2, 4)])
def test_attention_of_nothing(shape: tuple[int, ...]) -> None:
    x = ad.ones(shape)
    assert nn.MultiheadAttention(4, 2)(x, x, x)[0].shape == shape
    assert nn.TransformerEncoderLayer(4, 2, 8)(x).shape == shape
