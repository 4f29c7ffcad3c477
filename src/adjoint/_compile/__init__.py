"""`ad.compile`: functions that are recorded once, then run whole as programs of few kernels."""
