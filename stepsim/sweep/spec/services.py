"""Services as targets of sweeps: what the key ``service`` of a specification gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import stepsim.serving
from stepsim.errors import ServingError

if TYPE_CHECKING:
    from stepsim.sweep.spec.reading import Draft
    from stepsim.sweep.spec.specification import SweepSpec

SERVICE: Final = "service"
"""The workload of services in results."""

_OVERRIDES: Final = "overrides"

_OF_PROGRAMS: Final = {
    "fix": "it changes a program",
    "place": "it places the operators of a program",
    "counting": "it says how the bytes of a program are counted",
    "ensemble": "it disturbs runs of a program",
    "bounds": "it says what bounds a program",
    "units": "it keeps what the operators of a program did",
    "limits": "it stops runs of a program, and a service has the parameter max_steps",
    "batch": "it is the batch of a program",
    "traces": "it feeds a program, and a service has the parameter trace",
    "lengths": "it feeds a program, and a service has the parameter trace",
    "pairs": "it feeds a program, and a service has the parameter trace",
}
"""Keys that have no effect on services, and why."""


def with_service(draft: Draft) -> Draft:
    """The draft with the parameters of its service in place of a file of them.

    Raises
    ------
    SweepError
        The file is unreadable, or is not a mapping.
    """
    spec = draft.spec
    if spec is None or not isinstance(spec.service, str):
        return draft
    try:
        given = stepsim.serving.read_spec(Path(spec.service))
    except ServingError as error:
        raise draft.refusal([f"service: {error}"]) from None
    return draft.of(spec.model_copy(update={"service": given}))


def located(spec: SweepSpec, folder: Path) -> str | dict[str, Any] | None:
    """The service of a specification in a folder: its files are relative to the folder."""
    if isinstance(spec.service, str):
        return str(folder / spec.service)
    return None if spec.service is None else stepsim.serving.located(spec.service, folder)


def located_value(key: str, value: Any, folder: Path) -> Any:
    """A value of a parameter of a service in a folder."""
    return stepsim.serving.located({key: value}, folder)[key]


def service_parameters(spec: SweepSpec) -> dict[str, Any]:
    """The parameters of the service by the keys of a sweep; empty if there is no service."""
    if not isinstance(spec.service, dict):
        return {}
    found = dict(spec.service)
    if "machine" in spec.model_fields_set:
        found.pop("machine", None)
    if isinstance(found.get(_OVERRIDES), Mapping):
        found |= {f"machine.{key}": value for key, value in found.pop(_OVERRIDES).items()}
    return found


def key_problems(spec: SweepSpec) -> list[str]:
    """Problems with keys that have no effect on services, in sentences."""
    if spec.service is None:
        return []
    given = spec.model_fields_set
    problems = [
        f"{key}: has no effect on a service: {why}; remove the key"
        for key, why in _OF_PROGRAMS.items()
        if key in given and getattr(spec, key) is not None
    ]
    if spec.workload != SERVICE:
        problems.insert(0, f"workload: '{spec.workload}' is given beside a service; keep one")
    if isinstance(spec.service, dict) and "model" in given and "model" in spec.service:
        problems.append("model: given twice, here and in the service; keep one, or make it an axis")
    return problems
