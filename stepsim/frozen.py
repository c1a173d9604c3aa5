"""Immutable records and named tuples that take little time to declare."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform, overload

__all__ = ["NamedTuple", "comparison", "frozen", "keyword_record", "record_repr"]

_C = TypeVar("_C", bound=type)


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(declared: _C) -> _C: ...


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, slots: bool = True, eq: bool = True) -> Callable[[_C], _C]: ...


def frozen(declared: Any = None, *, slots: bool = True, eq: bool = True) -> Any:
    """What ``dataclass(frozen=True, slots=True)`` makes, declared in a tenth of its time.

    A dataclass compiles six functions of its own, which takes half a millisecond. Here ``__init__``
    is compiled when it is first needed, and the others come ready-made. For classes in modules that
    every run imports, most of whose classes a run has no instance of.

    Parameters
    ----------
    slots : False gives instances a ``__dict__``, as what is computed once and kept needs.
    eq : False keeps comparison by identity.
    """
    if declared is None:
        return lambda chosen: _frozen(chosen, slots, eq)
    return _frozen(declared, slots, eq)


def _frozen(declared: Any, slots: bool, eq: bool) -> Any:
    made: Any = dataclass(init=False, eq=False, repr=False, slots=slots)(declared)
    methods: dict[str, Any] = {"__repr__": record_repr}
    methods |= {"__setattr__": _set_once if slots else _refuse, "__delattr__": _keep}
    if eq:
        methods |= comparison(made)
    for name, method in methods.items():
        if declared.__dict__.get(name) is None:  # a class with its own __eq__ has None as __hash__
            setattr(made, name, method)
    if "__init__" not in declared.__dict__:
        made.__init__ = _LateInit(made, frozen=True, slots=slots)
    return made


def comparison(made: Any) -> dict[str, Any]:
    """``__eq__`` and ``__hash__`` of a dataclass, ready-made."""
    key = _key(tuple(each.name for each in fields(made) if each.compare))

    def equal(self: Any, other: object) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def digest(self: Any) -> int:
        return hash(key(self))

    return {"__eq__": equal, "__hash__": digest}


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def keyword_record(declared: _C) -> _C:
    """What ``dataclass(eq=False, kw_only=True)`` makes, with an ``__init__`` that is compiled when
    it is first needed."""
    made: Any = dataclass(init=False, eq=False, repr=False, kw_only=True)(declared)
    made.__init__ = _LateInit(made, frozen=False, slots=False)
    if "__repr__" not in declared.__dict__:
        made.__repr__ = record_repr
    result: _C = made
    return result


class _LateInit:
    """The ``__init__`` of a class until it is first looked up: for an instance, or a signature."""

    def __init__(self, owner: Any, *, frozen: bool, slots: bool) -> None:
        self._owner = owner
        self._frozen = frozen
        self._slots = slots

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        mine = self._owner
        made = _init_of(mine, frozen=self._frozen, slots=self._slots)
        type.__setattr__(mine, "__init__", made)
        return made if instance is None else made.__get__(instance)


class _Factory:
    """In place of an argument: the field gets what its factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


def _init_of(owner: Any, *, frozen: bool, slots: bool) -> Any:
    """The ``__init__`` that a dataclass with these fields would have.

    Only this method is compiled: ``make_dataclass`` would make a whole class for it.
    """
    known: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    annotations: dict[str, Any] = {}
    plain, keyword, lines = ["self"], ["*"], list[str]()
    for each in fields(owner):
        name, value = each.name, each.name
        given = name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            given, value = f"{name}=_factory", f"_make_{name}()"
            if each.init:
                value += f" if {name} is _factory else {name}"
        elif each.default is not MISSING:
            known[f"_of_{name}"] = each.default
            given = f"{name}=_of_{name}"
            if not each.init:
                value = f"_of_{name}"
        if each.init:
            (keyword if each.kw_only else plain).append(given)
            annotations[name] = each.type
        elif value == name or (not slots and each.default_factory is MISSING):
            continue  # another method sets it, or it has the value of the class
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join([*plain, *(keyword if len(keyword) > 1 else [])])
    body = "\n  ".join(lines or ["pass"])
    source = (
        f"def make({', '.join(known)}):\n def __init__({arguments}):\n  {body}\n return __init__"
    )
    space: dict[str, Any] = {}
    # The names in the annotations are those of the module.
    exec(source, vars(sys.modules[owner.__module__]), space)
    made = space["make"](**known)
    made.__annotations__ = {**annotations, "return": None}
    made.__module__ = owner.__module__
    made.__qualname__ = f"{owner.__qualname__}.__init__"
    return made


class _OfFields(type):
    """Makes named tuples of classes, as ``typing.NamedTuple`` does, which compiles each annotation
    to look at it: half a millisecond for a tuple of twenty fields."""

    def __new__(cls, name: str, bases: tuple[Any, ...], members: dict[str, Any]) -> Any:
        annotations = members.get("__annotations__", {})
        names = list(annotations)
        given = [field for field in names if field in members]
        if given != names[len(names) - len(given) :]:
            raise TypeError(f"{name}: a field without a default follows {given[0]}, which has one")
        make: Any = namedtuple
        made = make(
            name,
            names,
            defaults=[members[field] for field in given],
            module=members["__module__"],
        )
        made.__annotations__ = made.__new__.__annotations__ = annotations
        for key, value in members.items():
            if key not in annotations and key not in ("__module__", "__annotations__"):
                setattr(made, key, value)
        return made


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = type.__new__(_OfFields, "NamedTuple", (), {})
    """What ``typing.NamedTuple`` makes, declared in less time."""


def _key(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """The compared values of an instance."""
    return attrgetter(*names) if names else lambda instance: ()


@recursive_repr()
def record_repr(self: Any) -> str:
    """What the ``__repr__`` of a dataclass returns, ready-made for classes with ``repr=False``."""
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _set_once(self: Any, name: str, value: object) -> None:
    # Copies of an instance with slots are filled from outside.
    if hasattr(self, name):
        _refuse(self, name, value)
    object.__setattr__(self, name, value)


def _refuse(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _keep(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
