"""Sweeps over everything: `make test` takes a few values, `make slow` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["sampled", "sampled_rows"]


def sampled(values: Iterable[Any], *few: Any) -> list[Any]:
    """Values for ``parametrize``; all but the few are slow."""
    listed = list(values)
    unknown = [value for value in few if value not in listed]
    assert not unknown, f"not among the values: {unknown}"
    return [
        value if value in few else pytest.param(value, marks=pytest.mark.slow) for value in listed
    ]


def sampled_rows(rows: Iterable[tuple[Any, ...]], few: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Rows of several values for ``parametrize``; all but the few are slow."""
    kept = list(few)
    return [pytest.param(*row, marks=() if row in kept else pytest.mark.slow) for row in rows]
