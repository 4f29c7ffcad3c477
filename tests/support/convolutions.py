"""Shapes of convolutions."""

from typing import Any, NamedTuple

from adjoint.backends.spaces import window_count

Ints = tuple[int, ...]


class Case(NamedTuple):
    x: Ints
    w: Ints
    geometry: dict[str, Any]

    @property
    def out(self) -> Ints:
        how = (self.geometry[name] for name in ("stride", "padding", "dilation"))
        return (self.x[0], self.w[0], *window_count(self.x, self.w[2:], *how))


def case(
    x: Ints, w: Ints, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Case:
    return Case(x, w, {**geometry(len(x) - 2, stride, padding, dilation), "groups": groups})


def geometry(rank: int, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> dict[str, Any]:
    """What is given once for all axes, or for each."""

    def every(value: Any) -> tuple:
        return value if isinstance(value, tuple) else (value,) * rank

    pads = tuple(p if isinstance(p, tuple) else (p, p) for p in every(padding))
    return {"stride": every(stride), "padding": pads, "dilation": every(dilation)}
