"""The programs of matrix products.

Operands are read in blocks of 4x4: four vectors, one for each of four places along the inner axis,
which hold what is at four places along the outer axis (the rows of x, the columns of y). How a
block is read depends on the layout of its operand:

    inner4, outer4    vectors lie in memory along the inner, or the outer axis
    inner1, outer1    any strides, one element at a time; the named axis has the smaller stride

The inner axis may be split into parts, whose sums are results of their own, one after the other,
until `total` adds them up. One launch sums up one segment of each part, and adds it to what the
launch before it has stored. Units of work are counted down the columns of a band of the result, and
then band after band, so that those done at one time share what they read.
"""

import functools

from .programs import Program, per_element, wgsl

STORED = {"f32": "f32", "f16": "f16", "i32": "i32", "u32": "u32", "bool": "u32"}
SUMMED = {"f32": "f32", "f16": "f32", "i32": "i32", "u32": "u32", "bool": "u32"}
LANES = 64  # of a workgroup; those of a tile are 8x8
SIDE = 8

WORDS = """
    at_x at_y low first rows columns inner x_outer x_inner y_outer y_inner
    x_batch0 x_batch1 x_batch2 x_batch3 y_batch0 y_batch1 y_batch2 y_batch3
    batch0 batch1 batch2 batches across down band parts chunk segment lanes
"""
PLACE = """
    let column = unit / p.band % p.across;
    let row = unit / (p.band * p.across) * p.band % p.down + unit % p.band;
    let part = unit / (p.across * p.down) % p.parts;
    let batch = unit / (p.across * p.down * p.parts);
    if (batch >= p.batches) { return; }
    let x_start = x_matrix(batch);
    let y_start = y_matrix(batch);
    let out_start = (part * p.batches + batch) * p.rows * p.columns;
    let start = part * p.chunk + p.low;
    let end = min(min(p.inner, (part + 1u) * p.chunk), start + p.segment);
"""


def array_type(kind: str, wide: bool) -> str:
    return f"vec4<{STORED[kind]}>" if wide else STORED[kind]


def vector_of(kind: str) -> str:
    return f"vec4<{SUMMED[kind]}>"


def is_wide(layout: str) -> bool:
    return layout.endswith("4")


def result(kind: str, value: str, type: str) -> str:
    """What is stored of a sum."""
    return f"min({value}, {type}(1u))" if kind == "bool" else f"{type}({value})"


def matrix(name: str, layout: str) -> str:
    """The function that says where a matrix of an operand starts."""
    start = f"p.at_{name} / 4u" if is_wide(layout) else f"p.at_{name}"
    return f"""
fn {name}_matrix(batch: u32) -> u32 {{
    let rest = batch / p.batch0;
    return {start} + batch % p.batch0 * p.{name}_batch0
        + rest % p.batch1 * p.{name}_batch1
        + rest / p.batch1 % p.batch2 * p.{name}_batch2
        + rest / p.batch1 / p.batch2 * p.{name}_batch3;
}}"""


def block(name: str, kind: str, layout: str, length: str, masked: bool) -> str:
    """The function that reads a block of an operand; what is beyond the end is 0 if masked."""
    vector = vector_of(kind)
    if layout == "outer4":
        lines = [f"let at = start + min(outer, p.{length} - 4u) / 4u;"]
        vectors = [f"{vector}({name}[at + (inner + {k}u) * p.{name}_inner])" for k in range(4)]
    else:
        place = f"start + min(outer + {{}}u, p.{length} - 1u) * p.{name}_outer"
        lines = [f"let at{i} = {place.format(i)};" for i in range(4)]
        if layout == "inner4":
            lines += [f"let line{i} = {vector}({name}[at{i} + inner / 4u]);" for i in range(4)]
            element = "line{i}[{k}]"
        else:
            lines += [f"let step{k} = (inner + {k}u) * p.{name}_inner;" for k in range(4)]
            element = f"{SUMMED[kind]}({name}[at{{i}} + step{{k}}])"
        vectors = [
            f"{vector}({', '.join(element.format(i=i, k=k) for i in range(4))})" for k in range(4)
        ]
    if masked:
        vectors = [f"select({vector}(), {v}, inner + {k}u < end)" for k, v in enumerate(vectors)]
    return f"""
fn {name}_block(start: u32, outer: u32, inner: u32, end: u32) -> array<{vector}, 4> {{
    {" ".join(lines)}
    return array<{vector}, 4>({", ".join(vectors)});
}}"""


def put(kind: str, wide: bool) -> str:
    """The function that stores, or adds, four sums of a row."""
    vector = vector_of(kind)
    adds = kind == SUMMED[kind]  # other kinds are summed in one launch
    if wide:
        sum = f"value + select(out[at / 4u], {vector}(), p.first == 1u)" if adds else "value"
        stores = f"out[at / 4u] = {result(kind, sum, array_type(kind, True))};"
    else:
        sum = "value[{i}]"
        sum += f" + select(out[at + {{i}}u], {SUMMED[kind]}(), p.first == 1u)" if adds else ""
        store = f"out[at + {{i}}u] = {result(kind, sum, STORED[kind])};"
        stores = "\n        ".join(
            f"if (column + {i}u < p.columns) {{ {store.replace('{i}', str(i))} }}" for i in range(4)
        )
    return f"""
fn put(start: u32, row: u32, column: u32, value: {vector}) {{
    if (row < p.rows && column < p.columns) {{
        let at = start + row * p.columns + column;
        {stores}
    }}
}}"""


def program(
    name: str, kind: str, out: str, x: str, y: str, body: str, declarations: str
) -> Program:
    wide, name = y == "outer4", f"{name} {kind} {out} {x} {y}"
    left, right = array_type(kind, is_wide(x)), array_type(kind, is_wide(y))
    arrays = f"x:{left} y:{right} -> out:{array_type(out, wide)}"
    declarations += matrix("x", x) + matrix("y", y) + put(out, wide)
    return wgsl(name, arrays, WORDS, declarations=declarations, workgroup=LANES)(body)


def multiplied(kind: str, sum: str, factor: str, vector: str) -> str:
    """sum += factor * vector, for one number and a vector."""
    if SUMMED[kind] == "f32":
        return f"{sum} = fma(vec4<f32>({factor}), {vector}, {sum});"
    return f"{sum} += {factor} * {vector};"


class Sums:
    """The variables with the sums of `down` by `across` blocks."""

    def __init__(self, kind: str, down: int, across: int) -> None:
        self.kind, self.down, self.across = kind, down, across
        self.places = [(i, b) for i in range(4 * down) for b in range(across)]

    def zeros(self) -> str:
        return " ".join(f"var sum{i}_{b} = {vector_of(self.kind)}();" for i, b in self.places)

    def add(self, x: str, y: str) -> str:
        """Add the products of what vectors of x and of y hold; {} is the number of their block."""
        lines = [f"let x{a} = {x.format(a)};" for a in range(self.down)]
        lines += [f"let y{b} = {y.format(b)};" for b in range(self.across)]
        lines += [
            multiplied(self.kind, f"sum{i}_{b}", f"x{i // 4}[{i % 4}]", f"y{b}")
            for i, b in self.places
        ]
        return "{ " + " ".join(lines) + " }"

    def put(self, row: str, column: str) -> str:
        """Store them; row and column say where a block starts."""
        return " ".join(
            f"put(out_start, {row.format(i // 4)} + {i % 4}u, {column.format(b)}, sum{i}_{b});"
            for i, b in self.places
        )


@functools.cache
def blocks(kind: str, out: str, x: str, y: str, down: int, across: int) -> Program:
    """Each invocation by itself works on `down` by `across` blocks."""
    sums = Sums(kind, down, across)
    reads = [f"let x_block{a} = x_block(x_start, i + {4 * a}u, k, end);" for a in range(down)]
    reads += [f"let y_block{b} = y_block(y_start, j + {4 * b}u, k, end);" for b in range(across)]
    steps = [sums.add(f"x_block{{}}[{k}]", f"y_block{{}}[{k}]") for k in range(4)]
    body = f"""
    let unit = group * {LANES}u + lane;
    {PLACE}
    let i = row * {4 * down}u;
    let j = column * {4 * across}u;
    {sums.zeros()}
    for (var k = start; k < end; k += 4u) {{
        {" ".join(reads)}
        {" ".join(steps)}
    }}
    {sums.put("i + 4u * {}u", "j + 4u * {}u")}
"""
    masked = "inner4" not in (x, y)  # else the inner length is a multiple of 4
    readers = block("x", kind, x, "rows", masked) + block("y", kind, y, "columns", masked)
    return program("matmul blocks", kind, out, x, y, body, readers)


@functools.cache
def tiles(kind: str, out: str, x: str, y: str, side: int) -> Program:
    """A workgroup works on a tile, each of its 8x8 invocations on `side` by `side` blocks of it.

    In each step, each invocation brings one block of x and one of y to workgroup memory.
    """
    sums = Sums(kind, side, side)
    size = SIDE * side  # of a tile, in blocks
    depth = 4 * LANES // size  # of a step, in elements
    i, j = (f"(lane {how} {SIDE}u + {SIDE}u * {{}}u)" for how in "/%")
    body = f"""
    let unit = group;
    {PLACE}
    let i = row * {4 * size}u;
    let j = column * {4 * size}u;
    {sums.zeros()}
    for (var k = start; k < end; k += {depth}u) {{
        {fill("x", x, "i", size, depth)}
        {fill("y", y, "j", size, depth)}
        workgroupBarrier();
        for (var at = 0u; at < {depth * size}u; at += {size}u) {{
            {sums.add(f"x_tile[at + {i}]", f"y_tile[at + {j}]")}
        }}
        workgroupBarrier();
    }}
    {sums.put(f"i + 4u * {i}", f"j + 4u * {j}")}
"""
    memory = f"array<{vector_of(kind)}, {depth * size}>"
    declarations = f"var<workgroup> x_tile: {memory}; var<workgroup> y_tile: {memory};"
    readers = block("x", kind, x, "rows", True) + block("y", kind, y, "columns", True)
    return program("matmul tiles", kind, out, x, y, body, declarations + readers)


def fill(name: str, layout: str, corner: str, size: int, depth: int) -> str:
    """Bring a block to workgroup memory: neighbours read what is close together."""
    if layout.startswith("inner"):
        outer, inner = f"lane / {depth // 4}u", f"lane % {depth // 4}u"
    else:
        outer, inner = f"lane % {size}u", f"lane / {size}u"
    stores = [f"{name}_tile[(inner + {k}u) * {size}u + outer] = block[{k}];" for k in range(4)]
    return f"""{{
            let outer = {outer};
            let inner = {inner} * 4u;
            let block = {name}_block({name}_start, {corner} + outer * 4u, k + inner, end);
            {" ".join(stores)}
        }}"""


@functools.cache
def vectors(kind: str, out: str, x: str, y: str, single: bool) -> Program:
    """x is one row, and each invocation works on 4 columns, or on a single one that is all.

    p.lanes of a workgroup share the inner axis of the same columns, and then add up their sums.
    """
    vector = vector_of(kind)
    if single:
        step = f"sum += x_line * {line('y', kind, y)};"
        whole = f"{vector}(sum[0] + sum[1] + (sum[2] + sum[3]), {vector}().yzw)"
    else:
        lines = [multiplied(kind, "sum", f"x_line[{k}]", f"block[{k}]") for k in range(4)]
        step = f"let block = y_block(y_start, j, k, end); {' '.join(lines)}"
        whole = "sum"
    if y.startswith("inner"):
        outer, inner = "lane / p.lanes", "lane % p.lanes"
    else:
        outer, inner = "lane % beside", "lane / beside"
    body = f"""
    let unit = group;
    {PLACE}
    let beside = {LANES}u / p.lanes;
    let outer = {outer};
    let inner = {inner};
    let j = (column * beside + outer) * 4u;
    var sum = {vector}();
    for (var k = start + inner * 4u; k < end; k += p.lanes * 4u) {{
        let inside = vec4<u32>(k, k + 1u, k + 2u, k + 3u) < vec4<u32>(end);
        let x_line = {line("x", kind, x)};
        {step}
    }}
    let own = inner * beside + outer;
    sums[own] = {whole};
    for (var half = p.lanes / 2u; half > 0u; half /= 2u) {{
        workgroupBarrier();
        if (inner < half) {{ sums[own] += sums[own + half * beside]; }}
    }}
    if (inner == 0u) {{ put(out_start, 0u, j, sums[own]); }}
"""
    declarations = f"var<workgroup> sums: array<{vector}, {LANES}>;"
    if not single:
        declarations += block("y", kind, y, "columns", True)
    return program("matmul vectors", kind, out, x, y, body, declarations)


def line(name: str, kind: str, layout: str) -> str:
    """Four elements along the inner axis; those that aren't inside are 0."""
    if layout == "inner4":
        elements = f"{name}[{name}_start + k / 4u]"
    else:
        place = f"{name}[{name}_start + (k + {{}}u) * p.{name}_inner]"
        elements = ", ".join(f"{SUMMED[kind]}({place.format(i)})" for i in range(4))
    return f"select({vector_of(kind)}(), {vector_of(kind)}({elements}), inside)"


@functools.cache
def total(kind: str) -> Program:
    """The sum of results of parts, in their order."""
    arrays = f"parts:{SUMMED[kind]} -> out:{STORED[kind]}"
    return per_element(f"total {kind}", arrays, "number", workgroup=LANES)(f"""
    var sum = parts[at];
    for (var part = 1u; part < p.number; part++) {{ sum += parts[part * p.size + at]; }}
    out[at] = {result(kind, "sum", STORED[kind])};""")
