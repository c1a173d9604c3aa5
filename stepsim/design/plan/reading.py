"""Plain data of a plan, read with messages that have the line of what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from stepsim.errors import CompileError, StepSimError, did_you_mean
from stepsim.shown import shown
from stepsim.typed import check_fields

CURE = "`stepsim compile` writes such files."

_R = TypeVar("_R")


class Reader:
    """Plain data of a plan, and messages with the line of what is wrong."""

    def __init__(self, data: Any, lines: Mapping[str, int], where: str) -> None:
        self.data, self.lines, self.where = data, lines, where

    def refuse(self, path: str, text: str) -> Any:
        line = self.lines.get(path)
        while line is None and path:
            path = path.rpartition("[" if path.endswith("]") else ".")[0]
            line = self.lines.get(path)
        place = "" if line is None else f":{line}"
        raise CompileError(f"{self.where}{place}: {text}. {CURE}") from None

    def head(self, form: str, keys: Collection[str]) -> None:
        """Refuse what is of another form, or has other keys."""
        if not isinstance(self.data, Mapping):
            self.refuse("", "expected lines 'key: value'")
        if self.data.get("format") != form:
            self.refuse(
                "format", f"expected format: {form}, found {shown(self.data.get('format'))}"
            )
        for key in self.data:
            if key not in keys:
                self.refuse(key, f"unknown key '{key}'{did_you_mean(key, keys)}")

    def get(self, name: str, kind: type[_R]) -> _R:
        """A value at the top."""
        if name not in self.data:
            self.refuse("", f"the key '{name}' is missing")
        value = self.data[name]
        if not isinstance(value, kind):
            names: dict[Any, str] = {dict: "lines 'key: value'", list: "a list", str: "a text"}
            what = names[kind]
            self.refuse(name, f"{name}: expected {what}, found {type(value).__name__}")
        return value  # type: ignore[no-any-return]

    def attempt(self, path: str, make: Callable[[], _R]) -> _R:
        """What a step makes of a value; whatever it finds wrong, with the line."""
        try:
            return make()
        except StepSimError as error:
            return self.refuse(path, f"{path}: {error}".rstrip("."))  # type: ignore[no-any-return]
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
            return self.refuse(  # type: ignore[no-any-return]
                path, f"{path}: not in the form of a plan ({reason})"
            )

    def known(self, path: str, row: Any, keys: Collection[str]) -> None:
        """Refuse what is not a mapping of these keys."""
        if not isinstance(row, Mapping):
            self.refuse(path, f"{path}: expected lines 'key: value', found {shown(row)}")
        for key in row:
            if key not in keys:
                near = did_you_mean(key, keys)
                self.refuse(f"{path}.{key}", f"{path}: unknown key {shown(key)}{near}".rstrip("."))

    def build(self, path: str, make: type[_R], row: Any) -> _R:
        """What the fields of a class are given."""
        self.known(path, row, [one.name for one in fields(make)])  # type: ignore[arg-type]

        def built() -> _R:
            check_fields(make, row)
            return make(**row)

        return self.attempt(path, built)
