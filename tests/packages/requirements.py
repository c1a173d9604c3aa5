"""What the package and its extras require, and the oldest versions that they allow."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]

_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

EXTRAS: Final[dict[str, list[str]]] = _PROJECT["optional-dependencies"]
"""Requirements by extra."""


def requirements(*extras: str) -> list[Requirement]:
    """Those of the package, and of extras."""
    lines = [*_PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return [Requirement(line) for line in lines]


def oldest(*extras: str) -> list[str]:
    """A pin of every requirement to the first version that it allows."""
    pins = []
    for one in requirements(*extras):
        (least,) = (spec.version for spec in one.specifier if spec.operator == ">=")
        pins.append(f"{one.name}=={least}")
    return pins
