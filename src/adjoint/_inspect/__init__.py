"""Graph tools: what was recorded for a tensor, as text, as a picture, and as bytes.

They only look: what they return are plain descriptions, which keep no node and no array alive.
"""

from .memory import memory
from .recorded import graph

__all__ = ["graph", "memory"]
