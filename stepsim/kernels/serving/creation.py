"""Services before their first step: arrays of the requests, and those of one engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.serving.layout import (
    BLOCK,
    ENGINE,
    LOG_HEAD,
    NO_TIME,
    REQUEST,
    STEP,
    UNLIMITED,
    Service,
)

_Words = NDArray[np.int64]

_OF_REQUESTS = (
    "requests", "prompt", "priority", "think", "arrival", "child", "sibling", "labels", "tables",
    "scheduled", "chunk", "first", "end", "token", "hit", "hits", "recomputed", "preemptions",
)  # fmt: skip


def new_requests(
    arrival: _Words, prompt: _Words, output: _Words, *, block: int, max_len: int = UNLIMITED,
    priority: _Words | None = None, after: _Words | None = None, think: _Words | None = None,
    labels: tuple[_Words, _Words] | None = None, keeps_tokens: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """The arrays of :class:`~stepsim.kernels.serving.layout.Service` that belong to requests.

    Several engines may share them, as long as no request is in two of them at once.

    Args:
        arrival: of every request, in ns.
        prompt, output: tokens of every request.
        block: tokens of a block.
        max_len: most tokens of prompt and output; a request that reaches it ends.
        priority, after, think: as in :class:`~stepsim.serving.Requests`.
        labels: offsets [requests + 1] and labels of leading full blocks, from 0.
        keeps_tokens: whether the time of every token is kept.
    """
    count = len(arrival)
    stop = np.maximum(np.minimum(prompt + output, max_len), prompt + 1)
    offsets, names = labels or (np.zeros(count + 1, np.int64), np.zeros(0, np.int64))
    requests: Any = np.zeros(count, REQUEST).view(np.recarray)
    requests.known = prompt
    requests.stop = stop
    requests.label = offsets[:-1]
    requests.labels = np.diff(offsets)
    requests.index_at = UNLIMITED
    blocks = np.cumsum([0, *-(-stop // block)])
    requests.table = blocks[:-1]
    stamps = np.cumsum([0, *(stop - prompt)]) if keeps_tokens else np.zeros(count + 1, np.int64)
    requests.stamp = stamps[:-1]
    zeros = np.zeros(count, np.int64)
    child, sibling = _followers(after if after is not None else zeros - 1)

    def before() -> _Words:
        return np.full(count, -1, np.int64)

    return {
        "requests": requests,
        "prompt": np.array(prompt, np.int64),
        "priority": np.array(zeros if priority is None else priority, np.int64),
        "think": np.array(zeros if think is None else think, np.int64),
        "arrival": np.array(arrival, np.int64),
        "child": child,
        "sibling": sibling,
        "labels": np.ascontiguousarray(names, np.int64),
        "tables": np.zeros(blocks[-1], np.int32),
        "scheduled": before(),
        "chunk": before(),
        "first": before(),
        "end": before(),
        "token": np.zeros(stamps[-1], np.int64),
        "hit": zeros.copy(),
        "hits": zeros.copy(),
        "recomputed": zeros.copy(),
        "preemptions": zeros.copy(),
    }


def _followers(after: _Words) -> tuple[_Words, _Words]:
    """The first request that follows each, and the next one that follows the same, in order."""
    child = np.full(len(after), -1, np.int64)
    sibling = np.full(len(after), -1, np.int64)
    for r in np.flatnonzero(after >= 0)[::-1]:
        sibling[r] = child[after[r]]
        child[after[r]] = r
    return child, sibling


def new_service(
    requests: Mapping[str, Any], due: _Words, *, rows: int, log: int = 0,
    times: tuple[_Words, NDArray[np.float64]] | None = None, **settings: int,
) -> Service:  # fmt: skip
    """An engine before its first step, which begins when ``now`` says.

    Args:
        requests: arrays of :func:`new_requests`. Those that are shared are not copied.
        due: requests that arrive, in order of arrival; others follow requests.
        rows: steps of which the rows are kept until the caller takes them.
        log: words for lists of the requests of steps, 0 for none; a step needs up to
            ``LOG_HEAD + 7 * seqs``.
        times: words and reals of the time model.
        settings: fields of ENGINE by their names.
    """
    count = len(requests["arrival"])
    g: Any = np.zeros(1, ENGINE).view(np.recarray)
    defaults = {"tick": 1, "until": NO_TIME, "blocked": -1, "max_len": UNLIMITED}
    for name, value in {**defaults, **settings}.items():
        g[name] = value
    seqs, blocks = int(g.seqs[0]), int(g.blocks[0])
    words = log and max(log, LOG_HEAD + 7 * seqs)
    g.free = blocks - g.first_block
    g.last_prefill = -g.interval
    g.due_end = len(due)
    g.row_room, g.log_room = rows, words
    g.keeps_tokens = int(len(requests["token"]) > 0)
    labels = requests["labels"]
    time_words, time_reals = times or (np.zeros(1, np.int64), np.zeros(1))

    def room(length: int) -> _Words:
        return np.zeros(max(1, length), np.int64)

    coming = room(count)
    coming[: len(due)] = due
    return Service(
        **{name: requests[name] for name in _OF_REQUESTS},
        engine=g,
        index=np.full(int(labels.max(initial=-1)) + 1 if g.caching[0] else 0, -1, np.int32),
        blocks=_free_blocks(blocks, int(g.first_block[0])),
        running=room(seqs),
        heap=room(count if g.by_priority[0] else 0),
        due=coming,
        later=room(count if (requests["child"] >= 0).any() else 0),
        entry_request=room(seqs),
        entry_new=room(seqs),
        entry_before=room(seqs),
        entry_emits=room(seqs),
        preempted=room(seqs),
        finished=room(seqs),
        admitted=room(2 * seqs),
        rows=np.zeros(rows, STEP).view(np.recarray),
        log=room(words),
        time_words=time_words,
        time_reals=time_reals,
    )


def _free_blocks(blocks: int, first: int) -> Any:
    """All blocks from the first one on in a ring through the record behind the last."""
    records: Any = np.zeros(blocks + 1, BLOCK).view(np.recarray)
    ring = np.concatenate([np.arange(first, blocks), [blocks]])
    records.next[ring] = np.roll(ring, -1)
    records.prev[ring] = np.roll(ring, 1)
    records.label = -1
    return records


def free_order(service: Service) -> list[int]:
    """The free blocks, the one that is taken next first."""
    end = len(service.blocks) - 1
    order, block = [], int(service.blocks.next[end])
    while block != end:
        order.append(block)
        block = int(service.blocks.next[block])
    return order
