"""`Requests`: what a service is asked, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepsim.errors import ArgError

MOST_TOKENS = (1 << 31) - 1
"""Tokens of a prompt, or tokens that a request generates."""


class PrefixBlocks(Protocol):
    """Which blocks of tokens are equal, including all tokens before them."""

    def blocks(self, block_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Offsets [requests + 1] and labels of all full blocks of prompt and output, in order.

        Two labels are equal if and only if all tokens up to the ends of the blocks are. Labels are
        numbers from 0. Requests without known tokens have no labels, and a request has none from
        the first block on that has an unknown token.

        Raises
        ------
        ArgError : labels of blocks of that many tokens are not known.
        """
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """Requests in order of arrival; those of equal arrival in the order of the source.

    Attributes
    ----------
    arrival_ns : ns after the start of the service. [requests] For a request that follows another
        one it is only a lower bound.
    prompt_tokens, output_tokens : tokens of the prompt, and tokens to be generated. [requests]
    priority : smaller is more urgent. [requests]
    after : the request whose end this one waits for, -1 without one. [requests] It is a turn of
        a session before, or what a user of a closed loop asked before.
    think_ns : time from that end to the arrival. [requests]
    number : place in the source, to find recorded routing again. [requests]
    prefix : the labels of blocks; None if nothing is known of the tokens.
    source : where they come from, for messages.
    timed : whether the source has times of arrival. Without them all arrive at 0.

    Raises
    ------
    ArgError : no request, arrays of different lengths, a request without a prompt or an output,
        times below 0 or out of order, or one that follows a later request or itself.
    """

    arrival_ns: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    priority: NDArray[np.int64]
    after: NDArray[np.int64]
    think_ns: NDArray[np.int64]
    number: NDArray[np.int64]
    prefix: PrefixBlocks | None = None
    source: str = "array"
    timed: bool = True

    def __post_init__(self) -> None:
        count = len(self.arrival_ns)
        if not count:
            raise ArgError(f"{self.source}: there are no requests, expected at least 1")
        for name in ("prompt_tokens", "output_tokens", "priority", "after", "think_ns", "number"):
            if len(getattr(self, name)) != count:
                raise ArgError(
                    f"{self.source}: {len(getattr(self, name))} entries of {name}, expected one "
                    f"for each of the {count} requests"
                )
        for name in ("prompt_tokens", "output_tokens"):
            values = getattr(self, name)
            self._refuse((values < 1) | (values > MOST_TOKENS), name, f"from 1 to {MOST_TOKENS}")
        first = np.flatnonzero(self.after < 0)
        late = np.zeros(count, np.bool_)
        late[first] = np.diff(self.arrival_ns[first], prepend=0) < 0
        late |= self.arrival_ns < 0
        self._refuse(late, "arrival_ns", "ns from 0 on in the order of arrival")
        self._refuse(self.think_ns < 0, "think_ns", "ns from 0 on")
        self._refuse(
            (self.after < -1) | (self.after >= np.arange(count)),
            "after",
            "the index of an earlier request, or -1",
        )

    def _refuse(self, wrong: NDArray[np.bool_], name: str, expected: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ArgError(
                f"{self.source}: request {int(self.number[row])}: {name} is "
                f"{int(getattr(self, name)[row])}, expected {expected}; correct or drop the request"
            )

    @classmethod
    def of(
        cls,
        prompt_tokens: ArrayLike,
        output_tokens: ArrayLike,
        *,
        arrival_ns: ArrayLike | None = None,
        priority: ArrayLike | None = None,
        after: ArrayLike | None = None,
        think_ns: ArrayLike | None = None,
        number: ArrayLike | None = None,
        prefix: PrefixBlocks | None = None,
        source: str = "array",
    ) -> Requests:
        """Requests of these lengths. Arrays that are left out are 0, ``after`` is -1, and
        ``number`` counts from 0.

        Raises
        ------
        ArgError : as `Requests`.
        """
        prompt = np.asarray(prompt_tokens, dtype=np.int64)

        def array(values: ArrayLike | None, fill: int = 0) -> NDArray[np.int64]:
            if values is None:
                return np.full(len(prompt), fill, dtype=np.int64)
            return np.asarray(values, dtype=np.int64)

        return cls(
            arrival_ns=array(arrival_ns),
            prompt_tokens=prompt,
            output_tokens=array(output_tokens),
            priority=array(priority),
            after=array(after, -1),
            think_ns=array(think_ns),
            number=np.arange(len(prompt)) if number is None else array(number),
            prefix=prefix,
            source=source,
            timed=arrival_ns is not None,
        )

    def __len__(self) -> int:
        return len(self.arrival_ns)
