"""Selection of figures: those of the paper by number, and those of a user's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from stepsim.errors import ArgError, MachineError, TraceError, WorkloadError, did_you_mean
from stepsim.reproduce.figure import Figure
from stepsim.reproduce.figures import FIGURES, points_of
from stepsim.reproduce.inputs import own_trace
from stepsim.reproduce.points import LEVELS, Point
from stepsim.reproduce.runs import machine_of, source_of
from stepsim.reproduce.schema import own_schema, points_schema
from stepsim.simulation import counting_of, parameter_columns
from stepsim.workloads import CONFIGS, parameter_problems, read_module, user_code


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selected figure; small, and equal in every process.

    Attributes
    ----------
    number : of the figure.
    file, digest : path and SHA-256 of the user's file that defines it; empty for the paper's.
    """

    number: str
    file: str = ""
    digest: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the figure comes from a user's file."""
        return bool(self.file)

    @property
    def figure(self) -> Figure:
        """The definition of the figure.

        Raises
        ------
        ArgError : the file has changed.
        UserCodeError : the file raises when it is read.
        """
        if not self.file:
            return FIGURES[self.number]
        module, digest = read_module(Path(self.file))
        if digest != self.digest:
            raise ArgError(f"{self.file}: has changed since it was first read; start again")
        return next(f for f in _figures(module) if f.number == self.number)

    @contextmanager
    def user_code(self, part: str) -> Iterator[None]:
        """Run code that may raise: a user's file may raise anything; errors in ours are not hidden.

        ``part`` names the part of the figure's code, for the message.
        """
        if self.file:
            where = f"{Path(self.file).name}: figure {self.number}, {part}"
            with user_code(where, self.file, self.digest):
                yield
        else:
            yield

    def points(self) -> list[Point]:
        """The points of the figure; a user's points are checked as far as possible without running.

        Raises
        ------
        ArgError : a point belongs to another figure, occurs twice, or cannot be run.
        UserCodeError : the figure raises.
        """
        if not self.file:
            return points_of(self.number)
        where = f"{self.file}: figure {self.number}"
        found: list[Point] = []
        with self.user_code("points"):
            points = list(self.figure.points())
        if not points:
            raise ArgError(f"{where}: has no points; let points() yield at least one")
        for point in points:
            if not isinstance(point, Point):
                raise ArgError(f"{where}: expected points, found {type(point).__name__}")
            if point.figure != self.number:
                raise ArgError(
                    f"{where}: point {point.point_id} belongs to figure {point.figure!r}; give it "
                    "the number of its own figure"
                )
            if any(point.point_id == other.point_id for other in found):
                raise ArgError(f"{where}: has two points {point.point_id}; rename one")
            run = replace(point.run, folder=str(Path(self.file).parent))
            found.append(replace(point, run=run))
        for point in found:
            try:
                with self.user_code(f"point {point.point_id}"):
                    _check(point)
            except (ArgError, MachineError, TraceError, WorkloadError) as error:
                raise ArgError(f"{where}, point {point.point_id}: {error}") from None
        known = self.schema(found, compared=False).names
        for name in self.figure.columns:
            if name not in known:
                raise ArgError(f"{where}: has no column '{name}'{did_you_mean(name, known)}")
        return found

    def schema(self, points: Iterable[Point], *, compared: bool) -> pa.Schema:
        """Columns of its table; only figures of the paper have columns of comparison.

        Raises
        ------
        ArgError : workloads of a user's figure have parameters of one name and different types.
        """
        if not self.file:
            return points_schema(compared)
        sources = {source_of(point.run) for point in points}
        columns: dict[str, pa.Field] = {}
        for source in sorted(sources, key=lambda one: one.text):
            for name, column in parameter_columns(source.load()).items():
                other = columns.setdefault(name, column)
                if other.type != column.type:
                    raise ArgError(
                        f"{self.file}: figure {self.number}: parameter {name} of {source.text} is "
                        f"{column.type}, that of another workload {other.type}; make two figures"
                    )
        return own_schema(columns)


def choose_figures(names: Iterable[str]) -> list[Chosen]:
    """Figures of the paper by number, in the paper's order, each once, then those of files.

    ``all`` selects every figure of the paper, and the path of a Python file all figures in it.

    Raises
    ------
    ArgError : a figure is unknown, none is named, or two have the same number.
    WorkloadError : a file cannot be read.
    UserCodeError : a file raises when it is read.
    """
    given = list(names)
    files = list(dict.fromkeys(name for name in given if name.endswith(".py")))
    paper = [name for name in given if not name.endswith(".py")]
    asked = [name.lower().removeprefix("fig").removeprefix("ure").lstrip(". 0") for name in paper]
    unknown = [name for name, number in zip(paper, asked, strict=True)
               if number != "all" and number not in FIGURES]  # fmt: skip
    if unknown or not given:
        found = f"found {unknown[0]!r}" if unknown else "found none"
        raise ArgError(
            f"figures: expected one or more of {', '.join(FIGURES)}, 'all', or a file FILE.py with "
            f"figures of your own, {found}"
        )
    chosen = [Chosen(figure) for figure in FIGURES if figure in asked or "all" in asked]
    taken = {one.number: f"figure {one.number} of the paper" for one in chosen}
    for file in files:
        path = Path(file).resolve()
        module, digest = read_module(path)
        figures = _figures(module)
        if not figures:
            raise ArgError(
                f"{file}: has no Figure; define one at the top level of the file, as in FIGURE = "
                "Figure('1', points=points, draw=draw)"
            )
        for figure in figures:
            number = figure.number
            if not number.replace("-", "").replace("_", "").isalnum():
                raise ArgError(
                    f"{file}: figure {number!r}: its files are named after its number; use "
                    "letters, digits, - and _ only"
                )
            if number in taken:
                raise ArgError(
                    f"{file}: figure {number} has the number of {taken[number]}; give it another, "
                    "or make them one after the other"
                )
            taken[number] = f"another one of {path.name}"
            chosen.append(Chosen(number, str(path), digest))
    return chosen


def _figures(module: object) -> list[Figure]:
    """The distinct figures of a module, under any names."""
    found = [one for one in vars(module).values() if isinstance(one, Figure)]
    return list({id(one): one for one in found}.values())


def _check(point: Point) -> None:
    """Reject a run with an unknown workload, machine, trace or parameter, or an invalid value."""
    run = point.run
    workload = source_of(run).load()
    if run.level not in LEVELS:
        raise ArgError(f"level: expected {' or '.join(LEVELS)}, found '{run.level}'")
    machine_of(run)
    counting_of(run.counting, run.config)
    if run.config is not None and run.config not in CONFIGS:
        raise ArgError(f"config: expected {' or '.join(CONFIGS)}, found '{run.config}'")
    problems = parameter_problems(workload, run.parameters)
    if problems:
        raise ArgError("; ".join(f"{name}: {text}" for name, text in problems))
    inputs = {one.name for one in workload.inputs}
    unneeded = {one.name: why for one, why in workload.unneeded(run.parameters).items()}
    for name, trace in (("routing", run.routing), ("kv_lengths", run.lengths)):
        field = "lengths" if name == "kv_lengths" else name
        if trace and name not in inputs:
            raise ArgError(f"{field}: workload {run.workload} takes no such trace; leave it out")
        if trace and name in unneeded:
            raise ArgError(f"{field}: {unneeded[name]}")
        if not trace and name in inputs and name not in unneeded:
            raise ArgError(f"{field}: missing; workload {run.workload} needs a trace")
        if trace:
            own_trace(run, trace)
    if not run.routing:
        for name in ("layer", "step"):
            if getattr(run, name) is not None:
                raise ArgError(f"{name}: chooses from a routing; give routing too")
    if run.batch is not None and not inputs:
        raise ArgError(f"batch: workload {run.workload} takes no trace; leave it out")
