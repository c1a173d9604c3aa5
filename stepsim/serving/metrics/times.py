"""`RequestTimes`: when the tokens of requests arrived, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepsim.errors import ArgError
from stepsim.serving.seconds import NANOSECONDS


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestTimes:
    """What a client saw of its requests. Tokens arrive in chunks of one token or more.

    Attributes
    ----------
    start_s : when each was sent, in s. [requests]
    ttft_s : from then to its first chunk, in s. [requests]
    latency_s : from then to its last chunk, in s. [requests]
    gap_s : from one chunk to the next, of all requests in order, in s. [gaps]
    gaps_from : first gap of every request, and the number of gaps. [requests + 1]
    prompt_tokens, output_tokens : tokens of each. [requests]
    success : whether it was answered. The others count as failed and nowhere else. [requests]

    Raises
    ------
    ArgError : arrays of different lengths, or gaps that are not those of all requests.
    """

    start_s: NDArray[np.float64]
    ttft_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    gap_s: NDArray[np.float64]
    gaps_from: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    success: NDArray[np.bool_]

    def __post_init__(self) -> None:
        count = len(self.start_s)
        per_request = ("ttft_s", "latency_s", "prompt_tokens", "output_tokens", "success")
        for name, expected in (*((name, count) for name in per_request), ("gaps_from", count + 1)):
            if len(getattr(self, name)) != expected:
                raise ArgError(
                    f"RequestTimes: {name} has {len(getattr(self, name))} entries, expected "
                    f"{expected} for {count} requests"
                )
        ends = self.gaps_from
        if ends[0] != 0 or ends[-1] != len(self.gap_s) or (np.diff(ends) < 0).any():
            raise ArgError(
                f"RequestTimes: gaps_from must go from 0 to the {len(self.gap_s)} gaps and never "
                "back"
            )

    @classmethod
    def from_ns(
        cls,
        *,
        start_ns: ArrayLike,
        ttft_ns: ArrayLike,
        gap_ns: ArrayLike,
        gaps_from: ArrayLike,
        prompt_tokens: ArrayLike,
        output_tokens: ArrayLike,
        success: ArrayLike | None = None,
    ) -> RequestTimes:
        """The times of requests whose tokens arrived one by one, from integer ns.

        ``start_ns`` is when a request was sent, for a simulated service its arrival. All requests
        count as answered unless ``success`` says otherwise.
        """
        ttft, gaps, begin = (_whole(values) for values in (ttft_ns, gap_ns, gaps_from))
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(gaps)])
        latency = ttft + sums[begin[1:]] - sums[begin[:-1]]
        return cls(
            start_s=_whole(start_ns) / NANOSECONDS,
            ttft_s=ttft / NANOSECONDS,
            latency_s=latency / NANOSECONDS,
            gap_s=gaps / NANOSECONDS,
            gaps_from=begin,
            prompt_tokens=_whole(prompt_tokens),
            output_tokens=_whole(output_tokens),
            success=(
                np.ones(len(ttft), np.bool_)
                if success is None
                else np.asarray(success, dtype=np.bool_)
            ),
        )

    def __len__(self) -> int:
        return len(self.start_s)

    @cached_property
    def answered(self) -> RequestTimes:
        """The successful requests alone. One without any token counts one, as the benchmark does
        when it has no tokenizer."""
        kept = self.success
        if kept.all() and (self.output_tokens > 0).all():
            return self
        counts = np.diff(self.gaps_from)
        return RequestTimes(
            start_s=self.start_s[kept],
            ttft_s=self.ttft_s[kept],
            latency_s=self.latency_s[kept],
            gap_s=self.gap_s[np.repeat(kept, counts)],
            gaps_from=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[kept])]),
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=np.maximum(self.output_tokens[kept], 1),
            success=kept[kept],
        )

    @cached_property
    def tpot_s(self) -> NDArray[np.float64]:
        """Time per output token after the first, in s; 0 for requests of one token. [requests]"""
        more = self.output_tokens - 1
        tpot = np.zeros(len(self))
        np.divide(self.latency_s - self.ttft_s, more, out=tpot, where=more > 0)
        return tpot

    def chunk_s(self) -> NDArray[np.float64]:
        """When every chunk arrived, in s; gaps are added one by one. [gaps + requests]"""
        counts = np.diff(self.gaps_from) + 1
        begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        times = np.empty(begin[-1])
        is_gap = np.ones(begin[-1], np.bool_)
        is_gap[begin[:-1]] = False
        times[begin[:-1]] = self.start_s + self.ttft_s
        times[is_gap] = self.gap_s
        if len(self) <= counts.max(initial=0):
            for first, last in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
                np.cumsum(times[first:last], out=times[first:last])
            return times
        # Many short requests: chunk after chunk of all of them.
        order = np.argsort(-counts, kind="stable")
        place, left = begin[:-1][order], counts[order]
        for chunk in range(1, int(counts.max())):
            at = place[: np.searchsorted(-left, -chunk, side="left")] + chunk
            times[at] += times[at - 1]
        return times


def _whole(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)
