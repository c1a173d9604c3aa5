"""Arguments of other types than the annotations say are refused, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.typed import typed, typed_but, typed_class

if TYPE_CHECKING:
    from stepsim.graph import Program


@typed
def call(
    whole: int = 1,
    number: float = 1.0,
    text: str = "",
    switch: bool = False,
    path: str | Path = "x",
    many: Sequence[int] = (),
    pair: tuple[int, str] = (1, ""),
    table: Mapping[str, float] | None = None,
    names: Iterable[str] = (),
    function: Callable[[], None] = print,
    word: Literal["a", "b"] = "a",
    program: Program | None = None,
    anything: Any = None,
    *rest: int,
    missing: int = None,  # type: ignore[assignment]  # noqa: RUF013
) -> tuple[Any, ...]:
    return whole, number, text, rest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("whole", np.int8(3)),
        ("number", 3),
        ("number", Fraction(1, 2)),
        ("number", float("nan")),
        ("switch", np.bool_(True)),
        ("path", Path("x")),
        ("many", [1, 2]),
        ("many", np.arange(3)),
        ("pair", [1, "x"]),
        ("table", {"x": 1}),
        ("names", iter(["x"])),
        ("function", len),
        ("word", "another, which the function refuses"),
        ("program", None),
        ("anything", object()),
        ("missing", None),
    ],
)
def test_what_fits_is_passed_on(name: str, value: Any) -> None:
    call(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("whole", True, "whole must be an int, found True"),
        ("whole", 2.0, "whole must be an int, found 2.0"),
        ("whole", 1 << 300, "whole must be an int, found a number of 301 bits"),
        ("number", "1", "number must be a number, found '1'"),
        ("text", b"x", "text must be a string, found b'x'"),
        ("switch", 1, "switch must be True or False, found 1"),
        ("path", 3, "path must be a string or a path, found 3"),
        ("many", [1, [2]], "many must be a list of ints, found [1, [2]]"),
        ("many", {}, "many must be a list of ints, found {}"),
        ("pair", (1, 2), "pair must be a tuple of an int, a string, found (1, 2)"),
        ("table", {"x": "1"}, "table must be a mapping to numbers or None, found {'x': '1'}"),
        ("names", "x", "names must be a list of strings, found 'x'"),
        ("function", 3, "function must be a function, found 3"),
        ("word", 3, "word must be 'a' or 'b', found 3"),
        ("program", 3, "program must be a Program or None, found 3"),
        ("missing", "x", "missing must be an int or None, found 'x'"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: Any, text: str) -> None:
    with pytest.raises(ArgError) as caught:
        call(**{name: value})
    assert str(caught.value) == f"call: {text}"


def test_arguments_by_position_are_checked() -> None:
    given: list[Any] = [1, 1.0, "", False, "x", (), (1, ""), None, (), print, "a", None, None, "x"]
    with pytest.raises(ArgError, match="call: each of them must be an int, found 'x'"):
        call(*given)
    with pytest.raises(ArgError, match="call: text must be a string, found 3"):
        call(*given[:2], 3)  # type: ignore[arg-type]


def test_some_arguments_can_be_left_to_the_function() -> None:
    @typed_but("first")
    def function(first: int, second: int) -> int:
        return second

    wrong: Any = "x"
    assert function(wrong, 2) == 2
    with pytest.raises(ArgError, match="second must be an int"):
        function(1, wrong)


def test_constructors_and_methods_of_a_class_are_checked() -> None:
    @typed_class
    class Own:
        def __init__(self, size: int) -> None:
            self.size = size

        def grown(self, by: int) -> int:
            return self.size + by

    wrong: Any = "x"
    assert Own(1).grown(2) == 3
    with pytest.raises(ArgError, match="Own: size must be an int, found 'x'"):
        Own(wrong)
    with pytest.raises(ArgError, match="grown: by must be an int, found 'x'"):
        Own(1).grown(wrong)
