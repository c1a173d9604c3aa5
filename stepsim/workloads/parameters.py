"""Parameters of workloads: what they may be, and how they are declared.

Nothing here imports the graph, so that options and help start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, get_type_hints

from stepsim.arguments import flag, label_of, shown, text_of
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.workloads.declarations import check_names, default_of
from stepsim.workloads.values import MOST_WHOLE, Kind, kind_of, plain_bytes, plain_share

DYNAMIC = "dynamic"
"""Rows of a tile that is as tall as its data."""


@frozen
class Param:
    """Properties of a parameter in its declaration, in addition to its type and default.

    Attributes
    ----------
    help : a phrase that describes it, without its unit.
    unit : unit of its values, empty for pure numbers and words.
    least, most : range of its numbers; whole numbers are from 1 to 2**40 unless it is given, and
        without ``least`` from 0 if the default is 0, and from -2**40 if it is below.
    machine : dotted key of the machine whose value holds when the parameter is not given.
    replaced : where the machine states that key, its value holds instead of the parameter, which
        may then not be given with another value.
    like : name of the parameter whose value holds when nothing else gives one.
    of_model : gives, of the workload, the value of its model, which holds when nothing else gives
        one.
    otherwise : in words, what holds when the value is None, or when a parameter without a default
        is required.
    text : the column of the results is text, because other workloads have words there.
    formerly : name that it had before; an error about that name says the new one.
    of_depths : it decides FIFO depths and nothing else, so that `stepsim size`, which looks for
        depths itself, does not take it.
    unused : gives, of the values of all parameters, why it has no effect with them and how to
        change that; empty if it has one. Without an effect it may not be given, and results have
        no value of it.
    needed : where it has an effect it must be given or set, although its default is None.
    added : it came after runs of sweeps were stored, so that their keys leave it out where it has
        its default.
    """

    help: str = ""
    unit: str = ""
    least: float | None = None
    most: float | None = None
    machine: str | None = None
    replaced: bool = False
    like: str | None = None
    of_model: Callable[[Any], Any] | None = None
    otherwise: str = ""
    text: bool = False
    formerly: str = ""
    of_depths: bool = False
    unused: Callable[[Mapping[str, Any]], str] | None = None
    needed: bool = False
    added: bool = False


@frozen
class Field:
    """A parameter of a workload: its name, type, default and `Param`.

    Attributes
    ----------
    required : whether it has no default.
    """

    name: str
    param: Param
    kind: Kind
    default: Any
    required: bool

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")

    def default_text(self, name: Callable[[str], str] = str) -> str:
        """The value used when it is not given, in words; empty if that is obvious.

        ``name`` maps the name of another parameter to its name in the text.
        """
        param = self.param
        if self.required:
            return param.otherwise or "required"
        if self.default is not None:
            text = str(self.column_value(self.default))
        elif param.like is not None:
            text = f"that of {name(param.like)}"
        else:
            text = param.otherwise
        return f"the machine's, or {text}" if param.machine is not None else text

    def unused(self, values: Mapping[str, Any]) -> str:
        """Why it has no effect with these values of all parameters; empty if it has one."""
        return "" if self.param.unused is None else self.param.unused(values)

    def lacks(self, value: Any) -> bool:
        """Whether a parameter that has an effect needs another value than this one."""
        return self.param.needed and value is None

    @property
    def missing(self) -> str:
        """The problem of a parameter that is needed and has no value."""
        what = f" ({self.param.help})" if self.param.help else ""
        return f"missing{what}; expected {self.kind.described()}"

    @property
    def column_type(self) -> str:
        """Arrow type of its column: ``int64``, ``float64``, ``bool`` or ``string``."""
        return "string" if self.param.text else self.kind.column_type

    def checked(self, value: Any) -> Any:
        """The value of a Python argument or a YAML key.

        Raises
        ------
        ParameterError : it has a wrong type or is out of range.
        """
        try:
            return self.kind.of_value(value)
        except ValueError as error:
            raise ParameterError([(self.name, str(error))]) from None

    def parsed(self, text: str) -> Any:
        """The value of an option, bytes also as 41MB and shares as 1%; raises as `checked` does."""
        plain = {"bytes": plain_bytes, "fraction": plain_share}.get(self.param.unit or "")
        try:
            return self.kind.of_text(text if plain is None else plain(text))
        except ValueError as error:
            raise ParameterError([(self.name, str(error))]) from None

    def column_value(self, value: Any) -> Any:
        """The value as stored in the column of the results."""
        if value is None:
            return None
        if isinstance(value, tuple):
            return "+".join(map(str, value))
        return str(value) if self.column_type == "string" else value


class ParameterError(ArgError):
    """Parameters are wrong or do not fit together.

    Attributes
    ----------
    problems : pairs of a parameter's name and its problem.
    """

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.text())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)

    def text(self, name: Callable[[str], str] = str) -> str:
        """All problems in sentences; ``name`` maps a parameter to its name in the text."""
        return "\n".join(f"{name(which)}: {text}" for which, text in self.problems)


_fields: dict[type, Mapping[str, Field]] = {}


def fields_of(workload: type) -> Mapping[str, Field]:
    """The parameters of a workload by name, in order.

    Raises
    ------
    ArgError : the class is not a dataclass, or a field has a type that options do not support, an
        invalid default, or a `Param` with an unknown name.
    """
    if workload in _fields:
        return _fields[workload]
    if not is_dataclass(workload):
        raise ArgError(
            f"workload {workload.__name__}: expected a dataclass; put @dataclass(frozen=True, "
            "kw_only=True) above it"
        )
    try:
        hints = get_type_hints(workload, include_extras=True)
    except Exception as error:
        text = f"workload {workload.__name__}: an annotation cannot be read: {error}"
        raise ArgError(f"{text}; import what it names where the file is read") from error
    found: dict[str, Field] = {}
    for field in fields(workload):
        where = f"workload {workload.__name__}, parameter {field.name}"
        param, hint = _annotation(hints[field.name], where)
        kind = kind_of(hint, _least(param, field.default), param.most, where)
        required = field.default is MISSING and field.default_factory is MISSING
        default = None if required else default_of(field, kind, where)
        found[field.name] = Field(field.name, param, kind, default, required)
    for name, one in found.items():
        check_names(one, found, f"workload {workload.__name__}, parameter {name}")
    _fields[workload] = found
    return found


def _least(param: Param, default: Any) -> float | None:
    """The least number that a parameter takes; a default of 0 or less says that as well."""
    if param.least is None and type(default) is int and default < 1:
        return 0 if default == 0 else -MOST_WHOLE
    return param.least


def depth_parameter(known: Mapping[str, Field]) -> str:
    """The parameter for the depth of all FIFOs, or else ``fifo_depth``, by which it is given.

    Empty if the workload has a parameter of that name with another meaning.
    """
    own = next((name for name, field in known.items() if field.param.machine == "fifo.depth"), "")
    return own or ("" if "fifo_depth" in known else "fifo_depth")


def new_name(known: Mapping[str, Field], name: str) -> str | None:
    """The parameter that was called ``name`` before; None if there is none."""
    return next((one.name for one in known.values() if one.param.formerly == name), None)


def check_fields(made: Any) -> None:
    """Put the checked values of a new instance in the place of those that were given.

    Raises
    ------
    ParameterError : some have a wrong type or are out of range; all of them are listed.
    """
    problems: list[tuple[str, str]] = []
    for name, field in fields_of(type(made)).items():
        try:
            object.__setattr__(made, name, field.checked(getattr(made, name)))
        except ParameterError as error:
            problems += error.problems
    if problems:
        raise ParameterError(problems)


def _check_param(param: Param, where: str) -> None:
    for name in ("help", "unit", "otherwise", "formerly"):
        text_of(f"{where}: {name}", getattr(param, name))
    for name in ("machine", "like"):
        label_of(f"{where}: {name}", getattr(param, name))
    for name in ("of_model", "unused"):
        function = getattr(param, name)
        if function is not None and not callable(function):
            raise ArgError(f"{where}: {name} must be a function, found {shown(function)}")
    for name in ("text", "of_depths", "replaced", "needed"):
        flag(f"{where}: {name}", getattr(param, name))


def _annotation(hint: Any, where: str) -> tuple[Param, Any]:
    """The `Param` of an annotation and the bare type; a text in the annotation is its help.

    A second `Param`, on a type that already has one, is merged into it.
    """
    extras = getattr(hint, "__metadata__", ())
    bare = hint.__origin__ if extras else hint
    found = Param()
    for extra in extras:
        if isinstance(extra, (Param, str)):
            more = Param(extra) if isinstance(extra, str) else extra
            _check_param(more, where)
            said = ((one.name, getattr(more, one.name), one.default) for one in fields(Param))
            changes: dict[str, Any] = {
                key: value for key, value, usual in said if value is not usual
            }
            found = replace(found, **changes)
    return found, bare
