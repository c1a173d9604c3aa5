"""Operator: the base of every node, and Site: one constructor call in progress.

A constructor function makes a Site, reports problems through it, and registers the operator with it
last, so a failed constructor leaves the program unchanged and every error names the operator, its
inputs and the user's source line.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from stepsim.arguments import Range, flag, is_whole, label_of, shown
from stepsim.errors import (
    ArgError,
    DimError,
    DTypeError,
    GraphError,
    LoweringError,
    RankError,
    StepError,
)
from stepsim.frozen import NamedTuple, keyword_record, record_repr
from stepsim.graph.handle import (
    Counts,
    Padding,
    RepeatedCounts,
    SplitPadding,
    StreamHandle,
)
from stepsim.graph.programs.current import current_program
from stepsim.graph.programs.source_line import location, user_frame
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.shapes import cardinality, format_dims
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Buffer, ElementType, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.programs.program import Program
    from stepsim.graph.stream import Stream

Bindings = Mapping[Any, Any]
"""Routing -> checked index array ``[rows, k]``, for every routing that the program reads."""


@keyword_record
class Operator:
    """A node: inputs, attributes, outputs. Registered operators do not change.

    ``name`` is the user's spelling of the operator, ``unit_kind`` the unit that times it, and
    ``chip`` the chip of the machine that it is on.
    Attributes that came later (``_added``) are left out where they have their default, so that the
    fingerprints of earlier programs stay.
    """

    name: ClassVar[str] = "?"
    unit_kind: ClassVar[str] = "?"
    charges_compute: ClassVar[bool] = False
    _added: ClassVar[tuple[str, ...]] = ()

    label: str | None = None
    inputs: tuple[Stream, ...] = field(default=(), init=False)
    outputs: tuple[Stream, ...] = field(default=(), init=False)
    id: int = field(default=-1, init=False)
    source: str = field(default="", init=False)
    part: str = field(default="", init=False)
    chip: int = field(default=0, init=False)
    program: Program = field(init=False, repr=False)

    # Dataclasses would compile one for each operator, which takes a while.
    __repr__ = record_repr

    def title(self, output: int | None = None) -> str:
        """The name under which an operator is shown, everywhere; unique in its program.

        The user's own word comes first: the label, else the function that it applies, else the
        operator itself, with its number: ``route#3``, ``silu#8``, ``flatten#6``. Operators that
        one call made are its parts: ``expand#5/repeat``. The number of an output follows where
        there are several: ``route#3.1``.
        """
        dot = f".{output}" if output is not None and len(self.outputs) > 1 else ""
        name = self.part or f"{self.label or self.function_name or self.name}#{self.id}"
        return f"{name}{dot}"

    def called(self) -> str:
        """The title, and the operator in the language where the title does not say it."""
        return f"{self.title()} ({self.name})" if self.label or self.function_name else self.title()

    @property
    def former_title(self) -> str:
        """The name under which files of earlier versions know it: ``map#8``."""
        return f"{self.label or self.name}#{self.id}"

    @property
    def function_name(self) -> str:
        """Name of the function that it applies; empty for operators without one."""
        return _name_of(getattr(self, "fn", None))

    def attributes(self) -> dict[str, Any]:
        """The parameters of the operator, for printing and for the fingerprint."""
        kind = type(self)
        found = {name: getattr(self, name) for name in _own_fields(kind)}  # type: ignore[arg-type]
        unset = [name for name in kind._added if found[name] == getattr(kind, name)]
        return {name: value for name, value in found.items() if name not in unset}

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        """Parameters of the unit, in plain ints, lists and strings."""
        raise LoweringError(f"{self.title()} has no unit that times it ({self.source})")

    def traffic(self, accounting: Accounting) -> Size:
        """Off-chip bytes moved."""
        return 0

    def memory(self, accounting: Accounting) -> Size:
        """On-chip bytes held."""
        return 0

    def flops(self) -> Size:
        """Floating-point operations, including padded rows."""
        return 0

    def loops_back(self) -> Stream | None:
        """The stream that a feedback placeholder represents, once connected."""
        return None

    def awaits_connection(self) -> bool:
        """Whether it is a feedback placeholder that is not connected."""
        return False

    def trigger(self) -> Size:
        """Number of elements; if it is 0, the operator never starts (on-demand allocation)."""
        return self.inputs[0].cardinality() if self.inputs else 1


def _name_of(fn: object) -> str:
    """The name of a function; empty for other objects, which constructors refuse later."""
    name = getattr(fn, "name", "")
    return name if isinstance(name, str) else ""


@cache
def _own_fields(kind: type[Operator]) -> tuple[str, ...]:
    base = {f.name for f in fields(Operator)}
    return tuple(f.name for f in fields(kind) if f.name not in base)


class Output(NamedTuple):
    """The properties that a constructor has inferred for one output."""

    shape: tuple[Dim, ...]
    type: ElementType
    counts: Counts | None = None
    padding: Padding | SplitPadding | None = None

    @classmethod
    def like(
        cls,
        stream: Stream,
        shape: Sequence[Dim] | None = None,
        type: ElementType | None = None,
    ) -> Output:
        """The elements of ``stream`` with another shape or type: counts and padding are kept."""
        return cls(
            stream.shape if shape is None else tuple(shape),
            stream.type if type is None else type,
            stream.counts,
            stream.padding,
        )

    @classmethod
    def repeated(cls, stream: Stream, shape: Sequence[Dim], times: Size | None) -> Output:
        """Every element of ``stream`` repeated ``times`` times, in another shape.

        None: a different number for each element, so it is not known how often an output is
        selected.
        """
        counts = None
        if times == 1:
            counts = stream.counts
        elif isinstance(times, int) and isinstance(stream.type, MultiHot | IndexSelector):
            counts = RepeatedCounts(stream.program.counts_of(stream), times)
        kind = stream.type
        if isinstance(kind, Buffer):
            why = f"copies of {stream!r}"
            kind = Buffer(kind.tile, tuple(d.repeated(times, why) for d in kind.dims))
        elif isinstance(kind, Tile) and times is None:
            kind = kind.counted_anew(cardinality(shape), f"copies of {stream!r}")
        return cls(tuple(shape), kind, counts, stream.padding)


def streams_of(name: str, what: str, xs: object) -> tuple[Stream, ...]:
    """A list of streams as a tuple; its entries are checked by a :class:`Site`.

    Raises
    ------
    ArgError : ``xs`` is not a list.
    """
    if not isinstance(xs, list | tuple):
        raise ArgError(f"{name}: {what} must be a list of streams, found {shown(xs)}")
    return tuple(xs)


class Whole:
    """A call that makes several operators, which are named as its parts."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._made: Counter[str] = Counter()

    def part(self, name: str) -> str:
        """The name of the next part: ``expand#5/repeat``, of the second one ``.../repeat2``."""
        self._made[name] += 1
        count = self._made[name]
        return f"{self.title}/{name}{count if count > 1 else ''}"


@cache
def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"in{i + 1}" for i in range(count))


class Site:
    """One constructor call: checks in a fixed order, then registration."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Stream],
        label: str | None = None,
        roles: Sequence[str] = (),
        fn: object = None,
    ) -> None:
        self.name = name
        self._function_name = _name_of(fn)
        if label is not None:
            label_of(f"{name}: label", label)
        self.label = label
        self.inputs = tuple(inputs)
        self.roles = tuple(roles) or _numbered(len(self.inputs))
        self._frame = user_frame()
        self.program: Program | None = None
        for role, stream in zip(self.roles, self.inputs, strict=False):
            if not isinstance(stream, StreamHandle):
                self.fail(ArgError, f"{role} must be a Stream, found {type(stream).__name__}")
            if self.program is None:
                self.program = stream.program
            elif stream.program is not self.program:
                self.fail(
                    GraphError,
                    f"{role} belongs to program '{stream.program.name}', the other inputs to "
                    f"'{self.program.name}'",
                    "streams of two programs cannot meet; build both parts in one Program",
                )
        if self.program is None:
            self.program = current_program()
        if self.program is None:
            self.fail(GraphError, "no program is active", "build inside `with st.Program(...):`")
        if self.program.closed:
            self.fail(
                GraphError,
                f"program '{self.program.name}' is finished",
                "add operators inside its `with` block",
            )

    @property
    def owner(self) -> Program:
        assert self.program is not None
        return self.program

    @property
    def title(self) -> str:
        """The name that the operator will have, see :meth:`Operator.title`."""
        number = f"#{self.program.next_id}" if self.program is not None else ""
        return f"{self.label or self._function_name or self.name}{number}"

    def fail(self, error: type[StepError], what: str, hint: str = "") -> NoReturn:
        """Raise ``error``: where, what, inputs, hint, source line."""
        path, line = self._frame
        # Other words than the one that was called may not say what failed.
        called = f" ({self.name})" if self.label or self._function_name else ""
        parts = [f"{self.title}{called}: {what}."]
        if hint:
            parts.append(f" {hint[0].upper()}{hint[1:]}.")
        for role, stream in zip(self.roles, self.inputs, strict=False):
            if isinstance(stream, StreamHandle):
                parts.append(f"\n  {role}: {stream!r}")
        text = linecache.getline(path, line).strip()
        if path:
            parts.append(f"\n  at {path}:{line}" + (f": {text}" if text else ""))
        raise error("".join(parts))

    def require(self, ok: bool, error: type[StepError], what: str, hint: str = "") -> None:
        if not ok:
            self.fail(error, what, hint)

    def number(self, limits: Range, what: str, value: object) -> int:
        """``value`` as an int within ``limits``."""
        if type(value) is int and limits.low <= value <= limits.high:
            return value
        return cast(int, self._checked(limits.checked, what, value))

    def numbers(self, limits: Range, what: str, values: object) -> tuple[int, ...]:
        """The ints of a list or one-dimensional array, each within ``limits``."""
        return cast(tuple[int, ...], self._checked(limits.list, what, values))

    def pair(self, limits: Range, what: str, values: object) -> tuple[int, int]:
        """Rows and columns, each within ``limits``."""
        return cast(tuple[int, int], self._checked(limits.pair, what, values))

    def flag(self, what: str, value: object) -> bool:
        """``value`` as a bool."""
        if value is True or value is False:
            return value
        return cast(bool, self._checked(flag, what, value))

    def _checked(self, check: Callable[[str, object], object], what: str, value: object) -> object:
        try:
            return check(what, value)
        except StepError as error:
            self.fail(type(error), str(error).rstrip("."))

    def rank_at_least(self, stream: Stream, rank: int) -> int:
        """``rank``, with ``1 <= rank <= N``: the number of inner dims treated as a unit."""
        if not is_whole(rank) or rank < 1:
            self.fail(
                RankError,
                f"rank must be an int of at least 1, found {shown(rank)}",
                "it is the number of inner dims treated as a unit",
            )
        if rank > stream.rank:
            hint = f"choose 1 <= rank <= {stream.rank}"
            if stream.rank == 1:
                hint = "choose rank = 1"
            elif stream.rank < 1:
                hint = "the stream has too few dims; reshape or unsqueeze it first"
            self.fail(
                RankError,
                f"rank {shown(rank)} does not fit {format_dims(stream.shape)} of rank "
                f"{stream.rank}",
                hint,
            )
        return int(rank)

    def require_type(
        self, ok: bool, role: str, stream: Stream, wanted: str, hint: str = ""
    ) -> None:
        if not ok:
            self.fail(DTypeError, f"{role} must carry {wanted}, found {stream.type}", hint)

    def same_dims(
        self,
        left: Sequence[Dim],
        right: Sequence[Dim],
        left_role: str,
        right_role: str,
        *,
        base: int = 0,
        hint: str = "",
    ) -> None:
        """Require that two lists of dims are provably equal; ``base`` is the index of the last
        dim."""
        if len(left) != len(right):
            self.fail(
                RankError,
                f"{left_role} has dims {format_dims(left)}, {right_role} has {format_dims(right)}: "
                f"{len(left)} against {len(right)}",
                hint or "both need the same number of dims",
            )
        for position, (a, b) in enumerate(zip(left, right, strict=True)):
            if a is b or a == b:
                continue
            verdict = self.owner.compare(a, b)
            if verdict:
                continue
            index = base + len(left) - 1 - position
            state = "different" if verdict is False else "unknown"
            advice = hint
            if not advice:
                advice = (
                    f"use program.assume_equal({a}, {b}) if they are equal by construction, or "
                    "build both selectors from one routing()"
                    if verdict is None
                    else "these sizes can never be equal; check the shapes of the inputs"
                )
            self.fail(
                DimError,
                f"dim {index} differs: {left_role} {format_dims(left)} has {a}, {right_role} "
                f"{format_dims(right)} has {b} ({state})",
                advice,
            )

    def same_dims_regular(
        self, left: Sequence[Dim], right: Sequence[Dim], left_role: str, right_role: str
    ) -> None:
        """Like :meth:`same_dims`, but skips positions where either dim is ragged."""
        for position, (a, b) in enumerate(zip(left, right, strict=True)):
            if not (a is b or a == b or a.is_ragged or b.is_ragged):
                self.same_dims((a,), (b,), left_role, right_role, base=len(left) - 1 - position)

    def add(self, operator: Operator, outputs: Sequence[Output]) -> tuple[Stream, ...]:
        """Register the operator; returns its output streams."""
        operator.label = self.label
        operator.inputs = self.inputs
        operator.source = location(*self._frame)
        program = self.owner
        if program.whole is not None:
            operator.part = program.whole.part(operator.function_name or operator.name)
        return program.register(operator, outputs)

    @contextmanager
    def parts(self) -> Iterator[None]:
        """Operators made inside are parts of this call, the outermost one if calls are nested."""
        program = self.owner
        outer = program.whole
        program.whole = outer or Whole(f"{self.label or self.name}#{program.next_id}")
        try:
            yield
        finally:
            program.whole = outer
