"""Tables of a service: one row for each request, and one for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arrow import pa
from stepsim.results import schema
from stepsim.serving.metrics.times import RequestTimes
from stepsim.serving.requests.requests import Requests
from stepsim.serving.service.record import (
    NEVER,
    NUMBERS,
    Ragged,
    RequestRows,
    Sent,
    StepRows,
    step_rows,
)

_REQUESTS: Final = (
    "request", "replica", "arrival_ns", "prompt_tokens", "output_tokens", "first_scheduled_ns",
    "first_token_ns", "finish_ns", "ttft_ns", "tpot_ns", "e2el_ns", "itl_ns", "cached_tokens",
    "recomputed_tokens", "preemptions", "computed_steps", "prefill_replica", "prefill_steps",
    "kv_sent_bytes", "link_wait_ns", "link_ns",
)  # fmt: skip
_ALWAYS: Final = ("request", "replica", "prompt_tokens", "output_tokens", "itl_ns", "preemptions")

_STEPS: Final = (
    "start_ns", "length_ns", "batch_requests", "new_tokens", "context_tokens", "running_requests",
    "waiting_requests", "free_blocks", "step_cycles", "step_offchip_bytes", "bound", "how",
)  # fmt: skip
"""Columns of steps after the replica, in the order of `StepRows`."""

_UNKNOWN: Final = ("step_cycles", "step_offchip_bytes")


def requests_table(
    requests: Requests,
    rows: RequestRows,
    replica: NDArray[np.int64] | None = None,
    sent: Sent | None = None,
) -> pa.Table:
    """What happened to each request; null for what never did. ``replica`` says who served it."""
    tokens = rows.tokens_ns
    counts = np.diff(tokens.offsets)
    first, last, arrival = rows.first_token_ns, rows.finish_ns, rows.arrival_ns
    more = (last != NEVER) & (counts > 1)
    gaps = _gaps(tokens)
    values: dict[str, Any] = {
        "request": requests.number,
        "replica": np.zeros(len(rows), np.int64) if replica is None else replica,
        "arrival_ns": _known(arrival, arrival != NEVER),
        "prompt_tokens": requests.prompt_tokens,
        "output_tokens": counts,
        "first_scheduled_ns": _known(rows.first_scheduled_ns, rows.first_scheduled_ns != NEVER),
        "first_token_ns": _known(first, first != NEVER),
        "finish_ns": _known(last, last != NEVER),
        "ttft_ns": _known(first - arrival, first != NEVER),
        "tpot_ns": _known((last - first) / np.maximum(counts - 1, 1), more),
        "e2el_ns": _known(last - arrival, last != NEVER),
        "itl_ns": _lists(gaps),
        "cached_tokens": _known(rows.cached_tokens, rows.first_scheduled_ns != NEVER),
        "recomputed_tokens": rows.recomputed_tokens,
        "preemptions": rows.preemptions,
        "computed_steps": None if rows.spans is None else _lists(rows.spans),
        **_columns_of(sent),
    }
    made = schema("served_requests", _REQUESTS, required=_ALWAYS)
    columns = [
        pa.nulls(len(rows), one.type)
        if values[one.name] is None
        else values[one.name]
        if isinstance(values[one.name], pa.Array)
        else pa.array(values[one.name], one.type)
        for one in made
    ]
    return pa.Table.from_arrays(columns, schema=made)


def _columns_of(sent: Sent | None) -> dict[str, Any]:
    """The columns of requests whose prompt was computed elsewhere."""
    if sent is None:
        names = ("prefill_replica", "prefill_steps", "kv_sent_bytes", "link_wait_ns", "link_ns")
        return dict.fromkeys(names)
    known = sent.engine != NEVER
    return {
        "prefill_replica": _known(sent.engine, known),
        "prefill_steps": None if sent.spans is None else _lists(sent.spans, ~known),
        "kv_sent_bytes": _known(sent.sent_bytes, known),
        "link_wait_ns": _known(sent.wait_ns, known),
        "link_ns": _known(sent.link_ns, known),
    }


def steps_table(steps: Sequence[StepRows]) -> pa.Table:
    """The steps of every replica, one replica after another."""
    made = schema("served_steps", ("replica", *_STEPS), required={*_STEPS, "replica"} - {*_UNKNOWN})
    replica = np.repeat(np.arange(len(steps)), [len(rows) for rows in steps])
    columns = [pa.array(replica, pa.int64())]
    for name, column in zip((*NUMBERS, "bound", "how"), _STEPS, strict=True):
        if name in NUMBERS:
            parts = [getattr(rows, name) for rows in steps]
            values = np.concatenate([np.empty(0, np.int64), *parts])
            known = values != NEVER if column in _UNKNOWN else np.ones(len(values), np.bool_)
            columns.append(_known(values, known))
        else:
            texts = [text for rows in steps for text in getattr(rows, name)]
            columns.append(pa.array(texts, pa.string()))
    return pa.Table.from_arrays(columns, schema=made)


def steps_of(table: pa.Table, replica: int = 0) -> StepRows:
    """The steps of a replica in a table of `steps_table`."""
    own = np.flatnonzero(table["replica"].to_numpy() == replica)
    part = table.take(own)
    names = _STEPS[: len(NUMBERS)]
    numbers = [part[name].fill_null(NEVER).to_numpy().astype(np.int64) for name in names]
    return step_rows(numbers, part["bound"].to_pylist(), part["how"].to_pylist())


def times_of(table: pa.Table) -> RequestTimes:
    """What a client saw of the requests of a table of `requests_table`."""
    finished = table["finish_ns"].is_valid().to_numpy()
    itl = table["itl_ns"].combine_chunks()
    return RequestTimes.from_ns(
        start_ns=table["arrival_ns"].fill_null(0).to_numpy(),
        ttft_ns=table["ttft_ns"].fill_null(0).to_numpy(),
        gap_ns=itl.values.to_numpy(),
        gaps_from=itl.offsets.to_numpy(),
        prompt_tokens=table["prompt_tokens"].to_numpy(),
        output_tokens=table["output_tokens"].to_numpy(),
        success=finished,
    )


def _gaps(tokens: Ragged) -> Ragged:
    """The times from each token to the next one of its request."""
    begins = tokens.offsets[:-1]
    first = np.zeros(len(tokens.values), np.bool_)
    first[begins[np.diff(tokens.offsets) > 0]] = True
    gaps = np.diff(tokens.values, prepend=0)[~first]
    counts = np.maximum(np.diff(tokens.offsets) - 1, 0)
    return Ragged(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), gaps)


def _known(values: NDArray[Any], known: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=~known)


def _lists(lists: Ragged, unknown: NDArray[np.bool_] | None = None) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(lists.offsets.astype(np.int32)),
        pa.array(lists.values, pa.int64()),
        mask=None if unknown is None else pa.array(unknown),
    )
