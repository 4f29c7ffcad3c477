"""A lower layer never imports a higher one, and derivative rules are free of devices."""

import ast
from collections.abc import Iterator
from pathlib import Path

import adjoint

ROOT = Path(adjoint.__file__).parent
LAYERS = (
    ("_errors", "_blocks", "_stepwise"),
    ("_config", "_dtypes", "_modes", "_show", "_silence", "_threads", "_tree", "_warnings"),
    ("_timing",),
    ("kernels",),
    ("backends",),
    ("_node",),
    ("_tensor",),
    ("_expr",),
    ("_fusion",),
    ("_pending",),
    ("_op",),
    ("_shapes",),
    ("_operands", "_anomaly"),
    ("_apply", "_nested"),
    ("op",),
    ("primitives",),
    ("_lookahead", "_pullback", "_replay"),
    ("_pass",),
    ("_parallel",),
    ("_reverse",),
    ("autograd", "_trace", "_checkpoint", "_variables", "_runtime", "_devices"),
    ("_graph", "_partial", "_examples"),
    ("_batch",),
    ("_transforms",),
    ("functions",),
    ("random", "linalg", "fft"),
    ("data", "nn", "optim", "testing", "_files", "_graphs"),
    ("_profile",),
    ("__init__",),
    ("_commands",),
    ("__main__",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports(file: Path) -> Iterator[str]:
    """The parts of adjoint that a file imports, also inside functions."""
    package = file.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = (*package[: len(package) + 1 - node.level], *(node.module or "").split("."))
            path = [part for part in module if part]
            yield from path[:1] or [alias.name for alias in node.names]


def test_nothing_imports_a_higher_layer() -> None:
    for file in ROOT.rglob("*.py"):
        own = file.relative_to(ROOT).with_suffix("").parts[0]
        for other in imports(file):
            assert other == own or RANK[other] < RANK[own], f"{file.name} imports {other}"


def test_primitives_are_free_of_numpy() -> None:
    for file in (ROOT / "primitives").glob("*.py"):
        assert "import numpy" not in file.read_text(), file.name
