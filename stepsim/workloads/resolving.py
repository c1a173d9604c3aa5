"""Resolving parameters: given > machine > published > model > default, with their origins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import stepsim.machine
from stepsim.arguments import is_depth_plan, shown
from stepsim.errors import WorkloadError, did_you_mean
from stepsim.frozen import frozen
from stepsim.workloads.inputs import Data
from stepsim.workloads.parameters import Field, ParameterError, depth_parameter, fields_of, new_name

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads.workload import Workload

W = TypeVar("W", bound="Workload", covariant=True)

CONFIGS = ("published",)
"""Values of ``config``, which selects settings for parameters that are not given."""


@frozen
class Resolved(Generic[W]):
    """A workload with all its parameters.

    Attributes
    ----------
    origins : where the value of each parameter comes from: given, machine, published, model or
        default; ``like NAME`` if it is taken from another parameter; unused if it has no effect.
    config : the requested configuration.
    """

    workload: W
    origins: Mapping[str, str]
    config: str | None = None


_OWN_DEPTH: Final = (
    '; it is an ordinary parameter here. Declare it with Param(machine="fifo.depth") as the depth '
    "of FIFOs, which takes auto and files of depths, or give it another name"
)


def parameter_problems(workload: type[Workload], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems of single parameters: unknown names, and values out of range.

    Missing ones are not reported: a configuration may set them.
    """
    known = fields_of(workload)
    problems = []
    for name, value in given.items():
        if name not in known:
            problems.append((name, _unknown(workload, name, known)))
        elif value is not None or not known[name].kind.optional:
            try:
                known[name].checked(value)
            except ParameterError as error:
                advice = depth_advice(known, name, value)
                problems += [(key, text + advice) for key, text in error.problems]
    return problems


def depth_advice(known: Mapping[str, Field], name: str, value: object) -> str:
    """What to add to the refusal of ``auto`` or of a file for a depth; empty for anything else.

    Parameters
    ----------
    known : the parameters of the workload.
    """
    own = name == "fifo_depth" and not depth_parameter(known)
    return _OWN_DEPTH if own and is_depth_plan(value) else ""


def resolve(
    workload: type[W],
    given: Mapping[str, Any],
    *,
    machine: Machine | None = None,
    config: str | None = None,
    data: Sequence[Data] = (),
) -> Resolved[W]:
    """A workload from given parameters, as Python or YAML values.

    Parameters
    ----------
    machine : its values are used for parameters that name one of its keys.
    config : ``published`` takes parameters that are not given from the published experiment.
    data : the input data; published settings depend on it.

    Raises
    ------
    ParameterError : a parameter is unknown, missing, mistyped, out of range or without effect, or
        there is no such experiment, or several match the data; all errors that can be found are
        listed.
    WorkloadError : the presets of the workload set a name that is not one of its parameters.
    """
    known = fields_of(workload)
    problems = parameter_problems(workload, given)
    if config is not None and not (isinstance(config, str) and config in CONFIGS):
        found = f"'{config}'" if isinstance(config, str) else shown(config)
        problems.append(("config", f"expected {' or '.join(CONFIGS)}, found {found}"))
    if problems:
        raise ParameterError(problems)
    own = {name: known[name].checked(value) for name, value in given.items() if value is not None}
    if problems := list(_replaced(known, own, machine)):
        raise ParameterError(problems)
    presets = _presets(workload, own, data or (Data(),), config)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, field in known.items():
        values[name], origins[name] = _value(field, own, machine, presets)
    unused = {name: why for name, field in known.items() if (why := field.unused(values))}
    problems = [(name, why) for name, why in unused.items() if origins[name] == "given"]
    used = {name: field for name, field in known.items() if name not in unused}
    for name, field in used.items():
        if not origins[name] or field.lacks(values[name]):
            problems.append((name, field.missing))
    if problems:
        raise ParameterError(problems)
    values |= {name: known[name].default for name in unused}
    origins |= dict.fromkeys(unused, "unused")
    for name, field in used.items():
        if values[name] is None and field.param.like is not None:
            origins[name] = f"like {field.param.like}"
    made = workload(**values)
    of_model = {
        name: field.param.of_model(made)
        for name, field in used.items()
        if values[name] is None and field.param.of_model is not None
    }
    origins |= dict.fromkeys(of_model, "model")
    return Resolved(workload(**made.values() | of_model), origins, config)


def _value(
    field: Field, given: Mapping[str, Any], machine: Machine | None, presets: Mapping[str, Any]
) -> tuple[Any, str]:
    """The value of a parameter and its origin, which is empty for a missing one."""
    if field.name in given:
        return given[field.name], "given"
    # Presets do not set such keys, so a value there was set for this run.
    if (value := _stated(field, machine)) is not None:
        return value, "machine"
    if presets.get(field.name) is not None:
        return presets[field.name], "published"
    return (None, "") if field.required else (field.default, "default")


def _stated(field: Field, machine: Machine | None) -> Any:
    """The value of the machine's key that the parameter names; None where it states none."""
    if machine is None or field.param.machine is None:
        return None
    value: Any = machine
    for part in field.param.machine.split("."):
        value = getattr(value, part, None)
    return value


def _replaced(
    known: Mapping[str, Field], given: Mapping[str, Any], machine: Machine | None
) -> Iterator[tuple[str, str]]:
    """Parameters that are given although the machine states another value, which holds."""
    for name, value in given.items():
        field = known[name]
        stated = _stated(field, machine) if field.param.replaced else None
        if stated is not None and machine is not None and value != stated:
            yield (
                name,
                f"machine {machine.name} states {field.param.machine}, {stated}, for all programs; "
                f"expected no value here, found {value}; leave it out, or set "
                f"{field.param.machine} of the machine",
            )


def _presets(
    workload: type[Workload], given: Mapping[str, Any], data: Sequence[Data], config: str | None
) -> Mapping[str, Any]:
    """The settings that agree for all data; they must not depend on the order of the data."""
    known = fields_of(workload)
    found = [_settings(workload, workload.presets(given, one, config)) for one in data]
    settings: dict[str, Any] = {}
    problems = []
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one.get(name) for one in found]
        settings[name] = values[0]
        if name not in given and any(value != values[0] for value in values):
            shown = sorted({_shown(known[name], value) for value in values})
            text = (
                "the published experiments with these batches have different values, "
                f"{' and '.join(shown)}; give one, or select batches of one size"
            )
            problems.append((name, text))
    if problems:
        raise ParameterError(problems)
    return settings


def _settings(workload: type[Workload], settings: Any) -> Mapping[str, Any]:
    """The checked return value of presets; unknown entries are refused."""
    known = fields_of(workload)
    where = f"workload {workload.name}: presets"
    if not isinstance(settings, Mapping):
        raise WorkloadError(
            f"{where}: expected a mapping of parameters to values, found {settings!r}; return {{}} "
            "if there are no presets"
        )
    for name in settings:
        if name not in known:
            raise WorkloadError(
                f"{where}: expected names of parameters, found {name!r}"
                f"{did_you_mean(name, known)} Its parameters: {_listed(known)}"
            )
    return settings


def _shown(field: Field, value: Any) -> str:
    return "none" if value is None else str(field.column_value(value))


def _unknown(workload: type[Workload], name: str, known: Mapping[str, Field]) -> str:
    now = new_name(known, name)
    if now is not None:
        return f"{workload.name} has no such parameter; it is now called {now}"
    near = did_you_mean(name, known)
    if name in stepsim.machine.known_keys():
        near = f"; write machine.{name} for the key of the machine."
    return f"{workload.name} has no such parameter{near} Its parameters: {_listed(known)}"


def _listed(known: Mapping[str, Field]) -> str:
    return ", ".join(known) or "none"
