"""The page on validation is what the generator writes, and says that targets are met."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.reproduce.streamtensor.validation_page import validation_page

PAGE = Path(__file__).parents[2] / "docs" / "streamtensor-validation.md"


def test_every_criterion_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    for number in range(1, 17):
        assert f"| F{number} " in text or f"## F{number}:" in text


def test_tests_that_are_named_exist() -> None:
    root = Path(__file__).parents[2]
    named = [word.strip("`, ") for word in PAGE.read_text("utf-8").split() if "tests/" in word]
    assert len(named) > 10
    assert all((root / name).exists() for name in named)


@pytest.mark.long
def test_the_page_is_what_is_written() -> None:
    assert validation_page() == PAGE.read_text("utf-8")
