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
from tests.support.paths import ROOT

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


@pytest.mark.parametrize("name", [n for n in SHOWN_BY_RUNNING if blocks(TEXTS[n].read_text())])
def test_the_first_block_imports_adjoint(name: str) -> None:
    first = blocks(TEXTS[name].read_text())[0]
    assert ">>> import adjoint as ad" in first.splitlines()


def test_the_model_in_the_readme_has_dtypes_that_gpus_have() -> None:
    text = TEXTS["README.md"].read_text()
    model = text[text.index("## A model") :].partition("\n## ")[0]
    assert "int32" in model and not re.search("int64|float64", model)


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


def translations(page: str, second: str = "adjoint") -> list[Row]:
    """The rows of the tables whose second column is adjoint's, or has another title."""
    found, inside = [], False
    for line in PAGES[page].read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" |")]
        if not line.startswith("|"):
            inside = False
        elif cells[1:2] == [second]:
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


def prepared(page: str) -> dict[str, Any]:
    """What a page's examples have made."""
    made: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(PAGES[page].read_text()):
        if example.exc_msg is None:
            exec(example.source, made)
    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_translations_run(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    codes, names = CODE.findall(row.here), prepared(row.page)
    assert codes
    for code in codes:
        exec(code, names)


# The table of what isn't here.

PYTORCH = "coming-from/pytorch.md"
NOT_HERE = translations(PYTORCH, "instead")
CALL = re.compile(r"([\w.]+)\((\w+=(?:, \w+=)*)\)")
KEYWORD = re.compile(r"\w+(?==)")
GROUPS = ("nn", "F", "nn.utils", "optim", "optim.lr_scheduler")
RENAMED = {"dim": "axis", "keepdim": "keepdims", "start_dim": "start_axis", "end_dim": "end_axis"}


def accepted(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


def everything(names: dict[str, Any]) -> dict[str, Any]:
    """What can be called in the modules that have PyTorch's names."""
    modules = {group: eval(group, names) for group in GROUPS}
    return {
        f"{group}.{name}": value
        for group, module in modules.items()
        for name, value in reference.public(module).items()
        if callable(value)
    }


def told_missing(code: str, names: dict[str, Any]) -> dict[str, set[str]]:
    """The keywords that a piece of the first column says are missing, by what lacks them."""
    if found := CALL.fullmatch(code):
        return {found[1]: set(KEYWORD.findall(found[2]))}
    if code.endswith("="):
        return {name: {code[:-1]} for name in everything(names)}
    return {}


@pytest.mark.parametrize("row", NOT_HERE, ids=lambda row: row.id)
def test_what_is_said_not_to_be_here_is_not(row: Row) -> None:
    names = prepared(row.page)
    for code in CODE.findall(row.there.partition(":")[0].partition(", of ")[0]):
        for name, keywords in (keyworded := told_missing(code, names)).items():
            assert not keywords & accepted(eval(name, names)), name
        if not keyworded:
            with pytest.raises(AttributeError):
                eval(code, names)


@pytest.mark.parametrize("row", [r for r in NOT_HERE if "(" in r.here], ids=lambda row: row.id)
def test_what_to_use_instead_runs(row: Row) -> None:
    names = prepared(row.page)
    for code in CODE.findall(row.here):
        if "(" in code:
            exec(code, names)


def test_every_argument_of_pytorch_is_here_or_in_the_table() -> None:
    torch = pytest.importorskip("torch")
    names = prepared(PYTORCH)
    theirs = {"nn": torch.nn, "F": torch.nn.functional, "optim": torch.optim}
    told: dict[str, set[str]] = {}
    for row in NOT_HERE:
        for code in CODE.findall(row.there):
            for name, keywords in told_missing(code, names).items():
                told.setdefault(name, set()).update(keywords)
    here = everything(names)
    left = {n: their_arguments(n, theirs) - accepted(f) - told[n] for n, f in here.items()}
    assert {name: keywords for name, keywords in left.items() if keywords} == {}


def their_arguments(name: str, theirs: dict[str, Any]) -> set[str]:
    """What PyTorch's function of that name takes by keyword, in our words."""
    try:
        parameters = inspect.signature(eval(name, theirs)).parameters
    except (AttributeError, ValueError):  # it has none of that name, or one that is built in
        return set()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = {RENAMED.get(k, k) for k, p in parameters.items() if p.kind not in several}
    return {k for k in found if not k.startswith("_")}


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


PACKAGE = Path(ad.__file__).parent


def test_files_that_the_tour_names_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", TEXTS["how-it-works.md"].read_text())
    assert named and [name for name in named if not (PACKAGE / name).exists()] == []


def test_files_that_the_map_names_exist() -> None:
    """With their path, or, in the paragraph of a room, by their names there."""
    room = PACKAGE
    for paragraph in PAGES["map.md"].read_text().split("\n\n"):
        if head := re.match(r"\*\*`(\w+)`\*\*", paragraph):
            room = PACKAGE / head[1]
        named = re.findall(r"`([\w/]+(?:\.py|/))`", paragraph)
        places = (room, PACKAGE, ROOT)
        assert [x for x in named if not any((place / x).exists() for place in places)] == []


def test_every_room_is_on_the_map() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__")} - {"py"}
    text, picture = PAGES["map.md"].read_text(), (PAGES["map.md"].parent / "map.svg").read_text()
    assert [room for room in sorted(rooms) if f"`{room}" not in text] == []
    assert [room for room in sorted(rooms) if f">{room}" not in picture] == []


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
