"""What-if: services that differ in one setting, of the same requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from stepsim.errors import ServingError, did_you_mean
from stepsim.machine import known_keys
from stepsim.serving.answers.again import spec_of
from stepsim.serving.answers.pairs import ServiceComparison, compare_services
from stepsim.serving.service.outcome import ServeResult
from stepsim.serving.service.parts import machine_of
from stepsim.serving.service.serve import serve
from stepsim.serving.service.spec import ServeSpec, serve_fields
from stepsim.typed import typed

_CHANGE: Final = re.compile(r"\s*([\w.]+)\s*(?:(=)\s*(.+?)|\s[x*]\s*([\d.]+))\s*")

_BANDWIDTH: Final = "hbm.bandwidth"
"""Off-chip bandwidth, which a machine states as channels."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A service with one change, beside the one without it.

    Attributes
    ----------
    change : the change in words.
    """

    change: str
    result: ServeResult
    comparison: ServiceComparison

    def __str__(self) -> str:
        return f"with {self.change}:\n{self.comparison}"


@typed
def what_if_served(
    result: ServeResult, change: str, progress: Callable[[str], None] | None = None
) -> Changed:
    """Serve the same requests with one change, and compare.

    Parameters
    ----------
    change : ``KEY=VALUE`` or ``KEY xFACTOR``, where the key is a parameter of the service, a key of
        its machine, or ``hbm.bandwidth``.

    Raises
    ------
    ServingError : the change cannot be read or has an unknown key, or parts of the service were
        given as objects.
    """
    spec = spec_of(result)
    other = serve(changed_spec(spec, change), progress=progress)
    return Changed(change, other, compare_services(result, other))


def changed_spec(spec: ServeSpec, change: str) -> ServeSpec:
    """The specification with one change; raises as `what_if_served` does."""
    match = _CHANGE.fullmatch(change)
    if match is None:
        raise ServingError(
            f"what-if: expected KEY=VALUE or KEY xFACTOR, as in 'hbm.bandwidth x2', found "
            f"'{change}'"
        )
    key, _, text, factor = match.groups()
    fields = serve_fields()
    if key in fields:
        value = fields[key].parsed(text) if text else _scaled(key, _current(spec, key), factor)
        return spec.changed(**{key: value})
    name = "hbm.channels" if key == _BANDWIDTH else key
    known = [*known_keys(), _BANDWIDTH]
    if name not in known:
        near = did_you_mean(key, [*fields, *known])
        if near == ".":
            near = "; give a parameter of the service, such as tile, or a key of its machine"
        raise ServingError(f"what-if: unknown key '{key}'{near}")
    if key == _BANDWIDTH and not factor:
        raise ServingError(
            f"what-if: {_BANDWIDTH} follows from other keys; scale it, as in '{_BANDWIDTH} x2'"
        )
    if spec.choices.machine is None:
        raise ServingError(
            f"what-if: {key} is of a machine, and the steps of this service have none; change "
            "another parameter"
        )
    value = text if text else _scaled(key, _of_machine(spec, name), factor)
    return spec.changed(overrides={**spec.overrides, name: value})


def _current(spec: ServeSpec, key: str) -> Any:
    for part in (spec.choices, spec.scheduling):
        if hasattr(part, key):
            return getattr(part, key)
    return spec.mapping.get(key, serve_fields()[key].default)


def _of_machine(spec: ServeSpec, key: str) -> Any:
    value: Any = machine_of(spec)
    for part in key.split("."):
        value = getattr(value, part, None)
    return value


def _scaled(key: str, value: Any, factor: str) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ServingError(
            f"what-if: {key} is not a number here, so that it cannot be multiplied; give "
            f"{key}=VALUE"
        )
    found = value * float(factor)
    return round(found) if isinstance(value, int) else found
