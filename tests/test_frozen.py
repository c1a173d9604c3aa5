"""Records that are declared in less time are those that ``dataclass`` makes."""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from functools import cached_property
from inspect import signature
from typing import Any, get_type_hints

import pytest

from stepsim.frozen import NamedTuple, frozen, keyword_record


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


def _pair(declare: Callable[[type], Any]) -> Any:
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


@frozen(slots=False, eq=False)
class Open:
    x: int
    tables: list[int] = field(default_factory=list)

    @cached_property
    def doubled(self) -> int:
        return 2 * self.x


def test_a_record_may_keep_what_it_computed_and_be_compared_by_identity() -> None:
    opened = Open(2)
    assert opened.doubled == opened.doubled == 4
    assert opened != Open(2)
    assert hash(opened) != hash(Open(2))
    assert Open(2).tables is not opened.tables
    with pytest.raises(FrozenInstanceError, match="'y'"):
        opened.y = 1  # type: ignore[attr-defined]


def test_a_signature_is_known_before_the_first_instance() -> None:
    @frozen
    class Unused:
        x: int
        y: tuple[int, ...] = ()

    @frozen
    class Other:
        y: int = 0

    assert str(signature(Unused)) == "(x: 'int', y: 'tuple[int, ...]' = ()) -> None"
    assert get_type_hints(Other.__init__) == {"y": int, "return": type(None)}
    assert Other.__init__.__qualname__.endswith("Other.__init__")


def test_a_class_of_its_own_below_a_record_is_made_first() -> None:
    @frozen
    class Base:
        x: int = 3

    class Below(Base):
        pass

    assert (Below().x, Base(4).x, Below(x=5).x) == (3, 4, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Base(z=1)  # type: ignore[call-arg]


def test_records_with_keywords() -> None:
    @keyword_record
    class Node:
        label: str | None = None
        size: int
        id: int = field(default=-1, init=False)

    @keyword_record
    class Further(Node):
        depth: int

        def __post_init__(self) -> None:
            self.id = self.depth

    node = Further(size=1, depth=2)
    node.label = "a"
    assert repr(node).endswith("Further(label='a', size=1, id=2, depth=2)")
    assert node != Further(size=1, depth=2, label="a")
    assert str(signature(Node)) == "(*, label: 'str | None' = None, size: 'int') -> None"
    with pytest.raises(TypeError):
        Node(1)  # type: ignore[call-arg, arg-type]


def test_named_tuples_are_those_of_typing() -> None:
    ours, theirs = _tuples(NamedTuple), _tuples(typing.NamedTuple)
    for args in ((1,), (1, 2), ("a", None)):
        assert ours(*args) == theirs(*args)
        assert repr(ours(*args)) == repr(theirs(*args))
        assert ours(*args)._asdict() == theirs(*args)._asdict()
        assert ours(*args).total == theirs(*args).total
    assert (ours._fields, ours._field_defaults) == (theirs._fields, theirs._field_defaults)
    assert get_type_hints(ours) == get_type_hints(theirs) == {"left": Any, "right": int}
    assert (ours.__doc__, ours.__module__) == (theirs.__doc__, theirs.__module__)
    assert issubclass(ours, tuple)
    assert pickle.loads(pickle.dumps(Kept(1))) == Kept(1)


class Kept(NamedTuple):
    x: int


def _tuples(base: Any) -> Any:
    class Pair(base):
        """Two."""

        left: Any
        right: int = 1

        @property
        def total(self) -> str:
            return f"{self.left} {self.right}"

    return Pair


def test_fields_of_named_tuples_without_a_default_come_first() -> None:
    with pytest.raises(TypeError, match="a field without a default follows left, which has one"):

        class Pair(NamedTuple):
            left: int = 1
            right: int  # type: ignore[misc]
