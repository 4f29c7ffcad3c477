"""Small matrices taken apart, and equations solved with the parts, as LLVM IR.

There are many of them, and each is done by rows: a row is one vector, whose length is a part of the
kernel. Chunks have some of the matrices.
"""

from .template import SIZES, Template, constants, vector_of

MOST = 32  # rows of a small matrix
COLUMNS = 16  # of a right side that are solved for at once, at most


class Rows:
    """Matrices of n rows, of `width` columns that are a vector, `step` elements apart."""

    def __init__(self, t: Template, kind: str, pointer: str, width: int, step: str | int) -> None:
        self.t, self.kind, self.pointer, self.width, self.step = t, kind, pointer, width, step
        self.type = vector_of(kind, width)

    def place(self, row: str) -> str:
        return self.t.at(self.pointer, self.kind, self.t.product(row, self.step))

    def load(self, row: str) -> str:
        return self.t.new(f"load {self.type}, ptr {self.place(row)}, align {SIZES[self.kind]}")

    def store(self, value: str, row: str) -> None:
        self.t.line(f"store {self.type} {value}, ptr {self.place(row)}, align {SIZES[self.kind]}")

    def swap(self, one: str, other: str) -> None:
        first, second = self.load(one), self.load(other)
        self.store(first, other)
        self.store(second, one)

    def less(self, row: str, factor: str, other: str) -> str:
        """row - factor * other, the factor being a number."""
        negative = self.t.new(f"fneg {self.kind} {factor}")
        many = self.t.splat(self.kind, negative, self.width)
        fma = f"llvm.fma.v{self.width}f{8 * SIZES[self.kind]}"
        given = [f"{self.type} {x}" for x in (many, other, row)]
        return self.t.call(self.type, fma, *given)

    def by(self, operation: str, row: str, number: str) -> str:
        many = self.t.splat(self.kind, number, self.width)
        return self.t.new(f"{operation} {self.type} {row}, {many}")


def absolute(t: Template, kind: str, x: str) -> str:
    return t.call(kind, f"llvm.fabs.f{8 * SIZES[kind]}", f"{kind} {x}")


def element(t: Template, kind: str, pointer: str, n: int, row: str, column: str) -> str:
    return t.load(pointer, kind, t.add(t.product(row, n), column))


def after(t: Template, rows: Rows, row: str, k: str) -> str:
    """The elements of a row after the k-th, zeros before."""
    lanes = f"{vector_of('i64', rows.width)} {constants('i64', range(rows.width))}"
    many = t.splat("i64", k, rows.width)
    inside = t.new(f"icmp sgt {lanes}, {many}")
    mask = f"{vector_of('i1', rows.width)} {inside}"
    return t.new(f"select {mask}, {rows.type} {row}, {rows.type} zeroinitializer")


def lu(kind: str, n: int) -> str:
    """x = p @ l @ u by rows, l below the diagonal; pivots count from 1.

    Words: x, which is overwritten, pivots, matrices, matrices for each chunk.
    """
    t = Template("lu")
    (x, pivots), (total, group) = t.words("ptr", 2), t.words("i64", 2)
    start, stop = t.part(group, total)
    with t.loop(start, stop) as matrix:
        rows = Rows(t, kind, t.at(x, kind, t.product(matrix, n * n)), n, n)
        own_pivots = t.at(pivots, "i64", t.product(matrix, n))
        with t.loop("0", str(n)) as k:
            pivot = largest_below(t, rows, k)
            t.store(t.add(pivot, 1), own_pivots, "i64", k)
            rows.swap(k, pivot)
            eliminate(t, rows, k)
    return str(t)


def largest_below(t: Template, rows: Rows, k: str) -> str:
    """The row from the k-th on with the largest element in column k. NaNs are larger than all."""
    kind, n = rows.kind, rows.width
    first = absolute(t, kind, element(t, kind, rows.pointer, n, k, k))
    with t.carrying(t.add(k, 1), str(n), "1", ("i64", k), (kind, first)) as turn:
        place, most = turn.values
        here = absolute(t, kind, element(t, kind, rows.pointer, n, turn.index, k))
        larger = t.new(f"fcmp ugt {kind} {here}, {most}")
        turn.following = [
            t.select(larger, "i64", turn.index, place),
            t.select(larger, kind, here, most),
        ]
    return turn.values[0]


def eliminate(t: Template, rows: Rows, k: str) -> None:
    """Take multiples of row k from those below, so that column k has the factors."""
    kind, n = rows.kind, rows.width
    pivot = element(t, kind, rows.pointer, n, k, k)
    zero = t.new(f"fcmp oeq {kind} {pivot}, 0.0")
    rest = after(t, rows, rows.load(k), k)
    with t.loop(t.add(k, 1), str(n)) as row:
        value = element(t, kind, rows.pointer, n, row, k)
        quotient = t.new(f"fdiv {kind} {value}, {pivot}")
        factor = t.select(zero, kind, value, quotient)  # then it is 0, or a NaN
        rows.store(rows.less(rows.load(row), factor, rest), row)
        t.store(factor, rows.place(row), kind, k)


def cholesky(kind: str, n: int) -> str:
    """x = uᵀ @ u by rows, of which the triangle below the diagonal is zeros.

    Words: x, which is overwritten, orders of the first minors that aren't positive or 0, matrices,
    matrices for each chunk.
    """
    t = Template("cholesky")
    (x, info), (total, group) = t.words("ptr", 2), t.words("i64", 2)
    start, stop = t.part(group, total)
    with t.loop(start, stop) as matrix:
        rows = Rows(t, kind, t.at(x, kind, t.product(matrix, n * n)), n, n)
        with t.carrying("0", str(n), "1", ("i64", "0")) as turn:
            k, failed = turn.index, turn.values[0]
            pivot = element(t, kind, rows.pointer, n, k, k)
            positive = t.new(f"fcmp ogt {kind} {pivot}, 0.0")
            good = t.new(f"or i1 {positive}, {t.compare('ne', failed, 0)}")
            root = t.call(kind, f"llvm.sqrt.f{8 * SIZES[kind]}", f"{kind} {pivot}")
            before = t.sub(k, 1)
            scaled = rows.by("fdiv", after(t, rows, rows.load(k), before), root)
            rows.store(scaled, k)
            with t.loop(t.add(k, 1), str(n)) as row:
                factor = t.load(rows.place(k), kind, row)
                rows.store(rows.less(rows.load(row), factor, scaled), row)
            turn.following = [t.select(good, "i64", failed, t.add(k, 1))]
        t.store(turn.values[0], info, "i64", matrix)
    return str(t)


class Factor:
    """A triangle by which rows are solved for; `turned`: its transpose is. `unit`: the diagonal
    isn't read, and is ones."""

    def __init__(self, t: Template, kind: str, pointer: str, n: int, turned: bool) -> None:
        self.t, self.kind, self.pointer, self.n, self.turned = t, kind, pointer, n, turned

    def element(self, row: str, column: str) -> str:
        place = (column, row) if self.turned else (row, column)
        return element(self.t, self.kind, self.pointer, self.n, *place)

    def substitute(self, rows: Rows, lower: bool, unit: bool) -> None:
        """Solve, in place, from the first row to the last if `lower`, else from the last."""
        t, n = self.t, str(self.n)
        with t.loop("0", n) as count:
            row = count if lower else t.sub(t.sub(n, count), 1)
            first, last = ("0", row) if lower else (t.add(row, 1), n)
            with t.carrying(first, last, "1", (rows.type, rows.load(row))) as turn:
                factor = self.element(row, turn.index)
                turn.following = [rows.less(turn.values[0], factor, rows.load(turn.index))]
            value = turn.values[0]
            rows.store(value if unit else rows.by("fdiv", value, self.element(row, row)), row)


def right_sides(t: Template, kind: str, n: int, width: int):
    """The blocks of columns of a chunk, each copied from y to out; the last may overlap."""
    y, out = t.words("ptr", 2)
    total, group, count = t.words("i64", 3)
    start, stop = t.part(group, total)
    with t.loop(start, stop) as matrix:
        whole = t.product(t.product(matrix, n), count)
        with t.loop("0", count, str(width)) as column:
            place = t.add(whole, t.minimum(column, t.sub(count, width)))
            given, rows = (
                Rows(t, kind, t.at(pointer, kind, place), width, count) for pointer in (y, out)
            )
            with t.loop("0", str(n)) as row:
                rows.store(given.load(row), row)
            yield matrix, rows


def lu_solve(kind: str, n: int, width: int, transposed: bool) -> str:
    """Words: what `lu` left, pivots, y, out, matrices, matrices for each chunk, columns of y."""
    t = Template("lu_solve")
    factors, pivots = t.words("ptr", 2)
    for matrix, rows in right_sides(t, kind, n, width):
        own = t.at(factors, kind, t.product(matrix, n * n))
        own_pivots = t.at(pivots, "i64", t.product(matrix, n))
        factor = Factor(t, kind, own, n, transposed)
        if not transposed:
            permute(t, rows, own_pivots, n, backwards=False)
        factor.substitute(rows, lower=True, unit=not transposed)
        factor.substitute(rows, lower=False, unit=transposed)
        if transposed:
            permute(t, rows, own_pivots, n, backwards=True)
    return str(t)


def permute(t: Template, rows: Rows, pivots: str, n: int, backwards: bool) -> None:
    with t.loop("0", str(n)) as count:
        row = t.sub(t.sub(str(n), count), 1) if backwards else count
        rows.swap(row, t.sub(t.load(pivots, "i64", row), 1))


def solve_triangular(kind: str, n: int, width: int, turned: bool, lower: bool, unit: bool) -> str:
    """Words: x, y, out, matrices, matrices for each chunk, columns of y. `turned`: x has columns
    where there are rows."""
    t = Template("solve_triangular")
    (x,) = t.words("ptr", 1)
    for matrix, rows in right_sides(t, kind, n, width):
        own = t.at(x, kind, t.product(matrix, n * n))
        Factor(t, kind, own, n, turned).substitute(rows, lower=lower, unit=unit)
    return str(t)
