"""YAML and JSON files that grow without end are refused within a second of processor time."""

from __future__ import annotations

import time

import pytest

from stepsim.documents import parse_json, parse_yaml
from stepsim.errors import StepSimError
from tests.test_documents import BAD_JSON, BAD_YAML, BOMBS


def seconds(read: object, text: str) -> float:
    """The best of three readings, each of which is refused."""
    assert callable(read)
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        with pytest.raises(StepSimError):
            read(text, "file", StepSimError)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "text", [*BOMBS.values(), *(text for text, _ in BAD_YAML.values())], ids=[*BOMBS, *BAD_YAML]
)
def test_yaml(text: str) -> None:
    assert seconds(parse_yaml, text) < 1


@pytest.mark.parametrize("text", [text for text, _ in BAD_JSON.values()], ids=BAD_JSON)
def test_json(text: str) -> None:
    assert seconds(parse_json, text) < 1
