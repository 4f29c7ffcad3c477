"""`ad.profile`: where the time of a program goes.

Ops, rules and the rest of the engine note `spans` of time while a profile is on. `rows`
adds them up, `session` is what users see, `chrome` writes them for trace viewers, `launches` has
what GPUs' own clocks say, and `garbage` Python's collections.
"""

from .session import profile

__all__ = ["profile"]
