"""Operators as coroutines joined by unbounded FIFOs (a Kahn network).

A coroutine runs until it needs a token that is not available yet, and resumes when it is.
Evaluation is therefore driven by tokens, not by operators, and cycles through feedback work. Every
output keeps all of its tokens; its readers have a position each, so that copies cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from stepsim.errors import EvaluationError
from stepsim.functional.values import Array, Payload, Token, World, rounded
from stepsim.graph import Operator, Stream, Tile

T = TypeVar("T")


class Feed:
    """One output: every token sent, in order."""

    __slots__ = ("closed", "ready", "stream", "tokens", "waiting")

    def __init__(self, stream: Stream, ready: deque[Node]) -> None:
        self.stream = stream
        self.tokens: list[Token] = []
        self.closed = False
        self.waiting: list[Node] = []
        self.ready = ready

    def push(self, token: Token) -> None:
        self.tokens.append(token)
        if self.waiting:
            self.wake()

    def close(self) -> None:
        self.closed = True
        self.wake()

    def wake(self) -> None:
        self.ready.extend(self.waiting)
        self.waiting.clear()


class Reader:
    """One input of one operator."""

    __slots__ = ("feed", "role", "taken")

    def __init__(self, feed: Feed, role: str) -> None:
        self.feed = feed
        self.role = role
        self.taken = 0

    def head(self) -> Wait[Token | None]:
        """The next token, without taking it; None when the stream has ended."""
        while self.taken >= len(self.feed.tokens):
            if self.feed.closed:
                return None
            yield self
        return self.feed.tokens[self.taken]

    def take(self) -> Wait[Token | None]:
        """The next token; None when the stream has ended."""
        token = yield from self.head()
        if token is not None:
            self.taken += 1
        return token

    @property
    def left(self) -> int:
        """Tokens sent but not taken."""
        return len(self.feed.tokens) - self.taken


Wait = Generator[Reader, None, T]
"""A computation that may wait for tokens before it returns."""

Steps = Wait[None]


@dataclass(eq=False)
class Node:
    """One running operator: its inputs, its outputs, and the state shared with the others
    (``world``)."""

    operator: Operator
    inputs: Sequence[Reader]
    outputs: Sequence[Feed]
    world: World
    steps: Steps | None = None
    waits_for: Reader | None = None
    failed: bool = False
    done: bool = field(default=False)

    def emit(self, payload: Payload, level: int, output: int = 0) -> None:
        self.outputs[output].push(Token(payload, level))

    def rounded(self, data: Array, output: int = 0) -> Array:
        """Floating-point data in the scalar type of an output, held as float32."""
        tile = self.outputs[output].stream.type
        assert isinstance(tile, Tile)
        return rounded(data, self.world.scalar or tile.dtype)

    def fail(self, what: str, hint: str = "") -> NoReturn:
        """Raise EvaluationError: where, what, how to fix it."""
        advice = f" {hint[0].upper()}{hint[1:]}." if hint else ""
        raise EvaluationError(
            f"{self.operator.title()}: {what}.{advice} ({self.operator.source})"
        )  # fmt: skip

    def pair(self, first: Reader, second: Reader) -> Wait[tuple[Token, Token] | None]:
        """One token from each of two streams of the same shape; None when both have ended."""
        both = yield from self.gather((first, second))
        return None if both is None else (both[0], both[1])

    def gather(self, readers: Sequence[Reader]) -> Wait[list[Token] | None]:
        """One token from each of some streams of one shape; None when all have ended."""
        tokens: list[Token] = []
        ended: list[Reader] = []
        for reader in readers:
            token = yield from reader.head()
            if token is None:
                ended.append(reader)
            else:
                tokens.append(token)
        if not tokens:
            return None
        if ended:
            short, long = ended[0], next(r for r in readers if r not in ended)
            self.fail(
                f"{short.role} ended after {short.taken} tokens while {long.role} goes on",
                "all streams must have the same shape",
            )
        for reader, token in zip(readers, tokens, strict=True):
            if token.level != tokens[0].level:
                self.fail(
                    f"token {readers[0].taken} has stop level {tokens[0].level} in "
                    f"{readers[0].role} and {token.level} in {reader.role}",
                    "all streams must have the same shape",
                )
        for reader in readers:
            reader.taken += 1
        return tokens


def run_nodes(nodes: Iterable[Node], ready: deque[Node]) -> list[EvaluationError]:
    """Run until nothing can proceed; returns the failures, in order.

    An operator that fails leaves its outputs open; the others continue as far as they can.
    """
    everything = list(nodes)
    ready.extend(everything)
    failures: list[EvaluationError] = []
    while ready:
        node = ready.popleft()
        assert node.steps is not None
        try:
            reader = next(node.steps)
        except StopIteration:
            node.done = True
            for feed in node.outputs:
                feed.close()
        except EvaluationError as error:
            node.failed = True
            failures.append(error)
        else:
            node.waits_for = reader
            reader.feed.waiting.append(node)
    if not failures:
        failures = [*_stuck(everything), *_left_over(everything)]
    return failures


def _stuck(nodes: Sequence[Node]) -> list[EvaluationError]:
    """Operators that wait for each other forever."""
    waiting = [n for n in nodes if not n.done and n.waits_for is not None]
    if not waiting:
        return []
    shown = "".join(
        f"\n  - {n.operator.title()} waits for {n.waits_for.role} from "
        f"{n.waits_for.feed.stream.producer.title()} ({n.operator.source})"
        for n in waiting[:8]
        if n.waits_for is not None
    )
    more = f"\n  - and {len(waiting) - 8} more" if len(waiting) > 8 else ""
    return [
        EvaluationError(
            f"deadlock: {len(waiting)} operators wait for tokens that never come. A feedback loop "
            f"without a first token is the usual cause{shown}{more}"
        )
    ]


def _left_over(nodes: Sequence[Node]) -> list[EvaluationError]:
    """Streams that are longer than their readers."""
    return [
        EvaluationError(
            f"{node.operator.title()}: it ended with {reader.left} tokens left in {reader.role}, "
            f"{reader.feed.stream!r}. The streams that it reads must have matching shapes "
            f"({node.operator.source})"
        )
        for node in nodes
        for reader in node.inputs
        if reader.left
    ]
