"""Subscripts of einsum: what they mean for operands of given shapes.

Indices are integers here: a letter's code point, the integers of the interleaved form, and for the
axes of an ellipsis -1, -2, … from the last.
"""

from types import EllipsisType
from typing import Any, NamedTuple

from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from ._arguments import as_integer

Labels = tuple[int, ...]
Lengths = dict[int, int]
Shape = tuple[int, ...]
Term = tuple[int | EllipsisType, ...]
Subscripts = str | tuple[Term, ...]


def arguments(function: str, subscripts: Any, operands: tuple) -> tuple[Subscripts, tuple]:
    """The subscripts and the operands, from either form."""
    if not isinstance(subscripts, str):
        subscripts, operands = interleaved(function, (subscripts, *operands))
    if not operands:
        raise ArgumentError(f"{function}: at least one operand is needed after the subscripts")
    return subscripts, operands


def interleaved(function: str, given: tuple) -> tuple[tuple[Term, ...], tuple]:
    """Subscripts and operands of `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    lists = given[1::2] if len(given) % 2 == 0 else (*given[1::2], given[-1])
    operands = given[::2] if len(given) % 2 == 0 else given[:-1:2]
    return tuple(as_term(function, entry) for entry in lists), operands


def as_term(function: str, given: Any) -> Term:
    if not isinstance(given, (list, tuple)):
        raise DTypeError(
            f"{function}: subscripts are a string such as 'ij,jk->ik', or a list of integers after "
            f"each operand, got {type(given).__name__}"
        )
    term = tuple(k if k is Ellipsis else as_integer(function, "an index", k) for k in given)
    if any(k is not Ellipsis and k < 0 for k in term):
        raise ArgumentError(f"{function}: indices aren't negative, got {list(given)}")
    return term


class Equation(NamedTuple):
    """Indices of the operands and of the output, without ellipses, and how long they are."""

    terms: tuple[Labels, ...]
    output: Labels
    lengths: Lengths


def equation(subscripts: Subscripts, shapes: tuple[Shape, ...]) -> Equation:
    """What the subscripts mean for operands of these shapes."""
    terms, output = split(subscripts, len(shapes))
    if len(terms) != len(shapes):
        raise ArgumentError(
            f"{asked(subscripts)}: subscripts for {len(terms)} operands, got {len(shapes)}"
        )
    pairs = zip(terms, shapes, strict=True)
    expanded = tuple(expand(subscripts, k, *pair) for k, pair in enumerate(pairs))
    lengths = find_lengths(subscripts, expanded, shapes)
    most = max((-label for label in lengths if label < 0), default=0)
    hidden = tuple(range(-most, 0))
    return Equation(expanded, expand_output(subscripts, output, expanded, hidden), lengths)


def asked(subscripts: Subscripts) -> str:
    """The call, for messages."""
    text = repr(subscripts) if isinstance(subscripts, str) else str([*map(list, subscripts)])
    return f"einsum {text}"


def name(subscripts: Subscripts, label: int) -> str:
    """An index as the user wrote it."""
    if label < 0:
        return f"axis {label} of '...'"
    return f"index {chr(label)!r}" if isinstance(subscripts, str) else f"index {label}"


def split(subscripts: Subscripts, count: int) -> tuple[list[Term], Term | None]:
    """The terms of the operands, and the output's, or None where there is no arrow."""
    if not isinstance(subscripts, str):
        return list(subscripts[:count]), subscripts[count] if subscripts[count:] else None
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = [as_labels(subscripts, part) for part in left.split(",")]
    return terms, as_labels(subscripts, right) if arrow else None


def as_labels(subscripts: str, part: str) -> Term:
    """'i...j' as indices."""
    pieces = part.split("...")
    for letter in "".join(pieces):
        if not letter.isalpha():
            raise ArgumentError(
                f"{asked(subscripts)}: {letter!r} in {part!r}; indices are letters, '...' stands "
                "for axes without a name, ',' parts operands, and '->' comes once before the output"
            )
    labels = [tuple(map(ord, piece)) for piece in pieces]
    term: list[Any] = list(labels[0])
    for more in labels[1:]:
        term += [Ellipsis, *more]
    return tuple(term)


def expand(subscripts: Subscripts, position: int, term: Term, shape: Shape) -> Labels:
    """The indices of an operand's axes, with those of the ellipsis filled in."""
    named = len(term) - term.count(Ellipsis)
    hidden = len(shape) - named
    check_one_ellipsis(subscripts, term, f"for operand {position}")
    if hidden < 0 or (hidden and Ellipsis not in term):
        raise ShapeError(
            f"{asked(subscripts)}: operand {position} has shape {shape}, but its subscripts name "
            f"{named} axes" + ("" if hidden < 0 else "; '...' stands for the others")
        )
    return fill(term, tuple(range(-hidden, 0)))


def check_one_ellipsis(subscripts: Subscripts, term: Term, where: str) -> None:
    if term.count(Ellipsis) > 1:
        raise ArgumentError(f"{asked(subscripts)}: '...' more than once {where}")


def fill(term: Term, hidden: Labels) -> Labels:
    parts = [hidden if isinstance(entry, EllipsisType) else (entry,) for entry in term]
    return tuple(label for part in parts for label in part)


def expand_output(
    subscripts: Subscripts, output: Term | None, terms: tuple[Labels, ...], hidden: Labels
) -> Labels:
    """The indices of the result; without an arrow those that occur once, sorted."""
    given = [label for term in terms for label in term]
    if output is None:
        return (*hidden, *sorted(k for k in set(given) if k >= 0 and given.count(k) == 1))
    check_one_ellipsis(subscripts, output, "in the output")
    if hidden and Ellipsis not in output:
        raise ArgumentError(
            f"{asked(subscripts)}: '...' stands for axes of the operands, but the output has no "
            "'...'; write it there, or name the axes to sum over them"
        )
    labels = fill(output, hidden)
    for label in labels:
        which = name(subscripts, label)
        if label not in given:
            raise ArgumentError(f"{asked(subscripts)}: output {which} is in no operand")
        if labels.count(label) > 1:
            raise ArgumentError(f"{asked(subscripts)}: {which} is more than once in the output")
    return labels


def find_lengths(
    subscripts: Subscripts, terms: tuple[Labels, ...], shapes: tuple[Shape, ...]
) -> Lengths:
    """The length of each index; a length of 1 broadcasts against another operand's."""
    lengths: Lengths = {}
    owner: dict[int, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for label, n in own_lengths(subscripts, position, term, shape).items():
            known, first = lengths.get(label, 1), owner.get(label, position)
            if known != n and 1 not in (known, n):
                raise ShapeError(
                    f"{asked(subscripts)}: {name(subscripts, label)} has length {known} in operand "
                    f"{first} of shape {shapes[first]} and length {n} in operand {position} of "
                    f"shape {shape}"
                )
            if n != 1 or label not in lengths:
                lengths[label], owner[label] = n, position
    return lengths


def own_lengths(subscripts: Subscripts, position: int, term: Labels, shape: Shape) -> Lengths:
    """The lengths of an operand's indices; those of a repeated one must agree."""
    lengths: Lengths = {}
    for label, n in zip(term, shape, strict=True):
        if lengths.setdefault(label, n) != n:
            raise ShapeError(
                f"{asked(subscripts)}: {name(subscripts, label)} is repeated in operand {position} "
                f"of shape {shape}, but has lengths {lengths[label]} and {n}"
            )
    return lengths
