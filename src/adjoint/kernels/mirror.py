"""Square matrices and their mirror images, as LLVM IR: blocks whose rows and columns stay near.

A chunk has a row of blocks up to the diagonal, and their mirror images. Words: x, out, rows, blocks
in a row, steps of x from a row to the next, from a column and from a matrix; out is contiguous.
"""

from .template import Template

SIDE = 32  # of a block


def mirror(name: str, kind: str, mean: bool) -> Template:
    """Elements below the diagonal in both places, or, if `mean`, their means with those above."""
    t = Template(name)
    x, out = t.words("ptr", "x out")
    names = "n blocks row_step column_step step"
    n, blocks, row_step, column_step, step = t.words("i64", names)
    matrix, block = t.divided("%chunk", blocks)
    source = t.at(x, kind, t.product(matrix, step))
    target = t.at(out, kind, t.product(matrix, t.product(n, n)))
    first, last = t.part(str(SIDE), n, block)

    def element(row: str, column: str) -> str:
        place = t.add(t.product(row, row_step), t.product(column, column_step))
        return t.load(source, kind, place)

    with t.loop("0", last, str(SIDE)) as left, t.loop(first, last) as row:
        right = t.minimum(t.add(left, SIDE), t.add(row, 1))
        with t.loop(left, right) as column:
            value = element(row, column)
            if mean:
                total = t.new(f"fadd {kind} {value}, {element(column, row)}")
                value = t.new(f"fmul {kind} {total}, 0.5")
            t.store(value, target, kind, t.add(t.product(row, n), column))
            t.store(value, target, kind, t.add(t.product(column, n), row))
    return t


def symmetrized(kind: str) -> Template:
    return mirror("symmetrized", kind, mean=True)


def mirrored(kind: str) -> Template:
    return mirror("mirrored", kind, mean=False)
