"""Recorded decisions of vLLM's scheduler as requests and settings, and what became of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels import ServiceStatus
from stepsim.serving import (
    Decisions,
    Engine,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerSettings,
    Segments,
)


def requests_of(rows: Sequence[Any], source: str) -> Requests:
    """Requests from rows of a case: arrival, segments, output segment, most tokens, priority."""

    texts = [[*prompt, (segment, most)] for _, prompt, segment, most, _ in rows]
    pieces = np.array([piece for text in texts for piece in text], np.int64)
    begin = np.cumsum([0, *map(len, texts)])
    return Requests.of(
        [sum(length for _, length in row[1]) for row in rows],
        [row[3] for row in rows],
        arrival_ns=[row[0] for row in rows],
        priority=[row[4] for row in rows],
        prefix=Segments(begin, pieces[:, 0], pieces[:, 1]),
        source=source,
    )


def settings_of(config: dict[str, Any]) -> SchedulerSettings:
    """Settings from those of a case; what is beyond vLLM's checks stays out of them."""
    if not config.get("long_prefill_token_threshold"):
        config = {k: v for k, v in config.items() if k != "long_prefill_token_threshold_adaptive"}
    return SchedulerSettings(**config)


def replayed(case: dict[str, Any]) -> dict[str, Any]:
    """What the engine makes of a case, in the form of its ``expected``."""
    requests = requests_of(case["requests"], f"case {case['id']}")
    outcomes = Outcomes(requests, settings_of(case["config"]).completed(), allows_misfits=True)
    # A step is 1 ns long, so that times are steps.
    time = LinearSteps(step_ns=1).compiled()
    engine = Engine(outcomes, time=time, empty_ns=1, logs=True)
    status = engine.run(most_steps=case["max_steps"])
    log = engine.take_log()
    steps = [_row(one) for one in log]
    names = {ServiceStatus.DONE: "done", ServiceStatus.STUCK: "stuck", ServiceStatus.FULL: "limit"}
    found = {
        "status": names[status],
        "num_steps": len(steps),
        "finish_step": _steps(outcomes.end_ns),
        "first_token_step": _steps(outcomes.first_token_ns),
        "free_order_crc": zlib.crc32(",".join(map(str, engine.free_order)).encode()),
    }
    if "steps" in case["expected"]:
        return {**found, "steps": steps}
    return {
        **found,
        "digest_100": [
            zlib.crc32(
                "".join(
                    json.dumps(row, separators=(",", ":")) + "\n" for row in steps[k : k + 100]
                ).encode()
            )
            for k in range(0, len(steps), 100)
        ],
        "totals": {
            "scheduled_tokens": sum(tokens for one in log for _, tokens in one.granted),
            "preemptions": int(outcomes.preemptions.sum()),
            "hit_tokens": int(outcomes.all_cached_tokens.sum()),
        },
    }


def _row(one: Decisions) -> list[Any]:
    granted = [request if tokens == 1 else [request, tokens] for request, tokens in one.granted]
    return [
        one.start, granted, one.preempted, [list(pair) for pair in one.admitted], one.finished,
        one.free_blocks, one.free_blocks_after, one.running_after, one.waiting_after,
    ]  # fmt: skip


def _steps(times: NDArray[np.int64]) -> list[int | None]:
    """Steps by the times at which they end."""
    return [None if time < 0 else time - 1 for time in times.tolist()]


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file, one a line."""
    with path.open() as lines:
        yield from map(json.loads, lines)
