"""What `explain()` says of programs."""

from collections import Counter
from collections.abc import Sequence

from .._foundation.formatting import show_bytes
from .draft import nbytes
from .lowering import HostStep, Launched
from .program import Program
from .units import MOST_ARRAYS, MOST_VALUES, Unit


def explained(name: str, programs: Sequence[Program], why_eager: Sequence[str]) -> str:
    lines = [f"{name}: {len(programs)} programs" if len(programs) != 1 else f"{name}: 1 program"]
    for number, program in enumerate(programs, 1):
        lines += [f"program {number}, for {arguments(program)}", *map(indented, body(program))]
    lines += [f"run eagerly: {reason}" for reason in dict.fromkeys(why_eager) if reason]
    return "\n".join(lines)


def indented(line: str) -> str:
    return f"  {line}"


def arguments(program: Program) -> str:
    return ", ".join(value.typed() for value in program.graph.inputs) or "no tensors"


def body(program: Program) -> list[str]:
    if program.eager:
        return [
            "its results can be differentiated from outside: the recorded ops are run one by one; "
            "call it under ad.no_grad(), or compile the whole step with its backward pass"
        ]
    built = program.built
    launched = [item for item in built.items if isinstance(item, Launched)]
    kernels = Counter(launch.kernel.name for item in launched for launch in item.launches)
    count = len({launch.kernel.address for item in launched for launch in item.launches})
    used = sum(buffer.nbytes for item in launched for buffer in {*item.buffers})
    results = sum(nbytes(place) for place in built.code.results)
    lines = [
        f"{len(program.graph.steps)} recorded ops, {len(built.draft.steps)} after simplifying",
        f"{kernels.total()} launches of {count} kernels, on arrays of {show_bytes(used)}",
        f"  {counted(kernels)}",
        f"arena {show_bytes(built.code.arena)} (eager: {show_bytes(built.eager_peak)} at its "
        f"peak), results {show_bytes(results)} at each call",
    ]
    if built.updated:
        lines.append(f"{len(built.updated)} tensors are changed in place")
    apart = Counter(reason_apart(*pair) for pair in neighbours(built.units))
    if apart:
        lines.append(f"groups that aren't one: {counted(apart)}")
    host = Counter(item.step.op.name for item in built.items if isinstance(item, HostStep))
    if host:
        lines.append(f"in Python, as there is no kernel: {counted(host)}")
    return lines


def counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {times}" for name, times in names.most_common())


def neighbours(units: Sequence[Unit]) -> set[tuple[Unit, Unit]]:
    """Pairs of groups of which one needs the other."""
    groups = [unit for unit in units if unit.is_group]
    maker = {x: unit for unit in groups for x in unit.values}
    return {(maker[x], unit) for unit in groups for x in unit.inputs if x in maker}


def reason_apart(one: Unit, other: Unit) -> str:
    """Why two groups aren't one."""
    inputs = {x for x in (*one.inputs, *other.inputs) if x not in one.values}
    if one.run != other.run:
        return "computed again for a checkpoint"
    if one.shape != other.shape:
        return "other shapes"
    if one.axes and other.axes and one.axes != other.axes:
        return "sums along other axes"
    if one.size + other.size > MOST_VALUES:
        return f"more than {MOST_VALUES} values"
    if len(inputs) >= MOST_ARRAYS:
        return f"more than {MOST_ARRAYS} arrays"
    return "something else comes between"
