"""MkDocs' hook: pages made from docstrings, and pages of docs/ as a site needs them.

What is public is looked up when the site is built, so that a new name needs no line here.
"""

import importlib
import inspect
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

MODULES = (
    "adjoint",
    "adjoint.nn",
    "adjoint.nn.functional",
    "adjoint.nn.init",
    "adjoint.nn.utils",
    "adjoint.optim",
    "adjoint.optim.lr_scheduler",
    "adjoint.distributed",
    "adjoint.data",
    "adjoint.linalg",
    "adjoint.fft",
    "adjoint.random",
    "adjoint.autograd",
    "adjoint.testing",
    "adjoint.op",
)
# The parts of the page of `adjoint`: their titles, and the modules whose names they hold.
PARTS = {
    "Making tensors": ("_tensor", "functions.creation", "functions.interchange"),
    "Functions of each element": ("", "functions.elementwise"),
    "Reductions": ("functions.reductions",),
    "Shapes": ("functions.shapes", "functions.arrangement"),
    "Indexing and order": ("functions.indexing", "functions.sorting"),
    "Products": ("functions.contractions", "functions.einsum"),
    "Gradients": ("autograd", "_modes", "_checkpoint"),
    "Transforms": ("_transforms", "_batch", "_tree", "_trace"),
    "Looking inside": ("_graphs", "_profile"),
    "Files": ("_files",),
    "Dtypes": ("_dtypes", "functions.dtypes"),
    "Devices": ("_devices", "_runtime", "_config", "functions.inspection"),
    "Errors": (),
    "Constants": ("builtins",),
}
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
FENCE = re.compile(r"^```python\n(?=>>>)", re.MULTILINE)
LINK_UP = re.compile(r"\[([^]]+)\]\((\.\./[^)]+)\)")
QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+([A-Z]\w*)|'([A-Z][\w\[\], |]*)'(?=[,)\]\n]|$| \|)")
WIDTH = 88


# What MkDocs calls.


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Sessions get the colours of sessions; of links to files beside docs/ the text stays."""
    return within_docs(FENCE.sub("```pycon\n", markdown), posixpath.dirname(page.file.src_uri))


def within_docs(markdown: str, folder: str) -> str:
    """The text of a page in a folder of docs/, without links that lead out of docs/."""

    def kept(link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return link[1] if target.startswith("../") else link[0]

    return LINK_UP.sub(kept, markdown)


# The pages.


def pages() -> dict[str, str]:
    """The text of every page of the reference, by its path in the site."""
    modules = [importlib.import_module(name) for name in MODULES]
    classes = {
        value for module in modules for value in public(module).values() if inspect.isclass(value)
    }
    made = {path(module): module_page(module, classes) for module in modules}
    made["reference/tensor.md"] = tensor_page(modules[0])
    return {name: "\n\n".join(parts) + "\n" for name, parts in made.items()}


def path(module: ModuleType) -> str:
    return f"reference/{short(module.__name__)}.md"


def short(name: str) -> str:
    """A module's name without the package's, but for the package itself."""
    return name.removeprefix("adjoint.")


def prefix(module: ModuleType) -> str:
    """How users write the module: ad.nn."""
    return re.sub("^adjoint", "ad", module.__name__)


def public(module: ModuleType) -> dict[str, Any]:
    """What a module has for users, by name; not its submodules."""
    found = {name: getattr(module, name) for name in sorted(listed(module), key=str.lower)}
    return {
        name: value
        for name, value in found.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def listed(module: ModuleType) -> Iterable[str]:
    """The names in `__all__`; of the package itself, whose `__all__` leaves out the names of
    builtins, all."""
    return dir(module) if module.__name__ == "adjoint" else module.__all__


def module_page(module: ModuleType, classes: set[type]) -> Iterator[str]:
    names = public(module)
    yield f"# {module.__name__}"
    yield prose(module)
    for title, part in parts(module, names).items():
        if title:
            yield f"## {title}"
        yield table(part)
        for name, value in part.items():
            if callable(value) and name != "Tensor":
                yield from entry(f"{prefix(module)}.{name}", name, value, classes)


def parts(module: ModuleType, names: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The names of a long page by topic, and those of others in one part."""
    if len({home(value) for value in names.values()}) < 8:
        return {"": names}
    made: dict[str, dict[str, Any]] = {title: {} for title in PARTS if module.__name__ == "adjoint"}
    for name, value in names.items():
        made.setdefault(topic(value), {})[name] = value
    return {title: part for title, part in made.items() if part}


def home(value: Any) -> str:
    """The module that made a function, a class, or the class of a value."""
    return getattr(value, "__module__", None) or type(value).__module__


def topic(value: Any) -> str:
    """What a value has in common with others: the title of a part, or what its module says."""
    module = home(value)
    name = module.removeprefix("adjoint").removeprefix(".")
    if inspect.isclass(value) and issubclass(value, Exception):
        return "Errors"
    for title, modules in PARTS.items():
        if name in modules or name.partition(".")[0] in modules:
            return title
    return re.split(r"[.:;](?: |$)", summary(sys.modules[module]), maxsplit=1)[0]


def tensor_page(module: ModuleType) -> Iterator[str]:
    """The class that most names are methods of: those that are functions too stand in a table."""
    cls, functions = module.Tensor, public(module)
    yield "# adjoint.Tensor"
    yield prose(cls)
    found = members(cls, set())
    shared = {
        name: value
        for name, value in found.items()
        if name in functions and not isinstance(value, property)
    }
    own = {name: value for name, value in found.items() if name not in shared}
    yield "## What only tensors have"
    yield table(own)
    for name, value in own.items():
        yield from member_entry("x", name, value, name)
    yield "## Functions that are methods, too"
    yield "`x.exp()` is `ad.exp(x)`."
    yield table(shared, "adjoint.md")


# What a page is made of.


def table(names: dict[str, Any], page: str = "") -> str:
    rows = [row(name, value, page) for name, value in names.items()]
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def row(name: str, value: Any, page: str) -> str:
    if name == "Tensor":
        return f"| [`{name}`](tensor.md) | {cell(summary(value))} |"
    if isinstance(value, property) or callable(value):
        return f"| [`{name}`]({page}#{name}) | {cell(summary(value))} |"
    return f"| `{name}` | `{value!r}` |"


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def entry(qualified: str, anchor: str, value: Any, known: set[type]) -> Iterator[str]:
    """A function, or a class with its methods, except those of its bases that are `known`."""
    yield f"### `{qualified.rpartition('.')[2]}` {{ #{anchor} }}"
    yield block(signature(qualified, value))
    yield prose(value)
    if inspect.isclass(value):
        if bases := public_bases(value, known - {value}):
            yield f"A subclass of {', '.join(f'`{base.__name__}`' for base in bases)}."
        for name, member in members(value, known - {value}).items():
            yield from member_entry(anchor, name, member, f"{anchor}.{name}")


def member_entry(owner: str, name: str, member: Any, anchor: str) -> Iterator[str]:
    yield f"#### `{owner}.{name}` {{ #{anchor} }}"
    if not isinstance(member, property):
        yield block(signature(f"{owner}.{name}", member, bound=True))
    yield prose(member)


def public_bases(cls: type, known: set[type]) -> list[type]:
    """The bases that users know, Python's among them; or the nearest such ancestor."""
    builtins = [base for base in cls.__bases__ if home(base) == "builtins" and base is not object]
    direct = [base for base in cls.__bases__ if base in known]
    return [*direct, *builtins] or [base for base in cls.__mro__ if base in known][:1]


def members(cls: type, known: set[type]) -> dict[str, Any]:
    """A class's methods and properties that say what they do. If it has a known base, only those
    that are called in another way than there, or have an example, as helpers haven't."""
    shown = {part for base in cls.__mro__ if base in known for part in base.__mro__}
    own = [base for base in cls.__mro__ if home(base).startswith("adjoint") and base not in shown]
    found = {name: value for base in reversed(own) for name, value in vars(base).items()}
    told = {name: found[name] for name in sorted(found) if is_told(name, found[name])}
    base = next((base for base in cls.__mro__ if base in known), None)
    return {
        name: value
        for name, value in told.items()
        if base is None or ">>>" in docstring(value) or is_called_otherwise(base, name, value)
    }


def is_told(name: str, value: Any) -> bool:
    """Whether a member is public, a method or a property, and has a docstring."""
    is_method = inspect.isroutine(value) and not isinstance(value, staticmethod)
    is_member = is_method or isinstance(value, property)
    return not name.startswith("_") and is_member and bool(value.__doc__)


def is_called_otherwise(base: type, name: str, method: Any) -> bool:
    """Whether the base has a method of that name, with other arguments."""
    inherited = getattr(base, name, None)
    return callable(inherited) and signature("", inherited) != signature("", method)


def block(code: str) -> str:
    return f"```python\n{code}\n```"


def signature(name: str, value: Any, bound: bool = False) -> str:
    """How to call it: `name(x, *, axis=None) -> Tensor`."""
    function = value.__func__ if isinstance(value, classmethod) else value
    try:
        full = inspect.signature(function)
    except (TypeError, ValueError):  # a class of C's
        return name
    given = list(full.parameters.values())[bound:]
    kept = [plain(parameter) for parameter in given if parameter.name != "unknown"]
    returns = full.return_annotation if not inspect.isclass(value) else full.empty
    text = str(full.replace(parameters=kept, return_annotation=returns))
    short_text = name + QUALIFIED.sub(r"\1\2", text)
    if len(short_text) <= WIDTH:
        return short_text
    for parameter in kept[1:]:
        text = text.replace(f", {parameter}", f",\n    {parameter}", 1)
    return name + QUALIFIED.sub(r"\1\2", text)


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Without an annotation that says nothing."""
    is_any = parameter.annotation in (Any, "Any")
    return parameter.replace(annotation=parameter.empty) if is_any else parameter


def docstring(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or inspect.getdoc(value) or "")


def summary(value: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(EXAMPLE.split(docstring(value), maxsplit=1)[0].split("\n\n")[0].split())


def prose(value: Any) -> str:
    """A docstring as Markdown, with its examples as blocks."""
    return EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```\n", docstring(value))
