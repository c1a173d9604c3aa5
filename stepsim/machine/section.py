"""Sections of a description: declared once, with the JSON Schema that checks their values.

This is the small part of a validation library that machines need. Importing pydantic takes longer
than a run on a small machine. msgspec is quicker, but it stops at the first problem, does not show
the number that is out of range, and does not check instances that are made in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import cleandoc
from typing import Any, TypeVar

from stepsim.arguments import shown
from stepsim.errors import MachineError
from stepsim.frozen import comparison, record_repr
from stepsim.wording import STATED, describe_problems

Schema = dict[str, Any]
Problem = dict[str, Any]
_S = TypeVar("_S", bound="Section")


def setting(kind: Schema | type[Section], about: str, **default: Any) -> Any:
    """Declare a value of a section.

    Parameters
    ----------
    kind : its JSON Schema, or a section.
    about : its description, for messages and the schema.
    default : ``default`` or ``default_factory``, for an optional value.
    """
    return field(metadata={"kind": kind, "about": about, "optional": False}, **default)


def optional(
    kind: Schema | type[Section], about: str, *, named: Callable[[str], Section] | None = None
) -> Any:
    """Declare a value or section that may be absent: it is then None and not part of `to_dict`.

    A later declaration thus changes nothing, not even a digest, where it is not used. A section can
    also be given by a name, which ``named`` turns into the section or refuses with a MachineError.
    """
    given = kind if isinstance(kind, type) else nullable(kind)
    declared = {"kind": given, "about": about, "optional": True, "named": named}
    return field(metadata=declared, default=None)


def integer(least: int, most: int) -> Schema:
    """An integer of a range; true, false and 1.0 are rejected."""
    return {"maximum": most, "minimum": least, "type": "integer"}


def number(least: float, *, above: bool = False) -> Schema:
    """A finite number of at least ``least``, or above it; true and false are rejected."""
    return {"exclusiveMinimum" if above else "minimum": least, "type": "number"}


def text(*, empty: bool = False) -> Schema:
    """A text."""
    return {"type": "string"} if empty else {"minLength": 1, "type": "string"}


def choice(*words: str) -> Schema:
    """One of these texts."""
    return {"enum": list(words), "type": "string"}


def nullable(kind: Schema) -> Schema:
    """A value or None."""
    return {"anyOf": [kind, {"type": "null"}]}


def per_dimension(kind: Schema) -> Schema:
    """A value, or a list of values with one for each dimension, which becomes a tuple."""
    return {"anyOf": [kind, {"items": kind, "minItems": 1, "type": "array"}]}


class Section:
    """Base class of sections, which are dataclasses; every value of an instance is checked.

    Raises MachineError for invalid values, or when an instance is changed.
    """

    def __init__(self, *given: Any, **values: Any) -> None:
        name = type(self).__name__
        if given:
            raise MachineError(
                f"{name}: expected keywords ({', '.join(keys(type(self)))}), found "
                f"{shown(given[0])} without one"
            )
        found: list[Problem] = []
        checked = check(type(self), values, (), found)
        if found:
            problems = describe_problems(found, json_schema(type(self)))
            raise MachineError(f"{name}: " + "; ".join(problems))
        vars(self).update(checked)

    def __setattr__(self, name: str, value: Any) -> None:
        raise MachineError(
            f"{type(self).__name__}: {shown(name)} cannot be set: a machine is immutable; make "
            "another with load_machine(machine, overrides={...})"
        )

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)  # refused as well

    def to_dict(self) -> dict[str, Any]:
        """Every value, defaults included, as plain dicts; absent values are left out."""
        values: dict[str, Any] = {}
        derived = type(self).without_effect(vars(self))
        for each in _declared(type(self)):
            if each.name in derived:
                continue
            value = getattr(self, each.name)
            if value is not None or not _may_be_absent(each):
                values[each.name] = _written(value)
        return values

    @classmethod
    def completed(cls, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The values, completed with derived ones; sections override this."""
        return values

    @classmethod
    def without_effect(cls, values: Mapping[Any, Any]) -> Mapping[str, str]:
        """Names that must not be given with the other values, each with the reason."""
        return {}

    @classmethod
    def derived(cls, checked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values that follow from the others, among them those of names in `without_effect`."""
        return {}

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Problems between values that are each valid, as path and sentence: of the given values,
        and of all with their defaults. Sections override this."""
        yield from ()


def section(declared: type[_S]) -> type[_S]:
    """Make a section of a class: its annotations declare the values."""
    made: Any = dataclass(init=False, eq=False, repr=False)(declared)
    for name, method in (comparison(made) | {"__repr__": record_repr}).items():
        setattr(made, name, method)
    result: type[_S] = made
    return result


def keys(section: type[Section]) -> list[str]:
    """Names of the values of a section."""
    return [each.name for each in _declared(section)]


def check(
    section: type[Section], values: Mapping[Any, Any], where: tuple[Any, ...], found: list[Problem]
) -> dict[str, Any]:
    """The values of a section, with its defaults; adds problems to ``found``.

    Problems have the form of pydantic's: type, loc, input and msg.
    """
    before = len(found)
    values = section.completed(values)
    checked: dict[str, Any] = {}
    without_effect = section.without_effect(values)
    for each in _declared(section):
        if each.name in without_effect:
            if values.get(each.name) is not None:
                reason = without_effect[each.name]
                found.append(_problem(STATED, (*where, each.name), values[each.name], reason))
            checked[each.name] = None
        elif each.name in values and values[each.name] is None and _may_be_absent(each):
            checked[each.name] = None
        elif each.name in values:
            checked[each.name] = _checked(each, values[each.name], (*where, each.name), found)
        elif each.default is not MISSING:
            checked[each.name] = each.default
        elif each.default_factory is not MISSING:
            checked[each.name] = each.default_factory()
        else:
            found.append(_problem("missing", (*where, each.name), dict(values)))
    for key, value in values.items():
        if not isinstance(key, str):
            place = key if isinstance(key, int) else str(key)
            found.append(_problem("invalid_key", (*where, place), key, "Keys should be strings"))
        elif key not in checked and not any(key == each.name for each in _declared(section)):
            found.append(_problem("extra_forbidden", (*where, key), value))
    if len(found) == before:
        checked.update(section.derived(checked))
        for path, sentence in section.contradictions(values, checked):
            value = values.get(path)
            found.append(_problem(STATED, (*where, *path.split(".")), value, sentence))
    return checked


def by_name(section: type[Section], key: str, name: str) -> dict[str, Any] | None:
    """Values of a section inside a section that is given by its name; None if it cannot be.

    Raises
    ------
    MachineError : nothing has this name.
    """
    named = next(each.metadata.get("named") for each in _declared(section) if each.name == key)
    return None if named is None else named(name).to_dict()


def made(section: type[_S], checked: dict[str, Any]) -> _S:
    """An instance of values that `check` returned without a problem."""
    instance = object.__new__(section)
    vars(instance).update(checked)
    return instance


def json_schema(section: type[Section]) -> Schema:
    """JSON Schema of a section, with those of its sections as definitions."""
    inner = {each.__name__: _object(each) for each in _within(section)}
    return ({"$defs": dict(sorted(inner.items()))} if inner else {}) | _object(section)


def _within(section: type[Section]) -> Iterator[type[Section]]:
    """The sections of a section, recursively."""
    for each in _declared(section):
        kind = each.metadata["kind"]
        if isinstance(kind, type):
            yield kind
            yield from _within(kind)


def _object(section: type[Section]) -> Schema:
    required = [
        each.name
        for each in _declared(section)
        if each.default is MISSING and each.default_factory is MISSING
    ]
    return {
        "additionalProperties": False,
        "description": _docstring(section),
        "properties": {each.name: _property(each) for each in _declared(section)},
        **({"required": required} if required else {}),
        "title": section.__name__,
        "type": "object",
    }


def _property(each: Field[Any]) -> Schema:
    kind = each.metadata["kind"]
    default: Schema = {}
    if each.default is not MISSING:
        default = {"default": each.default}
    elif each.default_factory is not MISSING:
        default = {"default": each.default_factory().to_dict()}
    about = {"description": each.metadata["about"]}
    if isinstance(kind, type):
        shape: Schema = {"$ref": f"#/$defs/{kind.__name__}"}
        if _may_be_absent(each):
            name = [text()] if each.metadata.get("named") is not None else []
            shape = {"anyOf": [shape, *name, {"type": "null"}]}
    else:
        shape = {**kind, "title": each.name.replace("_", " ").title()}
    return dict(sorted({**shape, **default, **about}.items()))


def _may_be_absent(each: Field[Any]) -> bool:
    return bool(each.metadata["optional"])


def _docstring(section: type[Section]) -> str:
    return cleandoc(section.__doc__ or "")


def _declared(section: type[Section]) -> tuple[Field[Any], ...]:
    return fields(section)  # type: ignore[arg-type]


def _checked(each: Field[Any], value: Any, where: tuple[Any, ...], found: list[Problem]) -> Any:
    kind: Schema | type[Section] = each.metadata["kind"]
    named = each.metadata.get("named")
    if named is not None and isinstance(value, str) and value:
        try:
            return named(value)
        except MachineError as error:
            found.append(_problem(STATED, where, value, str(error)))
            return None
    if isinstance(kind, type):
        if isinstance(value, kind):
            return value
        if isinstance(value, Mapping):
            before = len(found)
            # As one of several kinds it is named in the place of a problem, as pydantic does.
            inner = where if named is None else (*where, kind.__name__)
            values = check(kind, value, inner, found)
            return made(kind, values) if len(found) == before else None
        found.append(_problem("wrong_type", where, value))
        return None
    for arm in kind.get("anyOf", (kind,)):
        if _fits(arm, value):
            return _as(arm, value)
    found.append(_problem("wrong_value", where, value))
    return None


def _as(kind: Schema, value: Any) -> Any:
    """A value that fits, as exactly the type of its kind."""
    if kind["type"] == "array":
        return tuple(_as(kind["items"], each) for each in value)
    return float(value) if kind["type"] == "number" else _plain(value)


def _written(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value


def _fits(kind: Schema, value: Any) -> bool:
    if kind["type"] == "null":
        return value is None
    if kind["type"] == "array":
        listed = isinstance(value, list | tuple) and len(value) >= kind["minItems"]
        return listed and all(_fits(kind["items"], each) for each in value)
    if kind["type"] == "number":
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or value > sys.float_info.max:
            return False
        above = kind.get("exclusiveMinimum")
        return bool(value >= kind["minimum"] if above is None else value > above)
    if kind["type"] == "integer":
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and kind["minimum"] <= value <= kind["maximum"]
    return (
        isinstance(value, str)
        and len(value) >= kind.get("minLength", 0)
        and value in kind.get("enum", (value,))
        and _is_text(value)
    )


def _is_text(value: str) -> bool:
    """Whether a text can be encoded: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """The value as exactly an int or str, not a subclass."""
    if isinstance(value, int):
        return int(value)
    return str.__str__(value) if isinstance(value, str) else value


def _problem(kind: str, where: tuple[Any, ...], value: Any, message: str = "") -> Problem:
    return {"type": kind, "loc": where, "input": value, "msg": message}
