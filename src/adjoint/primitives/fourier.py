"""The discrete Fourier transform. Its results are complex, so it has no derivative rule yet."""

from .. import op

fourier = op.other(
    "fourier",
    "The transform named fft, ifft, rfft or irfft over axes, cut or filled with zeros to lengths.",
    inputs="x",
    attrs="transform lengths axis norm dtype shape",
    dtype="dtype",
    shape=lambda shape: shape,
    batch="leading",
    differentiable=False,
)
