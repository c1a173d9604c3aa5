"""Collectives: what all chips send to each other, step by step, and how long it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.kernels import (
    CollectiveAlgorithm,
    CollectiveKind,
    CollectivePlan,
    new_chip_collective,
    plan_collective,
    run_chips,
)
from stepsim.machine import Chips, Machine
from stepsim.noc.chips.messages import hops_of
from stepsim.noc.chips.network import check_times, chips_of, contended
from stepsim.noc.chips.run import CollectiveRun
from stepsim.typed import is_number

KINDS = {kind.name.lower().replace("_", "-"): kind for kind in CollectiveKind}
ALGORITHMS = {each.name.lower().replace("_", "-"): each for each in CollectiveAlgorithm}

_REDUCING = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)

_BYTES = Range(1 << 50, "bytes")
_SPLITS = Range(1 << 20, "chunks that are sent one after the other")
_ENDPOINT = Range(1 << 40, "ns before a chip can send a message")
_MOST_MESSAGES = 1 << 23


def simulate_collective(
    kind: str,
    nbytes: int,
    chips: Chips | Machine,
    *,
    algorithm: str = "ring",
    splits: int = 1,
    endpoint_ns: int = 10,
    memory_gbps: float | None = None,
) -> CollectiveRun:
    """Run a collective on all chips, with congestion for links.

    The steps are those of ASTRA-sim's system layer (MIT, commit af2492b): a chip sends its next
    message ``endpoint_ns`` after it received one, where a sum is due after it also passed local
    memory three times.

    Parameters
    ----------
    kind : ``all-reduce``, ``all-gather``, ``reduce-scatter`` or ``all-to-all``.
    nbytes : bytes on every chip before the collective.
    chips : a :class:`stepsim.machine.Chips` of one dimension, or a machine with such chips.
    algorithm : ``ring``: to the next chip in every step; ``direct``: to all others at once;
        ``halving-doubling``: with partners at distances of powers of two, for as many chips, and
        not for all-to-all.
    splits : parts that a chip sends one after the other; a chunk is ``nbytes // splits``, and as
        many full chunks are sent as ``nbytes`` needs.
    endpoint_ns : from the receipt of a message to the next that depends on it.
    memory_gbps : bandwidth of local memory, in 10**9 bytes/s, for all-reduce and
        reduce-scatter; None: that of the machine's off-chip memory.

    Raises
    ------
    ArgError : an unknown kind or algorithm, or one that does not go with the kind, the topology or
        the number of chips; a number out of range; no bandwidth of memory where sums need one, or
        one where they do not; more messages than can be kept; a network that congestion is not
        modeled for.
    """
    kind_code = _chosen("kind", kind, KINDS)
    algorithm_code = _chosen("algorithm", algorithm, ALGORITHMS)
    nbytes = _BYTES.checked("nbytes", nbytes)
    splits = _SPLITS.checked("splits", splits)
    endpoint_ns = _ENDPOINT.checked("endpoint_ns", endpoint_ns)
    memory = _memory(kind, kind_code, chips, memory_gbps)
    network = chips_of(chips)
    topology, dimension = contended(network)
    count = dimension.chips
    if algorithm_code == CollectiveAlgorithm.HALVING_DOUBLING:
        _check_halving_doubling(kind_code, count)
    plan = plan_collective(kind_code, algorithm_code, count, nbytes, splits)
    _check_plan(plan, count, nbytes, splits)
    most = plan.most_bytes(count)
    check_times("nbytes", network, 0, most, count * plan.messages * max(2, count // 2))
    _check_local(plan.messages * (3 * most / memory * 1e9 + endpoint_ns))
    state = new_chip_collective(
        topology, count, dimension.latency_ns, dimension.bytes_per_ns, plan, endpoint_ns, memory
    )
    run_chips(state)
    sent = state.messages
    source, destination = sent["source"].copy(), sent["destination"].copy()
    return CollectiveRun(
        network, sent["sent"].copy(), source, destination, sent["amount"].copy(),
        hops_of(dimension, source, destination), sent["arrived"].copy(),
        np.array(state.parts["finish"]), int(state.run[0].last), state.links,
        kind, algorithm, sent["chunk"].copy(), sent["received"].copy(),
        plan.chunks, plan.chunk_bytes,
    )  # fmt: skip


def _chosen(what: str, word: Any, known: dict[str, Any]) -> Any:
    if not isinstance(word, str) or word not in known:
        near = did_you_mean(word, known)
        names = ", ".join(f"'{name}'" for name in known)
        raise ArgError(
            f"{what}: expected one of {names}, found {shown(word)}{near.removesuffix('.')}"
        )
    return known[word]


def _memory(kind: str, code: CollectiveKind, chips: Any, given: float | None) -> float:
    """Bytes/s of local memory, which only sums depend on."""
    if given is not None and not (is_number(given) and 0 < given < float("inf")):
        raise ArgError(
            f"memory_gbps: expected a number above 0, in 10**9 bytes/s, found {shown(given)}"
        )
    if code not in _REDUCING:
        if given is not None:
            raise ArgError(
                f"memory_gbps: kind '{kind}' does not reduce and so does not depend on it; "
                "leave it out"
            )
        return 1.0
    if given is not None:
        return float(given) * 1e9
    if isinstance(chips, Machine) and chips.clock_ghz is not None:
        return chips.peak_bandwidth * chips.clock_ghz * 1e9
    raise ArgError(
        f"memory_gbps: kind '{kind}' reduces in local memory, whose bandwidth is not "
        "known; state it, or give a machine that states clock_ghz"
    )


def _check_halving_doubling(kind: CollectiveKind, count: int) -> None:
    if kind == CollectiveKind.ALL_TO_ALL:
        raise ArgError(
            "algorithm: 'halving-doubling' has no steps for kind 'all-to-all'; expected 'ring' or "
            "'direct'"
        )
    if count & (count - 1):
        raise ArgError(
            f"algorithm: 'halving-doubling' needs a number of chips that is a power of two, found "
            f"{count}; use 'ring' or 'direct'"
        )


def _check_plan(plan: CollectivePlan, count: int, nbytes: int, splits: int) -> None:
    if plan.chunks == 0:
        raise ArgError(f"splits: {nbytes} bytes cannot be split into {splits} parts; give fewer")
    if count * plan.messages > _MOST_MESSAGES:
        raise ArgError(
            f"{count} chips would send {count * plan.messages} messages, more than the "
            f"{_MOST_MESSAGES} that can be kept; give fewer splits or chips, or another algorithm"
        )


def _check_local(ns: float) -> None:
    if not ns < 1 << 61:
        raise ArgError(
            f"local delays of a chip may add up to {ns:.3g} ns, more than 2**61; give a larger "
            "memory_gbps, or a smaller endpoint_ns"
        )
