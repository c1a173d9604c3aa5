"""A short draw of every fuzzer, the same every time; with STEPSIM_DRAWS=new a long and new one."""

from __future__ import annotations

import os
import random
import secrets
import sys
import time

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.graph import wire
from stepsim.lowering import network_of
from stepsim.simulation import warm_up
from tests.fuzz import __main__ as command, driver
from tests.fuzz.driver import (
    Failure,
    Found,
    Tape,
    again,
    campaign,
    fuzzers,
    load,
    minimize,
    note,
    run_case,
)
from tests.fuzz.reading import outcome as read_outcome
from tests.fuzz.sandbox import sandbox
from tests.fuzz.supervisor import report
from tests.oracle.interpreter import TooLong, interpret
from tests.property_profile import THOROUGH

CASES = 20_000 if THOROUGH else 25
FEWER = {"plans": 12, "together": 10, "command_lines": 10}
"""Cases of those fuzzers that take longest, in the short draw."""
PARTS = 20 if THOROUGH else 1
"""Parts that test processes share."""


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(0 if THOROUGH else 600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", fuzzers())
def test_nothing_but_our_errors_leaves(name: str, part: int) -> None:
    warm_up()  # or the first case would compile, which takes longer than a case may
    first = secrets.randbits(40) if THOROUGH else 0
    cases = CASES if THOROUGH else FEWER.get(name, CASES)
    found = campaign(load(name), range(first, first + cases // PARTS))
    texts = [
        f"{again(name, seed)}\n{failure.notes}\n{failure.traceback}"
        for seed, failure in found.failures.values()
    ]
    assert not texts, f"{found.summary()}\n" + "\n".join(texts)
    assert found.counts["accepted"] > 0
    assert found.counts["refused"] > 0


def raising(rng: random.Random) -> str:
    """Fails when any of some draws is a seven."""
    drawn = [rng.randint(0, 9) for _ in range(rng.randint(1, 20))]
    note(f"drawn {drawn}")
    if 7 in drawn:
        {}[7]
    return "accepted"


def test_the_driver_tells_failures_apart_and_makes_them_short() -> None:
    found = campaign(raising, range(100))
    assert set(found.counts) == {"accepted", "failed", *found.failures}
    (key,) = found.failures
    assert key.startswith("KeyError at fuzz/test_fuzzers.py")
    seed, failure = found.failures[key]
    assert run_case(raising, seed) == failure
    short = minimize(raising, seed, key)
    assert short is not None
    assert short.key == key
    assert len(short.notes) < len(failure.notes)
    assert short.notes == "drawn [7]"


def test_campaigns_draw_machines_with_a_dram(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def supervised(*given: object) -> Found:
        said.append(os.environ["STEPSIM_DRAWS"])
        return Found()

    monkeypatch.setattr(command, "supervise", supervised)
    monkeypatch.setattr(sys, "argv", ["tests.fuzz", "together"])
    monkeypatch.setenv("STEPSIM_DRAWS", "few")
    assert command.main() == 0
    monkeypatch.delenv("STEPSIM_DRAWS")
    assert command.main() == 0
    assert said == ["few", "new"]
    assert again("api", 7) == "STEPSIM_DRAWS=new python -m tests.fuzz api --case 7"


def test_a_report_can_be_written_whatever_was_drawn() -> None:
    text = report("api", 7, Failure("KeyError: '\ud800'", "notes \ud800", "trace \ud800"))
    assert "--case 7" in text
    assert text.encode("utf-8").count(rb"\ud800") == 3


def test_the_driver_ends_cases_that_take_too_long() -> None:
    def endless(rng: random.Random) -> str:
        while True:
            time.sleep(0.01)

    outcome = run_case(endless, 0, seconds=0.1)
    assert isinstance(outcome, Failure)
    assert outcome.key.startswith("CaseTimeout")


def test_a_reading_without_end_is_told_from_a_refusal() -> None:
    def endless() -> None:
        while True:
            pass

    with pytest.raises(AssertionError, match=r"endless: no end after 0\.05 s"):
        read_outcome(endless, "loop", b"", seconds=0.05)


def test_the_driver_knows_a_foreign_outcome() -> None:
    def silent(rng: random.Random) -> str:
        return "done"

    assert isinstance(run_case(silent, 0), Failure)


def test_a_place_of_the_package_names_a_failure() -> None:
    def refuses(rng: random.Random) -> str:
        from stepsim.graph import spec

        return str(spec(0))

    outcome = run_case(refuses, 0)
    assert isinstance(outcome, Failure)
    assert outcome.key.startswith(f"{ArgError.__name__} at stepsim/graph/types.py")


def test_a_tape_plays_zeros_after_its_numbers() -> None:
    tape = Tape(numbers=[0.6])
    assert tape.choice("abc") == "c"
    assert tape.choice("abc") == "a"
    assert Tape().sample(range(5), 2) == Tape().sample(range(5), 2)


def test_seeds_draw_different_cases() -> None:
    drawn = {tuple(Tape(random.Random(seed)).choices(range(1000), k=3)) for seed in range(50)}
    assert len(drawn) == 50


def test_unknown_fuzzers_are_named() -> None:
    with pytest.raises(ValueError, match="api"):
        load("nothing")


def test_a_sandbox_is_fresh_every_time() -> None:
    with sandbox() as first:
        (first / "kv.npy").unlink()
    with sandbox() as second:
        assert (second / "kv.npy").exists()
    assert driver.fuzzers()


def test_a_dram_of_many_clocks_in_a_cycle_is_not_followed() -> None:
    """A run of a few cycles takes as many ticks of the interpreter as its memory has clocks."""
    slow = st.load_machine("hdl-dram", {"clock_ghz": 1e-9})
    with st.Program("slow") as program:
        st.linear_load(st.spec(4, 4), tile=(2, 2)).consume()
    with pytest.raises(TooLong, match="clocks of the DRAM"):
        interpret(network_of(wire(program), slow, None))
