"""The loop on a problem small enough to do by hand: a vector w, and the loss |w - row|^2 averaged over rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from soundwhere.methods.method import Schedule
from soundwhere.methods.scav.config import SCAVConfig
from soundwhere.methods.scav.method import METHOD
from soundwhere.training import loop as module
from soundwhere.training.checkpoint import Progress
from soundwhere.training.loop import SMOOTHING, DivergedError, learning_rate, make_optimiser, run_stage
from soundwhere.types import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Pull(nn.Module):
    """Pulls w towards the rows of a batch, and notes how they came."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3))
        self.still = nn.Parameter(torch.zeros(3), requires_grad=False)
        self.sizes: list[int] = []

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        self.sizes.append(len(batch))
        return {"loss": (self.w - batch.mixture).square().sum(1).mean(), "mean": batch.mixture.mean()}


def plan(**settings: Any) -> Schedule:
    return Schedule(**{"batch_size": 5, "learning_rate": 1e-4, **settings})


def rows(samples: int = 5, seed: int = 0) -> Batch:
    return Batch(torch.randn(samples, 3, generator=torch.Generator().manual_seed(seed)))


def run(
    pull: Pull, batches: list[Batch], schedule: Schedule, place: Progress, steps: int = 100, **more: Any
) -> Iterator[Any]:
    optimiser = torch.optim.SGD([pull.w], lr=123.0)  # the loop sets the rate
    return run_stage(pull, optimiser, batches, place, steps, schedule, torch.device("cpu"), **more)


@pytest.mark.parametrize("accumulate", [1, 2, 3, 5, 9])
def test_accumulated_parts_give_the_gradient_and_the_means_of_the_whole(accumulate: int) -> None:
    pull, batch = Pull(), rows()
    [(place, statistics)] = run(pull, [batch], plan(learning_rate=0.1, accumulate=accumulate), Progress("one"))
    torch.testing.assert_close(pull.w.detach(), 0.2 * batch.mixture.mean(0))
    assert statistics["loss"] == pytest.approx(float(batch.mixture.square().sum(1).mean()))
    assert statistics["mean"] == pytest.approx(float(batch.mixture.mean()))
    assert place.step == 1
    assert sum(pull.sizes) == 5
    assert max(pull.sizes) - min(pull.sizes) <= 1
    assert len(pull.sizes) == min(accumulate, 5)


def test_clipping_shortens_the_step_and_keeps_its_direction() -> None:
    free, clipped, batch = Pull(), Pull(), rows()
    list(run(free, [batch], plan(learning_rate=1.0), Progress("one")))
    list(run(clipped, [batch], plan(learning_rate=1.0, clip_norm=0.01), Progress("one")))
    assert clipped.w.norm().item() == pytest.approx(0.01, rel=1e-3)
    torch.testing.assert_close(clipped.w / clipped.w.norm(), free.w / free.w.norm(), rtol=1e-4, atol=1e-5)
    long = Pull()
    list(run(long, [batch], plan(learning_rate=1.0, clip_norm=1e6), Progress("one")))
    assert torch.equal(long.w, free.w)


def test_the_loss_is_smoothed_from_its_first_value() -> None:
    places = list(run(Pull(), [rows(seed=seed) for seed in range(3)], plan(), Progress("one", best_loss=5)))
    expected = places[0][1]["loss"]
    for place, statistics in places:
        expected += SMOOTHING * (statistics["loss"] - expected)
        assert place.smooth_loss == pytest.approx(expected)
        assert place.best_loss == 5
    assert [place.step for place, _ in places] == [1, 2, 3]
    assert places[-1][0].seconds > 0


def test_a_stage_taken_up_again_goes_on_with_its_rate() -> None:
    schedule = plan(learning_rate=0.1, decay="cosine", warmup_steps=3)
    whole, again = Pull(), Pull()
    batches = [rows(seed=seed) for seed in range(6)]
    places = list(run(whole, batches, schedule, Progress("one"), steps=6))
    list(run(again, batches[:4], schedule, Progress("one"), steps=6))
    later = list(run(again, batches[4:], schedule, places[3][0], steps=6))
    assert torch.equal(whole.w, again.w)
    assert later[-1][0].smooth_loss == places[-1][0].smooth_loss


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_a_loss_or_gradient_that_is_no_number_stops_before_the_weights_are_touched(value: float) -> None:
    pull = Pull()
    batch = Batch(torch.full((2, 3), value))
    with pytest.raises(DivergedError, match="step 8 of stage two") as caught:
        list(run(pull, [batch], plan(clip_norm=1.0), Progress("two", step=7)))
    assert torch.equal(pull.w.detach(), torch.zeros(3))
    assert "--learning-rate" in caught.value.remedy


@pytest.mark.parametrize("decay", ["constant", "cosine"])
def test_rates(decay: str) -> None:
    schedule = plan(learning_rate=0.5, decay=decay, warmup_steps=4)
    rates = [learning_rate(schedule, step, 100) for step in range(100)]
    fall = [0.5 * (1 + math.cos(math.pi * step / 100)) if decay == "cosine" else 1.0 for step in range(100)]
    rise = [min(1, (step + 1) / 4) for step in range(100)]
    assert rates == pytest.approx([0.5 * a * b for a, b in zip(rise, fall, strict=True)])


def test_without_warmup_the_first_step_has_the_full_rate() -> None:
    assert learning_rate(plan(learning_rate=0.5, decay="cosine"), 0, 10) == 0.5


def test_the_optimiser_is_the_papers_adam_over_what_trains() -> None:
    pull = Pull()
    one, _ = METHOD.stages(SCAVConfig())
    optimiser = make_optimiser(pull, one.schedule)
    assert isinstance(optimiser, torch.optim.Adam)
    [group] = optimiser.param_groups
    assert [id(p) for p in group["params"]] == [id(pull.w)]
    assert (group["lr"], group["weight_decay"], group["betas"]) == (1e-4, 0, (0.9, 0.999))
    assert one.schedule.batch_size == 256
    [group] = make_optimiser(pull, plan(learning_rate=0.5, weight_decay=0.25, betas=(0.5, 0.75))).param_groups
    assert (group["lr"], group["weight_decay"], group["betas"]) == (0.5, 0.25, (0.5, 0.75))


class Draw(Pull):
    """Pulls w towards numbers that it draws, one for each row."""

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return super().forward(Batch(torch.rand(len(batch), 3)))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_a_step_draws_is_a_function_of_seed_stage_step_and_process(
    accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(steps: range, stage: str = "one", seed: int = 3) -> list[float]:
        torch.manual_seed(99)  # whatever was drawn before
        pull, schedule = Draw(), plan(accumulate=accumulate)
        place = Progress(stage, step=steps.start)
        return [found["mean"] for _, found in run(pull, [rows()] * len(steps), schedule, place, seed=seed)]

    whole = drawn(range(6))
    assert len(set(whole)) == 6
    assert drawn(range(6)) == whole
    assert drawn(range(2, 6)) == whole[2:]  # taken up again
    others = [drawn(range(6), stage="two"), drawn(range(6), seed=4)]
    monkeypatch.setattr(module, "rank", lambda: 1)
    others.append(drawn(range(6)))
    assert len({number for numbers in (whole, *others) for number in numbers}) == 24


def test_bf16_trains_in_low_precision_and_keeps_weights_in_full() -> None:
    class Layer(Pull):
        def forward(self, batch: Batch) -> dict[str, Tensor]:
            product = batch.mixture @ (self.w + 1)[:, None]
            assert product.dtype == torch.bfloat16
            return {"loss": product.float().square().mean()}

    layer = Layer()
    [(_, statistics)] = run(layer, [rows()], plan(learning_rate=0.1), Progress("one"), bf16=True)
    assert math.isfinite(statistics["loss"])
    assert layer.w.dtype == torch.float32
    assert layer.w.abs().min() > 0


def test_the_rate_may_fall_in_stairs() -> None:
    rates = [learning_rate(plan(learning_rate=1.0, fall=0.94, fall_every=3), step, 100) for step in range(9)]
    assert rates == pytest.approx([1.0] * 3 + [0.94] * 3 + [0.94**2] * 3)
    assert learning_rate(plan(learning_rate=1.0, fall=0.94), 99, 100) == 1.0
