"""A case as a list of calls: each is noted before it is made, and a StepSimError refuses it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stepsim.errors import StepSimError
from tests.fuzz.driver import note
from tests.fuzz.nasty import nasty

__all__ = ["Refused", "Script"]

_SHOWN = 160


class Refused(Exception):
    """A call raised a StepSimError, as it may."""


def _check_message(error: StepSimError) -> None:
    message = str(error)
    note(f"# refused: {type(error).__name__}: {message[:_SHOWN]}")
    assert message.strip(), f"{type(error).__name__} without a message"


class Script:
    """Calls of one case.

    Attributes
    ----------
    dirt : share of the arguments that are replaced by nasty values.
    refusals : calls that were refused.
    """

    def __init__(self, rng: random.Random, dirt: float) -> None:
        self.rng = rng
        self.dirt = dirt
        self.refusals = 0
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []

    def maybe(self, valid: Any) -> Any:
        """The value, or a nasty one."""
        return nasty(self.rng) if self.rng.random() > 1 - self.dirt else valid

    def call(
        self, written: str, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        """Call a public function; some arguments are replaced.

        Raises
        ------
        Refused : it raised a StepSimError.
        """
        return self.exactly(
            written,
            function,
            *(self.maybe(value) for value in given),
            **{key: self.maybe(value) for key, value in options.items()},
        )

    def exactly(
        self, written: str, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        """As :meth:`call`, with these arguments."""
        parts = [self._text(value) for value in given]
        parts += [f"{key}={self._text(value)}" for key, value in options.items()]
        made = f"v{len(self._kept)}"
        note(f"{made} = {written}({', '.join(parts)})")
        try:
            value = function(*given, **options)
        except StepSimError as error:
            self.refusals += 1
            _check_message(error)
            raise Refused from error
        self._name(value, made)
        return value

    def _name(self, value: Any, name: str) -> None:
        self._kept.append(value)  # alive, so that no other object gets its id
        self._names[id(value)] = name
        if isinstance(value, (list, tuple)):
            for position, part in enumerate(value):
                self._names[id(part)] = f"{name}[{position}]"

    def _text(self, value: Any) -> str:
        if isinstance(value, (list, tuple)):
            inside = ", ".join(self._text(part) for part in value)
            return f"[{inside[:_SHOWN]}]" if isinstance(value, list) else f"({inside[:_SHOWN]},)"
        plain = value is None or isinstance(value, (bool, float, str))
        if not plain and type(value) is not int and id(value) in self._names:
            return self._names[id(value)]
        if type(value) is int and value.bit_length() > 256:
            return f"10**{value.bit_length() * 3 // 10}"
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
