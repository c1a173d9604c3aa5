"""Parameters of workloads, their input data, and the programs built from them.

Nothing here imports the graph, so that options and help start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, get_type_hints

from stepsim.arguments import flag, label_of, shown, text_of
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.typed import typed, typed_but
from stepsim.workloads.declarations import check_names, default_of
from stepsim.workloads.values import MOST_WHOLE, Kind, kind_of, plain_bytes, plain_share

if TYPE_CHECKING:
    import numpy as np

    from stepsim.graph import Program
    from stepsim.workloads import arrays
else:
    np = deferred("numpy")
    arrays = deferred("stepsim.workloads.arrays")

DYNAMIC = "dynamic"
"""Rows of a tile that is as tall as its data."""

DEFAULT_ROWS = 64
"""Tokens or requests of a workload without a trace."""


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


@frozen
class Input:
    """A trace that a workload needs; ``name`` is its attribute in `Data`.

    Attributes
    ----------
    optional : it may be left out, and `Data` says what holds then.
    """

    name: str
    what: str
    optional: bool = False


ROUTING = Input("routing", "expert ids [tokens, k]")
"""The input of a workload that takes a routing table, ``data.routing``."""

KV_LENGTHS = Input("kv_lengths", "cached tokens of each request [requests]")
"""The input of a workload that takes the lengths of KV caches, ``data.kv_lengths``."""

NEW_TOKENS = Input("new_tokens", "new tokens of each request [requests]", optional=True)
"""The input of a workload whose requests may have several new tokens, ``data.new_tokens``."""


@frozen(slots=False, eq=False)
class Data:
    """The traces of a workload, which reads those that its parameters need.

    Attributes
    ----------
    routing : expert ids ``[tokens, k]``, those of the first request first; None if not given.
    kv_lengths : cached tokens ``[requests]``; None if not given.
    rows : tokens or requests.
    whole : tokens or requests of the full batch, of which these are the first.
    new_tokens : new tokens ``[requests]``; None for one of each.

    Raises
    ------
    ArgError : as in `of`.
    """

    routing: np.ndarray[Any, Any] | None = None
    kv_lengths: np.ndarray[Any, Any] | None = None
    rows: int = DEFAULT_ROWS
    whole: int = 0
    new_tokens: np.ndarray[Any, Any] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.routing is not None:
            put(self, "routing", arrays.routing_of(self.routing))
        if self.kv_lengths is not None:
            put(self, "kv_lengths", arrays.lengths_of(self.kv_lengths))
        if self.new_tokens is not None:
            put(self, "new_tokens", arrays.new_tokens_of(self.new_tokens))
        put(self, "rows", arrays.rows_of("rows", self.rows, 0))
        put(self, "whole", arrays.rows_of("whole", self.whole, 0))
        for name, rows in (
            ("kv_lengths", self.rows), ("new_tokens", self.rows), ("routing", self.tokens),
        ):  # fmt: skip
            array = getattr(self, name)
            if array is not None and len(array) != rows:
                raise ArgError(
                    f"{name}: expected a row for each of the {rows} rows, found {len(array)}; "
                    "make data with Data.of, which counts them"
                )

    @classmethod
    def of(
        cls,
        *,
        routing: Any = None,
        kv_lengths: Any = None,
        new_tokens: Any = None,
        rows: int | None = None,
        whole: int | None = None,
    ) -> Data:
        """Data of the given arrays; without arrays, ``rows`` gives the number of rows, 64 by
        default.

        Raises
        ------
        ArgError : an array has a wrong shape, is not of whole numbers from 0, or does not have one
            row for each row of the others.
        """
        ids = None if routing is None else arrays.routing_of(routing)
        lengths = None if kv_lengths is None else arrays.lengths_of(kv_lengths)
        new = None if new_tokens is None else arrays.new_tokens_of(new_tokens)
        if new is not None:
            return cls._of_new(new, ids, lengths, rows, whole)
        counts = [len(array) for array in (ids, lengths) if array is not None]
        if len(set(counts)) > 1:
            raise ArgError(
                f"routing: expected one token for each of the {counts[1]} requests of kv_lengths, "
                f"found {counts[0]}; take as many of both"
            )
        said = None if rows is None else arrays.rows_of("rows", rows, 1)
        if counts and said is not None and said != counts[0]:
            raise ArgError(
                f"rows: expected the {counts[0]} of the arrays, found {said}; leave it out"
            )
        found = counts[0] if counts else DEFAULT_ROWS if said is None else said
        return cls(
            ids, lengths, found, found if whole is None else arrays.rows_of("whole", whole, found)
        )

    @classmethod
    def _of_new(cls, new: Any, ids: Any, lengths: Any, rows: int | None, whole: int | None) -> Data:
        """Data of requests with these new tokens."""
        count, tokens = len(new), int(new.sum())
        if lengths is not None and len(lengths) != count:
            raise ArgError(
                f"new_tokens: expected one number for each of the {len(lengths)} requests of "
                f"kv_lengths, found {count}; take as many of both"
            )
        if ids is not None and len(ids) != tokens:
            raise ArgError(
                f"routing: expected a row for each of the {tokens} new tokens of {count} requests, "
                f"found {len(ids)}; take as many of both"
            )
        if rows is not None and arrays.rows_of("rows", rows, 1) != count:
            raise ArgError(
                f"rows: expected the {count} requests of new_tokens, found {rows}; leave it out"
            )
        whole = count if whole is None else arrays.rows_of("whole", whole, count)
        return cls(ids, lengths, count, whole, new)

    @typed
    def missing(self, inputs: Iterable[Input]) -> list[Input]:
        """The inputs that are not given and may not be left out."""
        return [one for one in inputs if not one.optional and getattr(self, one.name) is None]

    @property
    def new(self) -> np.ndarray[Any, Any]:
        """The new tokens of each request, one where none are given."""
        return np.ones(self.rows, dtype=np.int64) if self.new_tokens is None else self.new_tokens

    @property
    def tokens(self) -> int:
        """New tokens of all requests together."""
        return self.rows if self.new_tokens is None else int(self.new_tokens.sum())

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """The cached tokens, all 0 where none are given."""
        return np.zeros(self.rows, dtype=np.int64) if self.kv_lengths is None else self.kv_lengths


@frozen
class Counted:
    """Bytes and FLOPs of a program in one way of counting; see the glossary of metrics.

    Attributes
    ----------
    padded_flops : the part of ``flops`` on padding rows; None if unknown.
    """

    offchip_bytes: int
    onchip_bytes: int
    flops: int
    padded_flops: int | None
    allocated_flops_per_cycle: int


class Built:
    """A built program, and how data with the same `Workload.program_key` is bound to it.

    Attributes
    ----------
    program : the program.
    parameters : values of parameters, and of other columns, that are known only after building.
    notes : remarks on the program, a sentence each.
    fifo_depths : depths of FIFOs by name, for the machine that the workload is built for.
    earlier : programs that run before this one, one after another, as parts of the same work;
        measures are those of all together.
    """

    @typed_but("program")
    def __init__(
        self,
        program: Program,
        *,
        parameters: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
        fifo_depths: Mapping[str, int] | None = None,
        earlier: Iterable[Built] = (),
    ) -> None:
        self.program = program
        self.earlier = tuple(earlier)
        self.fifo_depths = None if fifo_depths is None else dict(fifo_depths)
        self.parameters = dict(parameters or {})
        self.notes = tuple(notes)

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        """Values of the unbound routings of the program."""
        return {}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        """Values of all symbolic sizes of the program, for its symbolic metrics."""
        return self.bindings(data)

    def tokens(self, data: Data) -> int | None:
        """Tokens that a run advances by one step, for token/s; None if not applicable.

        By default the rows of the traces of the data: a decoder makes one token for each request,
        and a layer passes on each token of its batch. Without a trace nothing says how many tokens
        the program processes, so a workload without inputs states them itself.
        """
        return None if data.routing is None and data.kv_lengths is None else data.rows

    def padded_flops(self, data: Data) -> int | None:
        """Executed FLOPs on padding rows; None if not known."""
        return None

    def published(self, data: Data) -> Counted | None:
        """Bytes and FLOPs as the published figures count them; None if there is no figure."""
        return None


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
