"""`glass train --dry-run`: what a run would need, from counting and from a few updates on this machine."""

from __future__ import annotations

import itertools
import sys
import time

import torch
from torch import nn

from glassformer.model.build import count_parameters
from glassformer.recipe import TrainConfig
from glassformer.train.distributed import Processes
from glassformer.train.feed import Feed
from glassformer.train.muon import matrices_of
from glassformer.train.objective import make_objective
from glassformer.train.optim import MovingMean, build_optimizer, set_rate
from glassformer.train.precision import precision
from glassformer.train.prepare import Prepared
from glassformer.train.report import clock

SECONDS = 6.0
"""how long the probe measures, at least two updates"""


def dry_run(prepared: Prepared, processes: Processes) -> str:
    """Parameters by part, memory, operations, and the time that all of it would take here."""
    if prepared.recipe.train.threads:
        torch.set_num_threads(prepared.recipe.train.threads)
    tokens_per_second, memory = _measure(prepared, processes)
    lines = ["parameters", *_parameters(prepared.bundle.model)]
    lines += ["memory", *_memory(prepared, memory)]
    lines += ["speed", *_speed(prepared, tokens_per_second)]
    return "\n".join(lines)


def _parameters(model: nn.Module) -> list[str]:
    """Each part once: what is tied counts where it stands first."""
    seen: set[int] = set()
    lines = []
    for name, part in model.named_children():
        own = [p for p in part.parameters() if id(p) not in seen]
        seen.update(id(p) for p in own)
        count = sum(p.numel() for p in own)
        lines.append(_row(name.replace("_", " "), f"{count:,}" if count else "tied to the above"))
    return [*lines, _row("all", f"{count_parameters(model):,}")]


def _memory(prepared: Prepared, measured: int) -> list[str]:
    config, weights = prepared.recipe.train, 4 * count_parameters(prepared.bundle.model)
    copies = float(4 + bool(config.ema))
    what = "weights, gradients, two of Adam" + (", running mean" if config.ema else "")
    if config.optimizer == "muon":
        matrices = 4 * sum(layer.weight.numel() for layer in matrices_of(prepared.bundle.model))
        copies, what = copies - matrices / weights, what.replace("Adam", "Adam or one of Muon")
    return [
        _row(f"{copies:.2g} × the weights", f"{copies * weights / 2**20:,.0f} MB   ({what})"),
        _row("measured", f"{measured / 2**20:,.0f} MB   (the whole process, after a few updates)"),
    ]


def _speed(prepared: Prepared, tokens_per_second: float) -> list[str]:
    if prepared.recipe.task != "translate":
        return [_row("measured", f"{tokens_per_second:,.0f} targets/s")]
    flops = flops_per_token(prepared)
    tokens = epoch_tokens(prepared)
    lines = [
        _row("operations", f"{flops / 1e6:,.1f} MFLOP a target token, there and back"),
        _row(
            "measured",
            f"{tokens_per_second:,.0f} target tokens/s, {flops * tokens_per_second / 1e9:,.0f} GFLOP/s",
        ),
        _row("an epoch", f"{tokens:,} target tokens, {clock(tokens / tokens_per_second)}"),
    ]
    return [*lines, _row("the run", _expected(prepared, tokens, tokens / tokens_per_second))]


def _expected(prepared: Prepared, tokens: int, epoch_seconds: float) -> str:
    """By the nearest limit. Validations come on top."""
    config = prepared.recipe.train
    updates = -(-prepared.feed.count(0) // config.accumulate)
    limits = []
    if config.max_steps:
        limits.append((config.max_steps / updates * epoch_seconds, f"{config.max_steps:,} updates"))
    if config.max_epochs:
        limits.append((config.max_epochs * epoch_seconds, f"{config.max_epochs} epochs"))
    if config.max_minutes:
        limits.append((60 * config.max_minutes, f"{config.max_minutes:g} minutes"))
    if not limits:
        return f"until {config.patience} validations bring nothing better"
    seconds, what = min(limits)
    early = ", or less if it stops improving" if config.patience else ""
    return f"{clock(seconds)} ({what}, {seconds / epoch_seconds * tokens:,.0f} target tokens){early}"


def epoch_tokens(prepared: Prepared) -> int:
    """Target tokens of one epoch, ends of sentence included."""
    feed = prepared.feed
    assert isinstance(feed, Feed)
    lengths, batches = feed.store.target_lengths, feed.order.batches(0)
    return sum(int(lengths[batches[n]].sum()) + len(batches[n]) for n in range(len(batches)))


def flops_per_token(prepared: Prepared) -> float:
    """Multiplications and additions a target token costs in training, counting matrix products only.

    A weight takes part once a token: 2 operations forward, 4 backward. Attention between n and m tokens
    takes 2·n·m·width twice.
    """
    assert isinstance(prepared.feed, Feed)
    model, store = prepared.bundle.model, prepared.feed.store
    network = prepared.bundle.config.model
    source, target = float(store.source_lengths.mean()) + 1, float(store.target_lengths.mean()) + 1
    share = source / target
    weights = share * _matrices(model.encoder) + _matrices(model.decoder) + model.output_weight.numel()
    if network.architecture == "recurrent":
        seen = source * (network.recurrent_attention != "none")
    else:
        seen = share * network.encoder_layers * source + network.decoder_layers * (target / 2 + source)
    return 6 * weights + 12 * network.width * seen


def _matrices(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.ndim == 2)


def _measure(prepared: Prepared, processes: Processes) -> tuple[float, int]:
    """(target tokens a second, bytes of memory) of a few real updates on a model that is thrown away."""
    config, device = prepared.recipe.train, processes.device
    model = prepared.bundle.model.to(device)
    task = prepared.recipe.task
    objective = make_objective(task, model, config.label_smoothing, config.r_drop).train()
    optimizer = build_optimizer(model, config)
    mean = MovingMean(model.parameters(), config.ema) if config.ema else None
    set_rate(optimizer, 1e-5)
    tokens, started = 0, time.perf_counter()
    for number in itertools.count():
        if number == _warm(config):
            tokens, started = 0, time.perf_counter()
        batch = prepared.feed.batch(0, number % prepared.feed.count(0)).to(device)
        with precision(config.precision, device, prepared.bundle.config.model.width):
            losses = objective(batch)
        losses.loss_sum.backward()
        tokens += losses.tokens
        if number % config.accumulate == config.accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
            if mean:
                mean.update()
        passed = time.perf_counter() - started
        if number >= _warm(config) + 2 * config.accumulate and passed > SECONDS:
            break
    if device.type == "cuda":
        torch.cuda.synchronize()
        return tokens / (time.perf_counter() - started), torch.cuda.max_memory_allocated()
    return tokens / passed, _peak_memory()


def _warm(config: TrainConfig) -> int:
    """Batches before the clock starts: the first ones also fetch memory and code."""
    return 2 * config.accumulate


def _peak_memory() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _row(name: str, value: str) -> str:
    return f"  {name:<18}{value}"
