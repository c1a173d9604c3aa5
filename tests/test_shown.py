"""Whatever is wrong can be shown in the message about it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stepsim.shown import shown


class Mute:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("x", "'x'"),
        (10**5000, "a number of 16610 bits"),
        ([10**5000], "a list that cannot be printed"),
        (nested(100_000), "a list that is nested too deep to be printed"),
        ({"x": nested(100_000)}, "a dict that is nested too deep to be printed"),
        (Mute(), "a Mute that cannot be printed"),
        ("\ud800", "'\\ud800'"),
    ],
    ids=range(8),
)
def test_every_value_is_shown(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.slow
def test_long_values_are_cut_without_being_written() -> None:
    begin = time.process_time()
    for value in ([1] * 20_000_000, "a" * 100_000_000, dict.fromkeys(range(1_000_000))):
        assert len(shown(value)) == 203
    assert time.process_time() - begin < 2


def test_another_form_is_cut_too() -> None:
    assert shown("bf16", str) == "bf16"
    assert shown("a" * 300, str) == "a" * 200 + "..."
