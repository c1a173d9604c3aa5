"""The base of the sections of a specification: known keys, with values as in YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from stepsim.sweep.spec.sizes import MOST_VALUES, TooMany


class Section(BaseModel):
    """A section with known keys and values as in YAML."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _as_in_yaml(cls, data: Any) -> Any:
        return _plain(data)


def _plain(value: Any) -> Any:
    """Python values as YAML has them: NumPy values and arrays, tuples, ranges, paths."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return (
            [_plain(inner) for inner in value]
            if _len(value) <= MOST_VALUES
            else TooMany(_len(value))
        )
    if isinstance(value, np.ndarray):
        return TooMany(value.size) if value.size > MOST_VALUES else _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return os.fsdecode(value) if isinstance(value, os.PathLike) else value


def _len(value: Sequence[Any]) -> int:
    """The length, also of ranges that are too long for Python's `len`."""
    if isinstance(value, range):
        return max(0, -((value.start - value.stop) // value.step))
    return len(value)
