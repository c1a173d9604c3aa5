"""Whatever users pass to whatever they can call, nothing but a StepSimError comes back."""

from __future__ import annotations

import inspect
import random
import sys
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.boundary.calls import Entry, call, problem_of, with_entries
from tests.boundary.surface import INNER, RESULTS, Subject, subjects
from tests.boundary.values import VALUES
from tests.property_profile import THOROUGH
from tests.samples import sampled

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of memory and time are those of Linux"
)

_SHARE = 1 if THOROUGH else 10
"""Of all calls, `make slow` draws one of so many in every room; `make thorough` makes them all."""

ROOMS: dict[str, list[Subject]] = defaultdict(list)
for _subject in subjects():
    if _subject.parameters:
        ROOMS[_subject.path.partition(".")[0] if "." in _subject.path else "st"].append(_subject)


@pytest.fixture(autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for what is written, which stays for the examples, and no network."""
    folder = Path(tmp_path_factory.getbasetemp()) / "boundary"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STEPSIM_DATA_DIR", str(folder))

    def unplugged(*given: object, **options: object) -> None:
        raise requests.ConnectionError("no network here")

    monkeypatch.setattr(requests.Session, "send", unplugged)


def _calls(room: str) -> list[tuple[Subject, str, str]]:
    """Every argument of every callable with every value."""
    return [
        (subject, name, title)
        for subject in ROOMS[room]
        for name, one in subject.parameters.items()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
        for title in VALUES
    ]


def _problems(calls: list[tuple[Subject, str, str]]) -> list[str]:
    found = []
    for subject, name, title in calls:
        problem = problem_of(subject, name, VALUES[title]())
        if problem:
            found.append(f"st.{subject.path}({name}={title}): {problem}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_every_example_works(room: str) -> None:
    for subject in ROOMS[room]:
        call(subject)


@pytest.mark.fuzz
@pytest.mark.timeout(0 if THOROUGH else 300)
@pytest.mark.parametrize("room", sampled(ROOMS))
def test_calls_of_a_room(room: str) -> None:
    for subject in ROOMS[room]:
        call(subject)  # Modules are imported, and memory is reserved, outside of the limits.
    calls = _calls(room)
    calls = random.Random(room).sample(calls, len(calls) // _SHARE)
    problems = _problems(calls)
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_entries_of_mappings_and_lists(room: str) -> None:
    problems = []
    for subject in ROOMS[room]:
        call(subject)
        for name in with_entries(subject, dict, list, tuple):
            for title, value in VALUES.items():
                if problem := problem_of(subject, name, Entry(value())):
                    problems.append(f"st.{subject.path}({name}[first]={title}): {problem}")
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_keys_of_mappings(room: str) -> None:
    keys = {title: value for title, value in VALUES.items() if isinstance(value(), Hashable)}
    problems = []
    for subject in ROOMS[room]:
        call(subject)
        for name in with_entries(subject, dict):
            for title, value in keys.items():
                if problem := problem_of(subject, name, Entry(value(), key=True)):
                    problems.append(f"st.{subject.path}({title} in {name}): {problem}")
    assert not problems, "\n".join(problems)


def test_what_is_left_out_exists() -> None:
    import stepsim as st

    for path in RESULTS:
        assert _thing(st, path)
    for path, names in INNER.items():
        for name in names.split():
            assert hasattr(_thing(st, path), name), f"{path}.{name}"


def _thing(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
