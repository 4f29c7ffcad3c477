"""Records of random ops, against references that work on one element after another."""

import math

import numpy as np

from adjoint import get_default_device
from tests.support.samples import CALLS, Array, positive, sample

WORD = 2**32 - 1
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry(key: tuple[int, int], x: int, y: int) -> tuple[int, int]:
    """Threefry 2x32 with 20 rounds, in Python's integers."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = x + keys[0] & WORD, y + keys[1] & WORD
    for turn in range(20):
        rotation = ROTATIONS[turn % 8]
        x = x + y & WORD
        y = (y << rotation | y >> 32 - rotation) & WORD ^ x
        if turn % 4 == 3:
            block = turn // 4 + 1
            x, y = x + keys[block % 3] & WORD, y + keys[(block + 1) % 3] + block & WORD
    return x, y


def log_gamma(key: tuple[int, int], element: int, alpha: float) -> float:
    """Marsaglia and Tsang's method, for one element."""

    def fraction(slot: int) -> float:
        high, low = threefry(key, element, slot << 16)
        return ((high << 32 | low) >> 12) / 2**52 + 2**-53

    if alpha < 1:
        return above_one(fraction, alpha + 1) + math.log(fraction(0)) / alpha
    return above_one(fraction, alpha)


def above_one(fraction, alpha: float) -> float:
    d, slot = alpha - 1 / 3, 1
    while True:
        x = math.sqrt(-2 * math.log(fraction(slot))) * math.cos(2 * math.pi * fraction(slot + 1))
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(fraction(slot + 2)) < x * x / 2 + d - d * v + d * math.log(v):
            return math.log(d * v)
        slot += 3


def log_gammas(state: Array, alpha: Array) -> tuple[Array, Array]:
    words = [int(word) for word in state]
    key = threefry((words[0], words[1]), words[2], words[3])
    out = [log_gamma(key, k, float(a)) for k, a in enumerate(alpha.reshape(-1))]
    after = np.array([*words[:2], words[2] + 1, words[3]], np.uint32)
    return np.array(out, alpha.dtype).reshape(alpha.shape), after


sample(
    "random_log_gamma",
    lambda state, alpha: CALLS["random_log_gamma"](state, alpha, device=get_default_device()),
    log_gammas,
    ((4,), (3,)),
    ((4,), (40, 10)),
    ((4,), ()),
    ((4,), (2, 0)),
    domains=(lambda rng, shape: rng.integers(0, WORD, shape, np.uint32), positive),
)
