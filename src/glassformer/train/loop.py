"""The one training loop.

    while the run is not over:
        update      batches → loss → gradients, divided by the tokens of the whole update → clip → a step
        validate    now and then, with the running mean of the weights in place; and save

Every random number comes from (seed, update, process), and the batches from (seed, epoch, number): a resumed
run has nothing else to restore, and on the same machine repeats the one that was never stopped, bit for bit.
(With a limit in minutes the clock has a say too: then only the code is the same.)
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bundle import WEIGHTS, Bundle, load_weights
from glassformer.errors import TrainingError
from glassformer.recipe import TrainConfig
from glassformer.train.checkpoint import Checkpoints, Progress, Window
from glassformer.train.distributed import Processes, held_back
from glassformer.train.feed import Batches, mix
from glassformer.train.interrupt import asked_to_stop
from glassformer.train.optim import (
    MovingMean,
    build_optimizer,
    build_schedule,
    load_optimizer_tensors,
    optimizer_tensors,
    set_rate,
)
from glassformer.train.precision import precision
from glassformer.train.report import Report, Validation

HOPELESS = 10.0
"""times ln V, which is what a model needs that has learned nothing: one so much worse has diverged, even if
its loss is still a number"""


class Loop:
    """One run: `Loop(…).run()` trains until a limit is reached, from the last checkpoint if there is one.

    `objective(batch)` returns `Losses`; its parameters are those of the bundle's model.
    """

    def __init__(
        self,
        bundle: Bundle[Any],
        objective: nn.Module,
        feed: Batches,
        config: TrainConfig,
        *,
        checkpoints: Checkpoints,
        report: Report,
        validator: Callable[[], Validation] | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.bundle, self.feed, self.config = bundle, feed, config
        self.checkpoints, self.report, self.validator = checkpoints, report, validator
        self.processes = processes or Processes()
        self.model = bundle.model.to(self.processes.device)
        self.objective = self.processes.wrap(objective)
        self.width = bundle.config.model.width
        self.optimizer = build_optimizer(self.model, config)
        self.schedule = build_schedule(
            config.schedule,
            peak=config.learning_rate,
            warmup=config.warmup,
            final=config.final_rate,
            width=self.width,
        )
        self.mean = MovingMean(self.model.parameters(), config.ema) if config.ema else None
        self.hopeless = HOPELESS * math.log(bundle.config.vocabulary.target_size)
        self.progress = Progress()
        self.parts = 1  # into how many a batch is cut; grows when memory runs out
        self.clock = time.perf_counter()

    def run(self) -> Progress:
        """The loop itself. Returns where the run ended; the checkpoints hold the rest."""
        self.restore()
        self.objective.train()
        self.clock = time.perf_counter()
        with asked_to_stop(self.processes.alone) as asked:
            while not self.reason_to_stop():
                self.update()
                if self.validation_is_due() or self.reason_to_stop():
                    self.validate()
                elif self.processes.any(asked()):
                    self.interrupt()
        return self.progress

    # --- how long ---

    def over(self, epoch: int, batch: int, step: int) -> float:
        """The share of the run that is over, by whichever limit is nearest; 0 without any limit."""
        config, shares = self.config, [0.0]
        if config.max_steps:
            shares.append(step / config.max_steps)
        if config.max_epochs:
            part = batch / self.feed.count(epoch) if batch else 0.0
            shares.append((epoch + part) / config.max_epochs)
        if config.max_minutes:
            shares.append(self.progress.seconds / (60 * config.max_minutes))
        return max(shares)

    def reason_to_stop(self) -> str:
        """Why the run is over; empty while it is not. A pure function of the progress and the settings."""
        config, progress = self.config, self.progress
        if config.max_steps and progress.step >= config.max_steps:
            return f"all {config.max_steps:,} updates are done"
        if config.max_epochs and progress.epoch >= config.max_epochs:
            return f"all {config.max_epochs:,} epochs are done"
        if config.max_minutes and progress.seconds >= 60 * config.max_minutes:
            return f"the {config.max_minutes:g} minutes are over"
        if config.patience and progress.stale >= config.patience:
            return f"{progress.stale} validations in a row have brought no better {config.stop_on}"
        return ""

    def validation_is_due(self) -> bool:
        if self.config.validate_minutes:
            return self.progress.seconds - self.progress.validated_at >= 60 * self.config.validate_minutes
        return self.progress.step % self.config.validate_every == 0

    # --- one update ---

    def update(self) -> None:
        """Take the next batches and move the weights once; or not, if the numbers are no numbers."""
        progress = self.progress
        count = self.feed.count(progress.epoch)
        numbers = range(progress.batch, min(progress.batch + self.config.accumulate, count))
        rate = self.schedule(progress.step + 1, self.over(progress.epoch, numbers.stop, progress.step + 1))
        loss, nll, tokens = self.gradients(numbers)
        loss, nll, tokens, seconds = self.processes.sum([loss, nll, tokens, self.tick()])
        length = self.divide_and_clip(tokens)
        good = math.isfinite(loss) and math.isfinite(length) and nll / tokens < self.hopeless
        if good:
            set_rate(self.optimizer, rate)
            self.optimizer.step()
            if self.mean:
                self.mean.update()
        self.optimizer.zero_grad()
        progress.step += 1
        progress.epoch, progress.batch = (
            (progress.epoch + 1, 0) if numbers.stop == count else (progress.epoch, numbers.stop)
        )
        progress.tokens += int(tokens)
        progress.seconds += seconds
        self.account(good, loss, nll, int(tokens), length, seconds)
        if progress.step % self.config.log_every == 0:
            self.log(rate)
        self.report.updated(progress, self.over(progress.epoch, progress.batch, progress.step))
        if progress.bad_in_a_row >= self.config.max_bad_steps:
            self.give_up(loss / tokens, length, rate)

    def gradients(self, numbers: range) -> tuple[float, float, float]:
        """(loss, nll, tokens), summed over this process's share; the gradients of that sum are in `.grad`.

        If memory runs out, the update begins anew with every batch cut into twice as many parts. Sums are
        sums: only the rounding and the dropout differ.
        """
        while True:
            torch.manual_seed(mix(self.config.seed, self.progress.step, self.processes.rank))
            try:
                return self._gradients(numbers)
            except (RuntimeError, MemoryError) as error:
                if not _is_out_of_memory(error):
                    raise
            # Outside the except clause, so that the failed attempt's tensors are free.
            self.cut_smaller(numbers)

    def _gradients(self, numbers: range) -> tuple[float, float, float]:
        sums = torch.zeros(2, dtype=torch.float64, device=self.processes.device)
        tokens = 0
        for number in numbers:
            batch, counts = self.processes.share(self.feed.batch(self.progress.epoch, number))
            parts = batch.split(self.parts)
            for place, part in enumerate(parts):
                last = number == numbers[-1] and place == len(parts) - 1
                with held_back(self.objective, hold=not last):
                    with precision(self.config.precision, self.processes.device, self.width):
                        losses = self.objective(part.to(self.processes.device))
                    (losses.loss_sum if counts else 0 * losses.loss_sum).backward()
                if counts:
                    sums += torch.stack([losses.loss_sum.detach(), losses.nll_sum]).double()
                    tokens += losses.tokens
        return float(sums[0]), float(sums[1]), float(tokens)

    def divide_and_clip(self, tokens: float) -> float:
        """Turn the gradient of a sum into that of a mean over tokens, at most `clip` long; its length before.

        DDP has divided by the number of processes already.
        """
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        per_token = self.processes.count / tokens
        length = float(torch.nn.utils.get_total_norm(gradients)) * per_token
        clip = self.config.clip
        factor = per_token * (clip / length if clip and length > clip else 1.0)
        if math.isfinite(factor):
            torch._foreach_mul_(gradients, factor)
        return length

    def cut_smaller(self, numbers: range) -> None:
        self.optimizer.zero_grad()
        if self.processes.device.type == "cuda":
            torch.cuda.empty_cache()
        rows = max(len(self.feed.batch(self.progress.epoch, number)) for number in numbers)
        tokens, accumulate = self.config.batch_tokens, self.config.accumulate
        remedy = f"try train.batch_tokens={tokens // 2} train.accumulate={2 * accumulate}: the same result"
        if not self.processes.alone or self.parts >= rows:
            raise TrainingError(f"out of memory in update {self.progress.step + 1}; {remedy}")
        self.parts *= 2
        self.report.say(f"out of memory: batches are cut in {self.parts} from here on, with the same result")

    # --- book-keeping ---

    def tick(self) -> float:
        """Seconds since the last tick, on the clock of process 0, whose time is everybody's."""
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        return passed if self.processes.first else 0.0

    def account(
        self, good: bool, loss: float, nll: float, tokens: int, length: float, seconds: float
    ) -> None:
        progress, window = self.progress, self.progress.window
        window.seconds += seconds
        if not good:
            progress.skipped += 1
            progress.bad_in_a_row += 1
            self.report.say(f"update {progress.step} skipped: loss {loss / tokens:g}, gradient {length:g}")
            return
        progress.bad_in_a_row = 0
        window.updates += 1
        window.loss += loss
        window.nll += nll
        window.tokens += tokens
        window.gradient += length

    def log(self, rate: float) -> None:
        """One line of metrics for the updates since the last."""
        progress, window = self.progress, self.progress.window
        entry: dict[str, float | int | str | None] = {
            "kind": "train",
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": window.loss / window.tokens if window.tokens else None,
            "nll": window.nll / window.tokens if window.tokens else None,
            "gradient": window.gradient / window.updates if window.updates else None,
            "rate": rate,
            "tokens": progress.tokens,
            "skipped": progress.skipped,
            "tokens_per_second": window.tokens / window.seconds,
            "seconds": progress.seconds,
        }
        self.report.record(entry)
        progress.window = Window()

    def give_up(self, loss: float, length: float, rate: float) -> None:
        kept = self.checkpoints.all()
        last = (
            f"the last good checkpoint is {kept[-1].path}" if kept else "no checkpoint had been written yet"
        )
        raise TrainingError(
            f"{self.progress.bad_in_a_row} updates in a row were of no use: the loss is {loss:g} a token, "
            f"the gradient {length:g}. Training has diverged; {last}. The learning rate was {rate:g}: "
            f"try train.learning_rate={self.config.learning_rate / 4:g}, or a longer train.warmup"
        )

    # --- validation and saving ---

    def validate(self) -> None:
        """Look at the model as it would be used, write down what it can do, and save it."""
        progress = self.progress
        with self.averaged():
            result = self.validator() if self.validator and self.processes.first else None
            found = [0.0, 0.0, 0.0] if result is None else [1.0, result.loss, self.score(result)]
            some, loss, score, seconds = self.processes.from_first([*found, self.tick()])
            progress.seconds += seconds
            progress.validated_at = progress.seconds
            healthy = loss < self.hopeless if some else not progress.bad_in_a_row
            if some and healthy:
                sign = 1 if self.config.stop_on == "loss" else -1
                if progress.best is None or sign * score < sign * progress.best:
                    progress.best, progress.best_step, progress.stale = score, progress.step, 0
                else:
                    progress.stale += 1
            if result is not None:
                self.report.validated(progress, result)
            if healthy:
                self.save(score if some else None)
            else:
                self.report.say(f"step {progress.step}: the model has diverged; no checkpoint is written")
        progress.seconds += self.processes.from_first([self.tick()])[0]

    def score(self, result: Validation) -> float:
        """What decides which checkpoint is the best."""
        if self.config.stop_on == "bleu" and result.bleu is not None:
            return result.bleu
        if self.config.stop_on == "accuracy" and result.accuracy is not None:
            return result.accuracy
        return result.loss

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The running mean in place of the weights, dropout off; and back."""
        self.objective.eval()
        if self.mean:
            self.mean.swap()
        try:
            yield
        finally:
            if self.mean:
                self.mean.swap()
            self.objective.train()

    def save(self, score: float | None, scheduled: bool = True) -> None:
        """Process 0 writes a checkpoint. Called with the running mean in place."""
        if self.processes.first:
            self.report.sync()
            memory = optimizer_tensors(self.optimizer, self.model)
            tensors = {f"optimizer.{name}": tensor for name, tensor in memory.items()}
            if self.mean:
                self.progress.mean_count = self.mean.count
                names = (name for name, _ in self.model.named_parameters())
                tensors |= {f"weight.{name}": own for name, own in zip(names, self.mean.mean, strict=True)}
            self.checkpoints.save(self.bundle, self.progress, tensors, score, scheduled=scheduled)
        self.processes.wait()

    def restore(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        found = self.checkpoints.newest()
        self.processes.wait()  # nobody writes before everybody has read
        if found is not None:
            self.progress, tensors = found.load()
            if self.progress.batch >= self.feed.count(self.progress.epoch):
                # Changed settings have made the epoch shorter than what has been seen of it.
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
            load_weights(self.model, found.path / WEIGHTS, self.bundle.config.vocabulary)
            if self.mean:
                self.mean.restart(self.progress.mean_count)
            own = _under("weight.", tensors)
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    if own:
                        parameter.copy_(own[name])
            load_optimizer_tensors(self.optimizer, self.model, _under("optimizer.", tensors))
        self.report.resumed(self.progress, found.path if found else None)

    def interrupt(self) -> None:
        """Somebody pressed Ctrl-C: save, then let the interruption take its course."""
        with self.averaged():
            self.save(None, scheduled=False)
        self.report.say(f"saved after update {self.progress.step:,}; the same command goes on from here")
        raise KeyboardInterrupt


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
