"""Reading the specification of a sweep: a YAML file, a mapping, or one that was checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stepsim.arguments import shown
from stepsim.data import in_known_group
from stepsim.documents import load_yaml
from stepsim.errors import SweepError
from stepsim.paths import exists
from stepsim.sweep.spec.problems import refusal
from stepsim.sweep.spec.services import (
    located as located_service,
    located_value,
    with_service,
)
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.typed import typed
from stepsim.wording import describe_problems
from stepsim.workloads import plan_file, split_target

_FILES = {
    "machine": (".yaml", ".yml"),
    "model": (".yaml", ".yml", ".json"),
    "workload": (".py",),
    "place": (".yaml", ".yml"),
}
"""Keys that can name a file, and the suffix of its name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A specification as it was read, with the problems of its keys.

    Attributes
    ----------
    spec : the specification without the wrong keys; None if it cannot be checked without them.
    where, lines : the source and the lines of its keys, for messages.
    problems : the problems of the keys.
    wrong : keys of the specification whose values are wrong.
    """

    spec: SweepSpec | None
    where: str = "sweep"
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    wrong: frozenset[str] = frozenset()

    def of(self, spec: SweepSpec) -> Draft:
        """The same with another specification."""
        return replace(self, spec=spec)

    def refusal(self, more: Sequence[str] = ()) -> SweepError:
        """The error that lists all problems."""
        return refusal(self.where, [*self.problems, *more], self.lines)


@typed
def load_spec(source: SweepSpec | Mapping[str, Any] | str | Path) -> SweepSpec:
    """Read and check a specification: a YAML file, a mapping, or a checked specification.

    Files of traces and machines are looked for relative to the YAML file.

    Raises
    ------
    SweepError
        The file is unreadable, or keys are unknown, missing or mistyped; all are listed together.
    """
    draft = read_spec(source)
    if draft.problems or draft.spec is None:
        raise draft.refusal()
    return draft.spec


def read_spec(
    source: SweepSpec | Mapping[str, Any] | str | Path, kind: type[SweepSpec] = SweepSpec
) -> Draft:
    """Like :func:`load_spec`, but problems of the keys are kept, to be listed with the rest.

    ``kind`` is the class of specification to read, which may have more keys.

    Raises
    ------
    SweepError
        The file is unreadable, is not a mapping, or has another level than tiles.
    """
    if isinstance(source, SweepSpec):
        return with_service(Draft(source))
    where, lines, data = "sweep", {}, source
    if isinstance(source, str | Path):
        path = Path(source)
        where = f"sweep {path}"
        document = load_yaml(path, "sweep", SweepError, "See the documentation of sweeps.")
        data, lines = document.data, document.lines
    if not isinstance(data, Mapping):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise SweepError(f"{where}: expected a mapping with the key 'workload', found {found}")
    if "level" in data:
        raise SweepError(
            f"{where}: level: sweeps run at the tile level; leave it out, and use the machine "
            "hdl-arbiter for the last step before the hardware level. Single points run with "
            "`stepsim run --level hardware`, several as your own figure, whose Run has a level"
        )
    if "search" in data and "search" not in kind.model_fields:
        raise SweepError(
            f"{where}: search: belongs to a search of designs, expected a sweep; run "
            "`stepsim sweep tune` (`st.sweep.tune`), or remove the section"
        )
    for key in data:
        if not _is_text(key):
            raise SweepError(f"{where}: keys are names such as workload, found {shown(key)}")
    draft = _validated(data, where, lines, kind)
    if draft.spec is None or not isinstance(source, str | Path):
        return with_service(draft)
    return with_service(draft.of(_resolved(draft.spec, Path(source).parent)))


def _is_text(key: object) -> bool:
    """Whether a key can be written out; Python writes no number of 5,000 digits."""
    try:
        str(key).encode()
    except ValueError:
        return False
    return True


def _validated(
    data: Mapping[Any, Any], where: str, lines: Mapping[str, int], kind: type[SweepSpec]
) -> Draft:
    try:
        return Draft(kind.model_validate(dict(data)), where, lines)
    except RecursionError:
        raise SweepError(
            f"{where}: a value contains itself, expected plain lists and mappings; write it out"
        ) from None
    except ValidationError as error:
        problems = tuple(_described(error, lines, kind))
        keys = {str(item["loc"][0]) for item in error.errors(include_url=False)}
    known = list(kind.model_fields)
    # A misspelled key is not also reported as missing; its value is checked under the intended key.
    meant = {
        key: near[0]
        for key in keys.difference(known).intersection(data)
        if (near := get_close_matches(key, known, n=1)) and near[0] not in data
    }
    problems = tuple(
        p for p in problems if not p.startswith(tuple(f"{n}: " for n in meant.values()))
    )
    wrong = frozenset(keys.difference(meant.values()))
    # A key that is no text has another name in the error: True is 1.
    rest = {key: value for key, value in data.items() if isinstance(key, str) and key not in wrong}
    try:
        whole = kind.model_validate(rest | {near: data[key] for key, near in meant.items()})
        return Draft(whole, where, _also_as(meant, lines), problems, wrong)
    except ValidationError as error:
        wrong |= frozenset(meant.values())
        # The other problems are reported already.
        of_meant = re.compile(rf"(line \d+, )?({'|'.join(meant.values())})[.\[:]")
        also = _described(error, _also_as(meant, lines), kind)
        problems += tuple(filter(of_meant.match, also)) if meant else ()
        needed = {name for name, own in kind.model_fields.items() if own.is_required()}
        needed.add("service")  # which is in place of a workload
        spec = None if wrong & needed else kind.model_validate(rest)
        return Draft(spec, where, lines, problems, wrong)


def _described(
    error: ValidationError, lines: Mapping[str, int], kind: type[SweepSpec]
) -> list[str]:
    return describe_problems(error.errors(include_url=False), kind.model_json_schema(), lines)


def _also_as(meant: Mapping[str, str], lines: Mapping[str, int]) -> dict[str, int]:
    """The lines of keys; those of misspelled keys also under the intended key."""
    found = dict(lines)
    for path, line in lines.items():
        key = re.split(r"[.\[]", path, maxsplit=1)[0]
        if key in meant:
            found[meant[key] + path.removeprefix(key)] = line
    return found


def _file(folder: Path, name: str) -> str:
    """A file relative to the specification; the name of a data set stays as it is."""
    path = folder / name
    return name if in_known_group(name) and not exists(path, SweepError) else str(path)


def _resolved(spec: SweepSpec, folder: Path) -> SweepSpec:
    """Files of workloads, models, traces and machines relative to the folder of the YAML file."""
    changes: dict[str, Any] = {}
    for key, selection in (("traces", spec.traces), ("lengths", spec.lengths)):
        if selection is not None and selection.files:
            files = [_file(folder, name) for name in selection.files]
            changes[key] = selection.model_copy(update={"files": files})

    def located(key: str, value: Any) -> Any:
        if spec.service is not None:
            return located_value(key, value, folder)
        if not isinstance(value, str) or key not in _FILES:
            return value
        if key == "workload" and plan_file(value, folder) is not None:
            return str(folder / value)
        file = split_target(value)[0] if key == "workload" else value
        return str(folder / value) if file and file.endswith(_FILES[key]) else value

    if spec.service is not None:
        changes["service"] = located_service(spec, folder)
    for key in {"workload", "model", "machine", "place"} & spec.model_fields_set:
        changes[key] = located(key, getattr(spec, key))
    if spec.fix is not None:
        changes["fix"] = str(folder / spec.fix)
    changes["parameters"] = {key: located(key, value) for key, value in spec.parameters.items()}
    changes["grid"] = {
        key: [located(key, value) for value in values] for key, values in spec.grid.items()
    }
    changes["replicates"] = {
        key: [located(key, value) for value in values] for key, values in spec.replicates.items()
    }
    changes["points"] = [
        {key: located(key, value) for key, value in point.items()} for point in spec.points
    ]
    return spec.model_copy(update=changes)
