"""What the documents show is run, what they point to exists, and nothing public is left out.

`test_coverage.test_documentation` runs the examples; here is made sure that none escapes it.
"""

import doctest
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint._commands import COMMANDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
TEXTS = {"README.md": ROOT / "README.md", **PAGES}
# design.md quotes declarations from the source, which can't be made a second time.
SHOWN_BY_RUNNING = sorted(TEXTS.keys() - {"design.md"})
FENCE = re.compile(r"^(```+|~~~+)(\S*)[^\n]*\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"`([^`]+)`")


def load_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load_reference()
REFERENCE: dict[str, str] = reference.pages()


# Examples.


def blocks(text: str) -> list[str]:
    """The fenced blocks that are, or look like, Python."""
    found = FENCE.findall(text)
    return [body for _, language, body in found if language == "python" or ">>>" in body]


def not_run(block: str) -> list[str]:
    """What of a block isn't an example, or is one that is skipped."""
    parts = doctest.DocTestParser().parse(block)
    prose = [part for part in parts if isinstance(part, str) and part.strip()]
    examples = [part for part in parts if isinstance(part, doctest.Example)]
    return prose + [part.source for part in examples if part.options.get(doctest.SKIP)]


@pytest.mark.parametrize(
    ("block", "escaped"),
    [
        (">>> 1 + 1\n2\n\n", []),
        ("x = 1\n", ["x = 1\n"]),
        (">>> x = 1\n\ny = 2\n", ["y = 2\n"]),
        (">>> f()  # doctest: +SKIP\n", ["f()  # doctest: +SKIP\n"]),
    ],
)
def test_what_escapes_is_found(block: str, escaped: list[str]) -> None:
    assert blocks(f"a\n```python\n{block}```\nb\n") == [block]
    assert [part.strip() for part in not_run(block)] == [part.strip() for part in escaped]


@pytest.mark.parametrize("name", SHOWN_BY_RUNNING)
def test_every_block_is_run(name: str) -> None:
    text = TEXTS[name].read_text()
    found = blocks(text)
    assert [part for block in found for part in not_run(block)] == []
    count = len(doctest.DocTestParser().get_examples(text))
    assert count == sum(len(doctest.DocTestParser().get_examples(block)) for block in found)


def test_the_tour_is_made_of_blocks_that_run() -> None:
    text = TEXTS["how-it-works.md"].read_text()
    assert len(blocks(text)) == len(re.findall(r"^```", text, re.MULTILINE)) // 2 > 15


# Tables "there, here".


class Row(NamedTuple):
    """What a table says a piece of another library's code is here."""

    page: str
    there: str
    here: str

    @property
    def id(self) -> str:
        return f"{Path(self.page).stem}-{self.there}"


def translations(page: str) -> list[Row]:
    """The rows of the tables whose second column is adjoint's."""
    found, inside = [], False
    for line in PAGES[page].read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            inside = False
        elif cells[1:2] == ["adjoint"]:
            inside = True
        elif inside and not line.startswith("|---"):
            found.append(Row(page, cells[0], cells[1]))
    return found


GUIDES = [name for name in PAGES if name.startswith("coming-from/")]
ROWS = [row for page in GUIDES for row in translations(page)]


def test_tables_of_every_guide_are_found() -> None:
    assert {row.page for row in ROWS} == set(GUIDES) and len(GUIDES) == 3
    for page in GUIDES:
        assert len(translations(page)) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_translations_run(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(PAGES[row.page].read_text()):
        if example.exc_msg is None:
            exec(example.source, prepared)
    codes = CODE.findall(row.here)
    assert codes
    for code in codes:
        exec(code, prepared)


# Links and names.


@pytest.mark.parametrize(
    ("page", "header", "module"),
    [
        ("layers.md", "| layers | names |", ad.nn),
        ("training.md", "| scheduler | the learning rate |", ad.optim.lr_scheduler),
        ("linear-algebra.md", "| what | functions |", ad.linalg),
    ],
)
def test_names_in_tables_exist(page: str, header: str, module: ModuleType) -> None:
    text = PAGES[page].read_text()
    table = text[text.index(header) :].partition("\n\n")[0]
    names = [name for name in CODE.findall(table) if name.isidentifier()]
    assert len(names) > 8 and [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_links_lead_somewhere(name: str) -> None:
    text = FENCE.sub("", TEXTS[name].read_text())
    links = [link for link in LINK.findall(text) if "://" not in link]
    folder = TEXTS[name].parent
    lost = [link for link in links if not (folder / link).exists()]
    assert [link for link in lost if link not in REFERENCE] == []


def test_every_command_is_in_the_table_of_commands() -> None:
    told = re.findall(r"^\| `adjoint (\w+)` \|", PAGES["command-line.md"].read_text(), re.MULTILINE)
    assert told == [command.NAME for command in COMMANDS]


def test_files_that_the_tour_names_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", TEXTS["how-it-works.md"].read_text())
    package = Path(ad.__file__).parent
    assert named and [name for name in named if not (package / name).exists()] == []


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*PAGES, *REFERENCE])


# The reference.


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module = importlib.import_module(name)
    names = reference.public(module)
    page = REFERENCE[reference.path(module)]
    assert names and [n for n in names if f"`{n}`" not in page] == []
    told = [n for n, value in names.items() if callable(value) and n != "Tensor"]
    assert [n for n in told if f"{{ #{n} }}" not in page] == []


@pytest.mark.parametrize("name", reference.MODULES)
def test_no_public_name_lacks_a_docstring(name: str) -> None:
    names = reference.public(importlib.import_module(name))
    told = {n: value for n, value in names.items() if callable(value)}
    assert [n for n, value in told.items() if not (value.__doc__ or "").strip()] == []


@pytest.mark.parametrize(
    ("module", "inside", "outside"),
    [
        (ad, {"sum", "max", "Tensor", "vmap", "float32", "pi"}, {"nn", "functions"}),
        (ad.linalg, {"solve", "svd"}, {"Tensor"}),
        (ad.nn, {"Module", "Linear", "Parameter"}, {"functional", "modules"}),
        (ad.nn.init, {"uniform_", "xavier_normal_"}, {"math", "random", "uniform_within"}),
        (ad.autograd, {"backward", "grad", "gradients"}, {"accumulate", "seed", "Tensor"}),
        (ad.testing, {"check_grads"}, {"compare", "np"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_public_names_are_those_for_users(
    module: ModuleType, inside: set[str], outside: set[str]
) -> None:
    names = set(reference.public(module))
    assert inside <= names and not outside & names


def test_modules_that_users_see_have_a_page() -> None:
    parts = [name for name, value in inspect.getmembers(ad) if isinstance(value, ModuleType)]
    internal = {"backends", "functions", "kernels", "primitives"}
    shown = {name.split(".")[1] for name in reference.MODULES[1:]}
    assert {name for name in parts if not name.startswith("_")} - internal == shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ad.exp, "f(x, /)"),
        (ad.clip, "f(x, /, min=None, max=None) -> Tensor"),
        (ad.linalg.trace, "f(x, /, *, offset: int = 0, dtype=None) -> Tensor"),
        (lambda x, **unknown: x, "f(x)"),
    ],
)
def test_signatures_say_what_users_need(value: Any, expected: str) -> None:
    assert reference.signature("f", value) == expected


def test_examples_of_docstrings_become_blocks() -> None:
    page = REFERENCE["reference/adjoint.md"]
    assert "```pycon\n>>> ad.exp(0.0)\ntensor(1.)\n```" in page
    assert page.count("```") % 2 == 0


@pytest.mark.parametrize(
    ("folder", "link", "stays"),
    [
        ("", "../src/adjoint/op.py", False),
        ("tutorial", "../saving.md", True),
        ("tutorial", "../../benchmarks", False),
        ("", "saving.md", True),
    ],
)
def test_links_out_of_the_site_become_text(folder: str, link: str, stays: bool) -> None:
    text = f"see [this]({link})."
    assert reference.within_docs(text, folder) == (text if stays else "see this.")


def test_bases_that_are_documented_are_not_told_twice() -> None:
    page = REFERENCE["reference/nn.md"]
    assert "{ #Module.state_dict }" in page and "{ #Linear.state_dict }" not in page
    assert "{ #Linear.forward }" in page and "{ #Linear.extra_repr }" not in page


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (ad.ShapeError, ["AdjointError", "ValueError"]),
        (ad.nn.AvgPool1d, ["Module"]),
        (ad.nn.Module, []),
    ],
)
def test_bases_are_those_that_users_know(cls: type, expected: list[str]) -> None:
    found = reference.public_bases(cls, {ad.nn.Module, ad.AdjointError} - {cls})
    assert [base.__name__ for base in found] == expected
