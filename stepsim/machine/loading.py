"""Finding, reading and changing machine descriptions."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import stepsim.documents
from stepsim.arguments import shown
from stepsim.errors import ArgError, MachineError, did_you_mean
from stepsim.frozen import frozen
from stepsim.machine.hbm import Hbm
from stepsim.machine.model import Machine
from stepsim.machine.presets import HARDWARE_MACHINES, PRESETS
from stepsim.machine.section import Section, by_name, check, json_schema, keys, made
from stepsim.typed import typed
from stepsim.wording import describe_problems, expectations

if TYPE_CHECKING:
    from stepsim.documents import Document

_SUFFIXES = (".yaml", ".yml")

_M = TypeVar("_M", bound=Section)


@frozen(slots=False)
class Family(Generic[_M]):
    """Descriptions of one kind, and its presets.

    Attributes
    ----------
    kind : the top-level section of all values; it has a ``name``.
    presets : their values by name.
    example : one of their keys, and a value of it.
    advice : a sentence on how to get a first file, or empty.
    others : names of the machines of the other level.
    other_level : that level, and what to call for ``{name}`` of it.
    noun : what messages call a description.
    """

    kind: type[_M]
    presets: Mapping[str, Mapping[str, Any]]
    example: tuple[str, int]
    advice: str = ""
    others: Collection[str] = ()
    other_level: str = ""
    noun: str = "machine"


MACHINES: Final = Family(
    Machine,
    PRESETS,
    ("hbm.channels", 16),
    "Start from 'stepsim machines --show sda-1024'.",
    HARDWARE_MACHINES,
    "the hardware level; use the functions of st.hardware, as in st.hardware.simulate(program, "
    "'{name}'), or --level hardware on the command line",
)
"""The machines of programs."""


def load_machine(
    machine: Machine | str | Path = "sda-1024",
    overrides: Mapping[str, Any] | None = None,
) -> Machine:
    """Get a machine by the name of a preset, or by the path of a YAML file, and change values.

    Parameters
    ----------
    machine : name from `list_machines`, path of a file, or a machine to change.
    overrides : values by dotted key, e.g. ``{"hbm.channels": 16}``. Text is read as a YAML value,
        so ``{"hbm.channels": "16"}`` is the same. ``fifo.depth`` counts before the default depth
        of a program, but not before the depth of a run or of a single stream.

    Raises
    ------
    MachineError : no such machine; the file is unreadable or not YAML; an unknown, duplicate,
        missing, mistyped or out-of-range key. All wrong keys are listed together.
    """
    return load_description(MACHINES, machine, overrides)


def load_description(
    family: Family[_M], machine: _M | str | Path, overrides: Mapping[str, Any] | None = None
) -> _M:
    """As `load_machine`, for descriptions of any kind.

    Raises
    ------
    MachineError : as `load_machine`.
    """
    given = isinstance(machine, family.kind | str | Path)
    if not given or "\0" in str(machine) or not str(machine):
        raise MachineError(
            f"{family.noun}: expected the name of a {family.noun}, a file, or a "
            f"{family.kind.__name__}, found {shown(machine)}"
        )
    if overrides is not None and not isinstance(overrides, Mapping):
        raise MachineError(
            f"{family.noun} overrides: expected a mapping such as {dict([family.example])}, found "
            f"{shown(overrides)}"
        )
    where, data, lines = _source(family, machine)
    if overrides:
        data = copy.deepcopy(data)
        model = overrides.get("hbm.model", "dram")
        if family.kind is Machine and isinstance(model, str) and model != "dram":
            _leave_out_ports_of_dram(data)
        for key, value in overrides.items():
            _override(family, data, key, value)
            # The value no longer comes from the file, so neither does the line.
            lines = {path: line for path, line in lines.items() if path != key}
        if family.kind is Machine and "hbm.model" in overrides:
            _leave_out_of_other_model(data, overrides)
        where = f"{where} with {', '.join(f'{k}={v}' for k, v in overrides.items())}"
    return _validated(family, data, where, lines)


def list_machines() -> tuple[str, ...]:
    """Names of the built-in machines, sorted."""
    return tuple(sorted(PRESETS))


def machine_columns(machine: Section) -> dict[str, str]:
    """Columns of a row of a run that describe its machine; its values are JSON text."""
    values = machine.to_dict()
    return {"machine": values["name"], "machine_json": json.dumps(values, sort_keys=True)}


@typed
def known_keys(kind: type[Section] = Machine) -> dict[str, str]:
    """Dotted path of every settable value, with a description of its expected values.

    Raises
    ------
    ArgError : ``kind`` is not a class of a section of a machine.
    """
    if not issubclass(kind, Section):
        raise ArgError(f"known_keys: expected Machine or one of its sections, found {shown(kind)}")
    return expectations(json_schema(kind))


@typed
def parse_overrides(items: Iterable[str], family: Family[Any] = MACHINES) -> dict[str, str]:
    """Split ``key=value`` texts into the mapping that `load_machine` takes as overrides.

    Raises
    ------
    MachineError : no ``=``, no value after it, an unknown key, or a key given twice.
    """
    overrides: dict[str, str] = {}
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise MachineError(
                f"{family.noun} override {item!r}: expected key=value, for example "
                f"{family.example[0]}={family.example[1]}"
            )
        _check_override_key(family, key)
        if key in overrides:
            raise MachineError(
                f"{family.noun} override '{key}' is given twice ({overrides[key]} and {value}); "
                "keep one"
            )
        overrides[key] = value
    return overrides


def _source(family: Family[_M], machine: _M | str | Path) -> tuple[str, Any, dict[str, int]]:
    if isinstance(machine, Section):
        values = machine.to_dict()
        return f"{family.noun} '{values['name']}'", values, {}
    if isinstance(machine, str) and machine in family.presets:
        return f"{family.noun} '{machine}'", family.presets[machine], {}
    path, known = Path(machine), sorted(family.presets)
    if isinstance(machine, str) and not _looks_like_path(machine) and not _exists(path):
        if machine in family.others:
            raise MachineError(
                f"machine '{machine}' belongs to {family.other_level.format(name=machine)}"
            )
        raise MachineError(
            f"unknown {family.noun} '{machine}'{did_you_mean(machine, known)} "
            f"Known {family.noun}s: {', '.join(known)}; or give the path of a YAML file."
        )
    where = f"{family.noun} file {path}"
    document = _read(family, path, where)
    return where, document.data, document.lines


def _validated(family: Family[_M], data: Any, where: str, lines: Mapping[str, int]) -> _M:
    if not isinstance(data, Mapping):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise MachineError(
            f"{where}: expected a mapping with the keys {', '.join(keys(family.kind))}, "
            f"found {found}. {family.advice}".rstrip()
        )
    wrong: list[dict[str, Any]] = []
    checked = check(family.kind, data, (), wrong)
    if not wrong:
        return made(family.kind, checked)
    problems = describe_problems(wrong, json_schema(family.kind), lines)
    if len(problems) == 1:
        raise MachineError(f"{where}, {problems[0]}")
    listing = "".join(f"\n  {problem}" for problem in problems)
    raise MachineError(f"{where}: {len(problems)} problems{listing}")


def _override(family: Family[Any], data: Any, key: Any, value: Any) -> None:
    _check_override_key(family, key)
    if isinstance(value, str):
        what = f"{family.noun} override '{key}'"
        value = stepsim.documents.parse_yaml_value(value, what, MachineError)
    *sections, leaf = key.split(".")
    target = data
    for section in sections:
        if not isinstance(target, dict):
            return  # a section of the wrong shape is reported by the validation that follows
        if target.get(section) is None:
            target[section] = {}  # a section that may be absent, or is left out
        elif isinstance(target[section], str) and target is data:
            target[section] = by_name(family.kind, section, target[section]) or target[section]
        target = target[section]
    if isinstance(target, dict):
        target[leaf] = value


def _leave_out_ports_of_dram(data: Any) -> None:
    """Remove the ports of a description that is to have another memory model than its 'dram'."""
    hbm = data.get("hbm") if isinstance(data, dict) else None
    if isinstance(hbm, dict) and hbm.get("model") == "dram":
        hbm.pop("port", None)


def _leave_out_of_other_model(data: Any, overrides: Mapping[str, Any]) -> None:
    """Remove the values of a description's own memory model where an override names another."""
    hbm = data.get("hbm") if isinstance(data, dict) else None
    if isinstance(hbm, dict):
        for name in Hbm.without_effect(hbm):
            if not any(key.startswith(f"hbm.{name}") for key in overrides):
                hbm.pop(name, None)


def _check_override_key(family: Family[Any], key: Any) -> None:
    known = known_keys(family.kind)
    if not isinstance(key, str):
        raise MachineError(
            f"{family.noun} override: a key is a text such as '{family.example[0]}', found "
            f"{shown(key)}"
        )
    if key not in known:
        raise MachineError(
            f"{family.noun} override: unknown key '{key}'{did_you_mean(key, list(known))} "
            f"Known: {', '.join(known)}"
        )


def _looks_like_path(text: str) -> bool:
    return text.endswith(_SUFFIXES) or "/" in text or "\\" in text


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than any file's
        return False


def _read(family: Family[Any], path: Path, where: str) -> Document:
    if not _exists(path):
        raise MachineError(
            f"{where}: no such file. Known {family.noun}s: {', '.join(sorted(family.presets))}."
        )
    return stepsim.documents.load_yaml(
        path, f"{family.noun} file", MachineError, family.advice.replace("Start from", "See")
    )
