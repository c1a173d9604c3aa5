"""Sessions of several turns: a file with a record for each turn.

A record is a line of JSON or a row of Parquet with the fields

* ``session``: a name or number; all turns of a session have the same.
* ``turn``: from 0, in the order in which they are asked.
* ``new_tokens``: tokens that the user adds in this turn.
* ``output_tokens``: tokens of the answer.
* ``think_seconds``: from the answer before to this turn; in the first turn it must be left out.
* ``arrival_seconds``: when the session begins, after the start of the service; only in the first
  turn, and for all sessions or for none.

The prompt of a turn is all that was said before, prompt and answer, and then its new tokens. So the
blocks of a turn are those of the turns before as far as these go. Sessions share nothing with each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepsim.errors import TraceError
from stepsim.serving.requests.fields import Fields, RequestFile
from stepsim.serving.requests.prefixes import Segments
from stepsim.serving.requests.requests import Requests
from stepsim.serving.seconds import NANOSECONDS
from stepsim.trace_io import records

_FIELDS = (
    "session",
    "turn",
    "new_tokens",
    "output_tokens",
    "think_seconds",
    "arrival_seconds",
)


@dataclass(frozen=True, slots=True)
class _Turn:
    number: int
    """Of the record in the file."""
    new: int
    output: int
    think_s: float
    arrival_s: float | None


class SessionFile(RequestFile):
    """The requests of a file of sessions: session after session, in order of their arrival, each
    turn after the one before.

    Attributes
    ----------
    path : the file.
    """

    __slots__ = ()

    def _read(self, path: Path) -> Requests:
        sessions = _turns(path)
        if not sessions:
            raise TraceError(f"{path}: holds no turns, expected at least 1; record it again")
        order = sorted(sessions, key=lambda turns: turns[0].arrival_s or 0.0)
        prompt: list[int] = []
        output: list[int] = []
        arrival: list[int] = []
        think: list[int] = []
        after: list[int] = []
        number: list[int] = []
        for turns in order:
            context = 0
            for index, turn in enumerate(turns):
                after.append(len(after) - 1 if index else -1)
                context += turn.new
                prompt.append(context)
                output.append(turn.output)
                arrival.append(round((turns[0].arrival_s or 0.0) * NANOSECONDS))
                think.append(round(turn.think_s * NANOSECONDS))
                number.append(turn.number)
                context += turn.output
        sizes = [len(turns) for turns in order]
        said = np.array(prompt, dtype=np.int64) + output
        return Requests.of(
            prompt,
            output,
            arrival_ns=None if order[0][0].arrival_s is None else arrival,
            after=after,
            think_ns=think,
            number=number,
            # What is said in a session is one segment, of which each turn has a beginning.
            prefix=Segments(
                np.arange(len(said) + 1), np.repeat(np.arange(len(order)), sizes), said
            ),
            source=str(path),
        )


def _turns(path: Path) -> list[list[_Turn]]:
    """The turns of every session, in order; sessions in the order of the file."""
    found: dict[object, dict[int, tuple[str, _Turn]]] = {}
    for number, (place, record) in enumerate(records(path)):
        fields = Fields(place, record, _FIELDS)
        name, turn = fields.value("session"), fields.whole("turn")
        if not isinstance(name, int | str):
            raise fields.wrong("session", "a name or a number")
        turns = found.setdefault(name, {})
        if turn in turns:
            raise TraceError(
                f"{place}: turn {turn} of session {name!r} occurs twice, first in {turns[turn][0]};"
                " drop one of them"
            )
        for field, wrong in (("think_seconds", turn == 0), ("arrival_seconds", turn > 0)):
            if wrong and field in fields:
                where = "turns after the first" if turn == 0 else "the first turn of a session"
                raise TraceError(
                    f"{place}: turn {turn} of session {name!r} has `{field}`, which only {where} "
                    "can have; leave it out"
                )
        turns[turn] = (
            place,
            _Turn(
                number,
                fields.tokens("new_tokens"),
                fields.tokens("output_tokens"),
                fields.seconds("think_seconds") if turn else 0.0,
                fields.seconds("arrival_seconds") if "arrival_seconds" in fields else None,
            ),
        )
    sessions = []
    for name, turns in found.items():
        missing = next(turn for turn in range(len(turns) + 1) if turn not in turns)
        if missing < len(turns):
            raise TraceError(
                f"{path}: session {name!r} has {len(turns)} turns but no turn {missing}; number "
                "the turns from 0 without gaps"
            )
        sessions.append([turns[turn][1] for turn in range(len(turns))])
    timed = [turns[0].arrival_s is not None for turns in sessions]
    if any(timed) != all(timed):
        name = list(found)[timed.index(False)]
        raise TraceError(
            f"{path}: session {name!r} has no `arrival_seconds` and others have it; give it for "
            "all sessions or for none"
        )
    return sessions
