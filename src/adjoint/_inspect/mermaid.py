"""A recorded graph as a Mermaid flowchart."""

from collections.abc import Iterable

from .entries import Entry, show_types

SAFE = frozenset(" .,_-/=()[]")


def flowchart(entries: list[Entry], roots: Iterable[str]) -> str:
    """The text of a flowchart: leaves are stadiums, ops are boxes, roots have a thick border."""
    ids = {
        name: f"n{k}" for k, entry in enumerate(entries) for name in (entry.name, *entry.outputs)
    }
    lines = ["flowchart TD"]
    lines += [f"  {ids[entry.name]}{shape(entry)}" for entry in entries]
    lines += [f"  {edge}" for entry in entries for edge in edges(entry, ids, entries)]
    marked = ",".join(dict.fromkeys(ids[name] for name in roots))
    lines += ["  classDef root stroke-width:4px", f"  class {marked} root"]
    return "\n".join(lines)


def shape(entry: Entry) -> str:
    text = "<br/>".join(map(escaped, label(entry)))
    return f'(["{text}"])' if entry.is_leaf else f'["{text}"]'


def label(entry: Entry) -> list[str]:
    """The lines in a node's box."""
    if entry.is_leaf:
        title = "leaf" if entry.name.isdigit() else entry.name
    else:
        title = entry.op if entry.name.isdigit() else f"{entry.name} = {entry.op}"
    types = show_types(entry.shape, entry.dtype)
    if entry.outputs:
        names = map(entry.own_name, entry.outputs)
        types = [f"{name} {type_}" for name, type_ in zip(names, types, strict=True)]
    return [title, *types, *entry.notes()]


def edges(entry: Entry, ids: dict[str, str], entries: list[Entry]) -> Iterable[str]:
    for name in entry.inputs:
        source = entries[int(ids[name][1:])]
        arrow = f'-->|"{escaped(source.own_name(name))}"|' if source.outputs else "-->"
        yield f"{ids[name]} {arrow} {ids[entry.name]}"


def escaped(text: str) -> str:
    """Text for a quoted label: whatever could mean something to Mermaid, by its code."""
    return "".join(x if x.isalnum() or x in SAFE else f"#{ord(x)};" for x in text)
