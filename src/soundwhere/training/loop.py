"""The loop of one training stage, readable top to bottom.

One process:             soundwhere train --config configs/paper.toml --out runs/paper
Several GPUs:            torchrun --nproc-per-node 4 -m soundwhere train --config configs/paper.toml --out runs/paper
Several machines:        torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:PORT
                             --max-restarts 3 -m soundwhere train --auto-resume --out SHARED/runs/paper ...

Accumulating gradients saves memory but does not enlarge the set of contrastive negatives: each part of a batch is
contrasted within itself. More processes do enlarge it, because embeddings are gathered.
"""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from soundwhere.distributed import all_reduce_sum, rank, world_size
from soundwhere.errors import SoundwhereError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from soundwhere.methods.method import Schedule
    from soundwhere.training.checkpoint import Progress
    from soundwhere.types import Batch

# Weight of the newest loss in the running average.
SMOOTHING = 0.02


class DivergedError(SoundwhereError):
    """The loss is no longer a number."""


def learning_rate(schedule: Schedule, step: int, steps: int) -> float:
    """The rate of a step: linear warm-up, then constant, falling in stairs, or a half cosine down to 0."""
    rate = schedule.learning_rate * min(1.0, (step + 1) / max(1, schedule.warmup_steps))
    if schedule.decay == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * step / max(1, steps)))
    if schedule.fall_every:
        rate *= schedule.fall ** (step // schedule.fall_every)
    return rate


def make_optimiser(objective: nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    """The stage's optimiser over what trains in it."""
    by_factor: dict[float, list[nn.Parameter]] = {}
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            factor = next((times for word, times in schedule.factors.items() if word in name), 1.0)
            by_factor.setdefault(factor, []).append(parameter)
    trained = [{"params": parameters, "factor": factor} for factor, parameters in by_factor.items()]
    rate, decay = schedule.learning_rate, schedule.weight_decay
    if schedule.optimiser == "sgd":
        return torch.optim.SGD(trained, lr=rate, momentum=schedule.momentum, weight_decay=decay)
    kind = torch.optim.AdamW if schedule.optimiser == "adamw" else torch.optim.Adam
    return kind(trained, lr=rate, weight_decay=decay, betas=schedule.betas)


def run_stage(
    objective: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[Batch],
    progress: Progress,
    steps: int,
    schedule: Schedule,
    device: torch.device,
    *,
    seed: int = 0,
    bf16: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Progress, dict[str, float]]]:
    """Train on `batches`, giving the progress and the statistics after every step.

    Args:
        objective: The stage's loss; decides what trains.
        optimiser: Over the objective's trained parameters.
        batches: This process's share of each step's batch, beginning at `progress.step`.
        progress: Where the stage stands.
        steps: Where it ends, for the learning-rate schedule.
        schedule: Rates, accumulation and clipping.
        device: Where the objective lives.
        seed: Decides whatever the objective draws, with the stage, the step and the process: nothing to store of it.
        bf16: Compute in bfloat16 where digits do not matter.
        stop: Whether to end after a step; if one process is to, all do, after the same one.
    """
    parallel: nn.Module = objective
    if world_size() > 1:
        parallel = DistributedDataParallel(objective)
    trained = [parameter for group in optimiser.param_groups for parameter in group["params"]]

    began = time.monotonic()  # waiting for a batch is a part of its step
    for batch in batches:
        torch.manual_seed(step_seed(seed, progress.stage, progress.step))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(schedule, progress.step, steps) * group.get("factor", 1.0)
        statistics, stopping = _backward(parallel, batch.to(device), schedule.accumulate, device, bf16, stop())
        loss, norm = statistics["loss"], float(nn.utils.clip_grad_norm_(trained, schedule.clip_norm or math.inf))
        # before the weights are touched: a checkpoint never holds numbers that are none
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergedError(
                f"At step {progress.step + 1} of stage {progress.stage} the loss is {loss}, the gradient norm {norm}.",
                "Go on from the last checkpoint with --resume and a lower --learning-rate or a --clip-norm.",
            )
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

        smooth = loss if progress.step == 0 else progress.smooth_loss + SMOOTHING * (loss - progress.smooth_loss)
        progress = replace(
            progress, step=progress.step + 1, smooth_loss=smooth, seconds=progress.seconds + time.monotonic() - began
        )
        yield progress, statistics
        if stopping:
            return
        began = time.monotonic()


def step_seed(seed: int, stage: str, step: int) -> int:
    """What seeds a step: another number for every stage, step and process, the same whenever it is asked for."""
    words = f"{seed} {stage} {step} {rank()}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=7).digest())


def _backward(
    parallel: nn.Module, batch: Batch, parts: int, device: torch.device, bf16: bool, to_stop: bool
) -> tuple[dict[str, float], bool]:
    """Add up the gradients of a batch, part by part.

    Returns:
        The statistics, which are means over the scenes of every process, and whether any process is to stop.
    """
    count = min(parts, len(batch))
    bounds = [len(batch) * number // count for number in range(count + 1)]
    names: list[str] = []
    sums = torch.zeros((), device=device)
    for start, stop in pairwise(bounds):
        # Processes exchange gradients once per batch, with its last part.
        last = stop == len(batch)
        quiet = nullcontext() if last or not isinstance(parallel, DistributedDataParallel) else parallel.no_sync()
        share = (stop - start) / len(batch)
        with quiet:
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                values = parallel(batch[start:stop])
            (values["loss"] * share).backward()
        names = list(values)
        sums = sums + torch.stack([value.detach().float() for value in values.values()]) * share
    told = all_reduce_sum(torch.cat([sums, sums.new_tensor([float(to_stop)])]))
    *means, stops = (told / world_size()).tolist()
    return dict(zip(names, means, strict=True)), stops > 0
