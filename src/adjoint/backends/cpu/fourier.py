"""The discrete Fourier transform, by NumPy's pocketfft."""

import numpy as np

from .table import entry


@entry
def fourier(x, *, transform, lengths, axis, norm, dtype, shape):
    if not axis:
        return x.astype(dtype)
    out = getattr(np.fft, f"{transform}n")(x, lengths, axis, norm)
    return out.astype(dtype, copy=False)
