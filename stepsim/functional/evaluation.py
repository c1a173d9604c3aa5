"""``evaluate``: the values of a program."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, EvaluationError
from stepsim.functional import ops  # noqa: F401  (registers the evaluators)
from stepsim.functional.decisions import Decisions
from stepsim.functional.measure import Sizes, collapsed, regular_dims, sizes_of
from stepsim.functional.network import Feed, Node, Reader, run_nodes
from stepsim.functional.registry import evaluator_of
from stepsim.functional.symbols import Symbols, broken_assumption, contradictions, streams_of
from stepsim.functional.tensors import Tensors, assembled
from stepsim.functional.values import Array, Payload, Token, World
from stepsim.graph import (
    DType,
    FeedbackSource,
    LinearStore,
    Operator,
    Print,
    Program,
    RandomStore,
    Stream,
    Tile,
    check_bindings,
    check_program,
    dtype_of,
    resolved,
)
from stepsim.typed import typed

Shape = tuple[int | tuple[int, ...], ...]
"""Measured dims, outermost first; a dim with several sizes lists all of them, in stream order."""


@dataclass(frozen=True)
class FunctionalResult:
    """Values of a finished evaluation.

    Attributes
    ----------
    program : the evaluated program.
    stored : the tensor of every linear store and the updated target of every random store, in the
            scalar type of the program. The key is the name of the store or target, or the label or
            title of the operator if it has no name or two names would be equal.
    printed : the tokens of every ``printer``, by the operator's title.
    undecided : assumptions about sizes that do not occur in any stream of this run.
    """

    program: Program
    stored: Mapping[str, Array]
    printed: Mapping[str, list[Token]]
    undecided: tuple[str, ...]
    _feeds: Mapping[tuple[int, int], Feed] = field(repr=False)
    _symbols: Symbols = field(repr=False)

    @typed
    def stream(self, stream: Stream) -> list[Token]:
        """All elements of a stream in order: ``(payload, level)``."""
        return list(self._feed(stream).tokens)

    @typed
    def nested(self, stream: Stream) -> list[Any]:
        """The payloads of a stream as nested lists, one nesting for each dim."""
        return _nested(self.stream(stream), stream.rank)

    @typed
    def array(self, stream: Stream) -> Array:
        """The values of a stream of equal tiles as one array ``[dims..., rows, cols]``.

        Values are float32, whole numbers uint64.

        Raises
        ------
        EvaluationError : the stream carries no tiles, a dim or the size of the tiles varies, or a
            tile has padding; :meth:`stream` has the tiles one by one.
        """
        tokens = self.stream(stream)
        hint = "Take its tiles one by one with stream()"
        if not isinstance(stream.type, Tile):
            raise EvaluationError(f"array: {stream!r} carries no tiles. {hint}")
        if not tokens:
            sides = (*stream.shape[1:], stream.type.rows, stream.type.cols)
            known = (int(side) if side.is_static else 0 for side in sides)
            return np.zeros((0, *known), np.uint64 if stream.type.is_address else np.float32)
        dims = regular_dims([token.level for token in tokens], stream.rank)
        if dims is None:
            raise EvaluationError(
                f"array: {stream!r} has dims of different sizes, {self.shape(stream)}. {hint}"
            )
        tiles = [token.payload for token in tokens]
        sizes = sorted({(tile.rows, tile.cols) for tile in tiles})
        if len(sizes) > 1:
            found = " and ".join(f"{rows}x{cols}" for rows, cols in sizes[:2])
            raise EvaluationError(f"array: {stream!r} has tiles of {found}. {hint}")
        if any(tile.valid < tile.rows or tile.width < tile.cols for tile in tiles):
            raise EvaluationError(
                f"array: {stream!r} has tiles with padding, which holds no values. {hint}; `valid` "
                "and `width` of a tile are its rows and columns without padding"
            )
        return np.stack([tile.data for tile in tiles]).reshape(*dims, *sizes[0])

    @typed
    def shape(self, stream: Stream) -> Shape:
        """Measured dims of a stream."""
        levels = [t.level for t in self._feed(stream).tokens]
        return tuple(collapsed(s) for s in sizes_of(levels, stream.rank))

    @property
    def shapes(self) -> dict[tuple[int, int], Shape]:
        """Measured dims of every stream, by operator id and number of the output."""
        return {key: self.shape(feed.stream) for key, feed in self._feeds.items()}

    def _feed(self, stream: Stream) -> Feed:
        if stream.program is not self.program:
            raise ArgError(
                f"{stream!r} belongs to program '{stream.program.name}', not '{self.program.name}'"
            )
        return self._feeds[resolved(stream).key]

    def contradictions(self) -> list[str]:
        """Streams whose measured dims or tile sides differ from the declared ones."""
        return contradictions(self.program, _measure(self._feeds), self._symbols)


def _nested(tokens: list[Token], rank: int) -> list[Payload]:
    stack: list[list[Any]] = [[] for _ in range(rank + 1)]
    for token in tokens:
        stack[0].append(token.payload)
        for dim in range(token.level):
            stack[dim + 1].append(stack[dim])
            stack[dim] = []
    return stack[rank]


def _measure(feeds: Mapping[tuple[int, int], Feed]) -> Any:
    def measure(stream: Stream) -> tuple[list[Sizes], list[Token]] | None:
        feed = feeds[resolved(stream).key]
        if not feed.closed:
            return None
        return sizes_of([t.level for t in feed.tokens], stream.rank), feed.tokens

    return measure


def evaluate(
    program: Program,
    tensors: Mapping[Any, Any] | None = None,
    *,
    bindings: Mapping[Any, Any] | None = None,
    decisions: Decisions | None = None,
    scalar: DType | str | None = None,
) -> FunctionalResult:
    """Evaluate a finished program on real tensors.

    Parameters
    ----------
    tensors : arrays by load or random store operator, TensorSpec, name of a spec or label of an
        operator. Targets of random stores start from zeros when not given.
    bindings : index arrays ``[rows, k]`` for routings that were built from a shape only.
    decisions : orders of arrival recorded by a timing run; needed where eager merges, or
        reassembles of several chunks, leave the order open.
    scalar : evaluate in this floating-point type instead of the program's own; f32 separates
        rounding effects from mistakes.

    Raises
    ------
    ArgError
        ``program``, ``tensors`` or ``decisions`` has another type; bindings are missing or do not
        fit the routings of the program.
    EvaluationError
        A tensor or decision is missing, an operator cannot proceed, or streams do not match.
    AssumptionError
        ``assume_equal`` or ``assume_shape`` does not hold in this run.
    """
    check_program("evaluate", program)
    if not program.closed:
        raise EvaluationError(
            f"program '{program.name}' is still open; leave its `with` block before evaluating it"
        )
    if not isinstance(tensors, Mapping | None):
        raise ArgError(
            f"program '{program.name}': tensors must be a mapping {{name or load: array}}, "
            f"found {shown(tensors)}"
        )
    if not isinstance(decisions, Decisions | None):
        raise ArgError(
            f"program '{program.name}': decisions are {shown(decisions)}, expected Decisions of a "
            "timing run, as stepsim.prepare(program).decisions() records them"
        )
    if decisions is not None and decisions.program_hash not in (None, program.fingerprint()):
        raise EvaluationError(
            f"program '{program.name}': the decisions come from a run of another program. Record "
            "them from this one"
        )
    given = check_bindings(program, bindings)
    kind = None if scalar is None else dtype_of(scalar)
    if kind is not None and not kind.is_float:
        raise ArgError(f"scalar: expected a floating point type, as 'f32', found '{kind.text}'")
    world = World(Tensors(program, tensors or {}, kind), given, decisions, kind)
    ready: deque[Node] = deque()
    feeds = {
        out.key: Feed(out, ready)
        for op in program.operators
        if not isinstance(op, FeedbackSource)
        for out in op.outputs
    }
    nodes = [
        _node(op, feeds, world)
        for op in program.operators
        if not isinstance(op, FeedbackSource)
    ]  # fmt: skip
    failures = run_nodes(nodes, ready)
    symbols = Symbols(streams_of(program), _measure(feeds), given)
    broken, undecided = broken_assumption(program.assumptions, symbols)
    if broken is not None:
        raise broken from (failures[0] if failures else None)
    if failures:
        raise failures[0]
    return FunctionalResult(
        program=program,
        stored=_stored(program, feeds, world),
        printed={
            op.title(): list(feeds[resolved(op.inputs[0]).key].tokens)
            for op in program.operators
            if isinstance(op, Print)
        },
        undecided=tuple(undecided),
        _feeds=feeds,
        _symbols=symbols,
    )


def _node(op: Operator, feeds: Mapping[tuple[int, int], Feed], world: World) -> Node:
    roles = _roles(op)
    readers = [
        Reader(feeds[resolved(stream).key], role)
        for stream, role in zip(op.inputs, roles, strict=True)
    ]
    node = Node(op, readers, [feeds[out.key] for out in op.outputs], world)
    node.steps = evaluator_of(op)(op, node)
    return node


_ROLES = {
    "partition": ("data", "selector"),
    "random_store": ("addr", "data"),
    "expand": ("in", "ref"),
    "streamify": ("in", "ref"),
}


def _roles(op: Operator) -> tuple[str, ...]:
    """The names of the inputs in the constructor, for messages."""
    count = len(op.inputs)
    if op.name in _ROLES:
        return _ROLES[op.name][:count]
    if op.name == "reassemble":
        return (*(f"in{i}" for i in range(count - 1)), "selector")
    if op.name == "eager_merge":
        return tuple(f"in{i}" for i in range(count))
    return ("in",) if count == 1 else tuple(f"in{i + 1}" for i in range(count))


def _stored(
    program: Program, feeds: Mapping[tuple[int, int], Feed], world: World
) -> dict[str, Array]:
    """Tensors by store. Stores of one named tensor share its entry."""
    found: dict[str, Array] = {}
    owners: dict[str, Any] = {}
    for op in program.operators:
        owner: Any
        if isinstance(op, LinearStore):
            owner, name = op, op.tensor_name
            array = assembled(op, feeds[resolved(op.inputs[0]).key].tokens, world.scalar)
        elif isinstance(op, RandomStore):
            owner, name = op.tensor, op.tensor.name
            array = world.tensors.updated(op)
        else:
            continue
        name = name or op.label or op.title()
        if name in owners and owners[name] != owner:
            name = op.title()
        owners[name] = owner
        found[name] = array
    return found
