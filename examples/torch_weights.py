"""Moves the weights of a network between adjoint and PyTorch, both ways, by safetensors files.

Modules have PyTorch's names, shapes and meaning, so a file of one is a file of the other. Without
PyTorch this shows adjoint's half: `torch_mlp.safetensors` was saved from PyTorch, with inputs and
the outputs that PyTorch computed for them.
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

SHIPPED = Path(__file__).with_name("torch_mlp.safetensors")


def network(nn: Any) -> Any:
    """The same network from `adjoint.nn` or from `torch.nn`."""
    return nn.Sequential(
        nn.Linear(8, 32),
        nn.LayerNorm(32),
        nn.GELU(),
        nn.Linear(32, 32),
        nn.Tanh(),
        nn.Linear(32, 4),
    )


def main() -> None:
    options = parse_arguments()
    ad.set_default_device(options.device)
    ad.random.seed(options.seed)
    report("file saved from PyTorch", shipped_difference())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        report("saved and loaded by adjoint", own_difference(path))
        if importlib.util.find_spec("torch") is None:
            print("PyTorch is not installed: its half is left out")
            return
        x = ad.random.normal((16, 8)).numpy()
        report("adjoint to PyTorch", to_torch(path, x))
        report("PyTorch to adjoint", from_torch(path, x, options.seed))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="as every example has; it is short")
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    parser.add_argument("--device", default="cpu", help="where adjoint computes (default: cpu)")
    return parser.parse_args()


def report(title: str, difference: float) -> None:
    print(f"{title:28} outputs differ by at most {difference:.1e}")


def furthest(a: Any, b: Any) -> float:
    return np.max(np.abs(np.asarray(a) - np.asarray(b))).item()


def outputs(model: nn.Module, x: np.ndarray) -> np.ndarray:
    with ad.no_grad():
        return model(ad.asarray(x)).numpy()


def shipped_difference() -> float:
    """Of what adjoint and PyTorch computed with the weights of a file from PyTorch."""
    tensors = ad.load(SHIPPED)
    x, expected = tensors.pop("inputs"), tensors.pop("outputs")
    model = network(nn)
    model.load_state_dict(tensors)
    return furthest(outputs(model, x.numpy()), expected.numpy())


def own_difference(path: Path) -> float:
    """Of a network and another that loaded its weights."""
    model, other = network(nn), network(nn)
    ad.save(model.state_dict(), path)
    other.load_state_dict(ad.load(path))
    x = ad.random.normal((16, 8)).numpy()
    return furthest(outputs(model, x), outputs(other, x))


def to_torch(path: Path, x: np.ndarray) -> float:
    import torch  # type: ignore[reportMissingImports]
    from safetensors.torch import load_file

    model = network(nn)
    ad.save(model.state_dict(), path)
    other = network(torch.nn)
    other.load_state_dict(load_file(path))
    return furthest(outputs(model, x), other(torch.tensor(x)).detach())


def from_torch(path: Path, x: np.ndarray, seed: int) -> float:
    import torch  # type: ignore[reportMissingImports]
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    model = network(torch.nn)
    save_file(model.state_dict(), path)
    other = network(nn)
    other.load_state_dict(ad.load(path))
    return furthest(model(torch.tensor(x)).detach(), outputs(other, x))


if __name__ == "__main__":
    try:
        main()
    except ad.AdjointError as error:  # such as that safetensors is not installed
        sys.exit(str(error))
