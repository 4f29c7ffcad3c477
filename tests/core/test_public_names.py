"""`ad.` has what modules declare as public, whatever has been loaded before."""

import importlib

import pytest

import adjoint as ad
from tests.support.processes import printed

NAMES = "import adjoint as ad; print(sorted(ad.__all__))"


def test_public_names_do_not_depend_on_what_is_loaded() -> None:
    before = printed("-c", NAMES)
    assert (
        printed("-c", f"import adjoint.nn, adjoint.linalg, adjoint.kernels.ops; {NAMES}") == before
    )
    assert "'grad'" in before and "'sum'" not in before and "'nn'" not in before


def test_a_star_brings_public_names_and_no_builtins() -> None:
    code = "from adjoint import *; print(grad, tanh, einsum, isin, sum is __builtins__.sum)"
    assert printed("-c", code).endswith("True\n")


@pytest.mark.parametrize("path, names", ad._LAZY_FUNCTIONS.items())
def test_what_loads_on_first_use_is_what_its_module_has_as_public(path: str, names: str) -> None:
    module = importlib.import_module(f"adjoint.{path}")
    assert sorted(module.__all__) == names.split()
    for name in names.split():
        assert getattr(ad, name) is getattr(module, name)
        assert name in dir(ad)


def test_importing_loads_no_engine_and_no_kernels() -> None:
    code = "import adjoint, sys; print(*[m for m in sys.modules if m.startswith('adjoint.')])"
    loaded = printed("-c", code).split()
    lazy = ("_engine.serial", "_transforms", "kernels.language", "nn", "linalg", "functions.einsum")
    assert [name for name in lazy if f"adjoint.{name}" in loaded] == []
