"""Several processes on one global batch: PyTorch's DDP, started by torchrun.

    torchrun --nproc-per-node 2 --max-restarts 3 -m glassformer train recipe.toml --to DIR
    glass train recipe.toml --to DIR --processes 2            the same

Of w processes, number r takes rows r::w of every global batch. Losses and token counts are summed over all
processes, and gradients divided by the tokens of the whole batch, so the number of processes changes nothing
but rounding (and which dropout is drawn). Process 0 reads, reports and writes; the others follow.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.data.batch import Batch

# torchrun notices a dead worker by itself; what remains is waiting for process 0 to prepare a large corpus.
PATIENCE = timedelta(hours=24)


@dataclass(frozen=True)
class Processes:
    """This process among its equals. Alone, everything here costs nothing."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        """Is this the one that speaks and writes?"""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.count == 1

    def wrap(self, objective: nn.Module) -> nn.Module:
        """The objective, with gradients averaged over all processes: DDP divides by their number."""
        if self.alone:
            return objective
        devices = [self.device] if self.device.type == "cuda" else None
        # Our buffers are tables that grow with the longest sentence seen: nothing to be sent around.
        known = inspect.signature(DistributedDataParallel).parameters
        sync = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        options: dict[str, Any] = {sync: False}
        return DistributedDataParallel(objective, device_ids=devices, gradient_as_bucket_view=True, **options)

    def share(self, batch: Batch) -> tuple[Batch, bool]:
        """This process's rows, and whether they count.

        DDP needs every process to take part: one that gets no row of a very small batch computes another's
        and throws the result away.
        """
        if self.alone:
            return batch, True
        own = batch.rows(slice(self.rank, None, self.count))
        return (own, True) if len(own) else (batch.rows(slice(0, 1)), False)

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums over all processes: the same numbers everywhere, to the last bit."""
        if self.alone:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor]

    def any(self, one: bool) -> bool:
        """Does it hold for at least one process?"""
        return self.sum([float(one)])[0] > 0

    def from_first(self, values: Sequence[float]) -> list[float]:
        """What process 0 says, everywhere; the others give as many numbers of any value."""
        return self.sum(values if self.first else [0.0] * len(values))

    def wait(self) -> None:
        if not self.alone:
            dist.barrier()


@contextlib.contextmanager
def processes() -> Iterator[Processes]:
    """Join the processes that torchrun started; or be alone. Takes a GPU if there is one."""
    count, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if count == 1:
        yield Processes(device=device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), count, device)
    finally:
        dist.destroy_process_group()


def held_back(objective: nn.Module, hold: bool) -> contextlib.AbstractContextManager[None]:
    """Keep gradients at home while more batches of the same update are to come."""
    if hold and isinstance(objective, DistributedDataParallel):
        return objective.no_sync()
    return contextlib.nullcontext()
