"""Halves of square matrices, in the last two axes. All are linear."""

from .. import op
from .shapes import matrix_transpose

triangle = op.movement(
    "triangle",
    "Matrices with zeros beyond the k-th diagonal: above it, or below it if `upper`.",
    attrs="k upper",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, k, upper: triangle(g, k=k, upper=upper),
)
mirrored = op.movement(
    "mirrored",
    "The lower triangle, and its mirror image above the diagonal.",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g: triangle(g, k=0, upper=False) + triangle(matrix_transpose(g), k=-1, upper=False),
)
symmetrized = op.other(
    "symmetrized",
    "The mean of a square matrix and its adjoint.",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g: symmetrized(g),
)
