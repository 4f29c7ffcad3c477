"""Neural networks, built on the public API: so far `nn.functional`."""

from . import functional as functional
