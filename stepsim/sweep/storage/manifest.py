"""``sweep.json``: the description of a sweep, read from its folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from stepsim.documents import load_json
from stepsim.errors import SweepError
from stepsim.paths import exists
from stepsim.results import field
from stepsim.sweep.storage.digests import MANIFEST, Digests

_MOST_BYTES = 256 * 1024 * 1024
_MOST_VALUES = 10_000_000
"""Enough bytes for a million design points with a few values each."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a sweep in ``sweep.json``.

    Attributes
    ----------
    designs : the design points as they were specified, by label, without the values that
        distinguish replicates.
    runs : number of runs of the whole sweep, done or not.
    spec : the specification with all its keys.
    parameters : columns of the parameters of the workload.
    plan : digest of all inputs of the rows.
    """

    designs: dict[str, dict[str, Any]]
    runs: int
    spec: dict[str, Any]
    parameters: dict[str, pa.Field]
    plan: str

    @property
    def replicates(self) -> tuple[str, ...]:
        """Axes over whose values the results of a design point are means."""
        return tuple(self.spec.get("replicates", ()))

    @property
    def points(self) -> int:
        """Number of design points; their replicates do not count."""
        several = {key: len(values) for key, values in self.spec.get("replicates", {}).items()}
        return len(self.designs) // math.prod(several.values())

    @property
    def traces(self) -> int:
        """Number of traces that every design point runs on, once for each of its replicates."""
        return self.runs // self.points


def load_manifest(folder: Path) -> dict[str, Any]:
    """The keys and values of ``sweep.json``, unchecked.

    Raises
    ------
    SweepError
        It cannot be read, or is not a JSON object.
    """
    path = folder / MANIFEST
    found = load_json(
        path, "sweep", SweepError, most_bytes=_MOST_BYTES, most_values=_MOST_VALUES
    ).data
    if not isinstance(found, dict):
        raise _unusable(path, f"a {type(found).__name__}")
    return found


def read_manifest(folder: str | Path) -> Manifest:
    """The description of the sweep in a folder.

    Raises
    ------
    SweepError
        The folder holds no sweep, or its description is damaged.
    """
    place = Path(folder)
    if not exists(place / MANIFEST, SweepError):
        raise SweepError(
            f"{folder}: holds no sweep: it has no {MANIFEST}; give the folder that was used "
            "as --out"
        )
    found = load_manifest(place)
    try:
        spec, plan = dict(found["spec"]), str(found["plan"])
        replicates = spec.get("replicates", {}).keys()
        designs = {
            label: {key: value for key, value in design.items() if key not in replicates}
            for label, design in found["designs"].items()
        }
        parameters = {
            name: field(name, pa.type_for_alias(one["type"]), one["unit"], one["definition"])
            for name, one in found["parameters"].items()
        }
        manifest = Manifest(designs, int(found["runs"]), spec, parameters, plan)
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise _unusable(place / MANIFEST, "something else") from error
    Digests.read(place, plan).check(place / MANIFEST)
    return manifest


def _unusable(path: Path, found: str) -> SweepError:
    return SweepError(
        f"{path}: cannot be used, expected a JSON object with the keys 'designs', 'runs', 'spec', "
        f"'parameters' and 'plan' as stepsim writes it, found {found}; run the sweep again in a "
        "new folder"
    )
