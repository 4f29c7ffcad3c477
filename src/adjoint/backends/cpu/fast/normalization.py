"""Standardising and its gradient, by kernels."""

from ..table import KERNELS
from .reductions import launcher, positive


def standardize(x, *, axis, eps, center):
    if x.dtype.kind != "f" or not x.size or x.dtype.itemsize < 4:
        return KERNELS["standardize"](x, axis=axis, eps=eps, center=center)
    run = launcher("standardize", x.dtype, center=center)
    return tuple(run.reduce([x], positive(axis, x.ndim), [eps]))


def scaled_standardize(x, weight, bias, *, axis, eps, center):
    arrays = [x, weight] if bias is None else [x, weight, bias]
    dtype = x.dtype
    if dtype.char not in "fd" or not x.size or any(y.dtype is not dtype for y in arrays):
        return KERNELS["scaled_standardize"](x, weight, bias, axis=axis, eps=eps, center=center)
    run = launcher("scaled_standardize", dtype, center=center, biased=bias is not None)
    return tuple(run.reduce(arrays, positive(axis, x.ndim), [eps]))


def standardize_gradient(dout, dmean, dvar, out, var, *, axis, eps, center):
    arrays = [dout, dmean, dvar, out, var]
    if dout.dtype.kind != "f" or not dout.size or dout.dtype.itemsize < 4:
        return KERNELS["standardize_gradient"](*arrays, axis=axis, eps=eps, center=center)
    run = launcher("standardize_gradient", dout.dtype, center=center)
    return run.reduce(arrays, positive(axis, dout.ndim), [eps])[0]
