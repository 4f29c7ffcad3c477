"""Neural networks: so far `nn.functional`.

It may import the functions layer and all below it, and its neighbours random and linalg.
"""

from . import functional as functional
