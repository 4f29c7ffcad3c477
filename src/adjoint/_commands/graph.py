"""`adjoint graph MODULE:NAME`: the recorded graph of a function or a module of one's own."""

import argparse
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import adjoint as ad

from .._inspect.recorded import Recorded, counted
from .arguments import UsageError, add_device, add_seed, check_device
from .imports import found_name, import_target

NAME = "graph"
SUMMARY = "show the graph that a function or a module of yours records"
EXAMPLES = {
    "graph model.py:loss --input float32[4,3]": "the graph of loss(x), as text",
    "graph package.nets:Net --shape 8,1,28,28": "of a module, made without arguments",
    "graph model.py:loss --shape 4,3 --out loss.svg": "as a picture",
    "graph model.py:loss --shape 4,3 --format mermaid": "for Markdown",
}
FORMATS = {".txt": "text", ".mmd": "mermaid", ".md": "mermaid", ".svg": "svg"}
SHAPE = re.compile(r"(?:\d+(?:,\d+)*)?")
INPUT = re.compile(rf"(\w+)\[({SHAPE.pattern})\]")


class Input(NamedTuple):
    """What to make an input of."""

    dtype: ad.DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="MODULE:NAME",
        help="a function, an nn.Module, or a class of one: package.module:name or path.py:name",
    )
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        type=as_input,
        metavar="DTYPE[SHAPE]",
        help="an input, such as float32[4,3]; once for each. Floats are random, others are 0",
    )
    parser.add_argument(
        "--shape",
        dest="inputs",
        action="append",
        type=as_shape,
        metavar="SHAPE",
        help="an input of the default float, such as 4,3",
    )
    parser.add_argument("--zeros", action="store_true", help="let all inputs be 0")
    parser.add_argument("--format", choices=("text", "mermaid", "svg"), help="default: text")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write it there; .txt, .mmd, .md and .svg say the format",
    )
    add_device(parser)
    add_seed(parser, "for random inputs and parameters")


def as_input(text: str) -> Input:
    """What --input says."""
    found = INPUT.fullmatch(text.replace(" ", ""))
    dtype = getattr(ad, found[1], None) if found else None
    if found is None or not isinstance(dtype, ad.DType):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no dtype with a shape; write it as float32[4,3] or int64[8]"
        )
    return Input(dtype, sizes(found[2]))


def as_shape(text: str) -> Input:
    """What --shape says."""
    plain = text.replace(" ", "").strip("()[]").removesuffix(",")
    if not SHAPE.fullmatch(plain):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape; write it as 4,3")
    return Input(ad.get_default_dtype(), sizes(plain))


def sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size)


def run(options: argparse.Namespace) -> int:
    check_device(options.device)
    form = options.format or format_of(options.out)
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    module = import_target(options.target)
    function = as_function(options.target, found_name(module, options.target))
    inputs = [made(x, options.zeros, needs_grad(function)) for x in options.inputs]
    out = call_target(options.target, function, inputs, options.inputs)
    recorded = ad.graph(out, names=names(module, function, inputs))
    write(recorded, form, options.out)
    return 0


def format_of(file: Path | None) -> str:
    """What the file's suffix says; text without one."""
    suffix = file.suffix.lower() if file else ""
    if suffix and suffix not in FORMATS:
        raise UsageError(
            f"--out {file}: {', '.join(FORMATS)} say the format, {suffix} doesn't; name such a "
            "file, or give --format"
        )
    return FORMATS.get(suffix, "text")


def as_function(target: str, found: Any) -> Callable[..., Any]:
    """A function or module as it is; a class of modules gives one of its objects."""
    if not callable(found):
        kind = type(found).__name__
        article = "an" if kind[0] in "aeiouAEIOU" else "a"
        raise ad.ArgumentError(
            f"{target} is {article} {kind}; a function or an nn.Module is needed"
        )
    function: Callable[..., Any] = found
    if not isinstance(found, type):
        return function
    if not issubclass(found, ad.nn.Module):
        raise ad.ArgumentError(f"{target} is a class, and not one of nn.Module")
    try:
        return function()
    except TypeError as error:
        raise ad.ArgumentError(
            f"{target} can't be made without arguments ({error}); name an object of it, or a "
            "function that makes one and calls it"
        ) from error


def needs_grad(function: Callable[..., Any]) -> bool:
    """Whether inputs are what the graph is about: a module has parameters for that."""
    return not (isinstance(function, ad.nn.Module) and any(True for _ in function.parameters()))


def made(x: Input, zeros: bool, requires_grad: bool) -> ad.Tensor:
    """An input: floats are normally distributed, others are 0, which is fine as an index too."""
    is_float = x.dtype.kind == "float"
    if zeros or not is_float:
        tensor = ad.zeros(x.shape, dtype=x.dtype)
    else:
        tensor = ad.random.normal(x.shape, dtype=x.dtype)
    return tensor.requires_grad_(requires_grad and is_float)


def call_target(
    target: str, function: Callable[..., Any], inputs: list[ad.Tensor], given: list[Input]
) -> Any:
    """What the function gives; what it raises is told in a line."""
    check_number(target, function, len(inputs))
    try:
        return function(*inputs)
    except Exception as error:
        arguments = ", ".join(map(str, given))
        raise ad.ArgumentError(
            f"{target}({arguments}) raised {type(error).__name__}: {error}; --debug shows where"
        ) from error


def check_number(target: str, function: Callable[..., Any], count: int) -> None:
    """Raise unless the function can be called with so many inputs."""
    signature = signature_of(function)
    if signature is None:
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise ad.ArgumentError(
            f"{target} takes {signature}, but {counted(count, 'input was', 'inputs were')} given "
            f"({error}); give --input or --shape once for each"
        ) from None


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """How it is called, if that can be known."""
    try:
        return inspect.signature(
            function.forward if isinstance(function, ad.nn.Module) else function
        )
    except (TypeError, ValueError):
        return None


def names(
    module: ModuleType, function: Callable[..., Any], inputs: list[ad.Tensor]
) -> dict[str, ad.Tensor]:
    """What tensors are called: inputs as the function does, parameters by their paths, and what
    the file has names for."""
    found = {}
    for name, value in vars(module).items():
        if isinstance(value, ad.nn.Module) and value is not function:
            found |= {f"{name}.{path}": p for path, p in value.named_parameters()}
        elif isinstance(value, ad.Tensor):
            found[name] = value
    if isinstance(function, ad.nn.Module):
        found |= dict(function.named_parameters())
    signature = signature_of(function)
    parameters = list(signature.parameters) if signature else []
    return found | dict(zip(parameters, inputs, strict=False))


def write(recorded: Recorded, form: str, file: Path | None) -> None:
    if form == "text":
        text = recorded.text(limit=None)
    else:
        text = recorded.mermaid() if form == "mermaid" else recorded.svg()
    if file is None:
        print(text)
        return
    file.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {file}", file=sys.stderr)
