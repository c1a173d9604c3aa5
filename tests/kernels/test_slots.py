"""What tokens leave in the slots of the arena: every field is written, every reference counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st

from stepsim.kernels import driver
from stepsim.kernels.driver import Execution, Working, execute
from stepsim.kernels.layout import TUPLE_RD, Payload, Status
from stepsim.lowering import Image, Network, build_image
from tests.engine_backend import TOKEN_FIELDS, payload_of
from tests.oracle.build import NetBuilder
from tests.oracle.example import Example, tile_tokens
from tests.oracle.extension_examples import EXTENSION_EXAMPLES
from tests.oracle.memory_examples import MEMORY_EXAMPLES
from tests.oracle.payloads import load_cycles, nbytes, retag, selector
from tests.oracle.random_networks import faulty_networks, random_networks, routed_networks
from tests.oracle.worked_examples import OPERATOR_EXAMPLES
from tests.property_profile import profile

_FOUL = {
    "stamp": 10**6, "pub": 10**6, "rel": 10**6, "hrel": 10**6, "value": 10**6, "rows": 3, "cols": 5,
    "off": 2, "level": 6, "bits": 7, "kind": Payload.BUFFER, "rd": 1,
}  # fmt: skip
_SOURCE_REFERENCES = 1 << 30
_WITH_BLOCK = (Payload.BUFFER, Payload.TUPLE)
_TIMES = ("clk", "h", "busy", "before", "after", "memory", "fires", "state", "flops", "requests",
          "traffic", "error", "detail0", "detail1")  # fmt: skip


@contextmanager
def foul_arena(room: int) -> Iterator[None]:
    """Slots that nobody has written yet hold nonsense; ``room`` slots are free at the start."""
    clean = driver.working
    made = []

    def fouled(image: Image, **limits: Any) -> Working:
        work = clean(image, spare=room, **limits)
        slots = work.state.slots
        assert len(slots) == len(image.slots) + room
        unused = slots.bits == 0
        unused &= (slots.kind != Payload.BUFFER) & (slots.off != _SOURCE_REFERENCES)
        assert unused[len(image.slots) :].all()
        for name, value in _FOUL.items():
            slots[name][unused] = value
        made.append(work)
        return work

    with patch.object(driver, "working", fouled):
        yield
    assert made


def sent(image: Image, run: Execution) -> dict[str, Any]:
    """The slots of all tokens of every channel, in a run that kept them."""
    return {
        name: run.slots[channel["start"] : channel["start"] + channel["sent"]]
        for name, channel in zip(image.channel_names, run.channels, strict=True)
    }


def check_fields(image: Image, run: Execution, slot: Any) -> None:
    """What a kind of payload does not need is 0: sizes and load cycles are read from any token.

    A block is long enough for its header and what it holds, and no longer.
    """
    kind, shape = Payload(slot["kind"]), [int(slot[k]) for k in ("rows", "cols", "off", "bits")]
    if kind is Payload.SELECTOR:
        assert shape == [1, image.selectors[slot["value"]][0], 1, 8]
    elif kind is Payload.TILE:
        assert slot["bits"] > 0
        assert 0 <= slot["off"] <= slot["rows"]
        mask = [*shape[:2], shape[3]] == [1, 1, 8] and slot["value"] == 1
        assert slot["bits"] == 64 or slot["value"] == 0 or mask
    else:
        assert shape == [0] * 4, kind
        assert slot["rd"] in ((0, 1, TUPLE_RD) if kind is Payload.TUPLE else (0,))
        if kind is Payload.ACK:
            assert slot["value"] == 0
        else:
            header = run.slots[slot["value"]]
            assert header["level"] == int(header["rows"]).bit_length()
            if kind is Payload.TUPLE:
                assert header["rows"] == 2
                check_costs(image, run, slot)


def check_costs(image: Image, run: Execution, slot: Any) -> None:
    """The header of a tuple has its bytes and its load cycles, as the members lie and on chip."""
    first, bandwidth = int(slot["value"]), int(run.globals["onchip"])
    members = {"tuple": [payload_of(image, run, run.slots[first + i]) for i in (1, 2)]}
    header = [int(run.slots[first][field]) for field in ("pub", "rel", "hrel")]
    assert header == [
        nbytes(members),
        load_cycles(members, bandwidth),
        load_cycles(retag(members, True), bandwidth),
    ]


def find_blocks(run: Execution, slot: Any, held: Counter[int], seen: set[int]) -> None:
    """The block of a token and those inside; a tuple refers to its members once, sent or kept."""
    block = int(slot["value"])
    if slot["kind"] not in _WITH_BLOCK or block in seen:
        return
    seen.add(block)
    if slot["kind"] == Payload.TUPLE:
        for member in run.slots[block + 1 : block + 3]:
            held[int(member["value"])] += int(member["kind"] in _WITH_BLOCK)
            find_blocks(run, member, held, seen)


def check_slots(network: Network) -> None:
    image = build_image(network)
    clean = execute(image, history=True)
    with foul_arena(64 * len(image.channels) + 1024):
        foul = execute(image, history=True)
    assert (foul.units == clean.units).all()
    assert (foul.channels == clean.channels).all()
    before, after = sent(image, clean), sent(image, foul)
    left, held, blocks = Counter[int](), Counter[int](), set[int]()
    for channel, name in zip(foul.channels, image.channel_names, strict=True):
        taken = channel["removed"]
        assert (before[name][:taken] == after[name][:taken]).all(), name
        for field in TOKEN_FIELDS:
            assert (before[name][field] == after[name][field]).all(), (name, field)
        for slot in after[name]:
            check_fields(image, foul, slot)
            find_blocks(foul, slot, held, blocks)
        for slot in after[name][taken:]:
            left[int(slot["value"])] += int(slot["kind"] in _WITH_BLOCK)
    if (foul.units["state"] == Status.DONE).all():
        for block in blocks:
            own = int(image.slots["off"][block]) if block < len(image.slots) else 0
            own = own if own == _SOURCE_REFERENCES else 0
            assert foul.slots[block]["off"] == own + left[block] + held[block]
    with foul_arena(0):
        tight = execute(image)
    for field in _TIMES:
        assert (tight.units[field] == clean.units[field]).all(), field
    for field in ("sent", "removed", "wait_in", "wait_out"):
        assert (tight.channels[field] == clean.channels[field]).all(), field


@profile(40)
@given(st.one_of(random_networks(max_slack=1), routed_networks(), faulty_networks()))
def test_nothing_depends_on_what_lay_in_the_arena(network: Network) -> None:
    check_slots(network)


@pytest.mark.parametrize(
    "example",
    OPERATOR_EXAMPLES + MEMORY_EXAMPLES + EXTENSION_EXAMPLES,
    ids=lambda example: example.name,
)
def test_the_same_for_worked_examples(example: Example) -> None:
    check_slots(example.network)


def test_the_same_for_buffers_that_are_routed() -> None:
    """Nothing is stored of a buffer, whatever the router writes back."""
    b = NetBuilder(capacity=2)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([4, 16, 2, 0], [0, 0, 1] * 4))
    b.unit("collect", "Bufferize", ["a"], ["b"], rank=1)
    for name in "st":
        tokens = [{**selector([i % 2], 2), "level": 0} for i in range(4)]
        b.unit(f"choice {name}", "Gen", [], [name], tokens=tokens)
    params = {"rank": 0, "switch": [1, 1], "wb": True}
    b.unit("split", "Partition", ["b", "s"], ["x0", "x1"], **params)
    b.unit("join", "Reassemble", ["x0", "x1", "t"], ["y"], **params)
    b.unit("sink", "Consumer", ["y"], [])
    check_slots(b.network())
