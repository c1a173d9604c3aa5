"""``ServeSpec``: everything a service depends on, of arguments, a YAML file or options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from stepsim.arguments import shown
from stepsim.documents import load_yaml
from stepsim.errors import ServingError, WorkloadError, did_you_mean
from stepsim.paths import exists
from stepsim.serving.scheduling.settings import SchedulingChoices
from stepsim.serving.service.choices import ServeChoices
from stepsim.serving.steps.interface import NOT_OF_ENGINES
from stepsim.workloads import MODELS, Field, Model, ParameterError, fields_of, find_workload

STEP: Final = "step"
"""The workload whose programs are the steps of a service."""

_FILES: Final = ("trace", "machine", "model", "steps", "routing")
"""Parameters that may be files, which a YAML file names relative to itself."""

_NAMED: Final = ("steps",)
"""Those of which a file can only be what follows a name: ``table:FOLDER,host_gbps=64``."""

_SET_BY_SERVICE: Final = ("part", "network", "attention_layer", *NOT_OF_ENGINES)
"""Parameters of a step that say which part of it a program is."""


def mapping_fields() -> Mapping[str, Field]:
    """The parameters of the workload of a step that a service does not set itself."""
    try:
        workload: Any = find_workload(STEP).load()
    except WorkloadError:
        return {}
    own = {*fields_of(ServeChoices), *fields_of(SchedulingChoices), *_SET_BY_SERVICE}
    return {name: field for name, field in fields_of(workload).items() if name not in own}


def serve_fields() -> dict[str, Field]:
    """All parameters of a service by name."""
    return {**fields_of(ServeChoices), **fields_of(SchedulingChoices), **mapping_fields()}


@dataclass(frozen=True, eq=False)
class ServeSpec:
    """Everything a service depends on.

    Attributes
    ----------
    choices : requests, machine, model, steps and limits.
    scheduling : settings of the scheduler.
    mapping : parameters of the workload of a step that are given, by name.
    overrides : values of the machine that are changed, by dotted key.
    """

    choices: ServeChoices
    scheduling: SchedulingChoices
    mapping: Mapping[str, Any]
    overrides: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ServeSpec:
        """The service of these parameters; ``overrides`` are values of the machine.

        Raises
        ------
        ParameterError : parameters are unknown, mistyped, out of range, missing or without effect;
            all of them are listed.
        """
        known = serve_fields()
        values = dict(given)
        overrides = values.pop("overrides", None) or {}
        problems = [
            (shown(name, str), _why_unknown(name, known)) for name in values if name not in known
        ]
        if not isinstance(overrides, Mapping):
            problems.append(("overrides", f"expected {{key: value}}, found {shown(overrides)}"))
        parts = [
            {name: value for name, value in values.items() if name in group}
            for group in (fields_of(ServeChoices), fields_of(SchedulingChoices))
        ]
        made: list[Any] = []
        for kind, part in zip((ServeChoices, SchedulingChoices), parts, strict=True):
            try:
                made.append(kind(**part))
            except ParameterError as error:
                problems += error.problems
        of_step = mapping_fields()
        mapping = {}
        for name, value in values.items():
            if name in of_step and name not in parts[0] and name not in parts[1]:
                try:
                    mapping[name] = of_step[name].checked(value)
                except ParameterError as error:
                    problems += error.problems
        if problems:
            raise ParameterError(problems)
        choices, scheduling = made
        return cls(choices, scheduling, mapping, dict(overrides))

    def given(self) -> dict[str, Any]:
        """The parameters that are not defaults, by name."""
        found = {
            name: getattr(part, name)
            for part in (self.choices, self.scheduling)
            for name, field in fields_of(type(part)).items()
            if getattr(part, name) != field.default
        }
        found |= self.mapping
        return found | ({"overrides": dict(self.overrides)} if self.overrides else {})

    def changed(self, **changes: Any) -> ServeSpec:
        """The same service with other parameters.

        Raises
        ------
        ParameterError : as in `of`.
        """
        return ServeSpec.of(self.given() | changes)

    def to_dict(self) -> dict[str, Any]:
        """All parameters as plain values."""
        found: dict[str, Any] = {
            field.name: _plain(getattr(part, field.name))
            for part in (self.choices, self.scheduling)
            for field in fields(part)
        }
        found |= {name: _plain(value) for name, value in self.mapping.items()}
        return found | {"overrides": dict(self.overrides)}


def read_spec(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a YAML file or a mapping; files are relative to the YAML file.

    Raises
    ------
    ServingError : the file is unreadable, or is not a mapping.
    """
    if isinstance(source, Mapping):
        return dict(source)
    path = Path(source)
    document = load_yaml(path, "service", ServingError, "See the documentation of services.")
    if not isinstance(document.data, Mapping):
        raise ServingError(
            f"service {path}: expected a mapping with keys such as 'model' and 'trace', found "
            f"{shown(document.data)}"
        )
    return located(document.data, path.parent)


def located(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Parameters as a YAML file in a folder has them, with the paths of the files they name."""
    return {
        name: _beside(folder, value, is_named=name in _NAMED)
        if name in _FILES and isinstance(value, str)
        else value
        for name, value in given.items()
    }


def _beside(folder: Path, text: str, *, is_named: bool) -> str:
    """A text that names a file of the folder, also after a colon, as its path.

    Parameters
    ----------
    is_named : what is before the colon, or all of a text without one, is a name and never a file.
    """
    before, colon, rest = text.partition(":") if is_named else text.rpartition(":")
    file, comma, settings = rest.partition(",") if is_named else (rest, "", "")
    if file and exists(folder / file, ServingError):
        return f"{before}{colon}{folder / file}{comma}{settings}"
    return text


def _plain(value: Any) -> Any:
    """A value of a parameter as YAML has it."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) in (int, float):
        return value
    return _model(value) if isinstance(value, Model) else str(value)


def _model(model: Model) -> str | dict[str, Any]:
    """What makes the model again: its file, the name that it has here, or its dimensions."""
    if model.where != model.name or MODELS.get(model.name) is model:
        return model.where
    return model.description()


def _why_unknown(name: object, known: Iterable[str]) -> str:
    if isinstance(name, str) and name.startswith("machine."):
        key = name.removeprefix("machine.")
        return f"unknown; values of the machine are in overrides, as in overrides: {{{key}: ...}}"
    if name in NOT_OF_ENGINES:
        return NOT_OF_ENGINES[name]
    return f"unknown{did_you_mean(name, known)}"
