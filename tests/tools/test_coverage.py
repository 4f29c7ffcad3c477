"""What every op and every public function must have."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends import cpu
from tests.support.paths import ROOT
from tests.support.samples import CALLS, OPS, TABLE

PUBLIC = sorted(n for n in dir(ad) if not n.startswith("_") and getattr(ad, n) is not None)
TEXTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MODULES = [
    ad,
    *(importlib.import_module(m.name) for m in pkgutil.walk_packages(ad.__path__, "adjoint.")),
]


@pytest.mark.parametrize("name", sorted(OPS))
def test_op_is_complete(name: str) -> None:
    op = OPS[name]
    assert op.rules or op.vjp or not op.differentiable
    assert any(sample.op == name for sample in TABLE), "no record in tests/support/samples.py"
    assert name in cpu.FUNCTIONS, "no line in the NumPy table"
    assert CALLS[name].__doc__, "no docstring"


def test_the_numpy_table_has_no_line_without_an_op() -> None:
    assert set(cpu.FUNCTIONS) == set(OPS)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_documented(name: str) -> None:
    assert (getattr(ad, name).__doc__ or "").strip()


def documented() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder()
    tests = [t for m in MODULES for t in finder.find(m, globs={"ad": ad})]
    ops = [t for n, call in CALLS.items() for t in finder.find(call, n, globs={"ad": ad})]
    parse = doctest.DocTestParser().get_doctest
    texts = [parse(text.read_text(), {}, text.name, str(text), 0) for text in TEXTS]
    return [t for t in (*tests, *ops, *texts) if t.examples]


@pytest.mark.parametrize("test", documented(), ids=lambda t: t.name)
def test_documentation(test: doctest.DocTest) -> None:
    ad.random.seed(0)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0


def test_public_functions_have_an_example() -> None:
    shown = {t.name.rpartition(".")[2] for t in documented()}
    functions = {n for n in PUBLIC if type(getattr(ad, n)).__name__ == "function"}
    assert functions - shown == set()


def test_names_that_shadow_builtins_stay_out_of_all() -> None:
    assert not {"sum", "max", "abs", "bool", "any", "all", "pow"} & set(ad.__all__)
    assert callable(ad.sum) and callable(ad.abs)


def test_import_loads_only_numpy_besides_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import adjoint; "
        "tops = {m.partition('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(tops - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() in ("['adjoint', 'numpy']", "['adjoint', 'cython_runtime', 'numpy']")


def test_parts_that_load_on_first_use_are_there() -> None:
    assert ad.nn.functional.relu is ad.relu
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ad.nonsense


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.kind == "elementwise"))
def test_rules_of_elementwise_ops_are_expressions(name: str) -> None:
    op = OPS[name]
    if op.differentiable:
        needs = tuple(op.has_rule(k) for k in range(len(op.inputs)))
        assert op.plan(needs).compiled[np.ndarray] is not None
