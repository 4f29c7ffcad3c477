"""The training of the demo. It can stop after any step, and goes on as if it had not."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import adjoint as ad

from .network import Network

KIND = "adjoint demo"


class Settings(NamedTuple):
    """What the result depends on, the machine apart."""

    seed: int = 0
    epochs: int = 15
    batch_size: int = 64
    lr: float = 0.01


class Epoch(NamedTuple):
    """What an epoch led to: the mean loss in training, and on the test digits loss and accuracy."""

    loss: float
    test_loss: float
    accuracy: float


class Training:
    """Model, optimizer and data, and how far they are: `history` of the epochs that are done, and
    `position`, the number of steps since."""

    def __init__(self, settings: Settings, device: str, workers: int = 0) -> None:
        ad.random.seed(settings.seed)
        self.settings, self.device = settings, device
        self.model = Network().to(device)
        self.loader = ad.data.DataLoader(
            ad.data.digits(train=True),
            batch_size=settings.batch_size,
            shuffle=True,
            seed=settings.seed,
            num_workers=workers,
            device=device,
        )
        self.test = ad.data.digits(train=False, device=device)
        self.optimizer = ad.optim.AdamW(self.model.parameters(), lr=settings.lr)
        self.scheduler = ad.optim.lr_scheduler.OneCycleLR(
            self.optimizer, settings.lr, total_steps=self.steps
        )
        self.history: list[Epoch] = []
        self.start_epoch()

    @property
    def steps(self) -> int:
        """How many there are in all."""
        return self.settings.epochs * len(self.loader)

    @property
    def done(self) -> int:
        """How many of them are done."""
        return len(self.history) * len(self.loader) + self.position

    @property
    def finished(self) -> bool:
        return len(self.history) == self.settings.epochs

    @property
    def loss(self) -> float:
        """The mean loss of this epoch's steps so far."""
        return self.total.item() / max(self.position, 1)

    def start_epoch(self) -> None:
        self.position = 0
        self.total = ad.zeros((), device=self.device)

    def epoch(self) -> Iterator[None]:
        """Take the rest of this epoch's steps, one at a time."""
        self.loader.set_epoch(len(self.history))
        self.model.train()
        for images, labels in itertools.islice(self.loader, self.position, None):
            self.step(images, labels)
            yield

    def step(self, images: ad.Tensor, labels: ad.Tensor) -> None:
        loss = self.loss_of(images, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.total = self.total + loss.detach()
        self.position += 1

    def loss_of(self, images: ad.Tensor, labels: ad.Tensor) -> ad.Tensor:
        return ad.nn.functional.cross_entropy(self.model(images), labels)

    def end_epoch(self) -> None:
        """Look how well the model reads digits that it hasn't seen."""
        self.history.append(Epoch(self.loss, *self.evaluate()))
        self.start_epoch()

    @ad.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Loss and accuracy on the test digits."""
        self.model.eval()
        images, labels = self.test.tensors
        scores = self.model(images)
        loss = ad.nn.functional.cross_entropy(scores, labels)
        right = ad.argmax(scores, axis=-1).astype(labels.dtype) == labels
        return loss.item(), ad.mean(right.astype(ad.float32)).item()

    def graph(self) -> str:
        """A picture of what a step records."""
        self.model.train()
        images, labels = self.test.tensors
        batch = slice(self.settings.batch_size)
        loss = self.loss_of(images[batch], labels[batch])
        return ad.graph(loss, names=dict(self.model.named_parameters())).svg()

    # Checkpoints

    def save(self, file: Path) -> None:
        """Write all that is needed to go on."""
        state = {
            "kind": KIND,
            "settings": self.settings._asdict(),
            "epoch": len(self.history),
            "position": self.position,
            "total": self.total,
            "history": [list(epoch) for epoch in self.history],
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": ad.random.get_state(),
        }
        ad.save(state, file)

    @classmethod
    def resumed(cls, state: dict[str, Any], device: str, workers: int) -> "Training":
        """Go on from what `save` wrote."""
        training = cls(Settings(**state["settings"]), device, workers)
        training.model.load_state_dict(state["model"])
        training.optimizer.load_state_dict(state["optimizer"])
        training.scheduler.load_state_dict(state["scheduler"])
        training.history = [Epoch(*epoch) for epoch in state["history"]]
        training.position = state["position"]
        training.total = state["total"].to(device)
        ad.random.set_state(state["random"])
        return training


def checkpoint(file: Path) -> dict[str, Any]:
    """What `save` wrote."""
    if not file.is_file():
        raise ad.ArgumentError(f"--resume: there is no {file}; start without --resume")
    state = ad.load(file)
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise ad.ArgumentError(f"--resume: {file} is no checkpoint of the demo")
    return state
