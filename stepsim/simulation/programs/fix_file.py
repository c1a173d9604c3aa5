"""Fixes in a YAML file: FIFO depths, numbers of operators, values of the machine.

With them stand the program and the machine they are for. A file of FIFO depths is a fix.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepsim.documents
from stepsim._version import MODEL_VERSION, __version__
from stepsim.arguments import Range, is_whole, shown
from stepsim.atomic import replacing
from stepsim.deferred import deferred
from stepsim.digests import sha256
from stepsim.errors import ArgError, MachineError
from stepsim.frozen import frozen
from stepsim.graph import COMPUTE_BW, FIFO_DEPTH, PAR_DISPATCH, Wiring, fingerprint, named_now
from stepsim.machine import Machine, load_machine

if TYPE_CHECKING:
    import yaml

    from stepsim import noc
else:
    yaml = deferred("yaml")
    noc = deferred("stepsim.noc")

FORMAT = "stepsim fix 1"
"""Form and version of the file; raised when a reader of the present one would misread it."""

_WHAT = "fix"

_DEPTHS = "depths"
_PLACE = "place"
_CHANGES = (_DEPTHS, "fifo_depth", "par_dispatch", "operators", "machine_values", _PLACE)
"""Keys of what is changed; the others say what it was found for."""

_OF_OPERATOR = {"compute_bw": COMPUTE_BW, "par_dispatch": PAR_DISPATCH}

_KEYS = frozenset(
    {
        "change", "cycles", "fifo_bytes", "fifo_slots", "format", "machine", "machine_hash",
        "model_version", "program", "program_fifo_depth", "program_hash", "proved", "simulations",
        "simulations_before", "slowdown", "slowdown_bound", "stepsim_version", "unbounded_cycles",
        *_CHANGES,
    }
)  # fmt: skip

_CURE = "`stepsim why --write-fix` and `stepsim size` write such files."

_HEAD = """\
# A fix of a program, for --fix of `stepsim run` and fix= of stepsim.simulate. `depths` are tokens
# by name of a FIFO; null is an unbounded FIFO. What is not named stays as it is. Without
# program_hash the fix is taken for any program that has what it names.
"""


_UNTIMED = frozenset({"name", "costs", "fifo"})
"""Parts of a machine that leave the times of runs with given depths as they are."""


@frozen
class SizedFor:
    """The machine that values in a file were found for: its name and `machine_hash`."""

    path: str
    machine: str
    digest: str

    def note(self, machine: Machine) -> str:
        """A remark on a run on another machine; empty on the machine they are for."""
        if self.digest == machine_hash(machine):
            return ""
        same = self.machine == machine.name
        other = f"another {self.machine}" if same else f"machine {self.machine}"
        return (
            f"the values of {self.path} were found for {other}; on {machine.name} "
            "their cycles are not guaranteed, and the run may be slower or deadlock. Find them "
            "again for it"
        )


def machine_hash(machine: Machine) -> str:
    """SHA-256 of what the times of a program with given FIFO depths depend on."""
    timed = {key: value for key, value in machine.to_dict().items() if key not in _UNTIMED}
    return sha256(json.dumps(timed, sort_keys=True).encode()).hexdigest()


@frozen
class Fix:
    """The changes of a file, before they are compared with a program.

    Attributes
    ----------
    path : the file.
    data, lines : its keys, and their lines by dotted path.
    """

    path: str
    data: Mapping[str, Any]
    lines: Mapping[str, int]

    @property
    def where(self) -> str:
        """The file, for messages."""
        return f"{_WHAT} {self.path}"

    @property
    def fifo_depth(self) -> int | None:
        """Tokens in FIFOs that do not state their own depth."""
        return self.data.get("fifo_depth")

    @property
    def depths(self) -> Mapping[str, int | None]:
        """Tokens by name of a FIFO; None is unbounded."""
        return dict(self.data.get(_DEPTHS, {}))

    @property
    def par_dispatch(self) -> int | None:
        """Requests issued per cycle by every load and store that is not named."""
        return self.data.get("par_dispatch")

    @property
    def machine_values(self) -> Mapping[str, Any]:
        """Values of the machine by dotted key."""
        return dict(self.data.get("machine_values", {}))

    @property
    def sized_for(self) -> SizedFor | None:
        """The machine that it was found for, with these values."""
        if "machine_hash" not in self.data:
            return None
        return SizedFor(self.path, str(self.data.get("machine")), str(self.data["machine_hash"]))

    @property
    def place(self) -> noc.PlacementFile | None:
        """Where operators are on the network on chip; None where it does not say.

        Raises
        ------
        ArgError
            A key is unknown or missing.
        """
        if _PLACE not in self.data:
            return None
        inner = f"{_PLACE}."
        lines = {
            path.removeprefix(inner): line
            for path, line in self.lines.items()
            if path.startswith(inner)
        }
        return noc.PlacementFile.of(f"{self.where}, {_PLACE}", self.data[_PLACE], lines)

    def of_operators(self, name: str) -> dict[str, int]:
        """The values of ``compute_bw`` or ``par_dispatch`` by operator."""
        operators = self.data.get("operators", {})
        return {one: values[name] for one, values in operators.items() if name in values}

    def applied_to(self, machine: Machine) -> Machine:
        """The machine with the values.

        Raises
        ------
        MachineError
            The machine has no such value, or it is out of range.
        """
        if not self.machine_values:
            return machine
        try:
            return load_machine(machine, dict(self.machine_values))
        except MachineError as error:
            raise MachineError(f"{self.where}, machine_values: {error}") from error

    def checked(self, wiring: Wiring, program_hash: str) -> Fix:
        """The same with the names that a program has now, which are compared with its own.

        Names as earlier versions gave them, ``map#8`` for ``silu#8``, are replaced.

        Raises
        ------
        ArgError
            It is for another program (one that differs in the default depth alone is the same where
            the file names all FIFOs that have it), or names a FIFO or an operator that the program
            does not have; the message has the line.
        """
        found = self._named_now(wiring)
        _check_program(self.where, found.data, self.lines, wiring, program_hash)
        known = {_DEPTHS: [fifo.name for fifo in wiring.fifos]}
        known["operators"] = [unit.name for unit in wiring.units]
        what = {
            _DEPTHS: ("FIFO", "Result.fifos"),
            "operators": ("operator", "Result.units"),
        }
        for key, names in known.items():
            noun, table = what[key]
            missing = [name for name in found.data.get(key, {}) if name not in names]
            if missing:
                first, wrong = missing[0], len(missing)
                count = f"{wrong} wrong lines; " if wrong > 1 else ""
                raise ArgError(
                    f"{self.where}, line {self.lines[f'{key}.{first}']}: the program has no {noun} "
                    f"'{first}'{_near(first, names)}. {count}program '{wiring.program.name}' has "
                    f"{len(names)} {noun}s, whose names are in the column 'name' of {table}"
                )
        return found

    def _named_now(self, wiring: Wiring) -> Fix:
        named = {
            _DEPTHS: named_now(self.where, wiring, "FIFO", self.depths),
            "operators": named_now(self.where, wiring, "operator", self.data.get("operators", {})),
        }
        return replace(self, data={**self.data, **{k: one for k, one in named.items() if one}})


def write_fix(path: str | os.PathLike[str], text: str) -> None:
    """Write the text of such a file, complete or not at all.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    with replacing(path) as (part,):
        part.write_text(text, encoding="utf-8")


def fix_text(about: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The text of such a file: the program and machine it is for, and what it changes."""
    software = {"stepsim_version": __version__, "model_version": str(MODEL_VERSION)}
    whole = {"format": FORMAT, **about, **software, **changes}
    return _HEAD + yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)


def depths_text(about: Mapping[str, Any], depths: Mapping[str, int | None]) -> str:
    """The text of a file of depths by name of a FIFO alone."""
    return fix_text(about, {_DEPTHS: dict(depths)})


def load_fix(path: str | os.PathLike[str]) -> Fix:
    """Read a file, and check its keys and numbers.

    Raises
    ------
    ArgError
        The file cannot be read, changes nothing, or has an unknown key or an invalid value; the
        message has the line.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgError(f"fix must be a file, found {shown(path)}. {_CURE}")
    where = f"{_WHAT} {os.fspath(path)}"
    document = stepsim.documents.load_yaml(Path(path), _WHAT, ArgError, _CURE)
    data, lines = document.data, document.lines
    if not isinstance(data, Mapping) or not any(key in data for key in _CHANGES):
        raise ArgError(
            f"{where}: expected the key 'depths' with lines 'name: depth', one for each FIFO, or "
            f"one of the keys {', '.join(_CHANGES[1:])}. {_CURE}"
        )
    stepsim.documents.check_format(data, lines, FORMAT, where, ArgError)
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise ArgError(
                f"{where}, line {lines[str(key)]}: unknown key '{key}'{hint} Depths belong "
                "under 'depths'"
            )
    if all(data.get(key) in (None, {}) for key in _CHANGES):
        raise ArgError(f"{where}: it changes nothing; leave the fix out, or state a change")
    problems = list(_problems(data, lines))
    if problems:
        count = f"; {len(problems)} wrong lines" if len(problems) > 1 else ""
        raise ArgError(f"{where}, {problems[0]}{count}")
    return Fix(os.fspath(path), data, lines)


def _problems(data: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with the values, each with its line."""

    def refused(path: str, what: str, value: object, bounds: Range) -> Iterator[str]:
        if not (is_whole(value) and bounds.holds(value)):
            yield f"line {lines[path]}: {bounds.refusal(what, value)}"

    for key, bounds in (("fifo_depth", FIFO_DEPTH), ("par_dispatch", PAR_DISPATCH)):
        if key in data:
            yield from refused(key, key, data[key], bounds)
    for key in (_DEPTHS, "operators", "machine_values"):
        if key in data and not isinstance(data[key], Mapping):
            yield f"line {lines[key]}: {key} must be lines 'name: value', found {shown(data[key])}"
            return
    for name, depth in data.get(_DEPTHS, {}).items():
        if depth is not None:
            path = f"{_DEPTHS}.{name}"
            yield from refused(path, f"the depth of {name!r}", depth, FIFO_DEPTH)
    for name, values in data.get("operators", {}).items():
        path = f"operators.{name}"
        if not isinstance(values, Mapping) or not values or values.keys() - _OF_OPERATOR.keys():
            expected = " and ".join(_OF_OPERATOR)
            yield f"line {lines[path]}: {name} takes {expected}, found {shown(values)}"
            continue
        for key, value in values.items():
            yield from refused(f"{path}.{key}", f"{key} of {name!r}", value, _OF_OPERATOR[key])


def read_depths(
    path: str | os.PathLike[str], wiring: Wiring, program_hash: str
) -> tuple[Mapping[str, int | None], SizedFor | None]:
    """Depths by name of a FIFO, from a file for this program, and the machine that they are for.

    Raises
    ------
    ArgError
        As `load_fix` and `Fix.checked`, or the file changes more than depths.
    """
    found = load_fix(path)
    more = [key for key in _CHANGES if key in found.data and key != _DEPTHS]
    if more:
        raise ArgError(
            f"{found.where}: expected depths alone, found {', '.join(more)}; give the file as a "
            "fix (--fix, or fix= in Python)"
        )
    found = found.checked(wiring, program_hash)
    return found.depths, found.sized_for


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(str(name), list(known), 3)
    return f" (near: {', '.join(near)})" if near else ""


def _with_default_of(data: Mapping[str, Any], wiring: Wiring) -> str | None:
    """The hash of the program with the default depth of the one in the file.

    None where the default matters: a FIFO without a depth of its own is not named.
    """
    unnamed = any(
        fifo.depth is None and fifo.name not in data.get(_DEPTHS, {}) for fifo in wiring.fifos
    )
    if unnamed or "program_fifo_depth" not in data:
        return None
    return fingerprint(wiring.program, fifo_depth=data["program_fifo_depth"])


def _check_program(
    where: str,
    data: Mapping[str, Any],
    lines: Mapping[str, int],
    wiring: Wiring,
    program_hash: str,
) -> None:
    found = data.get("program_hash")
    if found is None or found == program_hash or found == _with_default_of(data, wiring):
        return
    raise ArgError(
        f"{where}, line {lines['program_hash']}: it is for program "
        f"{shown(data.get('program'))} with the hash {str(found)[:12]}, found program "
        f"'{wiring.program.name}' with the hash {program_hash[:12]}: other parameters, shapes or "
        "operators. Find a fix of this program (`stepsim why --write-fix`, `stepsim size`), or "
        "delete the line program_hash to take the values as they are"
    )
