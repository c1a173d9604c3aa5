"""Every valid form of repeats, expansions, promotes, lanes and filters builds, lowers and runs.

Symbols equal what a run has, the engine equals the interpreter under both models of a machine, and
the values have the tokens of the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.graph import Program, Stream, fn
from stepsim.kernels.driver import execute
from stepsim.lowering import build_image, lower
from stepsim.machine import load_machine
from tests.engine_backend import to_result
from tests.functional.support import run_both, tiles
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.simulation.inferred import compare

Use = Callable[[Stream], Stream | tuple[Stream, ...] | list[Stream]]


def _ragged() -> Stream:
    """``[2, ~len]`` of rows, lengths 3 and 1."""
    lengths = st.metadata([3, 1])
    addresses = lengths.flat_map(fn.cache_read_addresses(1), lengths)
    return st.random_load(addresses, np.arange(32, dtype=np.float32).reshape(16, 2), (1, 2))


def _routed(expert: int) -> Stream:
    """A dynamic stream of rank 0 with 3 elements, or none."""
    x, _ = tiles((3,), 1, 2)
    busy, idle = st.partition(x, st.routing([[0]] * 3, 2).multihot())
    wanted, other = (busy, idle) if expert == 0 else (idle, busy)
    other.consume()
    return wanted


SOURCES: dict[str, Callable[[], Stream]] = {
    "[4]": lambda: tiles((4,), 2, 3)[0],
    "[2, 4]": lambda: tiles((2, 4), 1, 2)[0],
    "[2, 2, 2]": lambda: tiles((2, 2, 2), 1, 2)[0],
    "[2, ~len]": _ragged,
    "[~len, 2]": lambda: _ragged().repeat(2),
    "[n]": lambda: _routed(0),
    "[n] empty": lambda: _routed(1),
    "[n, 2]": lambda: _routed(0).repeat(2),
    "[n, 2] empty": lambda: _routed(1).repeat(2),
    "integers": lambda: st.metadata([[1, 2, 3, 4]]),
    "selectors": lambda: st.selector(np.eye(4, dtype=int)),
    "buffers": lambda: tiles((4, 2), 1, 2)[0].bufferize(1),
    "pairs": lambda: (lambda x: st.zip(x, x.repeat(1).flatten(0, 1)))(tiles((4,), 1, 2)[0]),
}


def _all_expansions(x: Stream) -> list[Stream]:
    """The data is a unit in all dims."""
    one = st.metadata(np.zeros((1,) * len(x.shape), int))
    return [one.expand(x, len(x.shape))]


def _shuffled(x: Stream) -> tuple[Stream, ...]:
    dims = [int(d) for d in x.shape]
    flags = np.zeros((*dims, 3), int)
    flags[..., 2] = 1
    flags[..., 0] = np.arange(int(np.prod(dims))).reshape(dims) % 2
    data, markers = st.shuffle(x, st.selector(flags))
    return *st.partition(data, markers), data, markers


FORMS: dict[str, Use] = {
    "promote": lambda x: x.promote(),
    "promote twice": lambda x: x.promote().promote(),
    "unsqueeze outermost": lambda x: x.unsqueeze(x.rank + 1),
    "repeat by one": lambda x: x.repeat(1),
    "repeat by number": lambda x: x.repeat(3),
    "repeat by no factor": lambda x: x.repeat([]),
    "repeat by factors": lambda x: x.repeat([2, 1, 3]),
    "expand to a number": lambda x: x.unsqueeze(0).expand(3),
    "expand to numbers": lambda x: x.unsqueeze(0).unsqueeze(0).expand([2, 3]),
    "expand to a reference": lambda x: x.unsqueeze(0).expand(x.repeat(2)),
    "expand two dims": lambda x: x.unsqueeze(0).unsqueeze(0).expand(x.repeat([2, 3]), 2),
    "expand all dims": _all_expansions,
    "repeat to a reference": lambda x: x.repeat_ref(x.repeat(2)),
    "repeat over tensors": lambda x: x.repeat_ref(x.repeat([2, 3]), rank=1),
    "repeat in two dims": lambda x: x.repeat_ref(x.repeat([2, 3])),
    "take last": lambda x: x.promote().take_last(),
    "deal and collect": lambda x: st.static_reassemble(st.parallelize(x, 2), switch_cycles=[0, 3]),
    "deal to more": lambda x: st.static_reassemble(st.parallelize(x, 5)),
    "collect from one": lambda x: st.static_reassemble([x], rank=x.rank),
    "collect copies": lambda x: st.static_reassemble([x, x.repeat(1).flatten(0, 1)]),
    "lanes": lambda x: x.repeat(2).flatten(0, 1).deinterleave(2),
    "lanes and back": lambda x: st.interleave(x.repeat([3, 2]).deinterleave(2)),
    "interleaved": lambda x: st.interleave([x, x.repeat(1).flatten(0, 1)]),
}

TILE_FORMS: dict[str, Use] = {
    "rows": lambda x: x.filter_rows(),
    "pieces of rows": lambda x: x.flat_map(fn.unpack_rows(chunk=2)),
    "valid pieces": lambda x: x.flat_map(fn.unpack_rows(True, chunk=2)),
    "columns": lambda x: x.flat_map(fn.unpack_cols()),
    "pieces of columns": lambda x: x.flat_map(fn.unpack_cols(chunk=2)),
    "wide pieces": lambda x: x.flat_map(fn.unpack_cols(chunk=8)),
    "mask": lambda x: x.reshape(3, pad=0, mask=True),
    "mask of chunks": lambda x: x.reshape(1, mask=True),
    "rows of a mask": lambda x: (
        x.flat_map(fn.unpack_rows()).reshape(2, pad=0, mask=True)[0].filter_rows()
    ),
}

RANK_0 = ("[4]", "[n]", "[n] empty")
"""Streams without stops: rows may be dropped up to the last one."""


def _check(source: Callable[[], Stream], use: Use) -> str:
    with Program("form", compute_bw=4) as p:
        made = use(source())
        for stream in [made] if isinstance(made, Stream) else made:
            stream.consume()
        for op in list(p.operators):
            for out in op.outputs:
                if not p.readers(out):
                    out.consume()
    found = compare(p)
    for model in ("step-2025", "step-2026"):
        machine = load_machine("sda-1024", {"model": model})
        network = lower(p, machine)[1]
        image = build_image(network)
        timed = to_result(image, execute(image, history=True))
        assert_same(timed, interpret(network), accounts=True, names=("engine", "interpreter"))
        assert found != "ok" or timed.status == "ok"
    if found == "ok":
        run_both(p)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES)
def test_forms_on_any_stream(source: str, form: str) -> None:
    assert _check(SOURCES[source], FORMS[form]) == "ok"


@pytest.mark.parametrize("form", TILE_FORMS)
@pytest.mark.parametrize("source", list(SOURCES)[:9])
def test_forms_on_tiles(source: str, form: str) -> None:
    assert _check(SOURCES[source], TILE_FORMS[form]) == "ok"


@pytest.mark.parametrize("source", RANK_0)
def test_the_mask_of_a_reshape_drops_its_padding(source: str) -> None:
    def use(x: Stream) -> Stream:
        data, mask = x.flat_map(fn.unpack_rows()).reshape(3, pad=0, mask=True)
        kept = data.flatten(0, 1).filter_rows(mask.flatten(0, 1))
        assert kept.shape[0] == x.elements() * int(x.type.rows)
        return kept

    assert _check(SOURCES[source], use) == "ok"


def test_a_vector_that_ends_with_a_dropped_row_is_an_error() -> None:
    def use(x: Stream) -> Stream:
        data, mask = x.reshape(3, pad=0, mask=True)
        return data.filter_rows(mask)

    assert "empty inner dim" in _check(SOURCES["[2, 4]"], use)


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (2, 2, 2)])
def test_shuffled_groups(shape: tuple[int, ...]) -> None:
    assert _check(lambda: tiles(shape, 1, 2)[0], _shuffled) == "ok"


def test_shuffled_items_of_several_tiles() -> None:
    def use(x: Stream) -> tuple[Stream, Stream]:
        return st.shuffle(x, st.selector([[[1, 0], [0, 1], [1, 1]]]), rank=2, write_back=True)

    assert _check(lambda: tiles((1, 3, 2), 2, 2)[0], use) == "ok"


def test_rows_selected_by_flags() -> None:
    flags = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]])

    def use(x: Stream) -> Stream:
        return x.filter_rows(st.selector(flags))

    assert _check(lambda: tiles((4,), 3, 2)[0], use) == "ok"
    nested = lambda x: x.filter_rows(st.selector(flags.reshape(2, 2, 3)))  # noqa: E731
    assert _check(lambda: tiles((2, 2), 3, 2)[0], nested) == "ok"


def test_pieces_as_many_as_an_integer_says() -> None:
    def use(x: Stream) -> list[Stream]:
        lengths = st.metadata([1, 3, 2, 1])
        rule = fn.emit(["length", 2], (1, 2), cycles=2, kernel=lambda t, v, n: [t[:1]] * 2 * n)
        inner = fn.emit([2, "length"], (1, 2), kernel=lambda t, v, n: [t[:1]] * 2 * n)
        return [x.flat_map(rule, lengths), x.flat_map(inner, lengths)]

    assert _check(lambda: tiles((4,), 2, 2)[0], use) == "ok"


def test_reassemble_of_any_rank_with_an_empty_input() -> None:
    for shape in ((3,), (3, 2), (3, 2, 2)):

        def use(x: Stream) -> Stream:
            which = st.routing([[0], [2], [0]], 3).multihot()
            return st.reassemble(st.partition(x, which), which)

        assert _check(lambda s=shape: tiles(s, 1, 2)[0], use) == "ok"
