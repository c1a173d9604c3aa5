"""The verdict on a run: what bounds it, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.explain.changes.cost import HELPS, WASTE
from stepsim.explain.changes.suggestions import Suggestion
from stepsim.explain.changes.text import percent
from stepsim.explain.speed_of_light import Resource, SpeedOfLight
from stepsim.results import Diagnosis, place_of, sharing_text

KINDS: Final = {
    "hbm_bandwidth": "HBM bandwidth",
    "hbm_latency": "HBM latency",
    "hbm_port": "the issue rate of memory ports",
    "compute": "compute",
    "onchip_bandwidth": "on-chip bandwidth",
    "token_rate": "the token rate of an operator",
    "back_pressure": "back-pressure",
    "link": "a link of the network",
    "network_latency": "the latency of the network",
    "place": "where operators are",
    "imbalance": "imbalance",
    "serial_chain": "a serial chain",
    "deadlock": "a deadlock",
    "failed": "a failure",
    "limit": "a limit",
    "nothing": "nothing",
}
"""Limits of a run, in words."""

_NEAR: Final = 0.8
"""Least share of a run at which its largest bound is taken as its limit."""

_ALIKE: Final = 0.95
"""Least share of the largest bound at which another one counts as equally large."""

_HALF: Final = 0.5
_UNEVEN: Final = 1.5
"""Ratio of the busiest lane to the mean at which work counts as unevenly spread."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds a run.

    Attributes
    ----------
    kind : one of `KINDS`.
    resource : the kind in words.
    target : operators or FIFOs concerned, separated by commas; may be empty.
    sentence : the verdict in one sentence.
    """

    kind: str
    resource: str
    target: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return asdict(self)


class _Run(NamedTuple):
    """What is known of a run, as of `verdict_of`."""

    light: SpeedOfLight
    units: Mapping[str, Any]
    suggestions: Sequence[Suggestion]
    path: Sequence[tuple[str, str, int]]


def _made(kind: str, target: str, sentence: str) -> Verdict:
    """A verdict of a kind."""
    return Verdict(kind, KINDS[kind], target, sentence)


def verdict_of(
    light: SpeedOfLight,
    units: Mapping[str, Any],
    suggestions: Sequence[Suggestion],
    path: Sequence[tuple[str, str, int]],
) -> Verdict:
    """The verdict on a run with status "ok".

    Parameters
    ----------
    light : lower bounds of the run.
    units : columns of its units.
    suggestions : measured changes, the best one first.
    path : operator, cause and cycles of the parts of the critical path, the longest first; empty
        if it is not known.
    """
    run, largest = _Run(light, units, suggestions, path), light.largest
    if largest is None or not largest.bound:
        return _made(
            "nothing", "",
            "bound by nothing: there is nothing to do, no operator works and none asks the memory",
        )  # fmt: skip
    if largest.bound >= _NEAR * light.cycles:
        verdict = _with_others(_bound_by(largest, run), light)
        return _with_waste(verdict, suggestions)
    helping = [one for one in suggestions if one.gain >= HELPS]
    # What a pair relaxes is two things; if one of them is enough to help, that is the limit.
    best = next((one for one in helping if not one.change.parts), next(iter(helping), None))
    if best is None or best.kind not in _BY_CHANGE:
        return _serial(run)
    return _BY_CHANGE[best.kind](best, run)


def _with_others(verdict: Verdict, light: SpeedOfLight) -> Verdict:
    """The verdict, with other resources that take equally long: relaxing only one does not help."""
    first, *rest = light.resources
    near = [one for one in rest if one.bound >= _ALIKE * first.bound and one.target != first.target]
    if not near:
        return verdict
    names = [
        f"{KINDS[one.kind]} of {one.target}" if one.target else KINDS[one.kind] for one in near
    ]
    sentence = f"{' and '.join(names)} take{'s' * (len(names) == 1)} as long"
    return replace(verdict, sentence=f"{verdict.sentence}; {sentence}")


def _with_waste(verdict: Verdict, suggestions: Sequence[Suggestion]) -> Verdict:
    """The verdict, with a change that reduces the work and so saves more than adding resources."""
    more = [one.gain for one in suggestions if one.kind == verdict.kind]
    ending = [one for one in suggestions if one.kind in WASTE and one.gain >= HELPS]
    best = max(ending, key=lambda one: one.gain, default=None)
    if best is None or verdict.kind == "imbalance" or best.gain <= max(more, default=0.0):
        return verdict
    sentence = f"{verdict.sentence}; {best.description} saves {percent(best.gain)}"
    than = f", more of the resource {percent(max(more))}" if more else ""
    return replace(verdict, sentence=sentence + than)


_NEAR_BOUND: Final = {
    "hbm_bandwidth": "bound by HBM bandwidth{of}: {used} of the peak is used, and the requests "
    "alone take {bound:,} of {cycles:,} cycles",
    "hbm_latency": "bound by HBM latency: the {amount:,} accesses of {target} one after the other "
    "take {share} of the run",
    "hbm_port": "bound by the memory port of {target}: issuing {rate} in a cycle takes {used} of "
    "the run, with the latency of its accesses {share}; more loads or a larger par_dispatch share "
    "the work",
    "token_rate": "bound by the token rate of {target}, which is busy {share} of the run passing "
    "tokens on",
    "link": "bound by the link {target}, which is busy {used} of the run; {streams}",
}
"""The verdict on a run near the bound of a resource; for other resources, the work of operators is
more informative."""


def _bound_by(largest: Resource, run: _Run) -> Verdict:
    """The verdict on a run near a lower bound."""
    sentence = _NEAR_BOUND.get(largest.kind)
    if sentence is None:
        return _operator(largest, run)
    cycles = run.light.cycles
    bundle = round(largest.peak / cycles)
    sentence = sentence.format(
        target=largest.target, amount=largest.used, used=percent(largest.share),
        bound=largest.bound, cycles=cycles, share=percent(largest.bound / cycles),
        of=f" of {largest.target}" if largest.target else "",
        rate=f"{bundle} request{'s' * (bundle != 1)}", streams=sharing_text(largest.streams),
    )  # fmt: skip
    return _made(largest.kind, largest.target, sentence)


def _operator(largest: Resource, run: _Run) -> Verdict:
    """The verdict on an operator that is always busy: it is slow, or it gets more work than its
    peers."""
    target, what = largest.target, KINDS[largest.kind]
    share, lanes = percent(largest.bound / run.light.cycles), _lanes(run.units, target)
    sentence = f"bound by {what} of {target}, which is busy {share} of the run"
    if lanes is None:
        return _made(largest.kind, target, sentence)
    balance = [one for one in run.suggestions if one.kind == "balance"]
    if lanes.load >= _UNEVEN and (not balance or balance[0].gain >= HELPS):
        return _made(
            "imbalance", target,
            f"bound by imbalance: {target} is busy {share} of the run and fires {lanes.load:.1f} "
            f"times as often as the mean of its {lanes.number} lanes",
        )  # fmt: skip
    if lanes.pace >= _UNEVEN:
        sentence += (
            f" and takes {lanes.pace:.1f} times as long as the median of its {lanes.number} lanes"
        )
    return _made(largest.kind, target, sentence)


class _Lanes(NamedTuple):
    """A lane relative to its peers: firings over their mean, and cycles per firing over
    their median."""

    number: int
    load: float
    pace: float


def _lanes(units: Mapping[str, Any], target: str) -> _Lanes | None:
    names = list(units["name"])
    own, group = names.index(target), place_of(target)
    if not group.lane:
        return None
    kind = units["operator"][own]
    peers = [
        number
        for number, name in enumerate(names)
        if units["operator"][number] == kind and place_of(name).operator == group.operator
    ]
    if len(peers) < 2:
        return None
    firings, busy = np.asarray(units["firings"])[peers], np.asarray(units["busy"])[peers]
    fired = firings > 0
    each = busy[fired] / firings[fired]
    at = peers.index(own)
    median = float(np.median(each))
    return _Lanes(
        len(peers),
        float(firings[at] / firings.mean()),
        float(busy[at] / firings[at] / median) if median else 1.0,
    )


def _by_memory(best: Suggestion, run: _Run) -> Verdict:
    """The verdict if no resource is at its bound but the memory is the limit."""
    used = ""
    if best.kind == "hbm_bandwidth":
        memory = next((one for one in run.light.resources if one.kind == best.kind), None)
        of = f" of {memory.target}" if memory is not None and memory.target else ""
        used = f"{of}, which is used to {percent(0.0 if memory is None else memory.share)}"
    return _made(
        best.kind, best.target,
        f"bound by {KINDS[best.kind]}{used}: {best.description} saves {percent(best.gain)}",
    )  # fmt: skip


def _by_queue(best: Suggestion, run: _Run) -> Verdict:
    alone = len(best.targets) == 1
    return _made(
        "back_pressure", best.target,
        f"bound by back-pressure on {'queue' if alone else 'queues'} {best.target}: deeper, "
        f"{'it' if alone else 'they together'} save{'s' * alone} "
        f"{percent(best.gain)} of the run",
    )  # fmt: skip


def _by_operator(best: Suggestion, run: _Run) -> Verdict:
    """The verdict if one operator takes half of the run, or several take turns."""
    names = list(run.units["name"])
    work = run.light.work["compute" if best.kind == "compute" else "onchip"]
    most = max((int(work[names.index(name)]) for name in best.targets if name in names), default=0)
    if best.kind == "compute" and most < _HALF * run.light.cycles:
        return _serial(run)
    return _made(
        best.kind, best.target,
        f"bound by {KINDS[best.kind]}{' of ' + best.target if best.target else ''}: "
        f"{best.description} saves {percent(best.gain)} of the run",
    )  # fmt: skip


def _by_balance(best: Suggestion, run: _Run) -> Verdict:
    return _made(
        "imbalance", best.target,
        f"bound by imbalance of the routing: {best.description} saves {percent(best.gain)}",
    )  # fmt: skip


def _by_network(best: Suggestion, run: _Run) -> Verdict:
    """The verdict if no link is always busy, but the network is the limit."""
    link = next((one for one in run.light.resources if one.kind == "link"), None)
    sentence = f"bound by {KINDS[best.kind]}: {best.description} saves {percent(best.gain)}"
    if link is None:
        return _made(best.kind, best.target, sentence)
    busy = f"the busiest link, {link.target}, is busy {percent(link.share)} of the run"
    target = link.target if best.kind == "link" else best.target
    return _made(best.kind, target, f"{sentence}; {busy}, and {sharing_text(link.streams)}")


def _by_pair(best: Suggestion, run: _Run) -> Verdict:
    """The verdict if two limits are about equal: the larger one determines the kind."""
    largest = run.light.largest
    if largest is None:
        return _serial(run)
    parts = (one.gain for one in run.suggestions if one.change.name in best.change.parts)
    alone = max(parts, default=0.0)
    return _made(
        largest.kind, best.target or largest.target,
        f"bound by {KINDS[largest.kind]} and more at once: {best.description} save "
        f"{percent(best.gain)} of the run, and neither alone saves more than {percent(alone)}",
    )  # fmt: skip


_BY_CHANGE: Final = {
    "hbm_bandwidth": _by_memory,
    "hbm_latency": _by_memory,
    "hbm_port": _by_memory,
    "onchip_bandwidth": _by_operator,
    "compute": _by_operator,
    "fifo_depth": _by_queue,
    "balance": _by_balance,
    "link": _by_network,
    "network_latency": _by_network,
    "place": _by_network,
    "combined": _by_pair,
}


def _serial(run: _Run) -> Verdict:
    """The verdict if units take turns: no resource is busy for long, and no single change helps
    much."""
    light, path = run.light, run.path
    largest = light.largest
    busy = 0.0 if largest is None else largest.bound / light.cycles
    sentence = (
        f"bound by a serial chain: no resource is busy for more than {percent(busy)} of the run"
    )
    parts = [f"{operator} ({cause}, {percent(n / light.cycles)})" for operator, cause, n in path]
    if parts:
        sentence += f", which passes through {' and '.join(parts[:2])}"
    target = ", ".join(dict.fromkeys(operator for operator, _, _ in path[:2]))
    return _made("serial_chain", target, sentence)


def unfinished(diagnosis: Diagnosis) -> Verdict:
    """The verdict on a run that is not ok."""
    if diagnosis.status == "deadlock":
        full = diagnosis.deepen
        waiting = len(diagnosis.circular_wait)
        if waiting > 1:
            sentence = f"a deadlock: a circular wait of {waiting} units"
        elif waiting:
            sentence = f"a deadlock: {diagnosis.circular_wait[0].unit} waits for itself"
        else:
            sentence = "a deadlock: a token is awaited that is never sent"
        more = len(diagnosis.waits) - waiting
        if waiting and more:
            sentence += f", {more} more {'are' if more > 1 else 'is'} blocked as well"
        sentence += f", with {diagnosis.full} full" if full else ""
        return _made("deadlock", ", ".join(full), sentence)
    if diagnosis.failures:
        first = diagnosis.failures[0]
        return _made("failed", first.unit, f"it failed: {first}")
    return _made(diagnosis.status, "", diagnosis.summary)
