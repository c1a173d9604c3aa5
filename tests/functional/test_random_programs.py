"""Random programs: an evaluation has the tokens, levels, sizes and failures of the timing run."""

from __future__ import annotations

import pytest

from tests.functional.random_programs import STEPS, random_program
from tests.functional.support import run_both
from tests.samples import sampled

SEEDS = 60


@pytest.mark.slow
@pytest.mark.parametrize("first", sampled(range(0, SEEDS, 10), *range(0, SEEDS, 30)))
def test_values_and_times_agree_on_every_token(first):
    compared = [
        run_both(random_program(seed), fifo_depth=100_000) for seed in range(first, first + 10)
    ]
    assert sum(result is not None for result in compared) >= 8


def test_random_programs_use_every_step():
    kinds = {op.unit_kind for seed in range(SEEDS) for op in random_program(seed).operators}
    assert len(kinds) >= 30
    assert len(STEPS) == len(set(STEPS))
