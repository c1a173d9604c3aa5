"""Records that are declared in less time are those that ``dataclass`` makes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from stepsim.frozen import frozen


@frozen
class Point:
    x: int
    y: float = 0.5
    names: tuple[str, ...] = ()
    note: str = field(default="", compare=False, repr=False)
    made: list[int] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", abs(self.x))


@frozen
class Nothing:
    pass


@frozen
class Own:
    x: int

    def __repr__(self) -> str:
        return "mine"


def _pair(declare: Callable[[type], type]) -> type:
    class Pair:
        left: Any
        right: int = 1

    Pair.__qualname__ = "Pair"
    return declare(Pair)


OURS, THEIRS = _pair(frozen), _pair(dataclass(frozen=True, slots=True))


def test_text_equality_and_digest_are_those_of_a_dataclass() -> None:
    for args in ([1], [(2, "a"), 3], ["b"]):
        assert repr(OURS(*args)) == repr(THEIRS(*args))
        assert hash(OURS(*args)) == hash(THEIRS(*args))
        for other in ([1], [(2, "a"), 3], ["b", 2]):
            assert (OURS(*args) == OURS(*other)) == (THEIRS(*args) == THEIRS(*other))
    assert OURS(1) != THEIRS(1)
    assert [each.name for each in fields(OURS)] == [each.name for each in fields(THEIRS)]
    assert OURS.__slots__ == THEIRS.__slots__
    assert OURS.__match_args__ == THEIRS.__match_args__


def test_a_list_that_contains_its_record_is_written() -> None:
    ours, theirs = OURS([]), THEIRS([])
    ours.left.append(ours)
    theirs.left.append(theirs)
    assert repr(ours) == repr(theirs) == "Pair(left=[...], right=1)"


@pytest.mark.parametrize("change", [lambda p: setattr(p, "x", 1), lambda p: delattr(p, "x")])
def test_fields_cannot_be_changed(change: Callable[[Point], None]) -> None:
    point = Point(-3)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        change(point)
    assert point.x == 3
    with pytest.raises(AttributeError):
        point.other = 1  # type: ignore[attr-defined]


def test_fields_that_are_not_compared() -> None:
    assert Point(1, note="a", made=[1]) == Point(1, note="b")
    assert len({Point(1, note="a"), Point(1, note="b")}) == 1
    assert repr(Point(1)) == "Point(x=1, y=0.5, names=(), made=[])"


def test_records_without_fields_are_equal() -> None:
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()) == "Nothing()"


def test_methods_of_the_class_are_kept() -> None:
    assert repr(Own(1)) == "mine"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), replace]
)
def test_copies_are_equal_and_frozen(again: Callable[[Point], Point]) -> None:
    copied = again(Point(1, 2.5, ("a",)))
    assert copied == Point(1, 2.5, ("a",))
    with pytest.raises(FrozenInstanceError):
        copied.x = 2  # type: ignore[misc]


def test_a_record_extends_another() -> None:
    @frozen
    class Further(Nothing):
        z: int = 0

        def __post_init__(self) -> None:
            assert self.z >= 0

    @frozen
    class Named(Own):
        name: str = ""

    assert Named(1, "a") == Named(1, "a") != Named(1, "b")
    assert Further(2).z == 2
    with pytest.raises(FrozenInstanceError):
        Named(1).x = 2  # type: ignore[misc]
