"""Random bits, as LLVM IR: Threefry 2x32 with 20 rounds, for LANES counters at once.

A counter gives two 32-bit words, which lie side by side.
"""

from .template import Template
from .text import constants, vector_of

LANES = 16
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
WORDS, WIDE = vector_of("i32", LANES), vector_of("i64", LANES)


def random_bits() -> Template:
    """Words: the state (two words of the key, then the counter, low word first), the bits, the
    state after them; 32-bit words of bits, and those of each chunk (a multiple of 2 * LANES)."""
    t = Template("random_bits")
    state, out, after = t.words("ptr", "state bits after")
    total, step = t.words("i64", "total step")
    key = [t.load(state, "i32", k) for k in range(2)]
    keys = key_schedule(t, key)
    first = t.new(f"load i64, ptr {t.at(state, 'i32', 2)}, align 4")
    with t.when(t.compare("eq", "%chunk", 0)):
        for k, word in enumerate(key):
            t.store(word, after, "i32", k)
        end = t.add(first, t.new(f"lshr i64 {t.add(total, 1)}, 1"))
        t.line(f"store i64 {end}, ptr {t.at(after, 'i32', 2)}, align 4")
    start, stop = t.part(step, total)
    size = 2 * LANES
    whole = t.sub(stop, t.new(f"and i64 {t.sub(stop, start)}, {size - 1}"))
    with t.loop(start, whole, str(size)) as at:
        t.store(words_from(t, keys, first, at), out, "i32", at, size)
    with t.when(t.compare("slt", whole, stop)):
        rest = t.alloca(vector_of("i32", size))
        t.store(words_from(t, keys, first, whole), rest, "i32", 0, size)
        with t.loop(whole, stop) as at:
            t.store(t.load(rest, "i32", t.sub(at, whole)), out, "i32", at)
    return t


def key_schedule(t: Template, key: list[str]) -> list[str]:
    both = t.new(f"xor i32 {key[0]}, {key[1]}")
    third = t.new(f"xor i32 {both}, {PARITY}")
    return [t.splat("i32", word, LANES) for word in (*key, third)]


def words_from(t: Template, keys: list[str], first: str, at: str) -> str:
    """The words of LANES counters; `at`: how many words there are before them."""
    start = t.splat("i64", t.add(first, t.new(f"lshr i64 {at}, 1")), LANES)
    counters = t.new(f"add {WIDE} {start}, {constants('i64', range(LANES))}")
    high = t.new(f"lshr {WIDE} {counters}, {constants('i64', [32] * LANES)}")
    x0, x1 = (t.new(f"trunc {WIDE} {half} to {WORDS}") for half in (counters, high))
    x0, x1 = encrypted(t, keys, x0, x1)
    return t.shuffle(WORDS, x0, x1, [lane for k in range(LANES) for lane in (k, k + LANES)])


def encrypted(t: Template, keys: list[str], x0: str, x1: str) -> tuple[str, str]:
    def plus(x: str, y: str) -> str:
        return t.new(f"add {WORDS} {x}, {y}")

    x0, x1 = plus(x0, keys[0]), plus(x1, keys[1])
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            x0 = plus(x0, x1)
            by = f"{WORDS} {constants('i32', [rotation] * LANES)}"
            operands = f"{WORDS} {x1}", f"{WORDS} {x1}", by
            t.declarations.add(f"declare {WORDS} @llvm.fshl.v{LANES}i32({WORDS}, {WORDS}, {WORDS})")
            turned = t.new(f"call {WORDS} @llvm.fshl.v{LANES}i32({', '.join(operands)})")
            x1 = t.new(f"xor {WORDS} {turned}, {x0}")
        x0 = plus(x0, keys[(block + 1) % 3])
        x1 = plus(plus(x1, keys[(block + 2) % 3]), constants("i32", [block + 1] * LANES))
    return x0, x1
