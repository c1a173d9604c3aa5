"""Stream functions take no unit, parameter or value that they would not use."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph import StreamFunction, fn
from tests.graph.support import scratch, tiles

ROWS = (("split_row", True), ("filter", False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 4, 5, 6), "StreamFunction: name must be a string, found 3"),
        (("f", "FilterLast"), "unit_kind is 'FilterLast', .*; did you mean 'FilterLastTile'"),
        (("f", None), "unit_kind is None, expected one of RetileStreamify"),
        (("f", "FilterLastTile", ROWS), r"unit 'FilterLastTile' are pairs of \(none\)"),
        (
            ("f", "RetileStreamify"),
            r"are pairs of \(split_row, filter, chunk\) and a value, found \(\)",
        ),
        (("f", "RetileStreamify", [*ROWS]), "are pairs of"),
        (("f", "RetileStreamify", (*ROWS, 3)), "are pairs of"),
        (("f", "RetileStreamify", (("split_row", 3), ROWS[1])), "f: split_row must be True or"),
        (
            ("f", "RetileStreamify", (("split_row", False), ("filter", True))),
            "f: padding can be dropped from rows, not from columns",
        ),
        (("f", "ExpertAddrGen", (("n", 0), ("base", 0))), "f: tiles must be an int from 1 to"),
        (("f", "CacheReadAddrGen", (("stride", 2.5),)), "f: stride must be an int from 1 to"),
        (("f", "RetileStreamify", ROWS, abs), "f: kernel has no effect"),
    ],
)
def test_what_a_stream_function_would_not_use(arguments: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        StreamFunction(*arguments)


def test_shapes_follow_from_the_unit_and_its_parameters() -> None:
    """A function made from another, or by hand, has the rule of its unit."""
    columns = dataclasses.replace(
        fn.unpack_rows(), params=(("split_row", False), ("filter", False))
    )
    with scratch() as program:
        x = tiles(2, rows=4, cols=8)
        by_hand = x.flat_map(columns)
        made = x.flat_map(fn.unpack_cols())
        assert (by_hand.shape, by_hand.type) == (made.shape, made.type)
        lengths = st.metadata([1, 2])
        reads = StreamFunction("reads", "CacheReadAddrGen", (("stride", 4),))
        with pytest.raises(ArgError, match="'reads' takes 2 streams, found 1"):
            st.flat_map(lengths, reads)
        assert st.flat_map(lengths, reads, lengths).program is program


def test_a_rule_cannot_be_replaced() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'infer'"):
        dataclasses.replace(fn.unpack_rows(), infer=fn.unpack_cols().infer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.expert_addresses(2.5), r"tiles must be .* \(tiles of one request or expert\)"),
        (lambda: fn.cache_read_addresses(0), r"stride .* \(tiles of one request or expert\)"),
        (lambda: fn.cache_write_address(0), r"stride .* \(tiles of one request or expert\)"),
        (lambda: fn.emit([1], cycles=-1), r"emit: cycles must .* \(cycles that one piece takes\)"),
        (lambda: fn.emit([]), r"emit: dims must have an entry or more, found \[\]"),
        (lambda: fn.emit([1], (1,)), r"emit: tile must have two entries \(rows, columns\), found"),
        (lambda: fn.emit([1], kernel=3), "emit: kernel must be a function or None, found 3"),
    ],
)
def test_messages_say_what_is_counted(make: Any, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        make()
