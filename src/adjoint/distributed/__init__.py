"""Training on several machines, or in several processes of one: `ad.distributed`.

The processes, or ranks, are started by `mpiexec -n 4 python train.py` or `srun`, and joined by MPI.
The same program runs alone, too: then the world has one rank.
"""

from ._data_parallel import DataParallel
from ._sharded_optimizer import ShardedOptimizer
from ._sync_batch_norm import SyncBatchNorm
from ._world import World, init

__all__ = ["DataParallel", "ShardedOptimizer", "SyncBatchNorm", "World", "init"]
