"""Immutable records that take little time to declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, make_dataclass
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["comparison", "frozen", "keyword_record", "record_repr"]

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
        members = {"__doc__": "", "__module__": mine.__module__}
        if hasattr(mine, "__post_init__"):
            members["__post_init__"] = mine.__post_init__
        # The fields are those of the class, with their defaults.
        declared = [(each.name, each.type, each) for each in fields(mine)]
        like: Any = make_dataclass(
            mine.__name__,
            declared,
            namespace=members,
            repr=False,
            eq=False,
            frozen=self._frozen,
            slots=self._slots,
        )
        made = like.__init__
        made.__qualname__ = f"{mine.__qualname__}.__init__"
        type.__setattr__(mine, "__init__", made)
        return made if instance is None else made.__get__(instance)


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
