"""Intervals of audited steps in small services: ``python -m bench.audited_small N FILE.csv``.

Whether 95 % intervals hold 95 % of the exact values cannot be seen from many seeds of one service,
as they are compared with the same exact one. So this serves N different services, with models of
a few small layers, by exact and by audited steps: dense networks and experts, long and short
prompts, token budgets, and loads from half of what an engine can do to more than that. FILE gets a
row for each service that it does not have, and what is there is printed as a table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.audited import errors_of, rows_in, table_of, write_rows
from bench.test_serving_steps import MACHINE
from stepsim.serving import AuditedSteps, ExactSteps, RequestRouting, Zipf, serve
from stepsim.serving.service.serve import prepare_service
from stepsim.workloads import Step
from stepsim.workloads.models import Dense
from tests.serving.small import layer, small


def row_of(number: int) -> dict[str, float]:
    """The errors of one service, with their intervals, in percent."""
    rng = np.random.default_rng(number)
    is_dense, layers = bool(number % 2), int(rng.integers(2, 7))
    if is_dense:
        model = small(layers=layers, experts=None, dense=Dense(int(rng.choice([64, 128]))))
    else:
        model = small(layers=layers)
    count, prompt, output = (int(rng.integers(*ends)) for ends in ((40, 100), (20, 80), (6, 20)))
    given: dict[str, Any] = {
        "source": f"lognormal:count={count},prompt_median={prompt},output_median={output}",
        "seed": number, "num_blocks": 2000,
        "max_num_batched_tokens": int(rng.choice([32, 64, 128])),
        "max_num_seqs": int(rng.choice([8, 16, 32])),
    }  # fmt: skip
    requests = prepare_service(**given, rate=1.0, steps="linear:1000000").requests
    drawn = None
    if not is_dense:
        drawn = RequestRouting.drawn(model, requests, Zipf(float(rng.choice([0.0, 0.7]))), number)
    work: Step = layer(model)

    def exact() -> ExactSteps:
        return ExactSteps(work, MACHINE, drawn)

    at_once = prepare_service(**given, rate=1e9, steps=exact).run()
    rate = float(rng.uniform(0.5, 1.1)) * len(requests) / at_once.metrics["duration_s"]
    true = serve(**given, rate=rate, steps=exact)
    found = serve(**given, rate=rate, steps=lambda: AuditedSteps(work, MACHINE, drawn, seed=number))
    return {"seed": number, **errors_of(found, true)}


def main(count: str, place: str) -> None:
    """Serve so many services, and print what was found."""
    path = Path(place)
    for number in range(int(count)):
        rows = rows_in(path)
        if number not in {one["seed"] for one in rows}:
            write_rows(path, [*rows, row_of(number)])
    print(table_of(rows_in(path)))


if __name__ == "__main__":
    main(*sys.argv[1:])
