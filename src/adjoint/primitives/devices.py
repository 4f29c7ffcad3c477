"""The op that moves values from one device to another."""

from .. import op

move = op.other(
    "move",
    "The values on another device; the gradient goes back to the first.",
    inputs="x",
    attrs="device source",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch=lambda size, batched, x, **attrs: move(x, **attrs),
    vjp=lambda g, device, source: (move(g, device=source, source=device),),
)
