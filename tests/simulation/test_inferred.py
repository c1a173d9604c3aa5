"""What is inferred of a program is what runs: every shape, tile size and total."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.graph import Program, Stream, fn
from stepsim.graph.sizes.shapes import format_dims
from stepsim.graph.types import Tile
from tests.functional.support import tiles
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs, grown
from tests.simulation.inferred import compare

KNOWN_AT_RUN_TIME = (
    "cannot be packed",
    "selects no input",
    "makes an empty inner dim",
    "cannot be valid",
    "cannot be broadcast",
    "must be equal to",
    "carries stop level",
    "has no last tile",
    "names no selector",
    "the stream ends after",
)
"""Failures of drawn programs that no shape foretells; see the remarks of the operators."""


@profile(75)
@given(drawn_programs())
def test_shapes_and_totals_are_those_of_the_run(program: Program) -> None:
    found = compare(program)
    assert found == "ok" or any(reason in found for reason in KNOWN_AT_RUN_TIME), found


@pytest.mark.slow
def test_draws_reach_every_operator_and_mostly_run() -> None:
    names: set[str] = set()
    good = 0
    for seed in range(150):
        program = grown(Random(seed).randint, 24)
        names |= {op.name for op in program.operators}
        good += compare(program) == "ok"
    assert names >= {
        "accum", "bufferize", "consume", "eager_merge", "expand", "feedback", "flat_map",
        "flatten", "linear_load", "linear_store", "map", "map_accum", "metadata", "parallelize",
        "partition", "print", "random_load", "random_store", "reassemble", "repeat", "reshape",
        "routing", "scan", "selector", "streamify", "unsqueeze", "zip", "broadcast", "counter",
        "promote", "repeat_ref", "take_last", "static_reassemble", "deinterleave", "interleave",
        "shuffle", "filter_rows", "row_stat", "accum_buffer",
    }  # fmt: skip
    assert good >= 130


def _consumed(*streams: Stream) -> None:
    for x in streams:
        x.consume()


def _shapes(streams: list[Stream]) -> list[str]:
    return [format_dims(x.shape) for x in streams]


def test_a_repeated_selector_chooses_as_often_as_it_is_repeated() -> None:
    with Program() as p:
        x, _ = tiles((2,), 4, 4)
        which = st.selector(np.eye(2, dtype=int))
        repeated = st.partition(x.repeat(3), which.repeat(3))
        grown_ = st.partition(x.unsqueeze(0).expand(3), which.unsqueeze(0).expand(3))
        ref = x.repeat(3)
        by_ref = st.partition(x.unsqueeze(0).expand(ref), which.unsqueeze(0).expand(ref))
        for parts in (repeated, grown_, by_ref):
            assert _shapes(parts) == ["[3]", "[3]"]
            for part in parts:
                st.linear_store(part)
    assert p.metrics().bind().off_chip_traffic == 128 + 6 * 3 * 64
    assert compare(p) == "ok"


def test_selectors_repeated_as_often_as_a_ragged_reference_says_count_anew() -> None:
    with Program() as p:
        x, _ = tiles((2,))
        which = st.selector(np.eye(2, dtype=int))
        lengths = st.metadata([1, 3])
        ref = lengths.flat_map(fn.cache_read_addresses(1), lengths)
        grown_ = which.unsqueeze(0).expand(ref)
        parts = st.partition(x.unsqueeze(0).expand(ref), grown_)
        for part in parts:
            st.linear_store(part)
    assert not any(part.shape[0].is_static for part in parts)
    bound = p.metrics().bind({grown_: [1, 3], lengths: [1, 3]})
    assert bound.off_chip_traffic == 8 + 16
    assert compare(p) == "ok"


def test_counts_of_repeated_selectors_follow_from_the_routing_and_can_be_bound() -> None:
    with Program() as p:
        x, _ = tiles((4,))
        table = st.routing(st.spec(4, 1), 2)
        which = table.onehot().flatten(0, 1).repeat(2)
        parts = st.partition(x.repeat(2), which)
        _consumed(*parts)
        assert parts[0].shape[0] == table.count[0] * 2
        bound = p.metrics().bind({table: [3, 1]})
        assert bound.value(parts[0].shape[0]) == 6
        assert p.metrics().bind({which: [6, 2]}).value(parts[0].shape[0]) == 6
        with pytest.raises(ArgError, match="count 5 at position 0 is not a multiple of 2"):
            p.metrics().bind({which: [5, 3]})


def _merged(*heights: int) -> tuple[Stream, Stream]:
    return st.eager_merge([tiles((2,), rows, 4)[0] for rows in heights])


@pytest.mark.parametrize("deal", ["parallelize", "partition"])
def test_flops_of_shares_of_tiles_of_different_heights(deal: str) -> None:
    """What one output gets of merged tiles is not its part by number."""
    with Program(compute_bw=4) as p:
        data, source = _merged(1, 3)
        source.consume()
        if deal == "parallelize":
            parts = st.parallelize(data, 2)
        else:
            parts = st.partition(data, st.selector([[1, 0], [1, 0], [1, 0], [0, 1]]))
        assert parts[0].type != parts[1].type
        _consumed(st.map(fn.silu, parts[0]), parts[1])
    total = parts[0].type.rows.total
    assert total in p.metrics().free_symbols()
    assert compare(p) == "ok"


def test_shares_of_different_heights_can_be_put_together_again() -> None:
    with Program(compute_bw=4) as p:
        data, source = _merged(1, 3)
        source.consume()
        which = st.selector([[1, 0], [0, 1], [1, 0], [0, 1]])
        parts = st.partition(data, which)
        whole = st.reassemble(parts, which)
        assert whole.type.rows.total == parts[0].type.rows.total + parts[1].type.rows.total
        st.map(fn.silu, whole).consume()
    assert compare(p) == "ok"


def test_buffers_of_ragged_size_that_are_copied_dealt_and_merged() -> None:
    with Program(compute_bw=4) as p:
        lengths = st.metadata([1, 3, 2, 2])
        addresses = lengths.flat_map(fn.cache_read_addresses(1), lengths)
        x = st.random_load(addresses, np.ones((8, 2), np.float32), (1, 2))
        buffers = x.bufferize(1)
        in_turn = st.parallelize(buffers, 2)
        merged, source = st.eager_merge([*in_turn, buffers])
        source.consume()
        for b in (buffers.repeat(2), *in_turn, merged):
            st.linear_store(b.streamify())
    bound = p.metrics().bind({lengths: [1, 3, 2, 2], in_turn[0].type.dims[0]: [1, 2],
                              in_turn[1].type.dims[0]: [3, 2]})  # fmt: skip
    assert bound.off_chip_traffic == 64 * (1 + 2 + 1 + 2)
    assert compare(p) == "ok"


def test_dims_of_pieces_that_are_sides_of_tiles() -> None:
    with Program(compute_bw=4) as p:
        data, source = _merged(1, 3)
        source.consume()
        st.linear_store(data.flat_map(fn.emit((2, "rows"), (1, 2))))
    assert p.metrics().bind().off_chip_traffic == 4 * (2 * 4 + 6 * 4) + 2 * 8 * 2 * 4
    assert compare(p) == "ok"


def test_flops_of_products_of_two_ragged_sides_have_a_symbol_of_their_own() -> None:
    with Program(compute_bw=4) as p:
        data, source = _merged(1, 3)
        source.consume()
        product = st.map(fn.matmul_t, data, data)
        product.consume()
    (symbol,) = p.metrics().free_symbols()
    assert f"FLOPs of {product.producer.title()}" in p.provenance(symbol)
    ran = 2 * (2 * 1 * 4 * 1) + 2 * (2 * 3 * 4 * 3)
    assert p.metrics().bind({symbol: ran}).flops == ran
    assert compare(p) == "ok"


def test_rows_padded_twice_are_not_all_valid() -> None:
    with Program(compute_bw=4) as p:
        x, _ = tiles((2,))
        once = x.reshape(3, pad=0, add_outer=True).accum(fn.pack_cols, 2)
        twice = once.reshape(3, pad=0).accum(fn.pack_rows, 1)
        _consumed(twice.flat_map(fn.unpack_rows(True)))
    assert compare(p) == "ok"


@pytest.mark.parametrize("chosen", [0, 1])
def test_states_of_tiles_that_may_be_none_at_all(chosen: int) -> None:
    with Program(compute_bw=4) as p:
        parts = st.partition(
            tiles((2, 1), 2, 1)[0], st.routing(np.full((2, 1), chosen), 2).multihot()
        )
        keep = st.function("keep", "m n; m n -> m n", lambda m, n: m * n)
        for part in parts:
            packed = part.promote().scan(fn.pack_rows, 1)
            st.map(fn.silu, packed.accum(keep, 2, fn.empty((0, 0)))).consume()
    assert compare(p) == "ok"


@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize("rank", [0, 1])
def test_dropped_rows_do_not_count_among_columns_of_different_width(
    rank: int, chunk: int | None
) -> None:
    """Only a run knows how many of the rows of each width are valid."""
    with Program(compute_bw=4) as p:
        chunks = tiles((4,), 1, 2)[0].reshape(3, pad=0).accum(fn.pack_rows, 1)
        grown_ = chunks.unsqueeze(0).repeat(2).scan(fn.pack_cols, 1)
        rows = (grown_ if rank else grown_.flatten(0, 2)).flat_map(fn.unpack_rows(True, chunk))
        st.map(fn.silu, rows).consume()
    assert isinstance(rows.type, Tile)
    assert rows.type.cols.span == rows.elements()
    assert compare(p) == "ok"


def test_valid_rows_of_pairs_are_not_those_of_the_first() -> None:
    with Program(compute_bw=4) as p:
        padded = tiles((3,), 1, 2)[0].reshape(2, pad=0).accum(fn.pack_rows, 1)
        whole = tiles((2,), 2, 2)[0]
        both = st.map(fn.add, st.zip(padded, whole))
        both.flat_map(fn.unpack_rows(True)).consume()
    assert compare(p) == "ok"


def test_an_inner_dim_that_is_constant_in_one_merged_stream_only() -> None:
    with Program() as p:
        lengths = st.metadata([1, 2])
        ragged = st.random_load(
            lengths.flat_map(fn.cache_read_addresses(1), lengths),
            np.ones((4, 1), np.float32), (1, 1),
        )  # fmt: skip
        data, source = st.eager_merge([tiles((2, 3))[0], ragged])
        source.consume()
        st.linear_store(data)
    assert p.metrics().bind({lengths: [1, 2]}).off_chip_traffic == 4 * (6 + 3) * 2
    assert compare(p) == "ok"


def test_flops_of_states_that_grow_are_not_those_of_the_last_state() -> None:
    with Program(compute_bw=4) as p:
        x, _ = tiles((2, 2, 3), 1, 2)
        grown_ = x.scan(fn.pack_rows, 1).flatten(0, 1).reshape(3, dim=0)
        sums = grown_.accum(fn.add, 2)
        assert sums.producer.flops().is_Symbol
        sums.consume()
    found = compare(p)
    assert found == "ok" or "cannot be broadcast" in found


def test_chunks_of_one_are_never_padded() -> None:
    """So tiles of different heights can be cut into them."""
    with Program(compute_bw=4) as p:
        table = st.routing([[0], [1]], 2)
        mixed, source = _merged(1, 3)
        source.consume()
        kept, rest = st.partition(mixed.reshape(2), table.multihot())
        kept.flatten(0, 1).reshape(1, pad=0).consume()
        rest.consume()
    assert compare(p) == "ok"


def test_columns_beyond_the_rows_of_a_tile_count_as_padding() -> None:
    with Program() as p:
        x, _ = tiles((3,), 1, 3)
        columns = x.flat_map(fn.unpack_cols())
        packed = columns.reshape(3).accum(fn.pack_rows, 1)
        rows = packed.flat_map(fn.unpack_rows(drop_padding=True))
        rows.consume()
    assert not rows.shape[-1].is_static
    assert compare(p) == "ok"
