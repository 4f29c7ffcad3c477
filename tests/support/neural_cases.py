"""Calls of functions of neural networks, each tested against PyTorch and finite differences."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def is_finite(a: np.ndarray) -> bool:
    return a.dtype.kind == "f" and bool(np.isfinite(a).all())


class Case(NamedTuple):
    """A call of a function: floats in arrays and in named arrays are variables, others constant.

    `torch_options`: those with other names in PyTorch. `fixed`: named arrays that are constant
    too, because PyTorch has no gradients for them. `only`: the one check to make, where a
    gradient isn't the derivative, or PyTorch has none.
    """

    function: str
    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    torch_options: dict[str, Any]
    fixed: tuple[str, ...]
    only: str

    @property
    def id(self) -> str:
        shapes = ["x".join(map(str, a.shape)) or "0d" for a in self.arrays]
        plain = {k: v for k, v in self.options.items() if not isinstance(v, np.ndarray)}
        options = [k if k not in plain else f"{k}={plain[k]}" for k in self.options]
        return "-".join((self.function, "_".join(shapes), ",".join(options)))

    @property
    def given(self) -> list[np.ndarray]:
        """All arrays, the named ones last."""
        return [*self.arrays, *(v for v in self.options.values() if isinstance(v, np.ndarray))]

    @property
    def variable(self) -> list[bool]:
        named = [k for k, v in self.options.items() if isinstance(v, np.ndarray)]
        names = [*("" for _ in self.arrays), *named]
        pairs = zip(names, self.given, strict=True)
        return [k not in self.fixed and is_finite(a) for k, a in pairs]

    def call(self, function: Callable, options: dict[str, Any], given: list[Any]) -> Any:
        """Call a function of either library with its tensors in the places of the arrays."""
        count = len(self.arrays)
        named = [k for k, v in self.options.items() if isinstance(v, np.ndarray)]
        return function(*given[:count], **options | dict(zip(named, given[count:], strict=True)))


CASES: list[Case] = []


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of both signs, all different and none near 0, 1 or 3: no kinks, no ties."""
    size = math.prod(shape)
    rng = np.random.default_rng(seed + size)
    spread = np.linspace(0.1, 2.3, max(size, 1))[:size] + 0.013 * seed
    spread = np.where(np.abs(spread - 1) < 2e-3, spread + 5e-3, spread)
    return rng.permutation(spread * np.where(np.arange(size) % 2, 1, -1)).reshape(shape)


def positives(*shape: int, seed: int = 0) -> np.ndarray:
    return np.abs(reals(*shape, seed=seed))


def fractions(*shape: int, seed: int = 0) -> np.ndarray:
    return positives(*shape, seed=seed) / 3


def classes(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape)


def signs(*shape: int) -> np.ndarray:
    return np.where(np.arange(math.prod(shape)) % 3, 1.0, -1.0).reshape(shape)


def case(
    function: str,
    *arrays: np.ndarray,
    torch: dict[str, Any] | None = None,
    fixed: tuple[str, ...] = (),
    only: str = "",
    **options: Any,
) -> None:
    CASES.append(Case(function, arrays, options, torch or {}, fixed, only))


# Convolutions.
for count, size in ((1, (5,)), (2, (2, 3)), (3, (2, 1, 2))):
    x, w, b = reals(2, 4, *size), reals(6, 2, *((2,) * count), seed=1), reals(6, seed=2)
    case(f"conv{count}d", x, w, b, groups=2, stride=2, padding=1)
    case(f"conv{count}d", x[0], w, b, groups=2, padding=1)
    x, w = reals(1, 2, *((3,) * count)), reals(1, 2, *((2,) * count), seed=1)
    case(f"conv{count}d", x, w, dilation=2)
    x, b = reals(1, 4, *size), reals(6, seed=2)
    w = reals(4, 3, *((2,) * count), seed=1)
    case(f"conv_transpose{count}d", x, w, b, groups=2, stride=2, output_padding=1, padding=1)
    case(f"conv_transpose{count}d", x[0], w, reals(3, seed=2))
case("conv1d", reals(2, 3, 6), reals(2, 3, 4, seed=1), padding="same", dilation=2)
case("conv2d", reals(1, 1, 4, 5), reals(2, 1, 2, 3, seed=1), padding="same")
case("conv2d", reals(1, 1, 4, 5), reals(2, 1, 2, 3, seed=1), padding="valid", stride=(2, 1))
case("conv2d", reals(1, 2, 5, 4), reals(2, 1, 3, 2, seed=1), groups=2, padding=(2, 1))
case("conv2d", reals(1, 1, 1, 1), reals(1, 1, 3, 3, seed=1), padding=1)
case("conv_transpose1d", reals(1, 2, 3), reals(2, 1, 3, seed=1), dilation=3, output_padding=2)
case(
    "conv_transpose2d",
    reals(1, 2, 3, 2),
    reals(2, 2, 3, 2, seed=1),
    stride=(3, 1),
    padding=(1, 0),
    output_padding=(2, 0),
)

# Pooling.
for count, size in ((1, (7,)), (2, (5, 6)), (3, (4, 5, 3))):
    x = reals(2, 2, *size) if count < 3 else reals(1, 2, *size)
    for name in ("max", "avg"):
        case(f"{name}_pool{count}d", x, kernel_size=2)
        case(f"{name}_pool{count}d", x, kernel_size=3, stride=2, padding=1)
        case(f"{name}_pool{count}d", x[0], kernel_size=3, stride=2, padding=1, ceil_mode=True)
        case(f"{name}_pool{count}d", x, kernel_size=2, stride=3, ceil_mode=True)
    case(f"max_pool{count}d", x, kernel_size=2, stride=1, dilation=2, padding=1)
    for ceil in (False, True):
        options = {"padding": 1, "ceil_mode": ceil, "count_include_pad": False}
        case(f"avg_pool{count}d", x, kernel_size=3, stride=2, **options)
    for size in (1, 2, 3):
        case(f"adaptive_avg_pool{count}d", x, output_size=size)
        case(f"adaptive_max_pool{count}d", x, output_size=size)
case("avg_pool2d", reals(1, 1, 4, 5), kernel_size=(3, 2), stride=(1, 2), divisor_override=5)
case("avg_pool3d", reals(1, 1, 3, 4, 3), kernel_size=2, divisor_override=3, ceil_mode=True)
case("avg_pool1d", reals(1, 1, 9), kernel_size=5, stride=1, padding=2)
case("max_pool2d", reals(1, 2, 5, 4), kernel_size=(3, 2), stride=(1, 2), padding=(1, 0))
case("adaptive_avg_pool2d", reals(1, 2, 5, 4), output_size=(None, 3))
case("adaptive_avg_pool2d", reals(2, 5, 7), output_size=(7, 3))
case("adaptive_max_pool2d", reals(2, 5, 7), output_size=(7, 3))

# Norms.
x, w, b = reals(3, 4, 5), reals(5, seed=1), reals(5, seed=2)
case("layer_norm", x, normalized_shape=(5,))
case("layer_norm", x, normalized_shape=(5,), weight=w, bias=b)
case("layer_norm", x, normalized_shape=(4, 5), eps=0.1)
case("rms_norm", x, normalized_shape=(5,))
case("rms_norm", x, normalized_shape=(4, 5), weight=reals(4, 5, seed=1), eps=0.1)
case("group_norm", reals(2, 4, 3), num_groups=2, weight=reals(4, seed=1), bias=reals(4, seed=2))
case("group_norm", reals(2, 4, 2, 2), num_groups=4, eps=0.1)
case("instance_norm", reals(2, 3, 4), weight=reals(3, seed=1), bias=reals(3, seed=2))
case("instance_norm", reals(2, 2, 3, 2), eps=0.1)
NONE: dict[str, Any] = {"running_mean": None, "running_var": None}
case("batch_norm", reals(4, 3), **NONE, training=True)
case("batch_norm", reals(2, 3, 4), **NONE, training=True, weight=reals(3), bias=reals(3, seed=1))
case("batch_norm", reals(2, 2, 2, 3), **NONE, training=True, eps=0.1)
w, b, BUFFERS = reals(3, seed=1), reals(3, seed=2), ("running_mean", "running_var")
STATISTICS: dict[str, Any] = {"running_mean": reals(3, seed=3), "running_var": positives(3, seed=4)}
case("batch_norm", reals(4, 3), **STATISTICS, weight=w, bias=b, fixed=BUFFERS)
case("instance_norm", reals(2, 3, 2), **STATISTICS, use_input_stats=False, fixed=BUFFERS)
for p in (1.0, 2.0, 3.0, math.inf):
    case("normalize", reals(3, 4), torch={"p": p}, p=p)
case("normalize", reals(2, 3, 4), torch={"dim": -1}, axis=-1)

# Activations.
x = reals(3, 4) * 3
for name in (
    "relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh "
    "hardswish logsigmoid tanh sigmoid"
).split():
    case(name, x)
case("hardsigmoid", x, only="differences")  # PyTorch's 1 / 6 has float32's digits
case("gelu", x, approximate="tanh")
case("leaky_relu", x, negative_slope=0.3)
case("elu", x, alpha=1.5)
case("celu", x, alpha=1.5)
case("softplus", x * 3, beta=2.0, threshold=5.0)
case("hardtanh", x, min_val=-2.0, max_val=0.5)
case("threshold", x, threshold=0.4, value=-7.0)
case("prelu", reals(2, 3, 2), reals(3, seed=1))
case("prelu", reals(5), reals(1, seed=1))
for name in ("softmax", "log_softmax", "softmin"):
    case(name, x, torch={"dim": 1}, axis=1)
    case(name, x, torch={"dim": 0}, axis=0)
case("glu", reals(3, 4))
case("glu", reals(4, 3), torch={"dim": 0}, axis=0)

# Losses.
FIXED = ("weight", "pos_weight")
logits, labels = reals(5, 4), classes(4, 5)
weight = positives(4, seed=1)
masked = np.where(np.arange(5) == 2, -100, labels)
probabilities = fractions(5, 4, seed=3)
image_labels = classes(4, 2, 3, seed=1)
for reduction in ("mean", "sum", "none"):
    case("cross_entropy", logits, labels, reduction=reduction)
    case(
        "cross_entropy",
        logits,
        masked,
        weight=weight,
        fixed=FIXED,
        reduction=reduction,
        label_smoothing=0.2,
    )
    case(
        "cross_entropy",
        logits,
        probabilities,
        weight=weight,
        fixed=FIXED,
        reduction=reduction,
        label_smoothing=0.2,
    )
    case(
        "cross_entropy",
        reals(2, 4, 3),
        image_labels,
        weight=weight,
        fixed=FIXED,
        reduction=reduction,
    )
    case(
        "nll_loss", logits, labels, weight=weight, fixed=FIXED, reduction=reduction, ignore_index=1
    )
    for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"):
        case(name, reals(3, 4), reals(3, 4, seed=1), reduction=reduction)
    case("binary_cross_entropy", fractions(3, 4), fractions(3, 4, seed=1), reduction=reduction)
    name = "binary_cross_entropy_with_logits"
    case(name, reals(3, 4), fractions(3, 4, seed=1), reduction=reduction)
    case("hinge_embedding_loss", reals(3, 4), signs(3, 4), reduction=reduction)
    vectors = reals(4, 3), reals(4, 3, seed=1)
    case("cosine_embedding_loss", *vectors, signs(4), reduction=reduction)
    case("margin_ranking_loss", *vectors, signs(4, 3), reduction=reduction, margin=0.3)
    case("triplet_margin_loss", *vectors, reals(4, 3, seed=2), reduction=reduction)
for reduction in ("mean", "sum", "none", "batchmean"):
    case("kl_div", -positives(3, 4), fractions(3, 4, seed=1), reduction=reduction)
case("kl_div", -positives(3, 4), -positives(3, 4, seed=1), log_target=True)
case("cross_entropy", logits, masked)
case("cross_entropy", logits, labels, weight=weight, fixed=FIXED)
case("cross_entropy", logits, labels, ignore_index=2, label_smoothing=0.1)
case("cross_entropy", logits[0], labels[0])
case("cross_entropy", logits[0], probabilities[0])
case("cross_entropy", reals(2, 4, 3), fractions(2, 4, 3, seed=1))
case("nll_loss", logits[0], labels[0])
case("nll_loss", reals(2, 4, 3), image_labels)
case("huber_loss", reals(3, 4), reals(3, 4, seed=1), delta=0.3)
case("smooth_l1_loss", reals(3, 4), reals(3, 4, seed=1), beta=0.3)
case("smooth_l1_loss", reals(3, 4), reals(3, 4, seed=1), beta=0.0)
case(
    "binary_cross_entropy",
    fractions(3, 4),
    fractions(3, 4, seed=1),
    weight=positives(4, seed=2),
    fixed=FIXED,
)
# PyTorch has no gradients of weights.
case("cross_entropy", logits, masked, weight, label_smoothing=0.2, only="differences")
case("cross_entropy", logits, probabilities, weight, only="differences")
case("nll_loss", reals(2, 4, 3), image_labels, weight, reduction="sum", only="differences")
arrays = fractions(3, 4), fractions(3, 4, seed=1), positives(4, seed=2)
case("binary_cross_entropy", *arrays, only="differences")
OPTIONS: tuple[dict[str, Any], ...] = ({"fixed": FIXED}, {"only": "differences"})
for options in OPTIONS:
    case(
        "binary_cross_entropy_with_logits",
        reals(3, 4),
        fractions(3, 4, seed=1),
        weight=positives(3, 1, seed=2),
        pos_weight=positives(4, seed=3),
        **options,
    )
case("hinge_embedding_loss", reals(3, 4), signs(3, 4), margin=0.4)
case("cosine_embedding_loss", *vectors, signs(4), margin=-0.2)
case("triplet_margin_loss", *vectors, reals(4, 3, seed=2), margin=0.4, p=3.0, swap=True)
for full in (False, True):
    case("poisson_nll_loss", reals(3, 4), positives(3, 4, seed=1) * 2, full=full)
    case("gaussian_nll_loss", reals(3, 4), reals(3, 4, seed=1), positives(3, 4, seed=2), full=full)
case("poisson_nll_loss", positives(3, 4), positives(3, 4, seed=1), log_input=False)
case("gaussian_nll_loss", reals(3, 4), reals(3, 4, seed=1), positives(3, seed=2))

# The rest.
case("cosine_similarity", reals(3, 4), reals(3, 4, seed=1))
case("cosine_similarity", reals(2, 3, 4), reals(3, 4, seed=1), torch={"dim": -1}, axis=-1)
for p in (1.0, 2.0, 2.5):
    case("pairwise_distance", reals(3, 4), reals(3, 4, seed=1), p=p)
case("linear", reals(2, 3, 4), reals(5, 4, seed=1), reals(5, seed=2))
case("linear", reals(2, 4), reals(4, seed=1))
case("embedding", classes(4, 2, 3), reals(4, 2))
case("embedding", classes(4, 9), reals(4, 2), padding_idx=2, only="torch")
case("embedding", classes(4, 9), reals(4, 2), padding_idx=-1, only="torch")
x = reals(2, 3, 4, 5)
case("pad", x, pad=(1, 2))
case("pad", x, pad=(1, 0, 0, 2, -1, 1), value=7.0)
case("pad", x, pad=(-2, 1, 0, -1))
for mode in ("reflect", "replicate", "circular"):
    case("pad", reals(2, 3, 4), pad=(2, 1), mode=mode)
    case("pad", x, pad=(2, 1, 1, 3), mode=mode)
    case("pad", reals(2, 3, 2), pad=(-1, 1), mode=mode)
case("pixel_shuffle", reals(2, 8, 3, 2), upscale_factor=2)
case("pixel_unshuffle", reals(2, 2, 6, 4), downscale_factor=2)
for mode, size in (("nearest", (5,)), ("linear", (5,)), ("bilinear", (4, 3)), ("bicubic", (4, 3))):
    sizes: list[dict[str, Any]] = [{"size": tuple(n + 2 for n in size)}, {"scale_factor": 0.6}]
    for options in sizes:
        case("interpolate", reals(1, 2, *size), mode=mode, **options)
        if mode != "nearest":
            case("interpolate", reals(1, 2, *size), mode=mode, align_corners=True, **options)
case("interpolate", reals(1, 1, 2, 3, 2), mode="trilinear", scale_factor=(1.5, 1, 2))
case("interpolate", reals(1, 2, 4, 3), mode="nearest-exact", size=(3, 5))
case("interpolate", reals(1, 2, 4, 3), mode="nearest", scale_factor=2)
for mode, count in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)):
    factors = (2.0, *(1.3 for _ in range(count - 1)))
    case("interpolate", reals(1, 2, *(3,) * count), mode=mode, scale_factor=factors)
case("interpolate", reals(1, 2, 3), mode="linear", scale_factor=1.3)
# PyTorch interpolates here, but its gradient is that of a copy.
case("interpolate", reals(1, 2, 3), mode="nearest", scale_factor=1.3, only="differences")
case("interpolate", reals(1, 2, 3, 3), mode="bicubic", scale_factor=1.3, only="differences")
case("interpolate", reals(1, 2, 5, 3), mode="area", size=2)
x = reals(2, 2, 4, 5)
case("unfold", x, kernel_size=2)
case("unfold", x[0], kernel_size=(3, 2), dilation=(1, 2), padding=(1, 0), stride=2)
case("fold", reals(2, 8, 12), output_size=(4, 5), kernel_size=2)
x = reals(12, 4)
case("fold", x, output_size=(4, 5), kernel_size=(3, 2), dilation=(1, 2), padding=(1, 0), stride=2)
q, k, v = reals(2, 3, 4), reals(2, 5, 4, seed=1), reals(2, 5, 3, seed=2)
allowed = classes(2, 3, 5, seed=5).astype(bool)
allowed[1] = False
case("scaled_dot_product_attention", q, k, v)
case("scaled_dot_product_attention", q, k, v, scale=0.3, is_causal=True)
case("scaled_dot_product_attention", q, k, v, allowed)
case("scaled_dot_product_attention", q, k, v, reals(3, 5, seed=3))
case("scaled_dot_product_attention", q, k, v, np.where(allowed, 0.5, -math.inf))
heads = (reals(1, 4, 3, 2), reals(1, 2, 3, 2, seed=1), reals(1, 2, 3, 2, seed=2))
case("scaled_dot_product_attention", *heads, enable_gqa=True)
