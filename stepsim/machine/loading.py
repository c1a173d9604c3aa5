"""Finding, reading and changing machine descriptions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.arguments import shown
from stepsim.errors import MachineError, did_you_mean
from stepsim.machine.model import Machine
from stepsim.machine.presets import PRESETS
from stepsim.machine.section import check, json_schema, keys, made
from stepsim.wording import describe_problems, expectations

if TYPE_CHECKING:
    from stepsim.documents import Document

__all__ = ["known_keys", "list_machines", "load_machine", "parse_overrides"]

_SUFFIXES = (".yaml", ".yml")


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
    if not isinstance(machine, Machine | str | Path) or "\0" in str(machine) or not str(machine):
        raise MachineError(
            f"machine: expected the name of a machine, a file, or a Machine, found {shown(machine)}"
        )
    if overrides is not None and not isinstance(overrides, Mapping):
        raise MachineError(
            f"machine overrides: expected a mapping such as {{'hbm.channels': 16}}, found "
            f"{shown(overrides)}"
        )
    where, data, lines = _source(machine)
    if overrides:
        data = copy.deepcopy(data)
        for key, value in overrides.items():
            _override(data, key, value)
            # The value no longer comes from the file, so neither does the line.
            lines = {path: line for path, line in lines.items() if path != key}
        where = f"{where} with {', '.join(f'{k}={v}' for k, v in overrides.items())}"
    return _validated(data, where, lines)


def list_machines() -> tuple[str, ...]:
    """Names of the built-in machines, sorted."""
    return tuple(sorted(PRESETS))


def known_keys() -> dict[str, str]:
    """Dotted path of every settable value, with what is expected there."""
    return expectations(json_schema(Machine))


def parse_overrides(items: Iterable[str]) -> dict[str, str]:
    """Split ``key=value`` texts into the mapping that `load_machine` takes as overrides.

    Raises
    ------
    MachineError : no ``=``, nothing behind it, an unknown key, or a key given twice.
    """
    overrides: dict[str, str] = {}
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals and value):
            raise MachineError(
                f"machine override {item!r}: expected key=value, for example hbm.channels=16"
            )
        _check_override_key(key)
        if key in overrides:
            raise MachineError(
                f"machine override '{key}' is given twice ({overrides[key]} and {value}); keep one"
            )
        overrides[key] = value
    return overrides


def _source(machine: Machine | str | Path) -> tuple[str, Any, dict[str, int]]:
    if isinstance(machine, Machine):
        return f"machine '{machine.name}'", machine.to_dict(), {}
    if isinstance(machine, str) and machine in PRESETS:
        return f"machine '{machine}'", PRESETS[machine], {}
    path = Path(machine)
    if isinstance(machine, str) and not _looks_like_path(machine) and not _exists(path):
        raise MachineError(
            f"unknown machine '{machine}'{did_you_mean(machine, list_machines())} "
            f"Known machines: {', '.join(list_machines())}; or give the path of a YAML file."
        )
    where = f"machine file {path}"
    document = _read(path, where)
    return where, document.data, document.lines


def _validated(data: Any, where: str, lines: Mapping[str, int]) -> Machine:
    if not isinstance(data, Mapping):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise MachineError(
            f"{where}: expected a mapping with the keys {', '.join(keys(Machine))}, "
            f"found {found}. Start from 'stepsim machines --show sda-1024'."
        )
    wrong: list[dict[str, Any]] = []
    checked = check(Machine, data, (), wrong)
    if not wrong:
        return made(Machine, checked)
    problems = describe_problems(wrong, json_schema(Machine), lines)
    if len(problems) == 1:
        raise MachineError(f"{where}, {problems[0]}")
    listing = "".join(f"\n  {problem}" for problem in problems)
    raise MachineError(f"{where}: {len(problems)} problems{listing}")


def _override(data: Any, key: Any, value: Any) -> None:
    _check_override_key(key)
    if isinstance(value, str):
        from stepsim.documents import parse_yaml_value

        value = parse_yaml_value(value, f"machine override '{key}'", MachineError)
    section, _, leaf = key.rpartition(".")
    if isinstance(data, dict):
        if section and data.get(section) is None:
            data[section] = {}  # a section that may be absent, or is left out
        target = data[section] if section else data
        # A section of the wrong shape is reported by the validation that follows.
        if isinstance(target, dict):
            target[leaf] = value


def _check_override_key(key: Any) -> None:
    known = known_keys()
    if not isinstance(key, str):
        raise MachineError(
            f"machine override: a key is a text such as 'hbm.channels', found {shown(key)}"
        )
    if key not in known:
        raise MachineError(
            f"machine override: unknown key '{key}'{did_you_mean(key, list(known))} "
            f"Known: {', '.join(known)}"
        )


def _looks_like_path(text: str) -> bool:
    return text.endswith(_SUFFIXES) or "/" in text or "\\" in text


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name longer than any file's
        return False


def _read(path: Path, where: str) -> Document:
    if not _exists(path):
        raise MachineError(f"{where}: no such file. Known machines: {', '.join(list_machines())}.")
    from stepsim.documents import load_yaml

    return load_yaml(path, "machine file", MachineError, "See 'stepsim machines --show sda-1024'.")
