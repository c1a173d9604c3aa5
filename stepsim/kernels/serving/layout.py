"""The state of a service: records, codes and the named tuple of arrays that all kernels share.

Times are in ns. Blocks, requests and tokens are counted from 0, and -1 stands for no block or no
request. Field names avoid every attribute of ``numpy.record``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

NO_TIME: Final = 1 << 62
"""A time that does not come."""

UNLIMITED: Final = (1 << 31) - 1
"""Tokens of a request, or of a step, without a limit."""


class SchedulingPolicy(IntEnum):
    """Which rules choose the requests of a step."""

    VLLM = 0
    STATIC = 1
    ORCA = 2
    SARATHI = 3


class Pool(IntEnum):
    """What becomes of blocks that are given back, and which block of a label is found."""

    VLLM = 0  # unlabeled ones to the front, labeled ones to the tail; the oldest block is found
    RECORDED = 1  # all of them to the tail; the newest block is found


class TimeModel(IntEnum):
    """Where the time of a step comes from."""

    EXTERNAL = 0  # the caller writes it
    LINEAR = 1
    TABLE = 2
    RECALLED = 3


class ServiceStatus(IntEnum):
    """Why the service returned to its caller."""

    DONE = 0  # no request is left
    NEEDS_TIME = 1  # the batch is there; write `length` and call again
    FULL = 2  # drain the rows and the log, set their counts to 0 and call again
    UNTIL = 3  # the next step would start at `until` or later, as far as is known
    STUCK = 4  # the request at the head never fits, and nothing else comes
    FINISHED = 5  # requests were finished, and `stops_at_finish` is set


class Phase(IntEnum):
    """Where in a step the service is."""

    BETWEEN = 0
    COMPUTING = 1  # a batch awaits its time


def _records(fields: Any) -> Any:
    # Arrays made with this type give records with names to plain Python as well.
    return np.dtype((np.record, np.dtype(fields, align=True)))


REQUEST = _records(
    [
        ("table", np.int64),  # first entry of its block table
        ("label", np.int64),  # its first label
        ("stamp", np.int64),  # where the time of its next token is kept
        ("known", np.int32),  # tokens of the prompt and generated ones
        ("done", np.int32),  # tokens with keys and values
        ("stop", np.int32),  # known tokens with which it ends
        ("index_at", np.int32),  # tokens with which its next block gets a label
        ("held", np.int32),  # blocks in its table
        ("labeled", np.int32),  # leading blocks of its table that have labels
        ("labels", np.int32),  # labels that are known
        ("follower", np.int32),  # the next request of the queue
        ("carried", np.int32),  # tokens whose keys and values come with it from elsewhere
        ("partial", np.int8),  # its last grant left known tokens without keys and values
        ("spoke", np.int8),  # it has a token
    ]
)
"""What changes of a request (64 bytes)."""

BLOCK = _records(
    [
        ("prev", np.int32),  # in the list of free blocks
        ("next", np.int32),
        ("older", np.int32),  # in the ring of blocks with its label
        ("newer", np.int32),
        ("users", np.int32),
        ("label", np.int32),  # -1 without one
    ]
)
"""A block. One more behind the last is the end of the list of free blocks."""

STEP = _records(
    [
        ("start", np.int64),
        ("length", np.int64),
        ("entries", np.int64),  # requests with tokens in the step
        ("new", np.int64),  # tokens computed
        ("context", np.int64),  # tokens of these requests with keys and values before
        ("prefill", np.int64),  # tokens of requests with more than one
        ("prefill_context", np.int64),
        ("decodes", np.int64),  # requests with one token
        ("decode_context", np.int64),
        ("emitted", np.int64),
        ("cached", np.int64),  # tokens found in the prefix cache by admissions of the step
        ("admitted", np.int64),
        ("preempted", np.int64),
        ("finished", np.int64),
        ("running", np.int64),  # during the step
        ("waiting", np.int64),  # during the step
        ("free_blocks", np.int64),  # during the step
    ]
)
"""One step."""

ENGINE = _records(
    [
        # Settings.
        ("policy", np.int64),  # SchedulingPolicy
        ("pool", np.int64),  # Pool
        ("by_priority", np.int64),
        ("budget", np.int64),
        ("seqs", np.int64),  # most running requests
        ("block", np.int64),  # tokens of a block
        ("blocks", np.int64),
        ("first_block", np.int64),  # those before it are never used
        ("max_len", np.int64),
        ("chunked", np.int64),
        ("caching", np.int64),
        ("threshold", np.int64),
        ("adaptive", np.int64),
        ("threshold_alone", np.int64),  # the threshold also holds for a request that is alone
        ("reserve", np.int64),
        ("watermark", np.int64),  # blocks
        ("interval", np.int64),
        ("time_model", np.int64),  # TimeModel
        # The clock.
        ("now", np.int64),  # when the next step can begin
        ("host", np.int64),  # from the end of a step to the next
        ("tick", np.int64),  # between looks of a service without work
        ("empty", np.int64),  # length of a step without tokens; 0: wait for the next arrival
        ("until", np.int64),
        ("stops_at_finish", np.int64),
        ("phase", np.int64),  # Phase
        ("length", np.int64),  # of the step at hand
        # Requests.
        ("running", np.int64),
        ("waiting", np.int64),
        ("head", np.int64),  # of the queue
        ("tail", np.int64),
        ("due_at", np.int64),  # next of `due`
        ("due_end", np.int64),
        ("later", np.int64),  # requests in the heap of arrivals
        # Blocks.
        ("free", np.int64),
        ("blocked", np.int64),  # the request that did not fit when the queue was looked at last,
        ("deficit", np.int64),  # and no fewer blocks than it lacked then and lacks still
        # Cadence of prefills.
        ("executed", np.int64),
        ("last_prefill", np.int64),
        ("saturated", np.int64),
        # The batch at hand.
        ("entries", np.int64),
        ("new", np.int64),
        ("context", np.int64),
        ("prefill", np.int64),
        ("prefill_context", np.int64),
        ("decodes", np.int64),
        ("decode_context", np.int64),
        ("decode_least", np.int64),  # least context of a decode; NO_TIME without one
        ("decode_most", np.int64),
        ("emitted", np.int64),
        ("cached", np.int64),
        ("preempted", np.int64),
        ("admitted", np.int64),
        ("finished", np.int64),
        ("running_then", np.int64),  # as the batch was made
        ("waiting_then", np.int64),
        ("free_then", np.int64),
        # Buffers.
        ("rows", np.int64),  # in use
        ("log", np.int64),  # words in use
        ("row_room", np.int64),
        ("log_room", np.int64),  # 0: no log
        ("keeps_tokens", np.int64),
        # Totals.
        ("steps", np.int64),
        ("unfinished", np.int64),  # requests that arrived
    ]
)
"""The one record of settings, clock, counts and sums."""

LOG_HEAD: Final = 10
"""Words before the lists of a step in the log: words in all; start; numbers of entries, preempted,
admitted and finished requests; free blocks as the batch was made and at the end; running and
waiting requests at the end."""


class Service(NamedTuple):
    """A service: requests, blocks, queues, and what became of every request.

    Attributes
    ----------
    engine : the one ENGINE record.
    requests : records of REQUEST.
    prompt, priority, think : of every request.
    arrival : of every request; of one that follows another a lower bound until that ends.
    child, sibling : first request that follows a request, and the next one that follows the same.
    labels : of full blocks of all requests.
    index : for every label the block that is found by it, -1 without one.
    blocks : records of BLOCK.
    tables : blocks of requests.
    running : running requests in their order. [seqs]
    heap : waiting requests by priority. [requests, or 1]
    due : requests in order of arrival, as far as `due_end`.
    later : heap of requests by arrival that follow others which ended.
    entry_request, entry_new, entry_before, entry_emits : the batch at hand. [seqs]
    preempted, finished : requests in the step at hand, in order. [seqs]
    admitted : request and cached tokens of every admission in the step at hand. [2 * seqs]
    scheduled, chunk, first, end : of every request, -1 before: start of its first step, start of
        the last step before it had a token, time of its first token and of its last. Written.
    token : times of all tokens of all requests, if they are kept. Written.
    hit, hits, recomputed, preemptions : of every request: cached tokens at its first admission and
        at all of them, tokens not cached at later admissions, times it lost its blocks. Written.
    rows : records of STEP.
    log : entries of every step, if there is room for any; see LOG_HEAD.
    time_words, time_reals : of the time model. For LINEAR the first words are ps: of a step, of a
        token, of a token of context of a decode, of a token of context of a prefill, of a request;
        for TABLE they are those of :mod:`stepsim.kernels.serving.table_words`, and for RECALLED
        those of :mod:`stepsim.kernels.serving.recalled`.
    """

    engine: Any
    requests: Any
    prompt: Any
    priority: Any
    think: Any
    arrival: Any
    child: Any
    sibling: Any
    labels: Any
    index: Any
    blocks: Any
    tables: Any
    running: Any
    heap: Any
    due: Any
    later: Any
    entry_request: Any
    entry_new: Any
    entry_before: Any
    entry_emits: Any
    preempted: Any
    finished: Any
    admitted: Any
    scheduled: Any
    chunk: Any
    first: Any
    end: Any
    token: Any
    hit: Any
    hits: Any
    recomputed: Any
    preemptions: Any
    rows: Any
    log: Any
    time_words: Any
    time_reals: Any


_WORD = np.dtype(np.int64)

SERVICE: Final = Service(*[_WORD] * len(Service._fields))._replace(
    engine=ENGINE, requests=REQUEST, blocks=BLOCK, rows=STEP, index=np.dtype(np.int32),
    tables=np.dtype(np.int32), time_reals=np.dtype(np.float64),
)  # fmt: skip
"""The type of every array."""
