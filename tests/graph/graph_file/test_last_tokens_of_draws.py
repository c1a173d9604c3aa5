"""Drawn programs, as the public simulator reads their files: the same cycles, or refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import GraphFileError, StepError
from tests.graph.graph_file.as_public import reasons, run_both
from tests.graph.graph_file.test_last_tokens import check_levels, refusal
from tests.property_profile import profile
from tests.simulation.drawn_programs import STEPS, Step, drawn_programs, grown
from tests.simulation.grower import Grower, load

NAMES = (
    "load", "addresses", "ragged", "selector", "routing", "pair", "merge", "change_pair",
    "partition", "gather", "merge_parts", "deal", "flatten", "reshape", "levels", "expand",
    "repeats", "take_last", "collect", "shuffle", "masked", "filter", "promote", "map",
    "address_map", "append", "reduce", "signal", "buffer", "unbuffer", "expert_addresses",
    "ref_load", "store", "broadcast", "feedback",
)  # fmt: skip
"""Steps whose operators the format has, mostly."""


def _inner(g: Grower) -> None:
    """A load whose outer dim of 1 is flattened away: it ends as in the program."""
    dims = [1, *(g.integer(1, 3) for _ in range(g.integer(1, 2)))]
    g.add(load(g, dims).flatten(len(dims) - 2, len(dims) - 1))


def _inner_pair(g: Grower) -> None:
    """Data and selectors of which either or both end as in the program."""
    dims = [g.integer(1, 3) for _ in range(g.integer(1, 2))]
    inside = [g.integer(1, 2) for _ in range(g.integer(0, 2))]
    x = load(g, [1, *dims, *inside] if g.flag() else [*dims, *inside])
    flags = g.flags(dims, g.integer(1, 3), some=True)
    which = st.selector(flags[np.newaxis] if g.flag() else flags)
    if x.rank == len(dims) + len(inside):
        x = x.flatten(x.rank - 1, x.rank)
    if which.rank == len(dims):
        which = which.flatten(which.rank - 1, which.rank)
    g.pairs.append((x, which))
    g.add(x)


def _gather_any(g: Grower) -> None:
    """Reassembled streams that no partition made."""
    inside = [g.integer(1, 2) for _ in range(g.integer(0, 1))]
    count = g.integer(1, 3)
    xs = [load(g, [count, *inside], (1, 2)) for _ in range(g.integer(1, 2))]
    flags = np.repeat(np.eye(len(xs), dtype=int), count, axis=0)
    g.add(st.reassemble(xs, st.selector(flags)))


def _in_turn(g: Grower) -> None:
    x = g.even()
    y = g.pick([z for z in g.open if z.shape == x.shape and z.type == x.type])
    g.add(st.static_reassemble([x, y]))


def _expand_whole(g: Grower) -> None:
    ref = g.floats()
    g.add(load(g, [1] * len(ref.shape)).expand(ref, len(ref.shape)))


def _read_buffer(g: Grower) -> None:
    """A buffer that is read for each element of a reference."""
    ref = g.floats()
    units = [1] * len(ref.shape)
    held = load(g, [*units, g.integer(1, 3)]).bufferize(1)
    g.add(held.streamify(ref))


def _combine(g: Grower) -> None:
    x = g.floats()
    y = g.pick([z for z in g.open if z.shape == x.shape and z.type == x.type])
    g.add(st.map(st.fn.add, x, y))


CHOICES: tuple[Step, ...] = (
    *(step for step in STEPS if step.__name__[1:] in NAMES),
    _inner, _inner, _inner_pair, _inner_pair, _gather_any, _in_turn, _expand_whole, _read_buffer,
    _combine, _combine,
)  # fmt: skip


def check(program: st.Program) -> str:
    """What becomes of the file of a program."""
    refused = refusal(program)
    careful = "in the public simulator" in refused
    if refused and not careful:
        return "cannot be written"
    with TemporaryDirectory() as folder:
        try:
            runs = run_both(program, Path(folder))
        except (GraphFileError, StepError):
            assert careful
            return "refused, and cannot be written"
    if careful:
        # Where only a run knows, what is refused may run nevertheless.
        known = "has higher stops" not in refused and "no row left" not in refused
        assert not known or runs.public.status == "failed" or runs.own.status != "ok", refused
        return f"refused, {runs.public.status}"
    assert runs.agree, reasons(runs.public)
    if runs.own.status == "ok":
        check_levels(program, runs)
    return f"written, {runs.public.status}"


@pytest.mark.slow
@profile(150)
@given(drawn_programs(8, CHOICES))
def test_files_run_as_their_programs_or_are_refused(program: st.Program) -> None:
    check(program)


@pytest.mark.slow
def test_draws_are_written_and_refused() -> None:
    found = Counter(check(grown(Random(seed).randint, 5, CHOICES)) for seed in range(150))
    assert found["written, ok"] >= 60
    assert found["refused, failed"] >= 15
