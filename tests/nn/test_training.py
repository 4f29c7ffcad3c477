"""Long trainings: what is made in one step doesn't stay until the next."""

import gc
import os
import threading
from pathlib import Path

import pytest

import adjoint as ad
from adjoint import nn

STEPS = 5000
GROWTH = 2 << 20  # bytes: what the interpreter and the allocator need, and less than 1 KB a step

proc = Path("/proc/self")
linux_only = pytest.mark.skipif(not (proc / "statm").exists(), reason="reads /proc")


def used_bytes() -> int:
    gc.collect()
    return int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(os.listdir(proc / "fd"))


@linux_only
def test_thousands_of_steps_leave_memory_threads_and_files_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = ad.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    average = ad.optim.EMA(model, decay=0.99)
    inputs, labels = ad.random.normal((400, 8)), ad.random.integers(0, 2, (400,))
    dataset = ad.data.TensorDataset(inputs, labels)
    loader = ad.data.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, seed=0)

    def epoch() -> None:
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            average.update()

    for _ in range(10):
        epoch()
    memory, files = used_bytes(), open_files()
    for _ in range(STEPS // len(loader) - 10):
        epoch()
    assert used_bytes() - memory < GROWTH
    assert open_files() <= files
    workers = [x for x in threading.enumerate() if x.name.startswith("adjoint-data")]
    for worker in workers:  # of the last epoch, which may be about to end
        worker.join(timeout=10)
    assert not any(worker.is_alive() for worker in workers)
