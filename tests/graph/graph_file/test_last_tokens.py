"""Sources without an outer dim of 1 end a level more in the public simulator.

Every operator is written behind such sources and behind others, and run by the interpreter of the
timing rules as the public simulator reads it: what is written runs as the program does, and what is
refused does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.graph import fn
from stepsim.graph.graph_file.closing import raised_stops
from stepsim.graph.graph_file.rows import UNITS
from tests.graph.graph_file.as_public import Runs, reasons, run_both

SPEC = st.spec(64, 4, dtype="f32")


def x(more: bool, *dims: int, rows: int = 1) -> st.Stream:
    """Tiles from a load that ends a level more, or not."""
    shape = dims if more else (1, *dims)
    stride = [0] * (len(shape) - len(dims)) + [
        int(np.prod(dims[i + 1 :])) for i in range(len(dims))
    ]
    made = st.linear_load(SPEC, (rows, 4), shape=shape, stride=stride)
    return made if more else made.flatten(len(dims) - 1, len(dims))


def ints(more: bool, *dims: int) -> st.Stream:
    made = st.metadata(np.ones(dims if more else (1, *dims), int))
    return made if more else made.flatten(len(dims) - 1, len(dims))


def flags(more: bool, *dims: int, last: int | None = None, width: int = 2) -> st.Stream:
    """One-hot selectors in turn, the last of which may have more bits set, or none."""
    count = int(np.prod(dims))
    array = np.eye(width, dtype=int)[np.arange(count) % width]
    if last is not None:
        array[-1] = np.arange(width) < last
    array = array.reshape(*dims, width)
    made = st.selector(array if more else array[np.newaxis])
    return made if more else made.flatten(len(dims) - 1, len(dims))


def sink(*streams: Any) -> None:
    for stream in streams:
        for one in stream if isinstance(stream, list | tuple) else [stream]:
            one.consume()


def unit_dims(more: bool, length: int) -> st.Stream:
    """Tiles [1, 1, length] of a source that lacks the outer dim of 1."""
    return x(more, length).reshape(length).reshape(1, dim=1)


def expand_all(a: bool, b: bool) -> st.Stream:
    return unit_dims(a, 1).flatten(0, 1).expand(x(b, 2, 3), 2)


def gathered(a: bool, b: bool, s: bool, *inner: int) -> st.Stream:
    return st.reassemble([x(a, 2, *inner), x(b, 2, *inner)], flags(s, 4))


def twice(a: bool, b: bool, s: bool) -> st.Stream:
    """A map of a stream with higher stops inside, and of what is made of it token by token."""
    y = gathered(a, b, s)
    return st.map(fn.add, y, y.map(fn.exp))


def masked(a: bool) -> Any:
    data, mask = x(a, 4).reshape(2, mask=True)
    return data.filter_rows(mask)


def merged_ints(a: bool, b: bool) -> Any:
    return st.eager_merge([ints(a, 2), ints(b, 3)])


def mixed_mask() -> st.Stream:
    """Two streams of masks, of which only a run knows that none is empty."""
    masks = [flags(False, 2, last=2), flags(False, 2, last=2)]
    return st.reassemble(masks, flags(True, 4)).flatten(0, 1)


def late(width: int = 2) -> st.Stream:
    """One of two shares, which ends long after its last token, with the other one."""
    which = np.repeat(np.eye(2, dtype=int), [width, 20], axis=0)
    share, rest = st.partition(x(False, width + 20), st.selector(which[np.newaxis]).flatten(0, 1))
    rest.consume()
    return share.assume_shape(width)


def late_buffer() -> st.Stream:
    """A buffer that ends a level more, long before its stream ends."""
    return late(1).unsqueeze(0).assume_shape(1, 1).expand(x(True, 3).reshape(3)).bufferize(1)


CASES: dict[str, Callable[..., Any]] = {
    "UnaryMap": lambda a: x(a, 4).map(fn.silu),
    "BinaryMap": lambda a, b: st.map(fn.add, x(a, 4), x(b, 4)),
    "BinaryMap, rank 1": lambda a, b: st.map(fn.add, x(a, 2, 3), x(b, 2, 3)),
    "BinaryMap of integers": lambda a, b: st.map(fn.set_offset, x(a, 4), ints(b, 4)),
    "Accum": lambda a: x(a, 2, 3).accum(fn.add, 1),
    "Accum, inner": lambda a: x(a, 2, 2, 3).accum(fn.add, 1),
    "AccumBuffer": lambda a: x(a, 2, 2, 3).accum_buffer(fn.add, 2).streamify(),
    "BinaryMapAccum": lambda a, b: st.map_accum(fn.matmul_t, x(a, 2, 3), x(b, 2, 3), 1),
    "RetileStreamify": lambda a: x(a, 4, rows=2).flat_map(fn.unpack_rows()),
    "ExpertAddrGen": lambda a: flags(a, 4).flat_map(fn.expert_addresses(2)),
    "CacheReadAddrGen": lambda a, b: ints(a, 4).flat_map(fn.cache_read_addresses(2), ints(b, 4)),
    "FilterLastTile": lambda a: ints(a, 4).flat_map(fn.last_tile_filter()),
    "Filter, all rows": lambda a: x(a, 4, rows=2).filter_rows(),
    "Filter, one row": lambda a, b: x(a, 4, rows=2).filter_rows(flags(b, 4)),
    "Filter, no last row": lambda a, b: x(a, 4, rows=2).filter_rows(flags(b, 4, last=0)),
    "Filter, two last rows": lambda a, b: x(a, 4, rows=2).filter_rows(flags(b, 4, last=2)),
    "Filter, vectors": lambda a, b: x(a, 2, 2, rows=2).filter_rows(flags(b, 2, 2, last=2)),
    "ReshapePadStream": masked,
    "Reshape": lambda a: x(a, 4).reshape(2),
    "Reshape, padded": lambda a: x(a, 4).reshape(3, pad=0),
    "Reshape, outer": lambda a: x(a, 4).reshape(2, add_outer=True),
    "Reshape, outer and padded": lambda a: x(a, 4).reshape(3, pad=0, add_outer=True),
    "Reshape, rank 1": lambda a: x(a, 2, 4).reshape(2),
    "Reshape, dim 1": lambda a: x(a, 4, 2).reshape(2, dim=1),
    "PromoteOuter": lambda a: x(a, 4).unsqueeze(1),
    "Promote": lambda a: x(a, 4).unsqueeze(0),
    "Promote, dim 1": lambda a: x(a, 2, 2).unsqueeze(1),
    "RepeatRef": lambda a, b: x(a, 2).repeat_ref(x(b, 2, 3)),
    "RepeatRef, rank 1": lambda a, b: x(a, 2, 2).repeat_ref(x(b, 2, 2, 2, 3), rank=1),
    "StaticReassemble": lambda a, b: st.static_reassemble([x(a, 2), x(b, 2)]),
    "StaticReassemble, rank 1": lambda a, b: st.static_reassemble([x(a, 2, 2), x(b, 2, 2)]),
    "TakeLast": lambda a: x(a, 2, 2).take_last(),
    "Shuffle": lambda a, b: st.shuffle(x(a, 2, 3), flags(b, 2, 3)),
    "Shuffle, rank 2": lambda a, b: st.shuffle(x(a, 2, 3, 2), flags(b, 2, 3)),
    "OffChipStore": lambda a: st.linear_store(x(a, 4)) and [],
    "DynOffChipLoad": lambda a: st.linear_load(SPEC, (16, 4), ref=x(a, 2)),
    "DynOffChipLoad, rank 1": lambda a: st.linear_load(
        SPEC, (16, 4), ref=x(a, 2, 2), trigger_rank=1
    ),
    "RandomOffChipLoad": lambda a: st.random_load(ints(a, 4), SPEC, (1, 4)),
    "RandomOffChipStore": lambda a, b: st.random_store(ints(a, 4), x(b, 4), SPEC, ack="data"),
    "RandomOffChipStore, addr": lambda a, b: st.random_store(ints(a, 4), x(b, 4), SPEC, ack="addr"),
    "Flatten": lambda a: x(a, 2, 3).flatten(0, 1),
    "Flatten, outer": lambda a: x(a, 2, 2, 3).flatten(1, 2),
    "RepeatStatic": lambda a: x(a, 4).repeat(3),
    "ExpandRef, one": lambda a, b: x(a, 1).expand(x(b, 3)),
    "ExpandRef, all": expand_all,
    "ExpandRef": lambda a, b: x(a, 2, 1).expand(x(b, 2, 3)),
    "Bufferize": lambda a: x(a, 2, 3).bufferize(1).streamify(),
    "Bufferize, all": lambda a: x(a, 2, 3).bufferize(1).streamify(repeat=2),
    "StaticStreamify": lambda a: x(a, 2, 3).bufferize(1).streamify(shape=(2,), stride=(2,)),
    "DynStreamify, one": lambda a, b: x(a, 4).reshape(4).bufferize(1).streamify(x(b, 3)),
    "DynStreamify, unit": lambda a, b: unit_dims(a, 4).bufferize(1).streamify(x(b, 2, 3)),
    "DynStreamify": lambda a, b: x(a, 2, 1, 4).bufferize(1).streamify(x(b, 2, 3)),
    "Broadcast": lambda a: st.broadcast(x(a, 4), 2),
    "Partition": lambda a, b: st.partition(x(a, 4), flags(b, 4)),
    "Partition, levels": lambda a, b: st.partition(x(a, 2, 2), flags(b, 2, 2)),
    "Partition, rank 1": lambda a, b: st.partition(x(a, 4, 2), flags(b, 4)),
    "Partition, rank 1, levels": lambda a, b: st.partition(x(a, 2, 2, 2), flags(b, 2, 2)),
    "Partition, rank 2": lambda a, b: st.partition(x(a, 2, 2, 3), flags(b, 2)),
    "Partition, rank 2, vectors": lambda a, b: st.partition(x(a, 2, 1, 3), flags(b, 2)),
    "Partition of selectors": lambda a, b: st.partition(flags(a, 4), flags(b, 4)),
    "Reassemble": gathered,
    "Reassemble, rank 1": lambda a, b, s: gathered(a, b, s, 2),
    "Reassemble, map": twice,
    "Reassemble, flatten": lambda a, b, s: gathered(a, b, s).flatten(0, 1).repeat(2),
    "Reassemble, load": lambda a, b, s: st.linear_load(SPEC, (64, 4), ref=gathered(a, b, s)),
    "Parallelize": lambda a: st.parallelize(x(a, 4), 2),
    "Parallelize, rank 1": lambda a: st.parallelize(x(a, 4, 2), 2),
    "Parallelize of selectors": lambda a: st.parallelize(flags(a, 4), 2),
    "EagerMerge": lambda a, b: st.eager_merge([x(a, 2), x(b, 3)]),
    "EagerMerge, rank 1": lambda a, b: st.eager_merge([x(a, 2, 2), x(b, 3, 2)]),
    "EagerMerge of integers": merged_ints,
    "Counter": lambda: st.counter(4),
    "Counter, in turn": lambda: st.parallelize(st.counter(4), 2),
    "DynCounter": lambda a: st.counter(3, ref=x(a, 2)),
    "FlatmapCounter": lambda a: ints(a, 4).flat_map(fn.counter()),
    "no outer dim of 1 alone": lambda: st.parallelize(x(True, 1), 2),
}
"""What is made of sources that end a level more, or not."""

CAREFUL: dict[str, Callable[..., Any]] = {
    "Filter, mask of a run": lambda: x(True, 4, rows=2).filter_rows(mixed_mask()),
    "Reassemble, buffers": lambda: gathered(True, True, False, 3).bufferize(1).streamify(),
    "ExpandRef, late": lambda: late(1).unsqueeze(0).assume_shape(1, 1).expand(x(True, 2, 2), 2),
}
"""Refused although nothing happens: only a run knows masks, places of stops and late ends."""


def built(case: Callable[..., Any], ends: tuple[bool, ...]) -> st.Program:
    with st.Program("case", compute_bw=8) as program:
        sink(case(*ends))
    return program


EACH = [
    pytest.param(case, ends, id=f"{name}-{''.join('-+'[e] for e in ends)}")
    for name, case in CASES.items()
    for ends in product((False, True), repeat=case.__code__.co_argcount)
]


def refusal(program: st.Program) -> str:
    """Why a program is not written; empty if it is."""
    try:
        program.to_graph()
    except GraphFileError as error:
        return str(error)
    return ""


def check_levels(program: st.Program, runs: Runs) -> None:
    """Levels differ at the end of the streams for which this was foreseen, and nowhere else."""
    wiring = st.graph.wire(program)
    foreseen = raised_stops(wiring)
    both = zip(runs.own.tokens.values(), runs.public.tokens.values(), strict=True)
    for number, (own, public) in enumerate(both):
        end = foreseen.get(number)
        if end is not None and end.inside is not None:
            continue
        expected = [token.level for token in own]
        if end is not None:
            expected[-1] += 1
        assert [token.level for token in public] == expected, wiring.fifos[number].name


@pytest.mark.parametrize(("case", "ends"), EACH)
def test_what_is_written_runs_and_what_is_refused_does_not(
    case: Callable[..., Any], ends: tuple[bool, ...], tmp_path: Path
) -> None:
    program = built(case, ends)
    runs = run_both(program, tmp_path)
    assert runs.own.status == "ok", reasons(runs.own)
    refused = refusal(program)
    if refused:
        assert "in the public simulator" in refused
        assert runs.public.status == "failed", refused
        return
    assert runs.agree, reasons(runs.public)
    check_levels(program, runs)


@pytest.mark.parametrize("case", CAREFUL.values(), ids=list(CAREFUL))
def test_what_only_a_run_knows_is_refused(case: Callable[..., Any], tmp_path: Path) -> None:
    program = built(case, ())
    assert "in the public simulator" in refusal(program)
    assert run_both(program, tmp_path).agree


def chunks(**options: Any) -> st.Stream:
    wide = late().unsqueeze(0).expand(x(True, 2, 2)).flatten(0, 1)
    return wide.reshape(options.pop("chunk"), **options).map(fn.exp)


LATE: dict[str, Callable[[], st.Stream]] = {
    "outer": lambda: chunks(chunk=2, add_outer=True),
    "padded": lambda: chunks(chunk=3, pad=0),
    "outer and padded": lambda: chunks(chunk=3, pad=0, add_outer=True),
    "read": lambda: late_buffer().streamify(x(True, 2)),
}


@pytest.mark.parametrize("case", LATE.values(), ids=list(LATE))
def test_what_waits_for_a_late_end_is_refused(
    case: Callable[[], st.Stream], tmp_path: Path
) -> None:
    """A stop marks the end at once, or no stop exists and the program does not ask for it."""
    with st.Program("late", compute_bw=8) as program:
        st.linear_store(case())
    assert re.search("does not wait for the end|waits for the end", refusal(program))
    runs = run_both(program, tmp_path)
    assert runs.own.status == runs.public.status == "ok"
    assert not runs.agree


def test_chunks_that_need_no_padding_do_not_wait(tmp_path: Path) -> None:
    with st.Program("exact", compute_bw=8) as program:
        st.linear_store(chunks(chunk=2))
    assert refusal(program) == ""
    assert run_both(program, tmp_path).agree


def test_the_table_has_every_operator_that_is_written() -> None:
    kinds = set()
    for case in CASES.values():
        program = built(case, (False,) * case.__code__.co_argcount)
        kinds |= {unit.kind for unit in st.graph.wire(program).units}
    assert kinds == set(UNITS) - {"Printer"}, "stepsim prints by a Consumer"
