"""Tokens of sources: lists of dicts and structured arrays mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels.driver import execute
from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image
from tests.engine_backend import TOKEN_FIELDS
from tests.property_profile import profile

COLUMNS = [
    ("rows", np.int32), ("cols", np.int32), ("bytes", np.float64), ("rd", np.int8),
    ("valid", np.int32), ("level", np.int16), ("value", np.int64),
]  # fmt: skip

ROWS = st.tuples(
    st.integers(0, 3), st.sampled_from([1, 16]), st.sampled_from([0.5, 2.0]), st.integers(0, 1),
    st.just(0), st.integers(0, 2), st.sampled_from([0, 1, -5, 2**63 - 1]),
)  # fmt: skip


def network(*lists: Any) -> Network:
    units = [UnitSpec(f"s{i}", "Gen", (), (i,), {"tokens": one}) for i, one in enumerate(lists)]
    units += [UnitSpec(f"k{i}", "Consumer", (i,), (), {}) for i in range(len(lists))]
    return Network(tuple(units), tuple(ChannelSpec(f"c{i}", 2) for i in range(len(lists))))


def table(rows: list[tuple[Any, ...]]) -> NDArray[np.void]:
    return np.array(rows, COLUMNS)


def dicts(array: NDArray[np.void]) -> list[dict[str, Any]]:
    return [
        {"tile": list(row[:5]), "level": row[5], "value": row[6]} for row in array.tolist()
    ]  # fmt: skip


@profile(30)
@given(st.lists(st.lists(ROWS, max_size=30), min_size=1, max_size=4))
def test_arrays_are_lists_of_dicts(lists: list[list[tuple[Any, ...]]]) -> None:
    arrays = [table(rows) for rows in lists]
    of_arrays, of_dicts = build_image(network(*arrays)), build_image(network(*map(dicts, arrays)))
    a, b = (execute(image, history=True) for image in (of_arrays, of_dicts))
    for c, rows in enumerate(arrays):
        at, other = int(a.channels["start"][c]), int(b.channels["start"][c])
        sent, same = a.slots[at : at + len(rows)], b.slots[other : other + len(rows)]
        for field in TOKEN_FIELDS:
            assert (sent[field] == same[field]).all(), field
        for field in ("value", "rows", "cols", "level"):
            assert (sent[field] == rows[field]).all(), field


def test_tokens_are_kept_once_and_shared_by_runs() -> None:
    tile = {"tile": [4, 4, 2, 0, 4], "level": 0}
    image = build_image(network([tile] * 1000, [dict(tile) for _ in range(1000)]))
    assert image.tokens.nbytes == 2000 * 16
    assert len(image.slots) < 100
    before = image.digest()
    assert execute(image).finished
    assert image.digest() == before


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("valid", 9, "valid rows of a tile is 9; expected 0..4"),
        ("level", -1, "stop level of a token is -1; expected 0..1000"),
        ("bytes", 0.25, "0.25 bytes per element, expected 0.5 or 1..1024"),
        ("value", -(2**63), f"value of a token is {-(2**63)}; expected"),
    ],
)
def test_faults_name_unit_and_row(column: str, value: float, problem: str) -> None:
    array = table([(4, 4, 2.0, 0, 4, 0, 0)] * 10)
    array[column][7] = value
    messages = []
    for tokens in (array, dicts(array)):
        with pytest.raises(LoweringError) as caught:
            build_image(network(tokens))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith(f"Gen 's0': {problem}")
    assert messages[0].endswith("(row 7 of the tokens)")


def test_columns_are_known() -> None:
    with pytest.raises(LoweringError, match="Gen 's0': the array of tokens has no column 'valid'"):
        build_image(network(np.zeros(3, COLUMNS[:4])))
    with pytest.raises(LoweringError, match="Gen 's0': unknown column 'color' of the array"):
        build_image(network(np.zeros(3, [*COLUMNS, ("color", np.int8)])))


class Made(Sequence[Any]):
    """Tokens that are made when they are asked for, where others lay before."""

    def __init__(self, values: list[int]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, i: Any) -> Any:
        return {"tile": [4, 4, 2, 0, 4], "level": 0, "value": self._values[i]}


def test_tokens_may_be_made_when_they_are_asked_for() -> None:
    values = list(range(200))
    image = build_image(network(Made(values)))
    assert image.tokens["value"].tolist() == values
    assert len(set(image.tokens["form"].tolist())) == 1
