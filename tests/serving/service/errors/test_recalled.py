"""Services whose steps take what those of an earlier service took: the compiled loop against a
search in Python, written from the description alone."""

from __future__ import annotations

from math import exp, inf, log1p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stepsim.kernels import RecalledKind, Recollection, recalled_step
from stepsim.kernels.serving.recalled import KIND_WORDS, W_KINDS, W_NOISE
from stepsim.serving import Batch, LinearSteps, StepTime
from stepsim.serving.service.errors.recalled import RecalledSteps
from stepsim.serving.service.serve import Service
from stepsim.serving.steps.audited import attended_by


class Kept:
    """A step model that keeps the amounts of its steps."""

    def __init__(self, model: Any) -> None:
        self.model, self.amounts = model, []

    def time(self, step: int, batch: Batch) -> StepTime:
        self.amounts.append((len(batch.new), int(batch.new.sum()), *attended_by(batch)))
        return self.model.time(step, batch)


def earlier(service: Service, exact: int = 0) -> tuple[Any, Any, RecalledSteps]:
    """The steps of a service, their amounts, and what is recalled of them."""
    kept = Kept(LinearSteps(step_ns=2e6, token_ns=2e4, decode_context_ns=40))
    rows = service._served([kept], None, None).steps[0]
    model: Any = SimpleNamespace(
        attended=[one[2:] for one in kept.amounts], unlike=[0.1] * len(rows), exact=exact
    )
    return rows, kept.amounts, RecalledSteps([rows], [model])


def lengths(service: Service, model: Any) -> list[int]:
    return service._served([model], None, None).steps[0].length_ns.tolist()


def test_the_compiled_loop_recalls_what_python_does(service: Service) -> None:
    """By all ways to a time: steps of the same number and amounts, equal ones, and like ones."""
    _, amounts, recalled = earlier(service)
    same = equal = like = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        factors = np.exp(0.1 * rng.standard_normal(len(recalled.places)))
        model = recalled.engine(0, 0, factors, rng)
        alone = Kept(model)
        assert lengths(service, model) == lengths(service, alone), seed
        for step, own in enumerate(alone.amounts):
            is_same = step < len(amounts) and own == amounts[step]
            same += is_same
            equal += own in amounts and not is_same
            like += own not in amounts
    assert min(same, equal, like) >= 5, (same, equal, like)


def test_without_errors_all_steps_are_as_they_were(service: Service) -> None:
    rows, _, recalled = earlier(service)
    model = recalled.engine(0, 0, np.ones(len(rows)), np.random.default_rng(1))
    assert lengths(service, model) == rows.length_ns.tolist()


def test_steps_that_were_exact_take_what_they_took(service: Service) -> None:
    rows, amounts, recalled = earlier(service, exact=5)
    model = recalled.engine(0, 5, np.full(len(rows), 2.0), np.random.default_rng(1))
    batches = [batch_of(one) for one in amounts[:8]]
    found = [model.time(step, batch).ns for step, batch in enumerate(batches)]
    assert found == [length * (1 + (step >= 5)) for step, length in enumerate(rows.length_ns[:8])]


@pytest.mark.parametrize("of_prompts", [True, False])
def test_other_steps_take_what_like_ones_took(service: Service, of_prompts: bool) -> None:
    rows, amounts, recalled = earlier(service)
    rng = np.random.default_rng(7)
    factors = np.exp(0.1 * rng.standard_normal(len(rows)))
    model = recalled.engine(0, 0, factors, rng)
    pool = [k for k, one in enumerate(amounts) if (one[0] != one[1]) == of_prompts]
    noise = model._reals[model._words[W_NOISE] :]
    at = model._words[W_KINDS + KIND_WORDS * (not of_prompts) + 2]  # the reals of its kind
    slopes, spread = model._reals[at : at + 5], model._reals[at + 5]
    compared = 0
    for step in range(0, len(rows), 3):
        new = [300, *[1] * (step % 5)] if of_prompts else [1] * (3 + step % 9)
        batch = Batch(*np.array([range(len(new)), new, [50 + 7 * step] * len(new)]), None)
        own = (len(new), sum(new), *attended_by(batch))
        if own in amounts:
            continue
        compared += 1
        near, least = -1, inf
        for k in pool:
            far = sum((log1p(a) - log1p(b)) ** 2 for a, b in zip(own, amounts[k], strict=True))
            if far < least:
                near, least = k, far
        now, then = (slopes[0] + np.dot(slopes[1:], one) for one in (own, amounts[near]))
        ratio = min(max(now / then, 1 / 16), 16) * exp(spread * noise[step % len(rows)])
        expected = rows.length_ns[near] * ratio * factors[near]
        assert model.time(step, batch).ns == pytest.approx(expected, abs=1, rel=1e-9)
    assert compared > 5


def test_equal_steps_of_another_number_take_what_the_nearest_took() -> None:
    same = (2, 2, 20, 22)
    amounts = np.array([same, same, same, (3, 3, 30, 33), same, same, same])
    none = RecalledKind(np.zeros(0, int), np.zeros((0, 4)), *(np.zeros(k) for k in (0, 5, 0)), 0.0)
    kept = Recollection(
        amounts, np.array([0, 4, 8, 9, 2, 5, 20]), np.arange(100, 107), [none, none]
    )
    words, reals = kept.engine(3, np.array([7]), np.ones(7), np.ones(1))
    found = [recalled_step(words, reals, step, same) for step in (0, 1, 3, 6, 7, 14, 15)]
    assert found == [100, 100, 104, 105, 102, 102, 106]
    assert recalled_step(words, reals, 0, (3, 3, 30, 33)) == 7


def batch_of(amounts: tuple[int, int, int, int]) -> Batch:
    """A batch of these amounts, of requests that all have one token, or all but the first one."""
    requests, tokens, attended, pairs = amounts
    new = np.ones(requests, np.int64)
    new[0] = tokens - requests + 1
    before = np.zeros(requests, np.int64)
    if requests > 1:
        before[1] = attended
    rest = pairs - int(before.sum()) - int(new @ (new + 1)) // 2
    before[0] = rest // int(new[0])
    return Batch(np.arange(requests), new, before, np.ones(requests, bool))
