"""The validation page of serving; ``stepsim reproduce serving-validation`` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from stepsim.reproduce.pages.files import write_file
from stepsim.reproduce.pages.markdown import table_lines
from stepsim.reproduce.serving.closed_forms import closed_forms, in_system_ns
from stepsim.reproduce.serving.real_runs import error_table, read_real_run, real_errors
from stepsim.reproduce.serving.recorded import Case, gaps_check, recorded_runs
from stepsim.reproduce.serving.replay import Replay, replay

_HEAD = """\
# Validation of serving

How close are simulated services to other programs, to real GPUs, and to what queueing theory says?
Written by `stepsim reproduce serving-validation`; do not edit.

The scheduler is compared with vLLM's decision by decision, and the metrics with those of its
benchmark, by `tests/serving/test_scheduler_cases.py` and `tests/serving/test_metrics_cases.py`.

Estimated times of steps are compared with exact ones in
[](serving.md#how-far-estimated-steps-are-off).
"""

_RECORDED = """\
## Recorded runs

Runs of LLMServingSim (MIT licence, CASYS Lab at KAIST) on profiled tables, replayed by the same
scheduler with the block pool `recorded` and step times from the same tables. Requests are equal if
queueing time, time to first token, end and every gap between tokens are, to the ns;
`tests/serving/test_serving_runs.py` asserts all of it. Runs whose names begin with x were recorded
by a second program that follows the same rules.
"""

_REAL = """\
## Real GPUs

vLLM 0.19.0 serves Llama-3.1-8B to 300 requests of ShareGPT; the simulated steps have the times of
the profiled tables. The model leaves out the block that vLLM keeps for itself, CUDA graphs, padding
and the host. Both runs are overloaded, so most of the time to first token is queueing. The last two
columns are of the absolute errors of single requests.
"""

_CLOSED = """\
## Closed forms

`tests/serving/test_closed_forms.py` has more of them: waits within their confidence interval at
several loads, and the conservation of tokens, blocks and time in random services. The last rows are
identities of the recorded runs above.
"""


def serving_page(data: Path) -> str:
    """The page as Markdown; ``data`` has the recorded runs in ``serving/runs`` and traces in
    ``traces``.

    Raises
    ------
    TraceError : a file is missing or unreadable.
    """
    runs = data / "serving" / "runs"
    replays = [(case, replay(case)) for case in recorded_runs(runs)]
    forms = closed_forms(runs, data / "traces" / "mooncake_conversation_trace.jsonl")
    rows = [(what, f"{ours:,}", f"{expected:,}") for what, ours, expected in forms]
    return "\n".join(
        [
            _HEAD, _RECORDED,
            *table_lines(_RUN_COLUMNS, (_run_row(*one) for one in replays)),
            _REAL, error_table(_real_errors(runs, replays)),
            _CLOSED, *table_lines(("", "simulated", "closed form"), [*rows, *_identities(replays)]),
        ]
    ).rstrip("\n") + "\n"  # fmt: skip


def write_serving_validation(path: Path, data: Path) -> None:
    """Write the page.

    Raises
    ------
    TraceError : as `serving_page`.
    OutputError : it cannot be written.
    """
    write_file(path, serving_page(data).encode())


_RUN_COLUMNS = (
    "run", "devices", "blocks", "steps", "token times", "prefix-hit tokens",
    "preemptions / recomputed", "clock, ns", "difference", "equal requests",
)  # fmt: skip


def _run_row(case: Case, found: Replay) -> tuple[str, ...]:
    expected, totals = case.expected(), found.totals()
    count = len(expected.requests)
    return (
        f"`{case.name}`",
        f"{case.profile.hardware}, {case.profile.tp}",
        f"{case.blocks:,}",
        f"{totals['steps']:,}",
        f"{totals['generated_tokens']:,}",
        f"{totals['prefix_hit_tokens']:,}",
        f"{totals['preemptions']:,} / {totals['recomputed_tokens']:,}",
        f"{found.clock_ns:,}",
        f"{found.clock_ns - expected.clock_ns:,}",
        f"{_equal_requests(case, found)} of {count}" if count else "only the clock is known",
    )


def _equal_requests(case: Case, found: Replay) -> int:
    outcomes = found.outcomes
    place = {number: at for at, number in enumerate(outcomes.requests.number.tolist())}
    equal = 0
    for row in case.expected().requests:
        r = place[row["id"]]
        arrival = int(outcomes.arrival_ns[r])
        first, last = outcomes.token_begin[r : r + 2]
        gaps = np.diff(outcomes.token_ns[first:last]).tolist()
        equal += (
            int(outcomes.last_chunk_ns[r]) - arrival == row["queue"]
            and int(outcomes.first_token_ns[r]) - arrival == row["ttft"]
            and int(outcomes.end_ns[r]) == row["end"]
            and row.get("gaps", gaps) == gaps
            and ("check" not in row or row["check"] == gaps_check(gaps))
        )
    return equal


def _real_errors(runs: Path, replays: Iterable[tuple[Case, Replay]]) -> list[tuple[str, Any]]:
    found = []
    for case, one in replays:
        path = runs / "real" / f"{case.name}.csv"
        if path.is_file():
            found.append((case.profile.hardware, real_errors(read_real_run(path), one.times())))
    return found


def _identities(replays: Iterable[tuple[Case, Replay]]) -> list[tuple[str, str, str]]:
    """Little's law, and work where a run is never idle, of the runs with real ones beside them."""
    rows = []
    for case, found in replays:
        if not case.name.startswith("bench_"):
            continue
        outcomes = found.outcomes
        latency = int((outcomes.end_ns - outcomes.arrival_ns).sum())
        inside = in_system_ns(outcomes)
        name = f"`{case.name}`"
        rows.append((f"Little's law, {name}: requests times ns", f"{inside:,}", f"{latency:,}"))
        busy = int(found.rows["length"].sum())
        time = found.clock_ns - int(outcomes.arrival_ns[0])
        rows.append((f"work, {name}: ns of steps", f"{busy:,}", f"{time:,}"))
    return rows
