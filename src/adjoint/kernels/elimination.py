"""Matrices taken apart, and equations solved with the parts, as LLVM IR.

What is taken apart at once has few columns, and a row of it is one vector, whose length is a part
of the kernel. Larger matrices are made of such parts. Steps are in elements: from a row to the
next, and from a matrix to the next. Chunks have some of the matrices, or of their columns.
"""

from collections.abc import Iterator

from .template import Template
from .text import SIZES, lanes, vector_of

MOST = 48  # columns of what is taken apart at once
COLUMNS = {"float": 64, "double": 32}  # of a right side that are solved for at once, at most


class Rows:
    """Rows that are vectors."""

    def __init__(self, t: Template, kind: str, pointer: str, width: int, step: str | int) -> None:
        self.t, self.kind, self.pointer, self.width, self.step = t, kind, pointer, width, step
        self.type = vector_of(kind, width)

    def place(self, row: str) -> str:
        return self.t.at(self.pointer, self.kind, self.t.product(row, self.step))

    def load(self, row: str) -> str:
        return self.t.load(self.place(row), self.kind, count=self.width)

    def store(self, value: str, row: str) -> None:
        self.t.store(value, self.place(row), self.kind, count=self.width)

    def element(self, row: str, column: str) -> str:
        return self.t.load(self.place(row), self.kind, column)

    def swap(self, one: str, other: str) -> None:
        first, second = self.load(one), self.load(other)
        self.store(first, other)
        self.store(second, one)

    def less(self, row: str, factor: str, other: str) -> str:
        """row - factor * other, the factor being a number."""
        negative = self.t.new(f"fneg {self.kind} {factor}")
        many = self.t.splat(self.kind, negative, self.width)
        return self.t.fma(self.kind, self.width, many, other, row)

    def divided(self, row: str, number: str) -> str:
        many = self.t.splat(self.kind, number, self.width)
        return self.t.new(f"fdiv {self.type} {row}, {many}")

    def places(self, relation: str, k: str) -> str:
        """The places in a row that are in a relation to the k-th."""
        return self.t.places(relation, k, self.width)

    def select(self, places: str, row: str, other: str) -> str:
        mask = f"{vector_of('i1', self.width)} {places}"
        return self.t.new(f"select {mask}, {self.type} {row}, {self.type} {other}")

    def after(self, row: str, k: str) -> str:
        """The elements of a row after the k-th, zeros before."""
        return self.select(self.places("sgt", k), row, "zeroinitializer")


def absolute(t: Template, kind: str, x: str) -> str:
    return t.call(kind, f"llvm.fabs.f{8 * SIZES[kind]}", f"{kind} {x}")


def each_matrix(t: Template, kind: str, pointer: str, width: int) -> Iterator[tuple[str, Rows]]:
    """The matrices of a chunk. Words: matrices, matrices for each chunk, steps of both kinds."""
    total, group, row_step, step = t.words("i64", "total group row_step step")
    start, stop = t.part(group, total)
    with t.loop(start, stop) as matrix:
        place = t.at(pointer, kind, t.product(matrix, step))
        yield matrix, Rows(t, kind, place, width, row_step)


def lu(kind: str, width: int) -> Template:
    """x = p @ l @ u by rows, l below the diagonal; pivots count from 1.

    Words: x, which is overwritten, pivots, rows, and those of `each_matrix`.
    """
    t = Template("lu")
    (x, pivots), (count,) = t.words("ptr", "x pivots"), t.words("i64", "count")
    for matrix, rows in each_matrix(t, kind, x, width):
        own_pivots = t.at(pivots, "i64", t.product(matrix, width))
        with t.loop("0", str(width)) as k:
            pivot = largest_below(t, rows, k, count)
            t.store(t.add(pivot, 1), own_pivots, "i64", k)
            rows.swap(k, pivot)
            eliminate(t, rows, k, count)
    return t


def largest_below(t: Template, rows: Rows, k: str, count: str) -> str:
    """The row from the k-th on with the largest element in column k. NaNs are larger than all."""
    first = absolute(t, rows.kind, rows.element(k, k))
    with t.carrying(t.add(k, 1), count, "1", ("i64", k), (rows.kind, first)) as turn:
        place, most = turn.values
        here = absolute(t, rows.kind, rows.element(turn.index, k))
        larger = t.new(f"fcmp ugt {rows.kind} {here}, {most}")
        number = t.new(f"fcmp ord {rows.kind} {most}, {most}")
        larger = t.new(f"and i1 {larger}, {number}")
        turn.following = [
            t.select(larger, "i64", turn.index, place),
            t.select(larger, rows.kind, here, most),
        ]
    return turn.values[0]


def eliminate(t: Template, rows: Rows, k: str, count: str) -> None:
    """Take multiples of row k from those below, so that column k has the factors."""
    kind, pivot = rows.kind, rows.element(k, k)
    zero = t.new(f"fcmp oeq {kind} {pivot}, 0.0")
    rest, here = rows.after(rows.load(k), k), rows.places("eq", k)
    with t.loop(t.add(k, 1), count) as row:
        value = rows.element(row, k)
        quotient = t.new(f"fdiv {kind} {value}, {pivot}")
        factor = t.select(zero, kind, value, quotient)  # then it is 0, or a NaN
        less = rows.less(rows.load(row), factor, rest)
        rows.store(rows.select(here, t.splat(kind, factor, rows.width), less), row)


def cholesky(kind: str, n: int) -> Template:
    """x = uᵀ @ u by rows, of which the triangle below the diagonal is zeros.

    Words: x, which is overwritten, the orders of the first minors that aren't positive, or 0, and
    those of `each_matrix`.
    """
    t = Template("cholesky")
    x, orders = t.words("ptr", "x orders")
    for matrix, rows in each_matrix(t, kind, x, n):
        with t.carrying("0", str(n), "1", ("i64", "0")) as turn:
            k, failed = turn.index, turn.values[0]
            pivot = rows.element(k, k)
            positive = t.new(f"fcmp ogt {kind} {pivot}, 0.0")
            good = t.new(f"or i1 {positive}, {t.compare('ne', failed, 0)}")
            root = t.call(kind, f"llvm.sqrt.f{8 * SIZES[kind]}", f"{kind} {pivot}")
            scaled = rows.divided(rows.after(rows.load(k), t.sub(k, 1)), root)
            rows.store(scaled, k)
            with t.loop(t.add(k, 1), str(n)) as row:
                factor = rows.element(k, row)
                rows.store(rows.less(rows.load(row), factor, scaled), row)
            turn.following = [t.select(good, "i64", failed, t.add(k, 1))]
        t.store(turn.values[0], orders, "i64", matrix)
    return t


def cholesky_gradient(kind: str, n: int) -> Template:
    """Gradient of `cholesky`: g, the gradient of u, becomes twice that of x = uᵀ @ u, a symmetric
    matrix.

    From the last row to the first, `cholesky` backwards: the gradient of all later rows is there,
    with its mirror image, when a row comes. Words: u, g, and those of `each_matrix`; then the steps
    of u from a row to the next and from a matrix.
    """
    t = Template("cholesky_gradient")
    u, g = t.words("ptr", "u g")
    for matrix, rows in each_matrix(t, kind, g, n):
        row_step, step = t.words("i64", "u_row_step u_step")
        factor = Rows(t, kind, t.at(u, kind, t.product(matrix, step)), n, row_step)
        with t.loop("0", str(n)) as count:
            k = t.sub(t.sub(str(n), count), 1)
            row = factor.after(factor.load(k), k)
            root = factor.element(k, k)
            first = rows.after(rows.load(k), t.sub(k, 1))
            with t.carrying(t.add(k, 1), str(n), "1", (rows.type, first)) as turn:
                times = factor.element(k, turn.index)
                turn.following = [rows.less(turn.values[0], times, rows.load(turn.index))]
            change = rows.divided(turn.values[0], root)
            own = t.new(f"fmul {rows.type} {change}, {row}")
            rest = reduced_sum(t, kind, n, own)
            here = t.new(f"extractelement {rows.type} {change}, i64 {k}")
            diagonal = t.new(f"fsub {kind} {here}, {t.new(f'fdiv {kind} {rest}, {root}')}")
            later = rows.after(change, k)
            whole = rows.select(rows.places("eq", k), t.splat(kind, diagonal, n), later)
            rows.store(whole, k)
            with t.loop(t.add(k, 1), str(n)) as other:
                t.store(rows.element(k, other), rows.place(other), kind, k)
    return t


def reduced_sum(t: Template, kind: str, count: int, x: str) -> str:
    """Of the elements of a vector."""
    type = vector_of(kind, count)
    name = f"llvm.vector.reduce.fadd.v{count}f{8 * SIZES[kind]}"
    t.declarations.add(f"declare {kind} @{name}({kind}, {type})")
    return t.new(f"call reassoc {kind} @{name}({kind} 0.0, {type} {x})")


class Factor:
    """A triangle of n rows by which equations are solved."""

    def __init__(self, t: Template, kind: str, pointer: str, n: int, steps: tuple) -> None:
        self.t, self.kind, self.pointer, self.n, self.steps = t, kind, pointer, n, steps

    def element(self, row: str, column: str) -> str:
        t, (row_step, column_step) = self.t, self.steps
        place = t.add(t.product(row, row_step), t.product(column, column_step))
        return t.load(self.pointer, self.kind, place)

    def substitute(self, rows: Rows, lower: bool, unit: bool) -> None:
        """Solve for rows, in place, from the first to the last if `lower`, else from the last.

        With `unit` the diagonal isn't read, and is ones.
        """
        t, n = self.t, str(self.n)
        with t.loop("0", n) as count:
            row = count if lower else t.sub(t.sub(n, count), 1)
            first, last = ("0", row) if lower else (t.add(row, 1), n)
            with t.carrying(first, last, "1", (rows.type, rows.load(row))) as turn:
                factor = self.element(row, turn.index)
                turn.following = [rows.less(turn.values[0], factor, rows.load(turn.index))]
            value = turn.values[0]
            rows.store(value if unit else rows.divided(value, self.element(row, row)), row)


def lu_solve(kind: str, n: int, width: int, transposed: bool) -> Template:
    """By what `lu` left of square matrices. A chunk has some of the blocks of columns, of `width`
    each, of all matrices.

    Words: factors, pivots, y, out, columns of y, blocks for each matrix, blocks, blocks for each
    chunk.
    """
    t = Template("lu_solve")
    factors, pivots, y, out = t.words("ptr", "factors pivots y out")
    columns, blocks, total, group = t.words("i64", "columns blocks total group")
    start, stop = t.part(group, total)
    with t.loop(start, stop) as item:
        matrix, block = t.divided(item, blocks)
        own = t.at(factors, kind, t.product(matrix, n * n))
        own_pivots = t.at(pivots, "i64", t.product(matrix, n))
        factor = Factor(t, kind, own, n, (1, n) if transposed else (n, 1))
        place = t.add(t.product(t.product(matrix, n), columns), t.product(block, width))
        given, rows = (
            Rows(t, kind, t.at(pointer, kind, place), width, columns) for pointer in (y, out)
        )
        with t.loop("0", str(n)) as row:
            rows.store(given.load(row), row)
        if not transposed:
            permute(t, rows, own_pivots, n, backwards=False)
        factor.substitute(rows, lower=True, unit=not transposed)
        factor.substitute(rows, lower=False, unit=transposed)
        if transposed:
            permute(t, rows, own_pivots, n, backwards=True)
    return t


def permute(t: Template, rows: Rows, pivots: str, n: int, backwards: bool) -> None:
    with t.loop("0", str(n)) as count:
        row = t.sub(t.sub(str(n), count), 1) if backwards else count
        rows.swap(row, t.sub(t.load(pivots, "i64", row), 1))


def exchange(kind: str) -> Template:
    """Exchange rows, one pair after the other. A chunk has some columns of a matrix.

    Words: x, pivots, how many of these there are, their step from a matrix to the next, 1 or -1 for
    from the last to the first, columns, columns for each chunk, chunks for each matrix, steps of x
    from a row to the next and from a matrix.
    """
    t = Template("exchange")
    x, pivots = t.words("ptr", "x pivots")
    names = "count pivot_step direction columns width parts row_step step"
    count, pivot_step, direction, columns, width, parts, row_step, step = t.words("i64", names)
    matrix, part = t.divided("%chunk", parts)
    start, stop = t.part(width, columns, part)
    own = t.at(x, kind, t.product(matrix, step))
    own_pivots = t.at(pivots, "i64", t.product(matrix, pivot_step))
    backwards = t.compare("slt", direction, 0)
    parts_of_rows = t.spans(start, stop, lanes(kind))
    with t.loop("0", count) as k:
        row = t.select(backwards, "i64", t.sub(t.sub(count, k), 1), k)
        other = t.sub(t.load(own_pivots, "i64", row), 1)
        with t.when(t.compare("ne", row, other)):
            for first, last, size in parts_of_rows:
                with t.loop(first, last, str(size)) as column:
                    Rows(t, kind, t.at(own, kind, column), size, row_step).swap(row, other)
    return t


def solve_vector(kind: str, by_rows: bool, lower: bool, unit: bool) -> Template:
    """For right sides of one column, whose elements are neighbours, in place.

    `by_rows`: the elements of a row of x are neighbours, else those of a column are. Words: x, y,
    rows, matrices, matrices for each chunk, steps of x between rows, or columns, and between
    matrices, and of y between matrices.
    """
    t = Template("solve_vector")
    x, y = t.words("ptr", "x y")
    names = "n total group line_step x_step y_step"
    n, total, group, line_step, x_step, y_step = t.words("i64", names)
    start, stop = t.part(group, total)
    with t.loop(start, stop) as matrix:
        own = t.at(x, kind, t.product(matrix, x_step))
        vector = t.at(y, kind, t.product(matrix, y_step))
        with t.loop("0", n) as count:
            k = count if lower else t.sub(t.sub(n, count), 1)
            line = t.at(own, kind, t.product(k, line_step))
            before, after = ("0", k), (t.add(k, 1), n)
            value = t.load(vector, kind, k)
            if by_rows:
                span = before if lower else after
                value = t.new(f"fsub {kind} {value}, {inner_product(t, kind, line, vector, span)}")
            if not unit:
                value = t.new(f"fdiv {kind} {value}, {t.load(line, kind, k)}")
            t.store(value, vector, kind, k)
            if not by_rows:
                take_multiple(t, kind, value, line, vector, after if lower else before)
    return t


def inner_product(t: Template, kind: str, x: str, y: str, span: tuple[str, str]) -> str:
    """Of the elements of two arrays in a span."""
    totals = []
    for start, stop, size in t.spans(*span, lanes(kind)):
        type = vector_of(kind, size)
        with t.carrying(start, stop, str(size), (type, "zeroinitializer")) as turn:
            one, other = (t.load(pointer, kind, turn.index, count=size) for pointer in (x, y))
            turn.following = [t.fma(kind, size, one, other, turn.values[0])]
        totals.append(reduced_sum(t, kind, size, turn.values[0]))
    return t.new(f"fadd {kind} {totals[0]}, {totals[1]}")


def take_multiple(
    t: Template, kind: str, factor: str, x: str, y: str, span: tuple[str, str]
) -> None:
    """y -= factor * x in a span."""
    negative = t.new(f"fneg {kind} {factor}")
    for start, stop, size in t.spans(*span, lanes(kind)):
        many = t.splat(kind, negative, size)
        with t.loop(start, stop, str(size)) as place:
            one, other = (t.load(pointer, kind, place, count=size) for pointer in (x, y))
            t.store(t.fma(kind, size, many, one, other), y, kind, place, size)


def solve_triangular(kind: str, n: int, width: int, lower: bool, unit: bool) -> Template:
    """In place. A chunk has some of the blocks of columns, of `width` each, of all matrices.

    Words: x, y, blocks for each matrix, blocks, blocks for each chunk, steps of x from a row to the
    next, from a column, from a matrix, and of y from a row and from a matrix.
    """
    t = Template("solve_triangular")
    x, y = t.words("ptr", "x y")
    names = "blocks total group row_step column_step x_step y_row_step y_step"
    blocks, total, group, row_step, column_step, x_step, y_row_step, y_step = t.words("i64", names)
    start, stop = t.part(group, total)
    with t.loop(start, stop) as item:
        matrix, block = t.divided(item, blocks)
        own = t.at(x, kind, t.product(matrix, x_step))
        place = t.add(t.product(matrix, y_step), t.product(block, width))
        rows = Rows(t, kind, t.at(y, kind, place), width, y_row_step)
        Factor(t, kind, own, n, (row_step, column_step)).substitute(rows, lower, unit)
    return t
