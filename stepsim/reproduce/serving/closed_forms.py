"""Services whose results are known in closed form, simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.arrow import pq
from stepsim.errors import TraceError
from stepsim.reproduce.serving.replay import Replay
from stepsim.serving import (
    ArrivalsAtOnce,
    ClosedLoop,
    Engine,
    FixedLengths,
    JumpingClock,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerSettings,
    TickingClock,
    TraceRequests,
    requests_of,
)
from stepsim.trace_io import RequestTrace, load_requests

ID_TOKENS = 512
"""Tokens of the blocks of Mooncake's trace."""

STEPS = LinearSteps(step_ns=2_000_000, token_ns=1_000, decode_context_ns=10)
"""Of the services that are saturated or have a fixed number of users."""


class Form(NamedTuple):
    """A number: what it is, as simulated, and as the closed form has it."""

    what: str
    ours: int
    expected: int


def served(
    requests: Requests,
    steps: LinearSteps,
    *,
    clock: JumpingClock | TickingClock | None = None,
    **settings: Any,
) -> Replay:
    """What becomes of requests; ``settings`` are those of the scheduler, with large limits."""
    given = {"block_size": 16, "num_blocks": 1 << 16, "max_num_batched_tokens": 1 << 20}
    rules = SchedulerSettings(**{**given, **settings}).completed()
    outcomes = Outcomes(requests, rules)
    engine = Engine(outcomes, time=steps.compiled(), clock=clock)
    engine.run()
    return Replay(outcomes, engine.take_rows(), engine.now_ns)


def wave_ns(batch: int, prompt: int, output: int) -> int:
    """Time of a batch of equal requests with `STEPS`, from their start to their end."""
    decodes = sum(2_000_000 + batch * (1_000 + 10 * (prompt + j)) for j in range(output - 1))
    return 2_000_000 + 1_000 * batch * prompt + decodes


def in_system_ns(outcomes: Outcomes) -> int:
    """The integral over time of the number of requests between arrival and end."""
    times = np.concatenate([outcomes.arrival_ns, outcomes.end_ns])
    change = np.repeat([1, -1], len(outcomes))
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(change[order])[:-1]
    return int((inside * np.diff(times[order])).sum())


def closed_forms(runs: Path, trace: Path) -> list[Form]:
    """Queues of one server, saturation, users, and caches of Mooncake's conversation trace.

    ``runs`` is the folder of the recorded runs, which has the numbers in ``closed``.

    Raises
    ------
    TraceError : a file is missing or unreadable.
    """
    known = known_forms(runs)
    return [*_queues(runs, known), *_batches(), *_caches(trace, known["mooncake"]["conversation"])]


def known_forms(runs: Path) -> dict[str, Any]:
    """The numbers that others computed.

    Raises
    ------
    TraceError : the file is missing or not JSON.
    """
    file = runs / "closed" / "closed_forms.json"
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"{file}: {error}; expected the closed forms of recorded runs") from error
    return found


def queue_arrivals(
    runs: Path, name: str, count: int | None = None
) -> tuple[Requests, NDArray[np.int64]]:
    """Requests of a file of arrivals, and how long a server takes for each, in ns."""
    table = pq.read_table(runs / "closed" / name).slice(0, count)
    columns = {one: table.column(one).to_numpy() for one in table.schema.names}
    requests = Requests.of(
        columns["n_in"], columns["n_out"], arrival_ns=columns["arrival_ns"], source=name
    )
    return requests, columns["service_ns"]


def _queues(runs: Path, known: dict[str, Any]) -> list[Form]:
    forms = []
    for name, steps, count in (
        ("md1", LinearSteps(step_ns=10_000_000), known["md1"]["simulated"]),
        ("mg1", LinearSteps(step_ns=1_000_000, token_ns=10_000), known["mg1"]["simulated"]),
    ):
        requests, service = queue_arrivals(runs, f"{name}.parquet", count)
        found = served(requests, steps, max_num_seqs=1)
        wait = int((found.outcomes.end_ns - requests.arrival_ns - service).sum())
        label = f"{name[0].upper()}/{name[1].upper()}/1, {count:,} requests"
        forms.append(Form(f"{label}: sum of waits, ns", wait, known[name]["simulated_sum_wait_ns"]))
        end = known[name]["simulated_last_end_ns"]
        forms.append(Form(f"{label}: last end, ns", found.clock_ns, end))
    return forms


def _batches() -> list[Form]:
    requests = ArrivalsAtOnce().arrive(FixedLengths(1024, 16, 100).requests())
    saturated = served(requests, STEPS, clock=TickingClock(), max_num_seqs=64)
    users = ClosedLoop(64).arrive(FixedLengths(640, 16, 100).requests())
    looped = served(users, STEPS, max_num_seqs=64)
    wave = wave_ns(64, 16, 100)
    return [
        Form("saturation, 16 batches of 64 requests: clock, ns", saturated.clock_ns, 1 + 16 * wave),
        Form("64 users, 10 requests each: clock, ns", looped.clock_ns, 10 * wave),
        Form(
            "Little's law, the same: integral of the requests in the system, ns",
            in_system_ns(looped.outcomes),
            int((looped.outcomes.end_ns - looped.outcomes.arrival_ns).sum()),
        ),
    ]


def _caches(trace: Path, known: dict[str, Any]) -> list[Form]:
    requests = TraceRequests(str(trace), output_tokens=1).requests()
    tokens = _found_tokens(ArrivalsAtOnce().arrive(requests), 200_000)
    forms = [
        Form("Mooncake, unbounded cache: tokens found", tokens, known["engine_rule_hit_tokens"])
    ]
    whole = requests_of_whole_blocks(trace)
    hits = _found_tokens(whole, 200_000) // ID_TOKENS
    forms.append(
        Form("Mooncake, unbounded cache: blocks found", hits, known["infinite_hit_blocks"])
    )
    for blocks, expected in known["lru_hit_blocks"].items():
        hits = _found_tokens(whole, int(blocks) + 2) // ID_TOKENS
        forms.append(Form(f"Mooncake, {int(blocks):,} blocks: blocks found", hits, expected))
    return forms


def _found_tokens(requests: Requests, blocks: int) -> int:
    """Tokens found in the cache by requests one after the other."""
    found = served(requests, STEPS, block_size=ID_TOKENS, num_blocks=blocks, max_num_seqs=1)
    return int(found.outcomes.cached_tokens.sum())


def requests_of_whole_blocks(path: Path) -> Requests:
    """The requests of Mooncake's trace, of whole blocks and one token more.

    The token lets all blocks be found, as the last one is always computed. One request at a time
    makes a pool a cache that drops the least recently used block. The token has a block of its own
    without a label, which is the first to be taken again, so a pool has one block more than the
    cache, and the one that is never used.
    """
    trace = load_requests(path)
    if trace.prefix_hashes is None:
        raise TraceError(f"{path}: has no ids of blocks, expected a trace of Mooncake")
    counts = np.array([len(ids) for ids in trace.prefix_hashes])
    return requests_of(
        RequestTrace(
            counts * ID_TOKENS + 1,
            np.ones(len(trace), np.int64),
            prefix_hashes=trace.prefix_hashes,
            source=str(path),
        )
    )
