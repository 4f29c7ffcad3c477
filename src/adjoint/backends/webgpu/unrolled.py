"""WGSL text in which loops over a tile are written out, so that its sums stay in registers.

`$s` and the like stand for the numbers that a line is repeated for.
"""

LANES = 64  # of a workgroup
TALL = 8  # elements of a tile along windows, or along columns of a convolution's weight


def repeated(text: str, **counts: int) -> str:
    """The text once for each number below a count, which takes the place of `$name`."""
    for name, count in counts.items():
        text = "\n".join(text.replace("$" + name, str(number)) for number in range(count))
    return text


def by_axis(text: str, rank: int) -> str:
    """The text once for each axis `$a`, the last one first."""
    return "\n".join(text.replace("$a", str(axis)) for axis in reversed(range(rank)))


def width(channels: int) -> int:
    """Of a tile, along output channels."""
    return 1 if channels == 1 else 4 if channels <= 4 else 8


def vectors(wide: int, type: str) -> tuple[int, str]:
    """How many vectors of which type hold so many numbers."""
    return (1, type) if wide == 1 else (wide // 4, f"vec4<{type}>")


def loaded(name: str, at: str, step: str, wide: int, type: str) -> str:
    """Vectors `name0`, `name1`: elements of the array `name` that are a step apart."""
    count, vector = vectors(wide, type)
    each = wide // count
    elements = [f"{type}({name}[{at} + {k}u * {step}])" for k in range(wide)]
    return "\n".join(
        f"let {name}{v} = {vector}({', '.join(elements[v * each : v * each + each])});"
        for v in range(count)
    )
