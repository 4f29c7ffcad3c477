"""`adjoint demo`: trains a small network to read handwritten digits."""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import adjoint as ad

from .arguments import UsageError, add_count, add_device, add_seed, check_device, positive
from .interruption import Interruption
from .plot import training_plot
from .progress import Progress
from .training import Settings, Training, checkpoint

NAME = "demo"
SUMMARY = "train a small convolutional network to read handwritten digits"
EXAMPLES = {
    "demo": "train, and write weights and pictures to adjoint-demo",
    "demo --resume": "go on with a training that Ctrl-C stopped",
    "demo --device webgpu --epochs 5": "on a GPU, and shorter",
    "demo --out runs/1 --seed 1 --weights digits.safetensors": "another one, weights for others",
}
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = Settings()
    add_device(parser)
    add_seed(parser, "for weights and the order of images", default=None)
    add_count(parser, "--epochs", 1, 100_000, "passes over the training digits", default.epochs)
    add_count(parser, "--batch-size", 1, 1437, "digits in a step", default.batch_size)
    parser.add_argument(
        "--lr",
        type=positive,
        metavar="X",
        help=f"the highest learning rate (default: {default.lr})",
    )
    what = "threads that prepare batches; the result is the same"
    add_count(parser, "--workers", 0, 64, what, 0, 0)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("adjoint-demo"),
        metavar="DIR",
        help="folder for what it writes (default: %(default)s)",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="file for the weights, .npz or .safetensors (default: weights.npz in DIR)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the training in DIR, after Ctrl-C"
    )


def run(options: argparse.Namespace) -> int:
    check_device(options.device)
    check_weights(options.weights)
    file = options.out / "checkpoint.npz"
    with Interruption() as interruption:
        training = begun(options, file)
        if training.finished:
            print(reminder(training, file), file=sys.stderr)
            report(training, options, again=False)
            return 0
        options.out.mkdir(parents=True, exist_ok=True)
        training.save(file)
        print(introduction(training), file=sys.stderr, flush=True)
        if not train(training, file, interruption):
            training.save(file)
            print(farewell(training, file), file=sys.stderr)
            return INTERRUPTED
        report(training, options)
    return 0


def check_weights(file: Path | None) -> None:
    """Refuse before the training what would be refused after it."""
    if file is None or file.suffix == ".npz":
        return
    if file.suffix != ".safetensors":
        raise UsageError(f"--weights {file}: it must end in .npz or .safetensors")
    if importlib.util.find_spec("safetensors") is None:
        raise ad.ArgumentError(
            f"--weights {file}: the package safetensors is needed: run `pip install "
            "'adjoint[safetensors]'`, or name an .npz file"
        )


def begun(options: argparse.Namespace, file: Path) -> Training:
    """A new training, or the one of the checkpoint."""
    asked = {name: getattr(options, name) for name in Settings._fields}
    chosen = {name: value for name, value in asked.items() if value is not None}
    if not options.resume:
        return Training(Settings(**chosen), options.device, options.workers)
    state = checkpoint(file)
    for name, value in chosen.items():
        if value != state["settings"][name]:
            raise ad.ArgumentError(
                f"--{name.replace('_', '-')} {value}: the training in {file.parent} has "
                f"{state['settings'][name]}; leave it out to go on with that one, or start another "
                "without --resume"
            )
    return Training.resumed(state, options.device, options.workers)


def introduction(training: Training) -> str:
    parameters = sum(p.size for p in training.model.parameters())
    start = "going on" if training.done else "starting"
    return (
        f"{start}: {len(training.loader.dataset)} digits to train with, {len(training.test)} to "
        f"test with, {parameters:,} parameters, on {training.device}, seed {training.settings.seed}"
    )


def train(training: Training, file: Path, interruption: Interruption) -> bool:
    """Train to the end, which is True, or until Ctrl-C."""
    progress = Progress(sys.stderr, training.settings.epochs, training.steps, training.done)
    try:
        while not training.finished:
            for _ in training.epoch():
                if interruption.asked:
                    return False
                if progress.due():
                    draw(progress, training)
            training.end_epoch()
            training.save(file)
            last = training.history[-1]
            progress.epoch(training.done, len(training.history), last.loss, last.accuracy)
        return True
    finally:
        progress.close()


def draw(progress: Progress, training: Training) -> None:
    accuracy = training.history[-1].accuracy if training.history else None
    progress.draw(training.done, len(training.history) + 1, training.loss, accuracy)


def farewell(training: Training, file: Path) -> str:
    epoch = min(len(training.history) + 1, training.settings.epochs)
    return (
        f"interrupted in epoch {epoch} of {training.settings.epochs}, saved {file}; the same "
        "command with --resume goes on from there"
    )


def reminder(training: Training, file: Path) -> str:
    return (
        f"finished: the training in {file.parent} has all its {training.settings.epochs} epochs; "
        "without --resume another one starts, in another --out if this one is to be kept"
    )


def report(training: Training, options: argparse.Namespace, again: bool = True) -> None:
    """Print the result, and write files; without `again` what was asked for or isn't there."""
    print(result(training))
    for file, write in files(training, options).items():
        if again or file == options.weights or not file.exists():
            write(file)
            print(f"wrote {file}")


def result(training: Training) -> str:
    last = training.history[-1]
    return "\n".join(
        [
            f"final loss: {last.loss:.9g}",
            f"test loss: {last.test_loss:.9g}",
            f"test accuracy: {last.accuracy:.1%}",
        ]
    )


def files(training: Training, options: argparse.Namespace) -> dict[Path, Callable[[Path], None]]:
    """What is written where: weights and pictures."""

    def weights(file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        ad.save(training.model.state_dict(), file)

    def plot(file: Path) -> None:
        losses, test_losses, accuracies = zip(*training.history, strict=True)
        file.write_text(training_plot(losses, test_losses, accuracies), encoding="utf-8")

    def graph(file: Path) -> None:
        file.write_text(training.graph(), encoding="utf-8")

    return {
        options.weights or options.out / "weights.npz": weights,
        options.out / "training.svg": plot,
        options.out / "graph.svg": graph,
    }
