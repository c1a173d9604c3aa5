"""Sizes that follow from constants and bound routings need no binding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.graph.programs.constants import constant_values
from stepsim.simulation.cases.case import make_case

CACHE = (8, 4)


def packed(lengths: Any, index: Any, tiles: int = 4) -> None:
    """Load tiles of requests and pack those of each into one, whose size depends on its length."""
    cache = st.spec(*CACHE)
    addresses = index.flat_map(st.fn.cache_read_addresses(tiles), lengths)
    keys = st.random_load(addresses, cache, tile=(1, 4))
    keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()


def cached() -> tuple[st.Program, Any]:
    with st.Program("cached", compute_bw=64) as program:
        lengths = st.metadata([2, 3])
        packed(lengths, st.metadata([0, 1]))
    return program, lengths


def test_lengths_of_metadata_are_known_without_binding() -> None:
    program, lengths = cached()
    metrics = program.metrics()
    free = metrics.bind()
    assert free.off_chip_traffic == 5 * 4 * 2
    # the longest request of three rows of four bf16, and two words
    assert free.on_chip_memory == 3 * 4 * 2 + 16
    bound = metrics.bind({lengths: [2, 3]})
    assert (bound.on_chip_memory, bound.flops) == (free.on_chip_memory, free.flops)


def test_given_lengths_come_before_constants() -> None:
    program, lengths = cached()
    assert program.metrics().bind({lengths: [4, 4]}).off_chip_traffic == 8 * 4 * 2


ROUTES = np.array([[0], [1], [1], [0]])


def distributed(indices: Any) -> tuple[st.Program, Any]:
    """Lengths and indices of four requests, sent to two regions by a routing."""
    with st.Program("distributed", compute_bw=64) as program:
        table = st.routing(indices, experts=2)
        which = table.multihot()
        lengths = st.metadata([[1, 2], [2, 1]]).flatten(0, 1)
        index = st.metadata([0, 1, 2, 3])
        for own, place in zip(
            st.partition(lengths, which), st.partition(index, which), strict=True
        ):
            packed(own, place, tiles=2)
    return program, table


def test_lengths_that_a_routing_distributes_are_known_with_it() -> None:
    built, _ = distributed(ROUTES)
    later, table = distributed(st.spec(4, 1))
    numbers = built.metrics().bind()
    assert later.metrics().bind({table: ROUTES}).on_chip_memory == numbers.on_chip_memory
    assert numbers.off_chip_traffic == 6 * 4 * 2
    with pytest.raises(st.errors.ArgError, match="symbols have no value"):
        later.metrics().bind()


def test_elements_are_those_that_a_run_sees() -> None:
    """Every stream that is followed has the elements of a functional run."""
    with st.Program("followed") as program:
        numbers = st.metadata(np.arange(12).reshape(6, 2))
        rows = st.selector(np.eye(3, dtype=int)[[0, 2, 2, 1, 0, 1]])
        parts = st.partition(numbers, rows)
        back = st.reassemble(parts, rows)
        outputs = [back.flatten(0, 2), *st.parallelize(st.metadata([3, 1, 2]).promote(), 1)]
        outputs += st.parallelize(st.metadata([[3, 1], [2, 5], [7, 7]]), 2)
        outputs += [st.metadata([4, 5]).repeat(3), st.metadata([4, 5, 6, 7]).reshape(2)]
        outputs += st.partition(rows, st.selector([[1, 0], [0, 1], [1, 1], [1, 0], [0, 0], [0, 1]]))
        for one in outputs:
            one.consume()
    done = st.run_functional(program)
    known = dict(constant_values(program, {}))
    assert set(outputs) <= set(known)
    for stream, values in known.items():
        seen = [token.payload for token in done.stream(stream)]
        if values.shape[1] == 1:
            assert [int(one.data[0, 0]) for one in seen] == values.ravel().tolist()
        else:
            assert [list(one.indices) for one in seen] == [
                np.flatnonzero(v).tolist() for v in values
            ]


def test_a_run_of_a_users_program_knows_its_onchip_memory(tmp_path: Any) -> None:
    code = (
        "import stepsim as st\n\ndef cached():\n"
        "    with st.Program('cached', compute_bw=64) as program:\n"
        "        index, lengths = st.metadata([0, 1]), st.metadata([2, 3])\n"
        "        addresses = index.flat_map(st.fn.cache_read_addresses(4), lengths)\n"
        "        keys = st.random_load(addresses, st.spec(8, 4), tile=(1, 4))\n"
        "        keys.accum(st.fn.pack_rows, 1).map(st.fn.exp).consume()\n"
        "    return program\n"
    )
    (tmp_path / "own.py").write_text(code)
    case = make_case(f"{tmp_path / 'own.py'}:cached", counting="executed")
    data = st.workloads.Data()
    assert case.measures(case.run(data), data)["onchip_bytes"] == 3 * 4 * 2 + 16
