"""The traces of the design points of a sweep: what each needs, read once for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stepsim.errors import ArgError, SweepError
from stepsim.sweep.planning.batches import Experts
from stepsim.sweep.planning.designs import Design
from stepsim.sweep.planning.traces import NO_TRACE, Trace, of_traces, only_rows
from stepsim.sweep.spec.pairs import pair_traces, without_routing
from stepsim.sweep.spec.problems import Problems, SeveralProblems, listing
from stepsim.sweep.spec.selection import kv_traces, routing_traces
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.workloads import KV_LENGTHS, ROUTING, Data, Input, Workload

__all__ = ["Needs", "traces_of", "unread_keys"]

_ONE_EXPERT: Experts = (1, 1)
"""Routing of models whose tokens have no choice of experts; it need not be given."""


Needs = tuple[tuple[Input, ...], Experts]
"""The inputs that a design point needs, and the experts of its routing."""


def traces_of(
    spec: SweepSpec,
    workload: type[Workload],
    designs: Sequence[Design],
    problems: Problems,
    read: dict[Needs, tuple[Trace, ...]],
) -> dict[int, tuple[Trace, ...]]:
    """The traces of each design point, read once for all points that need the same ones.

    Traces that were read are kept in ``read``; errors are added to ``problems``.
    """
    found: dict[int, tuple[Trace, ...]] = {}
    for design in designs:
        try:
            needed = design.needed()
            shape: Experts = (None, None)
            if ROUTING in needed:
                shape = design.routing_shape() or _any_shape(spec, workload)
        except ArgError as error:
            problems.add_of_point(design.where, str(error))
            continue
        needs: Needs = needed, shape
        if needs not in read:
            with problems.collected():
                read[needs] = tuple(_usable(_numbered(_traces(spec, workload, needs))))
        if needs not in read:
            break
        found[design.index] = read[needs]
    if not designs and not (spec.traces is None and len(workload.inputs) > 1):
        # Wrong points must not hide errors of the traces. Whether a routing may be left
        # out is not known without points.
        with problems.collected():
            _traces(spec, workload, (workload.inputs, _any_shape(spec, workload)))
    return found


def unread_keys(spec: SweepSpec, workload: type[Workload], designs: Sequence[Design]) -> list[str]:
    """Problems of keys that choose what no design point reads."""
    if not designs:
        return []
    found = []
    unneeded = [one.unneeded() for one in designs]
    for one in workload.inputs:
        key = "traces" if one in of_traces(workload.inputs) else "lengths"
        if getattr(spec, key) is not None and all(one in each for each in unneeded):
            found.append(f"{key}: {unneeded[0][one]}")
    if spec.pairs is not None and workload.inputs and all(unneeded):
        found.append("pairs: no design point reads both traces and lengths; remove the key")
    if spec.batch is not None:
        with suppress(ArgError):  # of a model without experts, which is a problem of its point
            needs = [(one.needed(), one.routing_shape() or (None, None)) for one in designs]
            if not any(_is_untraced(spec, workload, one) for one in needs):
                found.append("batch: has no effect on these design points; remove the key")
    return found


def _any_shape(spec: SweepSpec, workload: type[Workload]) -> Experts:
    """Experts for checking the traces alone, if the parameters that determine them are wrong."""
    has_shape = workload.routing_shape.__func__ is not Workload.routing_shape.__func__  # type: ignore[attr-defined]
    drawn = spec.traces is not None and spec.traces.synthetic is not None
    return (1, 1) if has_shape and drawn else (None, None)


def _is_untraced(spec: SweepSpec, workload: type[Workload], needs: Needs) -> bool:
    """Whether a number of requests is all that a program is built for."""
    needed, shape = needs
    if not needed:
        return bool(workload.inputs)
    implied = spec.traces is None and shape == _ONE_EXPERT
    return implied and needed == (ROUTING,) and KV_LENGTHS in workload.inputs


def _traces(spec: SweepSpec, workload: type[Workload], needs: Needs) -> list[Trace]:
    inputs, (needed, shape) = workload.inputs, needs
    if len(inputs) < 2:
        given = [key for key in ("lengths", "pairs") if getattr(spec, key) is not None]
        if given:
            raise SeveralProblems(
                [
                    f"{key}: applies only to workloads with two traces; remove the key"
                    for key in given
                ]
            )
    if not inputs:
        if spec.traces is not None:
            raise SweepError(f"traces: workload {workload.name} depends on no data; remove the key")
        return [NO_TRACE]
    if KV_LENGTHS in needed and len(inputs) > 1:
        return _pairs(spec, workload, needs)
    if _is_untraced(spec, workload, needs):
        return [only_rows(spec.batch or Data().rows)]
    if spec.traces is None:
        raise SweepError(_missing_traces(workload))
    if inputs == (KV_LENGTHS,):
        return kv_traces(spec.traces)
    return routing_traces(spec.traces, shape)


def _pairs(spec: SweepSpec, workload: type[Workload], needs: Needs) -> list[Trace]:
    needed, shape = needs
    problems = Problems()
    routing: list[Trace] = []
    lengths: list[Trace] = []
    routed = ROUTING in needed
    if routed and spec.traces is None and shape != _ONE_EXPERT:
        problems.add(_missing_traces(workload))
    elif routed and spec.traces is None and spec.pairs is not None:
        problems.add("pairs: there are no traces to pair lengths with; give traces, or remove it")
    elif routed and spec.traces is not None:
        with problems.collected():
            routing = routing_traces(spec.traces, shape)
    if spec.lengths is None:
        problems.add(f"lengths: missing; workload {workload.name} needs files of cache lengths")
    else:
        with problems.collected():
            lengths = kv_traces(spec.lengths, "lengths")
    if problems.listed():
        raise SeveralProblems(problems.listed())
    if not routed or spec.traces is None:
        return without_routing(lengths)
    return pair_traces(routing, lengths, spec.pairs or "all")


def _missing_traces(workload: type[Workload]) -> str:
    what = "files" if workload.inputs == (KV_LENGTHS,) else "files or synthetic ones"
    return f"traces: missing; workload {workload.name} needs {what}"


def _usable(traces: list[Trace]) -> list[Trace]:
    bad = [trace.error for trace in traces if trace.error]
    if len(bad) == len(traces):
        raise SweepError(
            f"traces: none of {len(traces)} can be used; correct them or choose others:"
            + listing(bad)
        )
    return traces


def _numbered(traces: list[Trace]) -> list[Trace]:
    """Number copies of a trace under several names, so that every run has a unique key."""
    seen: Counter[tuple[Any, ...]] = Counter()
    numbered = []
    for trace in traces:
        numbered.append(replace(trace, copy=seen[trace.key]))
        seen[trace.key] += 1
    return numbered
