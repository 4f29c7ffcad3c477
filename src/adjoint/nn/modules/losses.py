"""Losses: functions of what a model gives and what it should give, reduced to a number."""

from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_integer, as_number, as_real
from .. import functional as F
from .._reduction import check_reduction
from .applied import Applied, kind

__all__ = ["BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss"]
__all__ += ["GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss"]
__all__ += ["MarginRankingLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "TripletMarginLoss"]


class Reduced(Applied, options=("reduction",), shown=()):
    """A loss whose `reduction` is "mean", "sum" or "none"."""

    more: tuple[str, ...] = ()  # other reductions

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        check_reduction(kind(self), reduction, *self.more)
        self.reduction = reduction

    def _number(self, name: str, value: Any) -> float:
        return as_number(kind(self), name, value)

    def _set_weight(self, name: str, value: Any) -> None:
        """A factor that isn't trained is a buffer; gradients flow to one that requires them."""
        weight = None if value is None else as_real(kind(self), value)
        if weight is not None and not weight.requires_grad:
            weight = weight.detach()
        self.register_buffer(name, weight)


class Loss(Reduced):
    """A loss of outputs and targets."""

    def forward(self, x: Any, target: Any) -> Tensor:
        """The loss of x against the target."""
        return self._applied(x, target)


class MSELoss(Loss, function=F.mse_loss):
    """The squared difference.

    >>> ad.nn.MSELoss()(ad.asarray([1.0, 2.0]), ad.asarray([1.0, 4.0]))
    tensor(2.)
    """


class L1Loss(Loss, function=F.l1_loss):
    """The absolute difference.

    >>> ad.nn.L1Loss()(ad.asarray([1.0, 2.0]), ad.asarray([1.0, 4.0]))
    tensor(1.)
    """


class SmoothL1Loss(Loss, function=F.smooth_l1_loss, options=("reduction", "beta")):
    """The absolute difference, rounded off below `beta`.

    >>> ad.nn.SmoothL1Loss()(ad.asarray([1.0, 2.0]), ad.asarray([2.0, 5.0]))
    tensor(1.5)
    """

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = self._number("beta", beta)
        if not beta >= 0:
            raise ArgumentError(f"SmoothL1Loss: beta={beta} must not be negative")


class HuberLoss(Loss, function=F.huber_loss, options=("reduction", "delta")):
    """Half the squared difference up to `delta`, and from there on a straight line.

    >>> ad.nn.HuberLoss()(ad.asarray([1.0, 2.0]), ad.asarray([2.0, 5.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = self._number("delta", delta)
        if not delta > 0:
            raise ArgumentError(f"HuberLoss: delta={delta} must be above 0")


class NLLLoss(Loss, function=F.nll_loss, options=("weight", "ignore_index", "reduction")):
    """The loss of log-probabilities (N, C, …) or (C,) against class indices.

    `weight` is a factor for each class; the mean is the weighted one. Targets that are
    `ignore_index` don't count.

    >>> logs = ad.log(ad.asarray([[0.25, 0.75]]))
    >>> ad.nn.NLLLoss()(logs, ad.asarray([0]))
    tensor(1.3863)
    """

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self._set_weight("weight", weight)
        self.ignore_index = as_integer(kind(self), "ignore_index", ignore_index)


class CrossEntropyLoss(NLLLoss, function=F.cross_entropy):
    """The loss of logits (N, C, …) or (C,) against class indices, or probabilities of x's shape.

    `weight` and `ignore_index` are as in `NLLLoss`. `label_smoothing` mixes the target with equal
    probabilities.

    >>> ad.nn.CrossEntropyLoss()(ad.asarray([[0.0, 0.0]]), ad.asarray([1]))
    tensor(0.6931)
    """

    options = (*NLLLoss.options, "label_smoothing")

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction)
        self.label_smoothing = self._number("label_smoothing", label_smoothing)
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"CrossEntropyLoss: label_smoothing={label_smoothing} isn't between 0 and 1"
            )


class BCELoss(Loss, function=F.binary_cross_entropy, options=("weight", "reduction")):
    """The loss of probabilities against probabilities, mostly 0 or 1.

    >>> ad.nn.BCELoss()(ad.asarray([0.5, 0.0]), ad.asarray([1.0, 0.0]))
    tensor(0.3466)
    """

    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self._set_weight("weight", weight)


class BCEWithLogitsLoss(Loss, function=F.binary_cross_entropy_with_logits):
    """The loss of sigmoid(x) against probabilities, without overflow.

    `pos_weight` is a factor of the part of the target that is 1.

    >>> ad.nn.BCEWithLogitsLoss()(ad.asarray([0.0, 1000.0]), ad.asarray([1.0, 1.0]))
    tensor(0.3466)
    """

    options = ("weight", "reduction", "pos_weight")

    def __init__(
        self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None
    ) -> None:
        super().__init__(reduction=reduction)
        self._set_weight("weight", weight)
        self._set_weight("pos_weight", pos_weight)


class KLDivLoss(Loss, function=F.kl_div, options=("reduction", "log_target"), more=("batchmean",)):
    """The divergence of log-probabilities x from probabilities: target * (log(target) - x).

    With `log_target` the target is logarithms too. "mean" is over all elements, "batchmean" over
    the first axis only, as the definition has it.

    >>> x, target = ad.log(ad.asarray([[0.5, 0.5]])), ad.asarray([[0.0, 1.0]])
    >>> ad.nn.KLDivLoss(reduction="batchmean")(x, target)
    tensor(0.6931)
    """

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.log_target = log_target


class PoissonNLLLoss(Loss, function=F.poisson_nll_loss):
    """The loss of (logarithms of) rates against counts; `full` adds Stirling's term.

    >>> ad.nn.PoissonNLLLoss()(ad.asarray([0.0]), ad.asarray([2.0]))
    tensor(1.)
    """

    options = ("log_input", "full", "eps", "reduction")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        *,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.log_input, self.full = log_input, full
        self.eps = self._number("eps", eps)


class GaussianNLLLoss(Reduced, function=F.gaussian_nll_loss, options=("full", "eps", "reduction")):
    """The loss of means against numbers, for normal distributions of variance `var`.

    `full` adds the constant log(2 pi) / 2. Variances below `eps` count as `eps`.

    >>> x, target, var = ad.asarray([1.0]), ad.asarray([3.0]), ad.asarray([1.0])
    >>> ad.nn.GaussianNLLLoss()(x, target, var)
    tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = self._number("eps", eps)

    def forward(self, x: Any, target: Any, var: Any) -> Tensor:
        """The loss of means x and variances against the target."""
        return self._applied(x, target, var)


class HingeEmbeddingLoss(Loss, function=F.hinge_embedding_loss, options=("margin", "reduction")):
    """x where the target is 1, and what it lacks to `margin` where the target is -1.

    >>> ad.nn.HingeEmbeddingLoss()(ad.asarray([0.5, 0.75]), ad.asarray([1.0, -1.0]))
    tensor(0.375)
    """

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = self._number("margin", margin)


class PairLoss(Reduced, options=("margin", "reduction")):
    """A loss of pairs, whose targets are 1 or -1."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = self._number("margin", margin)

    def forward(self, x1: Any, x2: Any, target: Any) -> Tensor:
        """The loss of pairs from x1 and x2 against the target."""
        return self._applied(x1, x2, target)


class MarginRankingLoss(PairLoss, function=F.margin_ranking_loss):
    """What target * (x1 - x2) lacks to `margin`: the target is 1 where x1 should be the larger.

    >>> x1, x2, target = ad.asarray([1.0]), ad.asarray([3.0]), ad.asarray([1.0])
    >>> ad.nn.MarginRankingLoss()(x1, x2, target)
    tensor(2.)
    """


class CosineEmbeddingLoss(PairLoss, function=F.cosine_embedding_loss):
    """1 - cosine of vectors (N, D) where the target is 1, what it exceeds `margin` where it is -1.

    >>> x1, x2 = ad.asarray([[1.0, 0.0]]), ad.asarray([[3.0, 4.0]])
    >>> ad.nn.CosineEmbeddingLoss()(x1, x2, ad.asarray([1]))
    tensor(0.4)
    """


class TripletMarginLoss(Reduced, function=F.triplet_margin_loss):
    """How much nearer than `margin` vectors are to negatives, compared with positives.

    `swap` takes the distance between positive and negative where it is smaller.

    >>> a, b, c = (ad.asarray([[x]]) for x in (0.0, 1.0, 1.5))
    >>> ad.nn.TripletMarginLoss()(a, b, c)
    tensor(0.5)
    """

    options = ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.margin = self._number("margin", margin)
        self.p = self._number("p", p)
        self.eps = self._number("eps", eps)
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """The loss of vectors whose positives should be nearer than their negatives."""
        return self._applied(anchor, positive, negative)
