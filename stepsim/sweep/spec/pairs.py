"""Pairs of routings and cache lengths, for decoders, which run on both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stepsim.errors import SweepError
from stepsim.sweep.planning.traces import Trace, only_rows
from stepsim.sweep.spec.sizes import MOST_TRACES, check_size

Pair = tuple[Trace, Trace]


def pair_traces(routing: Sequence[Trace], lengths: Sequence[Trace], pairs: str) -> list[Trace]:
    """The routing traces, each with lengths; those with the same lengths follow each other.

    ``pairs`` is ``all`` (every combination), ``step`` (those of the same step, and of the same
    window where both are windows) or ``order`` (the first with the first, and so on).

    With ``step`` the routing determines the runs: lengths of other steps and windows are not used,
    so that a whole replay can go with a sample of the routing.

    Raises
    ------
    SweepError
        A routing has no lengths, ``order`` leaves lengths over, steps are unknown, or a pair does
        not have one token for each request, or there are too many pairs.
    """
    if pairs == "all":
        count = len(routing) * len(lengths)
        check_size("pairs", count, MOST_TRACES, "pairs of traces", "pair by step, or sample both")
    make = {"all": _each_with_each, "step": _by_step, "order": _in_order}[pairs]
    found = []
    for table, batch in make(routing, lengths):
        if None not in (table.rows, batch.rows) and table.rows != batch.rows:
            raise SweepError(
                f"pairs: {table.label} has {table.rows} tokens, {batch.label} {batch.rows} "
                "requests, expected one token for each request; select windows of equal size "
                "from both, or pair them otherwise"
            )
        found.append(replace(table, lengths=batch, error=table.error or batch.error))
    return found


def without_routing(lengths: Sequence[Trace]) -> list[Trace]:
    """The lengths alone, for layers without experts or with one that all requests visit."""
    return [replace(only_rows(batch.rows), lengths=batch, error=batch.error) for batch in lengths]


def _each_with_each(routing: Sequence[Trace], lengths: Sequence[Trace]) -> Iterator[Pair]:
    for batch in lengths:
        for table in routing:
            yield table, batch


def _in_order(routing: Sequence[Trace], lengths: Sequence[Trace]) -> Iterator[Pair]:
    if len(routing) != len(lengths):
        raise SweepError(
            f"pairs: order needs as many batches of lengths as of routing, found {len(lengths)} "
            f"and {len(routing)}; select as many of both, or pair them otherwise"
        )
    yield from zip(routing, lengths, strict=True)


def _by_step(routing: Sequence[Trace], lengths: Sequence[Trace]) -> Iterator[Pair]:
    of_step: dict[int | None, list[Trace]] = {}
    for table in routing:
        of_step.setdefault(table.step, []).append(table)
    partners: set[int] = set()
    for batch in lengths:
        if batch.step is None and batch.error:
            raise SweepError(
                f"pairs: the steps of {batch.label} are not known: {batch.error}; correct the "
                "file, take it out of lengths, or pair with all or order"
            )
        if batch.step is None:
            raise SweepError(
                f"pairs: {batch.label} has no steps, only files of `stepsim trace replay` have; "
                "pair with all or order"
            )
        for table in of_step.get(batch.step, []):
            if None in (table.window, batch.window) or table.window == batch.window:
                partners.add(id(table))
                yield table, batch
    alone = [table for table in routing if id(table) not in partners]
    if alone:
        several = len(alone) > 1
        raise SweepError(
            f"pairs: {alone[0].label} {f'and {len(alone) - 1} more have' if several else 'has'} no "
            f"lengths of {'their' if several else 'its'} step"
            f"{'' if alone[0].window is None else ' and window'}; select steps that both have"
        )
