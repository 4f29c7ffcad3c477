"""A model on paper of data-parallel training: what a step costs on many ranks.

A message of n bytes takes L + n / B seconds: a latency, and the bytes over the bandwidth. If a core
adds A bytes a second, an all-reduce of n bytes on p ranks takes

    parts       2 (p - 1) L + (p - 1) / p n (2 / B + 1 / A)
    parts, log  (p - 1 + ⌈log2 p⌉) L + (p - 1) / p n (2 / B + 1 / A)
    tree        2 ⌈log2 p⌉ (L + n / B) + ⌈log2 p⌉ n / A

`parts` is adjoint's: each rank sends part j to rank j, adds the parts that it gets in the order of
ranks, and all get the sums. It costs as much as a ring, and adds every element in the same order,
wherever in a bucket it stands. The second gathers by recursive doubling or Bruck's algorithm, as
MPI does with short messages. Bruck's all-to-all isn't here: it moves log2(p) / 2 times the bytes of
one in pairs, and MPI takes it for parts of a few hundred bytes. A tree sums towards one rank, and
sends the sum back.

A step computes for a third of its time forward, and for two thirds backward. Backward completes
buckets evenly, all of the same size, which are exchanged one after the other. So exchanges end
after the compute and the last bucket, or, if the network is slower, after all of them in a row:

    max(compute + exchange, compute / 3 + 2/3 compute / buckets + buckets · exchange)

Without overlap it is compute + buckets · exchange. Efficiency is compute / step.

What is assumed:
- The work of a rank is constant (weak scaling): more ranks are larger batches.
- All ranks take the same time: nobody waits for a slow one, or for data.
- A rank has a network link of its own, full duplex, and no link inside the network is shared. A
  ring only needs that of neighbours, an all-to-all of all pairs at once.
- Messages of a rank follow one another, though MPI sends some at once, which hides latency.
- Exchanging takes no time from computing, neither cores nor memory bandwidth.
- Only the exchange counts, without what adjoint does around it: ranks compare their calls before
  each one, and gradients are copied into buckets.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

ADDING = 10e9  # bytes per second, A above: the benchmark measures 8 to 29 GB/s
PAYLOAD = 0.94  # of the bits of a link, without headers of frames and packets
FORWARD = 1 / 3  # of the time to compute


@dataclass(frozen=True)
class Network:
    """Seconds per message, and bytes per second of a link."""

    name: str
    latency: float
    bandwidth: float
    adding: float = ADDING


def link(name: str, gigabits: float, microseconds: float) -> Network:
    return Network(name, microseconds * 1e-6, PAYLOAD * gigabits * 1e9 / 8)


# Latencies are half a ping-pong of short messages through MPI, in the order of magnitude that
# vendors and users of the OSU micro-benchmarks report: tens of microseconds through the kernel's
# TCP, one to three with RDMA and a few switches. `osu_latency` and `osu_bw` measure yours.
NETWORKS = (
    link("1 Gbit/s Ethernet", 1, 50),
    link("10 Gbit/s Ethernet", 10, 25),
    link("100 Gbit/s Ethernet, RDMA", 100, 3),
    link("400 Gbit/s InfiniBand", 400, 1.5),
)


def parts(p: int, nbytes: float, network: Network) -> float:
    """All-to-all in pairs, sums, all-gather in a ring."""
    return 2 * (p - 1) * network.latency + moved_and_added(p, nbytes, network)


def parts_log(p: int, nbytes: float, network: Network) -> float:
    messages = p - 1 + math.ceil(math.log2(p))
    return messages * network.latency + moved_and_added(p, nbytes, network)


def tree(p: int, nbytes: float, network: Network) -> float:
    message = network.latency + nbytes / network.bandwidth
    return math.ceil(math.log2(p)) * (2 * message + nbytes / network.adding)


def moved_and_added(p: int, nbytes: float, network: Network) -> float:
    """Seconds that bytes take which cross a link twice, and are added once."""
    return (p - 1) / p * nbytes * (2 / network.bandwidth + 1 / network.adding)


ALGORITHMS: dict[str, Callable[[int, float, Network], float]] = {
    "parts": parts,
    "parts, log": parts_log,
    "tree": tree,
}


def even_bucket(p: int, network: Network) -> float:
    """Bytes that take as long as the latency of their exchange."""
    return parts(p, 0, network) / (parts(p, 1, network) - parts(p, 0, network))


def bucket_count(nbytes: float, bucket: float) -> int:
    return math.ceil(nbytes / bucket)


def step(compute: float, buckets: int, exchange: float, overlap: bool = True) -> float:
    """Seconds of a step whose buckets take `exchange` seconds each."""
    if not overlap:
        return compute + buckets * exchange
    first = compute * (FORWARD + (1 - FORWARD) / buckets)
    return max(compute + exchange, first + buckets * exchange)


@dataclass(frozen=True)
class Model:
    """A network to train: bytes of its gradients, and seconds to compute a step on one rank."""

    name: str
    nbytes: float
    compute: float

    def efficiency(self, p: int, network: Network, bucket: float, overlap: bool = True) -> float:
        buckets = bucket_count(self.nbytes, bucket)
        exchange = parts(p, self.nbytes / buckets, network)
        return self.compute / step(self.compute, buckets, exchange, overlap)


# The times are examples: about what 32 images take on some cores, and on one GPU, and what 8 texts
# of 1,024 tokens take on one GPU. What computes for longer scales better.
MODELS = (
    Model("25 M parameters, 2 s", 4 * 25e6, 2.0),
    Model("25 M parameters, 0.1 s", 4 * 25e6, 0.1),
    Model("350 M parameters, 0.5 s", 4 * 350e6, 0.5),
)
