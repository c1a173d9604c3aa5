"""Conditions: what they say, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as some

from stepsim.errors import ArgError
from stepsim.sweep.spec.filter_types import kinds_of
from stepsim.sweep.spec.filters import parse_condition
from tests.property_profile import profile

VALUES: dict[str, Any] = {
    "tile": "dynamic", "regions": 16, "machine.hbm.channels": 32, "cycles": 1e6, "none": None,
    "fused": True, "name": "layer", "model": {"layers": 2},
}  # fmt: skip
KINDS = {name: kinds_of([value]) for name, value in VALUES.items()} | {"tile": kinds_of([16, "a"])}


def holds(text: str) -> bool:
    return parse_condition(text).resolved(KINDS).holds(VALUES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("regions in (8, 16) and channels <= 32", True),
        ("not regions == 16 or cycles / regions < 1000", False),
        ("tile == 'dynamic'", True),
        ("tile <= 64", False),
        ("8 < regions <= 16", True),
        ("none < 3 or none > 3", False),
        ("none == None", True),
        ("regions not in [16]", False),
        ("-regions + 2 * 8 == 0", True),
        ("cycles / 0 > 1", False),
        # What is not known stays so.
        ("not none < 3", False),
        ("not tile < 5", False),
        ("none != 3", False),
        ("none != None", False),
        ("regions != None", True),
        ("none in (1, 2) or none not in (1, 2)", False),
        ("none in (1, None)", True),
        ("none < 3 or regions == 16", True),
        ("not (none < 3 and regions == 8)", True),
        ("1e308 * cycles > 0", False),
        ("tile in (8, 'dynamic') and tile != 16", True),
        ("fused and not (regions == 8) == fused or name == 'layer'", True),
        ("name < 'm'", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regions <", "cannot be read"),
        ("__import__('os')", "is not understood"),
        ("regions.__class__", "in which a text is quoted: unknown name"),
        ("[x for x in regions]", "is not understood"),
        ("(lambda: 1)()", "is not understood"),
        ("regions", "expected true or false"),
        ("regoins == 1", "did you mean 'regions'|unknown name 'regoins'"),
        ("tile * 2 == 4", r"'tile \* 2' calculates with tile, which is a number or a text"),
        ("regions in 16", "needs a list"),
        ("regions < '32'", r"'regions < '32'' compares .* regions is a number and '32' is a text"),
        ("regions == '16'", "different types"),
        ("regions != 'a'", "different types"),
        ("regions in (8, '16')", "different types"),
        ("tile == '16'", "different types"),
        ("tile < 'b'", "different types"),
        ("name == 5", "different types"),
        ("regions < True", "different types"),
        ("True + 1 == 2", "calculates with True, which is true or false"),
        ("fused + 1 == 2", "calculates with fused"),
        ("fused > False", "different types"),
        ("regions < None", "different types"),
        ("regions < (1, 2)", r"'\(1, 2\)' is a list, which is valid only to the right of in"),
        ("[1] < [2]", "is a list"),
        ("model == 'x'", "model is a mapping and 'x' is a text; numbers, texts and true or false "),
        ("regions in (1, [2])", "is a list"),
        ("not regions", "'regions' is a number, expected true or false"),
        ("cycles < 1" + "0" * 400, "is too large"),
        ("cycles < 1e999", "is too large"),
        ("cycles < " + "-" * 1500 + "1", "not understood|cannot be read"),
        ("regions" + ".a" * 900 + " < 1", "unknown name|cannot be read"),
        ("9 ** 9 ** 9 > 1", "is not understood"),
        ("not " * 400 + "regions", "not understood|cannot be read"),
        ("1 " * 2000, "at most 2,000"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(ArgError, match=message):
        holds(text)


@profile(100)
@given(some.text(max_size=40))
def test_any_text_is_a_condition_or_an_error_of_ours(text: str) -> None:
    with suppress(ArgError):
        holds(text)
