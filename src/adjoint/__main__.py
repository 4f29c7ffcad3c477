"""The command line: `adjoint COMMAND`, or `python -m adjoint COMMAND`."""

import argparse
import os
import sys
from types import ModuleType

import adjoint

from ._foundation.errors import AdjointError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code: 0, 1 for a failure, 2 for wrong usage (with which the parser
    exits), 130 when interrupted, be it while commands are imported."""
    name = "adjoint"
    try:
        parser = make_parser()
        options = parser.parse_args(arguments)
        if "run" not in options:
            parser.print_help()
            return 0
        name = f"adjoint {options.command}"
        return outcome(name, options)
    except KeyboardInterrupt:
        return told(f"{name}: interrupted", INTERRUPTED)


def outcome(name: str, options: argparse.Namespace) -> int:
    """The exit code of a command; what is wrong is told in a line."""
    from ._commands.arguments import UsageError

    try:
        return options.run(options)
    except (AdjointError, OSError, UsageError) as error:
        if isinstance(error, BrokenPipeError) or wants_traceback(options):
            raise
        code = WRONG_USAGE if isinstance(error, UsageError) else FAILED
        return told(f"{name}: {in_a_line(error)}", code)


def make_parser() -> argparse.ArgumentParser:
    from ._commands import COMMANDS  # takes as long as adjoint itself: Ctrl-C may come meanwhile

    program = "python -m adjoint" if is_module() else "adjoint"
    anywhere = argparse.ArgumentParser(add_help=False)
    anywhere.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show where an error was raised, as ADJOINT_TRACEBACK=1 does",
    )
    parser = argparse.ArgumentParser(
        prog=program,
        description="Tensors with automatic differentiation of every order.",
        epilog=examples(program, COMMANDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[anywhere],
    )
    parser.add_argument("--version", action="version", version=f"adjoint {adjoint.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        own = commands.add_parser(
            command.NAME,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=examples(program, [command]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[anywhere],
        )
        command.add_arguments(own)
        own.set_defaults(run=command.run)
    return parser


def is_module() -> bool:
    """Whether it was called as `python -m adjoint`."""
    return os.path.basename(sys.argv[0]) == "__main__.py"


def examples(program: str, commands: tuple[ModuleType, ...] | list[ModuleType]) -> str:
    """Calls and what they do; all of one command, else the first of each."""
    every = len(commands) == 1
    calls = [call for c in commands for call in list(c.EXAMPLES.items())[: None if every else 2]]
    width = max(len(call) for call, _ in calls)
    shown = [f"  {program} {call:{width}}  {what}" for call, what in calls]
    return "\n".join(["examples:", *shown])


def wants_traceback(options: argparse.Namespace) -> bool:
    return "debug" in options or os.environ.get("ADJOINT_TRACEBACK", "0") not in ("", "0")


def in_a_line(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, AdjointError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def told(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def program() -> int:
    """`main`, but that whoever reads the output may stop reading."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(program())
