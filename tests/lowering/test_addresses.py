"""Where tensors lie off chip: bases, layouts, overrides, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, LoweringError
from stepsim.machine import Machine, load_machine
from stepsim.simulation import prepare


def machine(**overrides: Any) -> Machine:
    base = {
        "name": "small",
        "hbm": {"model": "dram", "request_bytes": 64, "dram": {"preset": "hbm2-hdl"}},
        "onchip": {"bytes_per_cycle": 64},
    }
    return load_machine(Machine(**base), {k.replace("__", "."): v for k, v in overrides.items()})


def scaled(rows: int = 8) -> st.Program:
    with st.Program("scaled") as program:
        x = st.linear_load(
            st.spec(rows, 64, dtype="f32", name="x"), tile=(4, 32), shape=(2, 2), stride=(1, 2)
        )
        st.linear_store(x, "y")
    return program


def rows_of(program: st.Program, target: Machine, **addresses: Any) -> dict[str, Any]:
    made = prepare(program, target, addresses=addresses or None)
    return {row["tensor"]: row for row in made.address_rows()}


def test_packed_tensors_lie_behind_each_other() -> None:
    rows = rows_of(scaled(), machine())
    assert (rows["x"]["base"], rows["x"]["bytes"]) == (0, 2048)
    assert (rows["y"]["base"], rows["y"]["bytes"]) == (4096, 2048)


def test_a_step_and_zero() -> None:
    assert rows_of(scaled(), machine(hbm__addresses__bases=65536))["y"]["base"] == 65536
    assert rows_of(scaled(), machine(hbm__addresses__bases="zero"))["y"]["base"] == 0


def test_single_tensors_are_placed_by_name() -> None:
    rows = rows_of(scaled(), machine(), y={"base": 1 << 20, "layout": "tiled"}, x="stream")
    # A stream belongs to its operator.
    assert rows["linear_load#0"]["layout"] == "stream"
    assert (rows["y"]["base"], rows["y"]["layout"]) == (1 << 20, "tiled")


def test_padding_makes_a_stream_longer() -> None:
    padded = machine(
        hbm__addresses__layout="stream",
        hbm__addresses__entry_bytes=256,
        hbm__addresses__entry_padding_bytes=4,
    )
    # Four tiles of 512 bytes, each of two entries.
    assert rows_of(scaled(), padded)["linear_load#0"]["bytes"] == 4 * 520


def addresses_of(layout: str) -> list[int]:
    """First bytes of the runs of all tiles of the load, in the order of use."""
    access = prepare(scaled(), machine(hbm__addresses__layout=layout)).address_map.accesses
    its, found = access["linear_load#0"], []
    walk = [i + 2 * j for i in range(2) for j in range(2)] if its.dims else range(4)
    for tile in walk:
        for row in range(its.rows):
            first = (tile // its.columns * its.rows + row) * its.pitch
            found.append(its.base + first + tile % its.columns * its.row_bytes)
    return found


def test_layouts() -> None:
    # Tiles 0, 2, 1, 3 of a grid of 2 x 2, each of 4 rows of 128 bytes in rows of 256.
    assert addresses_of("row_major") == [
        corner + 256 * row for corner in (0, 1024, 128, 1152) for row in range(4)
    ]
    assert addresses_of("tiled") == [0, 1024, 512, 1536]
    assert addresses_of("stream") == [0, 512, 1024, 1536]


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"z": 0}, "there is no tensor or memory operator 'z'"),
        ({"x": "rows"}, "layout must be one of row_major, tiled, stream"),
        ({"x": -1}, "base must be an int from 0"),
        ({"x": {"bass": 0}}, "unknown key 'bass'"),
        ({"x": None}, "expected a base, a layout or both"),
    ],
)
def test_wrong_places_are_named(addresses: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        prepare(scaled(), machine(), addresses=addresses)


def test_overlaps_are_refused() -> None:
    with pytest.raises(LoweringError, match="tensor 'y' from 100 on overlaps 'x'"):
        prepare(scaled(), machine(), addresses={"x": 0, "y": 100})
    with pytest.raises(LoweringError, match="overlaps"):
        prepare(scaled(), machine(hbm__addresses__bases=1024))


def test_a_tensor_beyond_the_dram_is_refused() -> None:
    small = machine(hbm__dram__rows=16, hbm__dram__channels=1)
    with pytest.raises(
        LoweringError, match=r"tensor 'x' of 524,288 bytes .* does not fit the DRAM"
    ):
        prepare(scaled(2048), small)


def test_other_memories_have_no_addresses() -> None:
    with pytest.raises(ArgError, match=r"hbm\.model 'published', which knows no addresses"):
        prepare(scaled(), "sda-1024", addresses={"x": 0})


def test_other_images_do_not_change() -> None:
    image = prepare(scaled(), "sda-1024").image()
    assert image.accesses == ()
