"""Counter-based random bits: Threefry 2x32 with 20 rounds (Salmon et al., SC11).

A state is four 32-bit words: two of the key, then the counter, low word first.
"""

import math

import numpy as np

from .table import lowered

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
# Per rotation the shifts to the left and to the right, as NumPy takes them fastest.
SHIFTS = [
    [(np.array(r, np.uint32), np.array(32 - r, np.uint32)) for r in rotations]
    for rotations in ROTATIONS
]
PARITY = np.uint32(0x1BD11BDA)
LOW = np.uint64(0xFFFFFFFF)
CHUNK = 8192  # counters that are worked on together: they stay in the cache


def encrypt(key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> None:
    """Encrypt the counters (x0, x1), in place."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    spare = np.empty_like(x1)
    np.add(x0, keys[0], x0)
    np.add(x1, keys[1], x1)
    for block in range(5):
        for left, right in SHIFTS[block % 2]:
            np.add(x0, x1, x0)
            np.left_shift(x1, left, spare)
            np.right_shift(x1, right, x1)
            np.bitwise_or(x1, spare, x1)
            np.bitwise_xor(x1, x0, x1)
        np.add(x0, keys[(block + 1) % 3], x0)
        np.add(x1, keys[(block + 2) % 3] + np.uint32(block + 1), x1)


@lowered("threefry", least="RANDOM_BITS")
def random_bits(state: np.ndarray, *, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Bits for `shape`, and the state after them."""
    size = math.prod(shape)
    blocks = (size + 1) // 2
    start = counter(state)
    bits = np.empty((blocks, 2), np.uint32)
    for first in range(0, blocks, CHUNK):
        part = bits[first : first + CHUNK]
        part[...] = encrypted(state, start + np.uint64(first), len(part))
    return bits.reshape(-1)[:size].reshape(shape), advanced(state, blocks)


def encrypted(state: np.ndarray, start: np.uint64, blocks: int) -> np.ndarray:
    """The two words behind each of the counters from `start` on."""
    counters = start + np.arange(blocks, dtype=np.uint64)
    x0, x1 = counters.astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)
    encrypt(state[:2], x0, x1)
    return np.stack((x0, x1), axis=1)


def counter(state: np.ndarray) -> np.uint64:
    return (np.uint64(state[3]) << np.uint64(32)) | np.uint64(state[2])


def advanced(state: np.ndarray, blocks: int) -> np.ndarray:
    """The state after that many counters."""
    end = counter(state) + np.uint64(blocks)
    return np.array([state[0], state[1], end & LOW, end >> np.uint64(32)], np.uint32)
