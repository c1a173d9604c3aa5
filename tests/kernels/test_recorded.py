"""The engine that records: the same run, and a journal that accounts for every clock."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bench.networks import chain
from stepsim.errors import LoweringError
from stepsim.kernels.driver import Execution, execute
from stepsim.kernels.layout import UNIT_FIELDS, Cause, Status
from stepsim.kernels.recording import recorded as recorded_engine
from stepsim.kernels.recording.recorded import Journal
from stepsim.lowering import Image, Network, build_image
from stepsim.simulation.recording.record import Record, record_of
from tests.engine_backend import to_result
from tests.kernels.test_cases import CASES, EXAMPLES
from tests.oracle.build import NetBuilder
from tests.oracle.cases import load_case
from tests.oracle.compare import assert_same
from tests.oracle.example import Example
from tests.oracle.random_networks import (
    faulty_function_networks,
    faulty_networks,
    function_networks,
    random_networks,
    routed_networks,
    scan_networks,
)
from tests.property_profile import profile

NAMES = ("recorded", "as usual")

ANY_NETWORK = st.one_of(
    random_networks(max_slack=3), routed_networks(), function_networks(), scan_networks(),
    scan_networks(faulty=True), faulty_function_networks(), faulty_networks(),
)  # fmt: skip


def recorded(image: Image, piece: int = 1 << 12, **options: Any) -> tuple[Execution, Record]:
    run = execute(image, journal=Journal(paces=True, piece=piece), **options)
    record = record_of(run)
    assert record is not None
    return run, record


def assert_truthful(image: Image, run: Execution, record: Record) -> None:
    """Every clock is work and waits, and what is said to end a wait did."""
    units, channels, waits = run.units, run.channels, record.waits
    lengths = waits["end"] - waits["begin"]
    assert (lengths > 0).all()
    waited = np.bincount(waits["unit"], lengths, len(units)).astype(np.int64)
    assert (waited + units["busy"] == units["clk"]).all()
    chosen = waits["cause"] == Cause.SLOT
    found = np.bincount(waits["fifo"][chosen], lengths[chosen], len(channels)).astype(np.int64)
    assert (found == channels["wait_out"]).all()
    # Choices book a wait on the FIFO that they take from, and waits before the first firing and at
    # the end are booked on the unit: waits for input agree by unit.
    by_input = (Cause.TOKEN, Cause.CLOSURE, Cause.DECISION, Cause.MARK)
    chosen = np.isin(waits["cause"], by_input)
    found = np.bincount(waits["unit"][chosen], lengths[chosen], len(units)).astype(np.int64)
    booked = units["before"] + units["after"]
    np.add.at(booked, channels["consumer"], channels["wait_in"])
    assert (found == booked).all()
    of_memory = waits["cause"] == Cause.MEMORY
    chosen = of_memory | (waits["cause"] == Cause.PACKET)
    found = np.bincount(waits["unit"][chosen], lengths[chosen], len(units)).astype(np.int64)
    assert (found == units["memory"]).all()
    same = waits["unit"][1:] == waits["unit"][:-1]
    assert (waits["begin"][1:] >= waits["end"][:-1])[same].all()
    for wait in waits:
        fifo, end = int(wait["fifo"]), int(wait["end"])
        slots = run.slots[channels["start"][fifo] :][: channels["sent"][fifo]]
        match Cause(wait["cause"]):
            case Cause.TOKEN:
                assert channels["consumer"][fifo] == wait["unit"]
                assert end in slots["stamp"]
            case Cause.SLOT:
                assert channels["producer"][fifo] == wait["unit"]
                assert end in slots["rel"][: channels["removed"][fifo]]
            case Cause.DECISION:
                assert channels["consumer"][fifo] == wait["unit"]
                assert end in slots["pub"]
            case Cause.MARK:
                # The clock of the producer comes to the mark by a wait or by work.
                assert channels["consumer"][fifo] == wait["unit"]
                assert end - 1 <= units["clk"][channels["producer"][fifo]]
            case Cause.CLOSURE:
                assert channels["consumer"][fifo] == wait["unit"]
                assert channels["closed"][fifo] == 1
                slack = int(run.globals.slack)
                assert end == channels["hclose"][fifo] + 1 - slack
    assert len(record.accesses) == of_memory.sum()
    done = units["state"] != Status.WAIT_MEMORY
    requests = np.bincount(record.accesses["unit"], record.accesses["requests"], len(units)).astype(
        np.int64
    )
    assert (requests == units["requests"])[done].all()
    for late in record.late:
        fifo = int(late["fifo"])
        slots = run.slots[channels["start"][fifo] :][: channels["sent"][fifo]]
        assert late["unit"] == channels["producer"][fifo]
        assert late["stamp"] in slots["stamp"]
        assert late["stamp"] > late["clock"] + 1
    paces = np.zeros(len(units), np.int64)
    for rise in record.rises:
        assert rise["pace"] > paces[rise["unit"]]
        paces[rise["unit"]] = rise["pace"]
    assert (paces == units["h"]).all()


def check(network: Network, piece: int = 1 << 12, **options: Any) -> None:
    image = build_image(network)
    usual = execute(image, history=True, **options)
    run, record = recorded(image, piece, history=True, **options)
    assert run.state is usual.state
    for name, *_ in UNIT_FIELDS:
        assert (run.units[name] == usual.units[name]).all(), name
    assert (run.channels["sent"] == usual.channels["sent"]).all()
    assert_same(to_result(image, run), to_result(image, usual), accounts=True, names=NAMES)
    assert_truthful(image, run, record)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_random_cases(path: Any) -> None:
    check(load_case(path).network)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_example(example: Example) -> None:
    check(example.network)


@pytest.mark.slow
@profile(80)
@given(ANY_NETWORK)
def test_random_networks(network: Network) -> None:
    check(network)


@profile(30)
@given(ANY_NETWORK)
def test_small_pieces_of_memory_change_nothing(network: Network) -> None:
    image = build_image(network)
    whole, in_pieces = recorded(image)[1], recorded(image, piece=2)[1]
    assert (whole.waits == in_pieces.waits).all()
    assert (whole.rises == in_pieces.rises).all()


@profile(30)
@given(ANY_NETWORK)
def test_without_paces_the_waits_are_the_same(network: Network) -> None:
    image = build_image(network)
    with_paces = recorded(image)[1]
    without = record_of(execute(image, journal=Journal()))
    assert without is not None
    assert len(without.rises) == 0
    assert (with_paces.waits == without.waits).all()
    assert (with_paces.late == without.late).all()


@pytest.mark.parametrize("capacity", [None, 1000, 4096])
@pytest.mark.parametrize("keep", [False, True])
def test_a_unit_that_feeds_itself_fills_pieces_in_one_step(
    capacity: int | None, keep: bool
) -> None:
    b = NetBuilder(capacity=5000)
    tile = {"tile": [1, 1, 2, 0, 1], "level": 0}
    b.unit("source", "Src", [], ["x"], tokens=[tile] * 2000, n=0, tail=0)
    b.channel("y", capacity)
    b.unit("turn", "StaticReassemble", ["x", "y"], ["y"], rank=0, switch=[9, 9])
    image = build_image(b.network())
    assert image.channels["producer"][1] == image.channels["consumer"][1]
    whole, parts = (recorded(image, piece, history=keep)[1] for piece in (1 << 22, 2))
    assert len(parts.late) >= 1000
    assert (whole.late == parts.late).all()
    assert (whole.waits == parts.waits).all()
    assert (whole.rises == parts.rises).all()


def test_waits_of_more_than_31_bits() -> None:
    late = (5, 1 << 31, (1 << 31) + 7, 1 << 40, 1 << 44)
    b = NetBuilder(capacity=2)
    tokens = [{"tile": [1, 1, 2, 0, 1], "level": 0}] * len(late)
    b.unit("source", "At", [], ["x"], tokens=tokens, times=list(late))
    b.unit("end", "Hold", ["x"], [], n=3)
    check(b.network())
    record = recorded(build_image(b.network()))[1]
    end = record.waits[record.waits["unit"] == 1]
    assert end["end"].tolist() == [time + 1 for time in late]
    assert end["begin"].tolist() == [0, 9, (1 << 31) + 4, (1 << 31) + 11, (1 << 40) + 4]


def test_images_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = NetBuilder(capacity=2)
    b.unit("source", "Gen", [], ["x"], tokens=[])
    b.unit("end", "Consumer", ["x"], [])
    monkeypatch.setattr(recorded_engine, "MOST_PLACES", 1)
    with pytest.raises(LoweringError, match=r"run of 2 units and 1 FIFOs cannot be recorded"):
        recorded(build_image(b.network()))


def test_memory_used_again_is_of_no_other_run() -> None:
    """A record stays as it is while later runs are recorded, and says nothing of earlier ones."""
    images = [build_image(chain(100, tokens, 2, "Flatten")) for tokens in (400, 20)]
    wanted = [recorded(image, piece=2)[1].entries for image in images]
    assert len(wanted[0]) > len(wanted[1])
    held = []
    for i in (0, 1, 0, 0, 1, 1, 0, 1):
        record = recorded(images[i])[1]
        if len(held) % 2:
            held.append((i, record))  # whose pieces nobody else may have
        else:
            assert (record.entries == wanted[i]).all()
            held.append((i, None))
        del record
    for i, kept in held:
        if kept is not None:
            assert (kept.entries == wanted[i]).all()


def test_threads_share_no_memory() -> None:
    image = build_image(chain(50, 200, 2, "Flatten"))
    wanted = recorded(image, piece=2)[1].entries
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: recorded(image)[1].entries, range(40)))
    assert all((entries == wanted).all() for entries in found)


def test_few_entries_hold_little_memory() -> None:
    recorded(build_image(chain(100, 400, 2, "Flatten")))
    run, record = recorded(build_image(chain(4, 2, 2)))
    assert run.journal is not None
    assert len(run.journal._words) < 1000
    assert len(record.entries)


def test_memory_is_given_to_the_next_run() -> None:
    image = build_image(chain(100, 400, 2, "Flatten"))
    places = []
    for _ in range(3):
        run, record = recorded(image)
        assert run.journal is not None
        places.append(run.journal._words.ctypes.data)
        del run, record
    assert places[1] == places[2]
    assert len(Journal._spare) <= 4


def test_a_record_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    b = NetBuilder(capacity=2)
    tokens = [{"tile": [1, 1, 2, 0, 1], "level": 0}] * 40_000
    b.unit("source", "Gen", [], ["x"], tokens=tokens)
    b.unit("end", "Consumer", ["x"], [])
    monkeypatch.setattr(recorded_engine, "free_bytes", lambda: 1e6)
    monkeypatch.setattr(Journal, "_spare", deque())
    with pytest.raises(LoweringError, match=r"has [\d,]+ entries of 16 bytes so far, and 0.0 GiB"):
        recorded(build_image(b.network()))
