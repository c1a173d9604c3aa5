"""Calls of every callable with good arguments, or a nasty value in place of one, within limits."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stepsim.errors import StepSimError
from tests.boundary.arguments import arguments
from tests.boundary.instances import EXAMPLES, INSTANCES, Current
from tests.boundary.surface import Subject
from tests.fuzz.reading import bounded
from tests.graph.support import scratch

__all__ = ["Entry", "call", "problem_of", "with_entries"]

FINISHED = ("load_graph", "graph.wire", "Program.downtile", "Program.to_graph")
"""Of the room of the language, but for programs that are finished."""

_TAKEN = 1000
"""Of what a generator yields, this many are looked at."""

_SECONDS = 5.0
_LONGEST = 20_000
"""Characters of a message."""


@dataclass(frozen=True)
class Entry:
    """A value in place of the first entry of a good argument, or of its key."""

    value: Any
    key: bool = False

    def put_in(self, good: Any) -> Any:
        """A mapping with the value under its first key, or a list that begins with the value; with
        ``key``, a mapping with another first key."""
        if self.key:
            first, *more = good.items()
            return {self.value: first[1], **dict(more)}
        if isinstance(good, dict):
            return {**good, next(iter(good)): self.value}
        return type(good)([self.value, *good[1:]])


def with_entries(subject: Subject, *kinds: type) -> list[str]:
    """Parameters whose good arguments are of one of these types, and not empty."""
    with _setting(subject):
        given = arguments(subject)
    return [
        name
        for name, good in given.items()
        if name in subject.parameters
        and subject.parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL
        and type(good) in kinds
        and good
    ]


def problem_of(subject: Subject, name: str, value: Any) -> str:
    """What is wrong with a call with this argument: it raises other errors than ours, its error
    has no message, or it takes too much time or memory; empty if nothing is."""
    kind = subject.parameters[name].kind
    try:
        with bounded(_SECONDS):
            call(subject, **{name: (value,) if kind is inspect.Parameter.VAR_POSITIONAL else value})
    except StepSimError as error:
        text = str(error)
        return "" if text.strip() and len(text) <= _LONGEST else f"{len(text)} letters of message"
    except Warning:
        return ""  # the call would go on
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        with contextlib.suppress(Exception):
            return f"{type(error).__name__}: {error}"
        return type(error).__name__
    return ""


def call(subject: Subject, **instead: Any) -> Any:
    """Call it with good arguments, and with those ``instead`` of them."""
    with _setting(subject):
        thing = subject.thing
        if subject.owner is not None:
            owner, _, name = subject.path.rpartition(".")
            thing = getattr((EXAMPLES.get(subject.path) or INSTANCES[owner])(), name)
        given = arguments(subject)
        for name, value in instead.items():
            given[name] = value.put_in(given[name]) if isinstance(value, Entry) else value
        kinds = {name: one.kind for name, one in subject.parameters.items()}
        starred = inspect.Parameter.VAR_POSITIONAL in kinds.values()
        listed: list[Any] = []
        named = {name: value for name, value in given.items() if name not in kinds}
        for name, kind in kinds.items():
            if name not in given:
                continue
            if kind is inspect.Parameter.VAR_POSITIONAL:
                listed += given[name]
            elif kind is inspect.Parameter.POSITIONAL_ONLY or (
                starred and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            ):
                listed.append(given[name])
            else:
                named[name] = given[name]
        done = thing(*listed, **named)
        return list(itertools.islice(done, _TAKEN)) if inspect.isgenerator(done) else done


@contextlib.contextmanager
def _setting(subject: Subject) -> Iterator[None]:
    """An open program for what belongs to the language."""
    Current.renew()
    module = getattr(subject.thing, "__module__", "")
    language = module.startswith("stepsim.graph") and subject.path not in FINISHED
    with scratch(compute_bw=8) if language else contextlib.nullcontext():
        yield
