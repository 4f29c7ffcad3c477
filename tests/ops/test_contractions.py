"""einsum and the products: values as NumPy has them, gradients of two orders, orders, errors."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions._contraction_order import contraction_order, greedy_order
from adjoint.functions.einsum import contraction
from tests.support.helpers import close, leaf, values
from tests.support.misuse import Misuse, ones

# Random expressions.


def expression(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts of 1 to 5 operands with their shapes: repeats, ellipses, broadcasting, zeros."""
    letters = list("abcdefZ")[: rng.integers(1, 8)]
    lengths = {k: int(rng.choice([0, 1, 2, 3, 4], p=[0.03, 0.12, 0.4, 0.35, 0.1])) for k in letters}
    hidden = [int(n) for n in rng.integers(1, 4, rng.integers(0, 3))]
    has_ellipsis = rng.random() < 0.4
    terms, shapes = [], []
    for _ in range(rng.integers(1, 6)):
        term = [str(k) for k in rng.choice(letters, rng.integers(0, 4))]
        short = {k for k in term if rng.random() < 0.12}
        shape = [1 if k in short else lengths[k] for k in term]
        if has_ellipsis and rng.random() < 0.7:
            place = int(rng.integers(0, len(term) + 1))
            shown = hidden[int(rng.integers(0, len(hidden) + 1)) :]
            term[place:place] = ["..."]
            shape[place:place] = [1 if rng.random() < 0.2 else n for n in shown]
        terms.append("".join(term))
        shapes.append(tuple(shape))
    return with_output(rng, ",".join(terms)), shapes


def with_output(rng: np.random.Generator, subscripts: str) -> str:
    if rng.random() < 0.3:
        return subscripts
    used = sorted(set(subscripts) - set(".,"))
    output = [str(k) for k in rng.permutation(used) if rng.random() < 0.5]
    if "..." in subscripts:
        output.insert(int(rng.integers(0, len(output) + 1)), "...")
    return f"{subscripts} -> {''.join(output)}"


def strided(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The same values in memory of another order."""
    axes = rng.permutation(array.ndim)
    return np.array(array.transpose(axes), order="C").transpose(np.argsort(axes))


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "?":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype[0] in "iu":
        return np.asarray(rng.integers(-3 if dtype[0] == "i" else 0, 4, shape)).astype(dtype)
    imaginary = 1j * rng.standard_normal(shape) if dtype[0] == "c" else 0
    return np.asarray(rng.standard_normal(shape) + imaginary).astype(dtype)


@pytest.mark.parametrize("seed", range(40))
def test_random_einsums_are_numpy_s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = ("f8", "f8", "f8", "c16", "i8", "i4", "?", "f8")[seed % 8]
    compared = 0
    for _ in range(12):
        subscripts, shapes = expression(rng)
        arrays = [strided(rng, draw(rng, shape, dtype)) for shape in shapes]
        try:
            expected = np.einsum(subscripts, *arrays)
        except ValueError:  # lengths that don't agree
            with pytest.raises(ad.AdjointError, match="einsum"):
                ad.einsum(subscripts, *arrays)
            continue
        compared += 1
        for optimize in (True, False, "greedy", "optimal"):
            out = ad.einsum(subscripts, *map(ad.asarray, arrays), optimize=optimize)
            assert out.raw.dtype == expected.dtype and out.shape == expected.shape, subscripts
            np.testing.assert_allclose(out.numpy(), expected, 1e-12, 1e-12, err_msg=subscripts)
    assert compared > 5


@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_random_einsums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    checked = 0
    while checked < 2:
        subscripts, shapes = expression(rng)
        sizes = [math.prod(shape) for shape in shapes]
        if len(shapes) > 3 or max(sizes) > 9:
            continue
        arrays = [rng.standard_normal(shape) for shape in shapes]
        try:
            ad.einsum(subscripts, *arrays)
        except ad.ShapeError:
            continue
        ad.testing.check_grads(lambda *xs, text=subscripts: ad.einsum(text, *xs), arrays, order=2)
        checked += 1


# Expressions with a name.

EXPRESSIONS = {
    "matrix product": ("ij,jk->ik", (2, 3), (3, 4)),
    "implicit output is alphabetical": ("bj,ja", (2, 3), (3, 4)),
    "batched product": ("bij,bjk->bik", (2, 3, 2), (2, 2, 3)),
    "transposed result": ("ij,jk->ki", (2, 3), (3, 4)),
    "trace": ("ii", (3, 3)),
    "diagonal": ("ii->i", (3, 3)),
    "two diagonals": ("iijj->ij", (2, 2, 3, 3)),
    "diagonal of three axes": ("iii->i", (2, 2, 2)),
    "diagonals of a batch": ("...ii->...i", (2, 3, 3)),
    "transpose": ("ijk->kij", (2, 3, 4)),
    "sum": ("ijk->", (2, 3, 4)),
    "sum over one axis": ("ijk->ik", (2, 3, 4)),
    "outer product": ("i,j->ij", (2,), (3,)),
    "elementwise product": ("ij,ij->ij", (2, 3), (2, 3)),
    "inner product": ("ij,ij->", (2, 3), (2, 3)),
    "batched inner product": ("bi,bi->b", (4, 3), (4, 3)),
    "an index of one operand is summed": ("ij,kl->il", (2, 3), (4, 2)),
    "bilinear form": ("bi,kij,bj->bk", (3, 2), (4, 2, 3), (3, 3)),
    "attention": ("bthd,bshd->bhts", (2, 3, 2, 4), (2, 2, 2, 4)),
    "two indices summed": ("aijb,ijc->abc", (2, 3, 2, 2), (3, 2, 4)),
    "summed indices in another order": ("aij,jib->ab", (2, 3, 4), (4, 3, 2)),
    "ellipses broadcast": ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
    "ellipsis in the middle": ("i...j,j->...i", (2, 3, 4), (4,)),
    "length 1 broadcasts": ("ij,ij->ij", (1, 3), (2, 1)),
    "length 1 broadcasts and is summed": ("ij,ij->", (1, 3), (2, 1)),
    "length 1 stays": ("ij,jk->ik", (1, 3), (3, 1)),
    "0-d operands": (",i,->i", (), (3,), ()),
    "0-d result of 0-d": ("->", ()),
    "nothing to sum": ("ij,jk->ik", (2, 0), (0, 3)),
    "empty result": ("ij,jk->ik", (0, 2), (2, 3)),
    "chain": ("ab,bc,cd,de->ae", (2, 3), (3, 2), (2, 4), (4, 2)),
    "one index in three operands": ("ia,ib,ic->abc", (3, 2), (3, 2), (3, 2)),
    "batch not first": ("ibj,bjk->ibk", (2, 3, 4), (3, 4, 2)),
    "identity": ("ij->ij", (2, 3)),
}
expressions = pytest.mark.parametrize("case", EXPRESSIONS.values(), ids=EXPRESSIONS)


def inputs(shapes: tuple) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape) for shape in shapes]


@expressions
def test_einsum_is_numpy_s(case: tuple) -> None:
    subscripts, *shapes = case
    arrays = inputs(tuple(shapes))
    close(ad.einsum(subscripts, *map(ad.asarray, arrays)), np.einsum(subscripts, *arrays))


@expressions
def test_einsum_has_gradients_of_two_orders(case: tuple) -> None:
    subscripts, *shapes = case
    ad.testing.check_grads(lambda *xs: ad.einsum(subscripts, *xs), inputs(tuple(shapes)))


@expressions
def test_einsum_agrees_with_torch_in_two_orders(case: tuple) -> None:
    torch: Any = pytest.importorskip("torch")
    subscripts, *shapes = case
    arrays = inputs(tuple(shapes))

    def orders(einsum: Callable, grad: Callable, xs: list) -> tuple[list, list, list]:
        out = einsum(subscripts, *xs)
        first = grad((out * out).sum(), xs, create_graph=True)
        return [out], list(first), list(grad(sum((g * g * g).sum() for g in first), xs))

    ours = orders(ad.einsum, ad.autograd.grad, [leaf(x) for x in arrays])
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    theirs = orders(torch.einsum, torch.autograd.grad, tensors)
    for mine, other in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        np.testing.assert_allclose(values(mine), other.detach().numpy(), 1e-10, 1e-10)


@expressions
def test_einsum_replays_from_a_trace(case: tuple) -> None:
    subscripts, *shapes = case
    tensors = [ad.asarray(x) for x in inputs(tuple(shapes))]
    graph = ad.trace(lambda *xs: ad.einsum(subscripts, *xs), *tensors)
    np.testing.assert_array_equal(graph(*tensors).numpy(), ad.einsum(subscripts, *tensors).numpy())


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ab,bc->ac", [[0, 1], [1, 2], [0, 2]]),
        ("ab,bc", [[0, 1], [1, 2]]),
        ("ba,cb", [[7, 3], [11, 7]]),
        ("...a,a->...", [[..., 5], [5], [...]]),
    ],
)
def test_lists_of_integers_mean_what_letters_do(text: str, terms: list) -> None:
    x, y = inputs(((3, 3), (3,) if "..." in text else (3, 3)))
    pairs = [part for pair in zip((x, y), terms, strict=False) for part in pair]
    close(ad.einsum(*pairs, *terms[2:]), values(ad.einsum(text, x, y)))


def test_letters_of_every_alphabet_are_indices() -> None:
    x, y = inputs(((2, 3), (3, 4)))
    close(ad.einsum("θβ,βλ->θλ", x, y), x @ y)


def test_the_result_is_a_tensor_of_its_own() -> None:
    x = ad.tensor([1.0, 2.0])
    y = ad.einsum("i->i", x)
    y[0] = 5.0
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("f4", "f8"), "f8"),
        (("f4", "i8"), "f4"),
        (("i4", "u1"), "i4"),
        (("?", "i2"), "i2"),
        (("?", "?"), "?"),
        (("f4", "c8"), "c8"),
        (("f8", "c8"), "c16"),
        (("f2", "f2"), "f2"),
    ],
)
def test_dtypes_promote(dtypes: tuple[str, str], expected: str) -> None:
    x, y = (ad.ones((2, 2), dtype=np.dtype(name)) for name in dtypes)
    for out in (ad.einsum("ij,jk->ik", x, y), ad.tensordot(x, y, axes=1), ad.vecdot(x, y)):
        assert out.raw.dtype == np.dtype(expected)


def test_python_numbers_are_operands_and_weak() -> None:
    x = ad.ones((3,), dtype=ad.float32)
    assert ad.einsum(",i->i", 2.5, x).dtype == ad.float32
    assert ad.einsum(",i->i", 2, x).tolist() == [2.0] * 3


def test_operands_that_need_no_gradient_get_none() -> None:
    x, y = leaf(np.ones((2, 2))), ad.ones((2, 2), dtype=ad.float64)
    ad.einsum("ij,jk->", x, y).backward()
    close(x.grad, np.full((2, 2), 2.0))
    assert y.grad is None


# The order of contractions.


def cost(path: Any, terms: list[str], output: str, lengths: dict[str, int]) -> int:
    """Multiplications of a path of pairs."""
    left, total = [set(term) for term in terms], 0
    for pair in path:
        taken = [left[k] for k in pair]
        left = [term for k, term in enumerate(left) if k not in pair]
        both = set.union(*taken)
        total += math.prod(lengths[k] for k in both)
        left.append(both & (set(output).union(*left)))
    return total


def every_path(count: int) -> list[tuple]:
    if count == 1:
        return [()]
    pairs = itertools.combinations(range(count), 2)
    return [(pair, *rest) for pair in pairs for rest in every_path(count - 1)]


@pytest.mark.parametrize("seed", range(12))
def test_the_order_is_the_cheapest_there_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = {k: int(rng.integers(2, 9)) for k in "abcdef"}
    terms = ["".join(rng.choice(list("abcdef"), rng.integers(1, 4), False)) for _ in range(5)]
    counts = {k: sum(k in term for term in terms) for k in lengths}
    output = "".join(k for k in "abcdef" if counts[k] == 1)
    numbers = [tuple(map(ord, term)) for term in terms]
    sizes = {ord(k): n for k, n in lengths.items()}
    found = contraction_order(numbers, tuple(map(ord, output)), sizes, True)
    best = min(cost(path, terms, output, lengths) for path in every_path(5))
    assert cost(found, terms, output, lengths) == best


def test_a_chain_with_a_bad_natural_order_takes_the_good_one() -> None:
    shapes = {"ab": (50, 2), "bc": (2, 50), "cd": (50, 2), "de": (2, 50)}
    operands = [ad.ones(shape) for shape in shapes.values()]
    path, text = ad.einsum_path("ab,bc,cd,de->ae", *operands)
    assert path[1] == (1, 2)  # the small matrix in the middle
    assert "25000000 multiplications" not in text
    lengths = {"a": 50, "b": 2, "c": 50, "d": 2, "e": 50}
    good = cost(path[1:], list(shapes), "ae", lengths)
    natural = cost([(0, 1), (0, 2), (0, 1)], list(shapes), "ae", lengths)
    assert good == 5400 and natural == 15000
    assert f"{good} in pairs" in text


def test_more_than_eight_operands_are_ordered_greedily() -> None:
    count = 12
    terms = [chr(97 + k) + chr(98 + k) for k in range(count)]
    lengths = {chr(97 + k): (40 if k % 2 else 2) for k in range(count + 1)}
    output = "a" + chr(97 + count)
    arrays = [np.random.default_rng(k).random([lengths[c] for c in t]) for k, t in enumerate(terms)]
    subscripts = f"{','.join(terms)}->{output}"
    path = ad.einsum_path(subscripts, *arrays)[0][1:]
    assert cost(path, terms, output, lengths) <= 12 * 2 * 40 * 2
    expected = np.linalg.multi_dot(arrays)
    np.testing.assert_allclose(ad.einsum(subscripts, *arrays).numpy(), expected, 1e-12)


def test_greedy_takes_outer_products_last() -> None:
    terms = [frozenset({5}), frozenset({6}), frozenset({1, 3}), frozenset({3, 4})]
    path = greedy_order(terms, frozenset({1, 4, 5, 6}), {1: 50, 3: 2, 4: 50, 5: 2, 6: 2})
    assert path[0] == (2, 3)  # although its result is the larger one


@pytest.mark.parametrize("optimize", [True, "greedy", "optimal"])
def test_numpy_s_paths_and_ours_can_be_given(optimize: Any) -> None:
    arrays = inputs(((2, 3), (3, 4), (4, 5), (5, 2)))
    expected = np.linalg.multi_dot(arrays)
    for source in (np.einsum_path, ad.einsum_path):
        path = source("ab,bc,cd,de->ae", *arrays, optimize=optimize)[0]
        close(ad.einsum("ab,bc,cd,de->ae", *arrays, optimize=path), expected)
    close(ad.einsum("ab,bc,cd,de->ae", *arrays, optimize=[(0, 1, 2, 3)]), expected)


# What a contraction is made of.


def recorded(subscripts: str, *arrays: np.ndarray) -> tuple[list[str], int]:
    """The ops of an einsum, and how many of its reshapes copy."""
    tensors = [ad.asarray(x) for x in arrays]
    steps = contraction(subscripts, tuple(x.shape for x in tensors), True).steps
    results: list = list(tensors)
    copies = 0
    for call, sources, attrs in steps:
        out = call(*(results[k] for k in sources), **attrs)
        if len(sources) == 1 and call.__name__ in ("reshape", "permute_dims"):
            copies += not np.shares_memory(out.raw, results[sources[0]].raw)
        results.append(out)
    return [step.call.__name__ for step in steps], copies


COSTS: dict[str, tuple[str, tuple, list[str]]] = {
    "a matrix product": ("ij,jk->ik", ((4, 5), (5, 6)), ["matmul"]),
    "a batched one": ("bij,bjk->bik", ((3, 4, 5), (3, 5, 6)), ["matmul"]),
    "with two batch axes": ("abij,abjk->abik", ((2, 3, 4, 5), (2, 3, 5, 6)), ["matmul"]),
    "transposed operand": ("ij,kj->ik", ((4, 5), (6, 5)), ["permute_dims", "matmul"]),
    "transposed result": ("ij,jk->ki", ((4, 5), (5, 6)), ["permute_dims"] * 2 + ["matmul"]),
    "a layer": ("btc,cd->btd", ((2, 3, 4), (4, 5)), ["reshape", "matmul", "reshape"]),
    "heads": (
        "btc,chd->bthd",
        ((2, 3, 4), (4, 5, 6)),
        ["reshape", "reshape", "matmul", "reshape"],
    ),
    "attention": (
        "bthd,bshd->bhts",
        ((2, 3, 4, 5), (2, 6, 4, 5)),
        ["permute_dims", "permute_dims", "matmul"],
    ),
    "elementwise": ("ij,ij->ij", ((4, 5), (4, 5)), ["multiply"]),
    "outer": ("i,j->ij", ((4,), (5,)), ["reshape", "multiply"]),
    "sum first": ("ij,k->ik", ((4, 5), (6,)), ["sum", "reshape", "multiply"]),
}


@pytest.mark.parametrize("case", COSTS.values(), ids=COSTS)
def test_a_contraction_is_few_ops_and_copies_nothing(case: tuple) -> None:
    subscripts, shapes, ops = case
    assert recorded(subscripts, *inputs(shapes)) == (ops, 0)


def test_the_contraction_is_found_once() -> None:
    x, y = inputs(((4, 5), (5, 6)))
    ad.einsum("pq,qr->pr", x, y)
    before = contraction.cache_info().misses
    ad.einsum("pq,qr->pr", y.T, x.T.copy())
    ad.einsum("pq,qr->pr", x, y)
    assert contraction.cache_info().misses == before + 1


# Products.


class Product(NamedTuple):
    """A call on tensors, the same in NumPy, and the shapes to try."""

    call: Callable
    reference: Callable
    shapes: tuple


PRODUCTS = {
    "tensordot": Product(ad.tensordot, np.tensordot, ((2, 3, 4), (3, 4, 2))),
    "tensordot 0": Product(
        lambda x, y: ad.tensordot(x, y, axes=0),
        lambda x, y: np.tensordot(x, y, 0),
        ((2, 3), (2,)),
    ),
    "tensordot 1": Product(
        lambda x, y: ad.tensordot(x, y, axes=1),
        lambda x, y: np.tensordot(x, y, 1),
        ((2, 3), (3, 2)),
    ),
    "tensordot pair": Product(
        lambda x, y: ad.tensordot(x, y, axes=((0, 2), (-1, 0))),
        lambda x, y: np.tensordot(x, y, ((0, 2), (-1, 0))),
        ((2, 3, 2), (2, 3, 2)),
    ),
    "tensordot of ones": Product(ad.tensordot, np.tensordot, ((2, 1, 1), (1, 1, 2))),
    "tensordot of nothing": Product(
        lambda x, y: ad.tensordot(x, y, axes=1),
        lambda x, y: np.tensordot(x, y, 1),
        ((2, 0), (0, 2)),
    ),
    "vecdot": Product(ad.vecdot, np.vecdot, ((2, 3), (2, 3))),
    "vecdot broadcasts": Product(ad.vecdot, np.vecdot, ((2, 1, 3), (4, 3))),
    "vecdot axis": Product(
        lambda x, y: ad.vecdot(x, y, axis=-2),
        lambda x, y: np.vecdot(np.moveaxis(x, -2, -1), np.moveaxis(y, -2, -1)),
        ((3, 2), (2, 3, 1)),
    ),
    "vecdot from the front": Product(
        lambda x, y: ad.vecdot(x, y, axis=0), lambda x, y: np.vecdot(x.T, y.T), ((3, 2), (3, 2))
    ),
    "dot": Product(ad.dot, np.dot, ((3,), (3,))),
    "inner": Product(ad.inner, np.inner, ((2, 3), (4, 3))),
    "inner of 0-d": Product(ad.inner, np.inner, ((), (4, 3))),
    "outer": Product(ad.outer, np.outer, ((2,), (3,))),
    "kron": Product(ad.kron, np.kron, ((2, 3), (3, 2))),
    "kron of fewer axes": Product(ad.kron, np.kron, ((2,), (2, 3))),
    "kron with 0-d": Product(ad.kron, np.kron, ((), (2, 3))),
    "cross": Product(ad.cross, np.cross, ((2, 3), (2, 3))),
    "cross broadcasts": Product(ad.cross, np.cross, ((3,), (2, 3))),
    "cross axis": Product(
        lambda x, y: ad.cross(x, y, axis=-2),
        lambda x, y: np.cross(x, y, axis=-2),
        ((3, 2), (3, 2)),
    ),
    "matmul of vectors": Product(ad.matmul, np.matmul, ((3,), (3,))),
    "matmul row": Product(ad.matmul, np.matmul, ((3,), (2, 3, 2))),
    "matmul column": Product(ad.matmul, np.matmul, ((2, 2, 3), (3,))),
}
products = pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)


@products
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i2", "i8", "u4"])
def test_product_is_numpy_s(product: Product, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [draw(rng, shape, dtype) for shape in product.shapes]
    out, expected = product.call(*map(ad.asarray, arrays)), product.reference(*arrays)
    assert out.raw.dtype == expected.dtype
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)


@products
def test_product_has_gradients_of_two_orders(product: Product) -> None:
    ad.testing.check_grads(product.call, inputs(product.shapes), order=2)


# Errors.


E = ad.einsum
MISUSES = [
    Misuse(ad.ArgumentError, lambda: E("ij->ik", ones(2, 3)), "'ij->ik' | 'k' | no operand"),
    Misuse(ad.ArgumentError, lambda: E("ij->ii", ones(2, 3)), "'i' | more than once in the output"),
    Misuse(
        ad.ShapeError,
        lambda: E("ij,jk->ik", ones(2, 3), ones(4, 5)),
        "index 'j' | length 3 in operand 0 of shape (2, 3) | length 4 in operand 1 of shape (4, 5)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: E("i,i,i", ones(1), ones(2), ones(3)),
        "index 'i' | length 2 in operand 1 | length 3 in operand 2",
    ),
    Misuse(ad.ShapeError, lambda: E("ii->i", ones(2, 3)), "'i' | repeated | (2, 3) | 2 and 3"),
    Misuse(
        ad.ShapeError, lambda: E("i,ii->", ones(3), ones(1, 3)), "operand 1 | repeated | (1, 3)"
    ),
    Misuse(
        ad.ShapeError,
        lambda: E("...,...", ones(2, 3), ones(4, 3)),
        "axis -2 of '...' | length 2 | length 4",
    ),
    Misuse(ad.ArgumentError, lambda: E("ij,jk", ones(2, 3)), "for 2 operands | got 1"),
    Misuse(ad.ArgumentError, lambda: E("ij", ones(2, 2), ones(2, 2)), "for 1 operands | got 2"),
    Misuse(ad.ShapeError, lambda: E("ij", ones(2)), "operand 0 | (2,) | 2 axes"),
    Misuse(ad.ShapeError, lambda: E("ij", ones(2, 2, 2)), "(2, 2, 2) | 2 axes | '...'"),
    Misuse(ad.ShapeError, lambda: E("i...j", ones(2)), "operand 0 | (2,) | 2 axes"),
    Misuse(ad.ArgumentError, lambda: E("...i->i", ones(2, 3)), "'...' | output"),
    Misuse(ad.ArgumentError, lambda: E("...i...", ones(2, 3)), "'...' | more than once | 0"),
    Misuse(ad.ArgumentError, lambda: E("...->......", ones(2)), "'...' | more than once | output"),
    Misuse(ad.ArgumentError, lambda: E("i1", ones(2, 3)), "'1' | letters"),
    Misuse(ad.ArgumentError, lambda: E("i.j", ones(2, 3)), "'.' | letters"),
    Misuse(ad.ArgumentError, lambda: E("i->i->i", ones(2)), "'-' | once before the output"),
    Misuse(ad.ArgumentError, lambda: E("i"), "at least one operand"),
    Misuse(ad.DTypeError, lambda: E(ones(2, 3)), "string | list of integers | Tensor"),
    Misuse(ad.DTypeError, lambda: E(ones(2), ["i"]), "integer | 'i'"),
    Misuse(ad.ArgumentError, lambda: E(ones(2), [-1]), "negative"),
    Misuse(ad.ArgumentError, lambda: E(ones(2), [0], [1]), "index 1 | no operand"),
    Misuse(ad.ShapeError, lambda: E(ones(2), [4], ones(3), [4]), "[[4], [4]] | index 4 | length 3"),
    Misuse(ad.DTypeError, lambda: E("i", [1.0]), "einsum | list | ad.asarray"),
    Misuse(
        ad.DTypeError,
        lambda: E("i,i", ad.ones(2, dtype=ad.uint64), ad.ones(2, dtype=ad.int64)),
        "einsum | uint64 | int64",
    ),
    Misuse(ad.ArgumentError, lambda: E("i,i", ones(2), ones(2), optimize="best"), "optimize"),
    Misuse(ad.ArgumentError, lambda: E("i,i", ones(2), ones(2), optimize=3), "optimize | 3"),
    Misuse(
        ad.ArgumentError, lambda: E("i,i", ones(2), ones(2), optimize=[(0, 2)]), "(0, 2) | below 2"
    ),
    Misuse(ad.ArgumentError, lambda: E("i,i", ones(2), ones(2), optimize=[(0, 0)]), "(0, 0)"),
    Misuse(ad.ArgumentError, lambda: E("i,i", ones(2), ones(2), optimize=[]), "leaves 2"),
    Misuse(
        ad.ShapeError,
        lambda: ad.tensordot(ones(2, 3), ones(3, 1), axes=2),
        "tensordot | axis 0 | 2 | 3",
    ),
    Misuse(
        ad.ShapeError,
        lambda: ad.tensordot(ones(2, 1), ones(3, 2), axes=1),
        "tensordot | axis 1 of shape (2, 1) | equal",
    ),
    Misuse(ad.ArgumentError, lambda: ad.tensordot(ones(2), ones(2)), "axes=2 | (2,)"),
    Misuse(ad.ArgumentError, lambda: ad.tensordot(ones(2), ones(2), axes=-1), "axes=-1"),
    Misuse(
        ad.ArgumentError, lambda: ad.tensordot(ones(2), ones(2), axes=((0,), ())), "as many | ()"
    ),
    Misuse(
        ad.ArgumentError,
        lambda: ad.tensordot(ones(2, 2), ones(2, 2), axes=((0, 0), (0, 1))),
        "twice",
    ),
    Misuse(
        ad.AxisError, lambda: ad.tensordot(ones(2), ones(2), axes=((1,), (0,))), "axis 1 | range"
    ),
    Misuse(ad.DTypeError, lambda: ad.tensordot(ones(2), ones(2), axes="i"), "axes | 'i'"),
    Misuse(
        ad.KeywordError, lambda: ad.tensordot(ones(2), ones(2), dims=1), "tensordot | dims= | axis="
    ),
    Misuse(ad.ShapeError, lambda: ad.vecdot(ones(2, 1), ones(2, 3)), "vecdot | 1 and 3 | equal"),
    Misuse(ad.ShapeError, lambda: ad.vecdot(ones(2, 3), ones(4, 3)), "vecdot | (2,) and (4,)"),
    Misuse(ad.AxisError, lambda: ad.vecdot(ones(2, 3), ones(3), axis=0), "axis 0 | (2, 3) | last"),
    Misuse(ad.AxisError, lambda: ad.vecdot(ones(2, 3), ones(3), axis=-2), "axis -2 | (3,)"),
    Misuse(ad.AxisError, lambda: ad.vecdot(ones(), ones()), "axis -1 | ()"),
    Misuse(ad.KeywordError, lambda: ad.vecdot(ones(2), ones(2), dim=0), "dim= | axis="),
    Misuse(ad.ShapeError, lambda: ad.dot(ones(2, 2), ones(2)), "dot | (2, 2) | ad.matmul"),
    Misuse(ad.ShapeError, lambda: ad.dot(ones(), ones(2)), "dot | () | x * y"),
    Misuse(ad.ShapeError, lambda: ad.dot(ones(2), ones(3)), "dot | 2 and 3"),
    Misuse(ad.ShapeError, lambda: ad.inner(ones(4, 2), ones(3)), "inner | (4, 2) | 2 and 3"),
    Misuse(ad.ShapeError, lambda: ad.outer(ones(2, 2), ones(2)), "outer | (2, 2) | tensordot"),
    Misuse(ad.ShapeError, lambda: ad.cross(ones(2), ones(2)), "cross | length 3 | (2,)"),
    Misuse(ad.ShapeError, lambda: ad.cross(ones(2, 3), ones(4, 3)), "(2, 3) | (4, 3) | broadcast"),
    Misuse(ad.AxisError, lambda: ad.cross(ones(3, 2), ones(3), axis=0), "cross | axis 0"),
    Misuse(
        ad.DTypeError, lambda: ad.cross(*2 * (ad.ones(3, dtype=ad.bool),)), "cross | numbers | bool"
    ),
    Misuse(ad.KeywordError, lambda: ad.cross(ones(3), ones(3), dim=0), "cross | dim= | axis="),
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda m: m.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    misuse.check()


@pytest.mark.parametrize("product", [ad.kron, ad.inner, ad.multiply])
def test_a_python_number_takes_the_tensor_s_precision(product: Callable) -> None:
    out = product(ad.ones((), dtype=ad.float64), 0.1)
    assert out.item() == 0.1
