"""Rules of the WGSL standard for operators side by side; naga, which wgpu compiles with, is more
lenient (https://www.w3.org/TR/WGSL/#expression-grammar).

A bitwise operator stands beside none but itself, `&&` and `||` not beside each other, a comparison
not beside another, and a shift has operands without operators. Anything else takes parentheses.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

LOGICAL = {"&&", "||"}
BITWISE = {"&", "|", "^"}
COMPARISONS = {"==", "!=", "<=", ">=", "<", ">"}
SHIFTS = {"<<", ">>"}
ARITHMETIC = {"+", "-", "*", "/", "%"}
OPERATORS = LOGICAL | BITWISE | COMPARISONS | SHIFTS | ARITHMETIC
PREFIXES = {"-", "!", "~", "&", "*"}  # where no operand stands before them
KEYWORDS = set("return if else for while loop switch case let var const override".split())
# Types in angle brackets belong to the name before them; comparisons have a space there.
TYPES = re.compile(r"(?<=\w)<[\w\s,]*>")
COMMENTS = re.compile(r"//.*")
TOKENS = re.compile(
    r"0[xX][\da-fA-F.]+(?:[pP][-+]?\d+)?\w*|\d[\d.]*(?:[eE][-+]?\d+)?\w*|[\w.]+"
    r"|<<=|>>=|->|&&|\|\||<<|>>|[=!<>]=|[-+*/%&|^]=|\+\+|--|\S"
)


def misplaced_operators(text: str) -> list[str]:
    """The expressions of a program that the standard has no reading for."""
    return [" ".join(tokens) for tokens in expressions(text) if not is_readable(operators(tokens))]


def expressions(text: str) -> Iterator[list[str]]:
    """All expressions; what is in parentheses or brackets comes by itself, and is a `_` outside."""
    text = COMMENTS.sub("", text)
    while (shorter := TYPES.sub("", text)) != text:
        text = shorter
    open_ones: list[list[str]] = [[]]
    for token in TOKENS.findall(text):
        if token in "([":
            open_ones.append([])
        elif token in ")]":
            yield open_ones.pop()
            open_ones[-1].append("_")
        elif token in OPERATORS or token in PREFIXES or is_operand(token):
            open_ones[-1].append(token)
        else:  # an assignment, a comma, the end of a statement
            yield open_ones[-1]
            open_ones[-1] = []
    yield from open_ones


def is_operand(token: str) -> bool:
    return (token[0].isalnum() or token[0] in "_.") and token not in KEYWORDS


def operators(tokens: list[str]) -> list[str]:
    """Those that stand behind an operand."""
    return [
        token for before, token in pairwise(tokens) if token in OPERATORS and is_operand(before)
    ]


def is_readable(found: list[str]) -> bool:
    """Whether operators may stand side by side in this order."""
    kinds = {*found}
    if len(kinds) == 1 and kinds <= BITWISE:
        return True
    return len(kinds & LOGICAL) < 2 and all(map(is_relation, split(found, LOGICAL)))


def is_relation(found: list[str]) -> bool:
    sides = split(found, COMPARISONS)
    return len(sides) <= 2 and all(
        {*side} <= ARITHMETIC or (len(side) == 1 and side[0] in SHIFTS) for side in sides
    )


def split(found: list[str], separators: set[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for operator in found:
        if operator in separators:
            parts.append([])
        else:
            parts[-1].append(operator)
    return parts
