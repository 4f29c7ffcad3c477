"""Imports go one way, between rooms as docs/design.md lists them, and between files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import adjoint
from tests.support import paths

ROOT = Path(adjoint.__file__).parent
DESIGN = paths.ROOT / "docs" / "design.md"
Module = tuple[str, ...]


def listed_rooms() -> dict[str, int]:
    """The rooms of the table in docs/design.md, with the numbers of their rows, lowest first."""
    text = DESIGN.read_text()
    rows = text[text.index("| room |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [re.findall(r"`([\w.]+)`", row.split("|")[1]) for row in rows]
    return {name.removesuffix(".py"): rank for rank, names in enumerate(cells) for name in names}


def module_of(file: Path) -> Module:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


FILES = {module_of(file): file for file in ROOT.rglob("*.py")}
RANKS = listed_rooms()


def imports(module: Module) -> Iterator[Module]:
    """The modules of adjoint that one imports, also inside functions."""
    file = FILES[module]
    package = file.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            path = (node.module or "").split(".") if node.module else []
            base = (*package[: len(package) + 1 - node.level], *path)
            for alias in node.names:
                found = (
                    (*base, alias.name) if (*base, alias.name) in FILES else base or ("__init__",)
                )
                if found != module:
                    yield found


GRAPH = {module: sorted(set(imports(module))) for module in FILES}


def test_every_room_is_in_the_table() -> None:
    assert {module[0] for module in FILES} == set(RANKS)
    assert len(set(RANKS.values())) <= 16


def test_nothing_imports_a_higher_room() -> None:
    for module, others in GRAPH.items():
        for other in others:
            inside = other[0] == module[0]
            assert inside or RANKS[other[0]] < RANKS[module[0]], f"{module} imports {other}"


def test_no_files_import_each_other() -> None:
    """Nodes are taken away that import none of those left; what stays is a cycle."""
    left = {module: set(others) for module, others in GRAPH.items()}
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}
    assert sorted(".".join(module) for module in left) == []


def test_primitives_are_free_of_numpy() -> None:
    for file in (ROOT / "primitives").glob("*.py"):
        assert "import numpy" not in file.read_text(), file.name
