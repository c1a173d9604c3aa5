"""What a surface no longer keeps of an earlier one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.promises.surface import Surface


class Break(NamedTuple):
    """A promise that is no longer kept.

    Attributes
    ----------
    kind : key of the surface.
    name : what it was promised of.
    words : what an announcement has to name.
    what : what has changed, in words.
    """

    kind: str
    name: str
    words: tuple[str, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}: {self.what}"


def breaks(before: Surface, now: Surface) -> list[Break]:
    """All promises of ``before`` that ``now`` does not keep; what was added is not listed."""
    return [
        one
        for kind, promised in before.items()
        for name, value in promised.items()
        for one in _broken(kind, name, str(value), now.get(kind, {}).get(name))
    ]


def _broken(kind: str, name: str, before: str, now: Any) -> Iterator[Break]:
    word = name.rpartition(".")[2] if kind == "names" else name.removeprefix("stepsim ")
    if now is None:
        yield Break(kind, name, (word,), "is gone")
    elif kind in _LISTS:
        for lost in before.split():
            if lost not in str(now).split():
                yield Break(kind, name, (lost,), f"{lost} is gone")
    elif before == now:
        return
    elif kind == "names":
        yield from _of_name(name, word, before, str(now))
    else:
        yield Break(kind, name, (word,), f"was {before}, and is {now}")


_LISTS = (
    "attributes",
    "options",
    "parameters of workloads",
    "keys of files",
    "presets",
    "groups of plugins",
)
"""Kinds of which a promise is a list of words, each kept by itself."""


class _Parameter(NamedTuple):
    place: int | None
    """Its number where it can be given by position."""
    by_name: bool
    default: str | None


def _of_name(name: str, word: str, before: str, now: str) -> Iterator[Break]:
    old_form, new_form = before.partition("(")[0], now.partition("(")[0]
    if old_form != new_form:
        yield Break("names", name, (word,), f"was a {old_form.strip()}, is a {new_form.strip()}")
        return
    old, new = _parameters(before), _parameters(now)
    for one, was in old.items():
        has = new.get(one)
        if has is None:
            yield Break("names", name, (word, one), f"parameter {one} is gone")
        elif was.default is not None and has.default is None:
            yield Break("names", name, (word, one), f"parameter {one} has no default any more")
        elif was.default != has.default and was.default is not None:
            yield Break(
                "names", name, (word, one),
                f"the default of {one} was {was.default}, and is {has.default}",
            )  # fmt: skip
        elif was.place is not None and was.place != has.place:
            yield Break("names", name, (word, one), f"parameter {one} has another place")
        elif was.by_name and not has.by_name:
            yield Break("names", name, (word, one), f"parameter {one} cannot be named any more")
    for one, has in new.items():
        if one not in old and has.default is None and not one.startswith("*"):
            yield Break("names", name, (word, one), f"parameter {one} is new, without a default")


def _parameters(form: str) -> dict[str, _Parameter]:
    """The parameters of a name, those that take any number with their stars."""
    _, bracket, text = form.partition("(")
    if not bracket:
        return {}
    parsed = ast.parse(f"def f({text}: ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    given = parsed.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(
        map(ast.unparse, given.defaults)
    )
    found = {
        one.arg: _Parameter(place, place >= len(given.posonlyargs), default)
        for place, (one, default) in enumerate(zip(positional, defaults, strict=True))
    }
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found[one.arg] = _Parameter(None, True, None if value is None else ast.unparse(value))
    for star, many in (("*", given.vararg), ("**", given.kwarg)):
        if many is not None:
            found[star + many.arg] = _Parameter(None, False, None)
    return found
