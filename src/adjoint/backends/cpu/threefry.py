"""Counter-based random bits: Threefry 2x32 with 20 rounds (Salmon et al., SC11)."""

import math

import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
LOW = np.uint64(0xFFFFFFFF)


def threefry(key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt the counters (x0, x1), in place."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x0 += keys[0]
    x1 += keys[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            x0 += x1
            x1[...] = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 ^= x0
        x0 += keys[(block + 1) % 3]
        x1 += keys[(block + 2) % 3] + np.uint32(block + 1)
    return x0, x1


def random_bits(state: np.ndarray, *, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Bits for `shape`, and the state after them. State: two key words, counter low and high."""
    size = math.prod(shape)
    blocks = (size + 1) // 2
    start = (np.uint64(state[3]) << np.uint64(32)) | np.uint64(state[2])
    counters = start + np.arange(blocks, dtype=np.uint64)
    x0, x1 = (counters & LOW).astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)
    bits = np.stack(threefry(state[:2], x0, x1), axis=1).reshape(-1)[:size].reshape(shape)
    end = start + np.uint64(blocks)
    after = np.array([state[0], state[1], end & LOW, end >> np.uint64(32)], np.uint32)
    return bits, after
