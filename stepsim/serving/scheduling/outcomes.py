"""What became of the requests of engines: their arrays, which the compiled loop writes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import counted
from stepsim.errors import ArgError
from stepsim.kernels import UNLIMITED, new_requests
from stepsim.serving.metrics.times import RequestTimes
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.settings import SchedulerRules


class Outcomes:
    """Requests as engines have them, and what became of each.

    Engines share it, as replicas do, if no request is in two of them at once.

    Attributes
    ----------
    requests : what was asked.
    rules : the rules of the engines.
    """

    def __init__(
        self, requests: Requests, rules: SchedulerRules, *, keeps_tokens: bool = True,
        follows: bool = True, allows_misfits: bool = False,
    ) -> None:  # fmt: skip
        """Put requests in front of engines.

        Args:
            keeps_tokens: keep the time of every token, 8 bytes each.
            follows: whether requests that follow others arrive by themselves.
            allows_misfits: take requests that no engine can ever finish, instead of an error.

        Raises:
            ArgError: a request is longer than allowed, or than the blocks of an engine.
        """
        self.requests = requests
        self.rules = rules
        if not allows_misfits:
            _check_fit(requests, rules)
        labels = None
        if rules.enable_prefix_caching and requests.prefix is not None:
            labels = requests.prefix.blocks(rules.block_size)
        self.arrays = new_requests(
            requests.arrival_ns, requests.prompt_tokens, requests.output_tokens,
            block=rules.block_size, max_len=rules.max_model_len or UNLIMITED,
            priority=requests.priority, after=requests.after if follows else None,
            think=requests.think_ns,
            labels=labels, keeps_tokens=keeps_tokens,
        )  # fmt: skip
        self._stop = self.arrays["requests"].stop.astype(np.int64)

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def arrival_ns(self) -> NDArray[np.int64]:
        """When each arrives or arrived; a lower bound for those that wait for another one."""
        return self._of("arrival")

    @property
    def scheduled_ns(self) -> NDArray[np.int64]:
        """Start of the first step of each; -1 without one."""
        return self._of("scheduled")

    @property
    def last_chunk_ns(self) -> NDArray[np.int64]:
        """Start of the step that computed the first token of each; of its last one so far."""
        return self._of("chunk")

    @property
    def first_token_ns(self) -> NDArray[np.int64]:
        """When each had its first token; -1 without one."""
        return self._of("first")

    @property
    def end_ns(self) -> NDArray[np.int64]:
        """When each had its last token; -1 before."""
        return self._of("end")

    @property
    def cached_tokens(self) -> NDArray[np.int64]:
        """Tokens of each that were found in the prefix cache at its first admission."""
        return self._of("hit")

    @property
    def all_cached_tokens(self) -> NDArray[np.int64]:
        """The same of all admissions, those after preemptions included."""
        return self._of("hits")

    @property
    def recomputed_tokens(self) -> NDArray[np.int64]:
        """Known tokens of each that were not found when it was admitted again."""
        return self._of("recomputed")

    @property
    def preemptions(self) -> NDArray[np.int64]:
        """How often each lost its blocks."""
        return self._of("preemptions")

    @property
    def token_ns(self) -> NDArray[np.int64]:
        """Times of all tokens, request after request; empty if they are not kept.

        A request has ``token_begin[r + 1] - token_begin[r]`` places, of which the first
        ``generated[r]`` are in use.
        """
        return self._of("token")

    @property
    def token_begin(self) -> NDArray[np.int64]:
        """Where the tokens of each begin in ``token_ns``. [requests + 1]"""
        return np.concatenate([[0], np.cumsum(self._stop - self._of("prompt"))])

    @property
    def generated(self) -> NDArray[np.int64]:
        """Tokens of each that were generated so far."""
        known: NDArray[np.int64] = self.arrays["requests"].known.astype(np.int64)
        return known - self._of("prompt")

    def is_held_back(self, request: int) -> bool:
        """Whether a request that ended has tokens left to generate, see :meth:`hold_back`."""
        known = self.arrays["requests"][request].known
        return bool(self.end_ns[request] >= 0 and known < self._stop[request])

    def finished(self) -> int:
        """Number of requests that have all their tokens."""
        whole = self.arrays["requests"].known >= self._stop
        return int(np.count_nonzero((self.end_ns >= 0) & whole))

    def hold_back(self, most: int) -> None:
        """Have every request end after so many tokens, as on engines that only compute prompts.

        :meth:`hand_over` lets it go on elsewhere.
        """
        of = self.arrays["requests"]
        of.stop = np.minimum(self._stop, self._of("prompt") + most)

    def hand_over(self, request: int, arrival_ns: int) -> None:
        """Let a request that was held back go on at an engine that it arrives at then.

        Its keys and values come with it, all but those of its last token. They are lost when it is
        preempted there.

        Raises:
            ArgError: the request has not ended, or nothing of it was held back.
        """
        row, end = self.arrays["requests"][request], self.arrays["end"]
        if not self.is_held_back(request):
            raise ArgError(
                f"hand_over: request {request} is not one that ended with tokens held back; hand "
                "over each once, after its engine has finished it"
            )
        row.carried = row.known - 1
        row.stop = self._stop[request]
        end[request] = -1
        self.arrays["arrival"][request] = arrival_ns

    def times(self) -> RequestTimes:
        """What a client saw of the requests, for the metrics; those without an end have failed.

        Raises:
            ArgError: the times of tokens are not kept.
        """
        generated, begin = self.generated, self.token_begin
        if len(self.token_ns) != begin[-1]:
            raise ArgError(
                "times: the times of tokens are not kept; make Outcomes with keeps_tokens"
            )
        gaps = np.diff(self.token_ns, prepend=0)
        is_gap = np.arange(len(gaps)) - np.repeat(begin[:-1], np.diff(begin))
        kept = (is_gap > 0) & (is_gap < np.repeat(generated, np.diff(begin)))
        return RequestTimes.from_ns(
            start_ns=self.arrival_ns,
            ttft_ns=np.where(generated > 0, self.first_token_ns - self.arrival_ns, 0),
            gap_ns=gaps[kept],
            gaps_from=np.concatenate([[0], np.cumsum(np.maximum(generated - 1, 0))]),
            prompt_tokens=self.requests.prompt_tokens,
            output_tokens=generated,
            success=self.end_ns >= 0,
        )

    def _of(self, name: str) -> NDArray[np.int64]:
        values: NDArray[np.int64] = self.arrays[name]
        return values


def _check_fit(requests: Requests, rules: SchedulerRules) -> None:
    prompt, output = requests.prompt_tokens, requests.output_tokens
    length = rules.max_model_len
    usable = rules.usable_blocks
    if length is not None:
        long = np.flatnonzero(prompt >= length)
        if len(long):
            r = int(long[0])
            raise ArgError(
                f"{requests.source}: request {r} has a prompt of {prompt[r]} tokens, expected "
                f"fewer than max_model_len ({length}); raise it, or leave the request out "
                f"({counted(len(long), 'request')} like it)"
            )
        if usable * rules.block_size < length:
            raise ArgError(
                f"max_model_len is {length}, expected at most the {usable * rules.block_size} "
                f"tokens that {usable} blocks of {rules.block_size} hold: lower it, or give more "
                "memory"
            )
    need = rules.blocks_of(prompt, output)
    large = np.flatnonzero(need > usable)
    if len(large):
        r = int(large[0])
        raise ArgError(
            f"{requests.source}: request {r} of {prompt[r]} + {output[r]} tokens needs {need[r]} "
            f"blocks of {rules.block_size} tokens, expected at most {usable}: give more memory, "
            f"or leave the request out ({counted(len(large), 'request')} like it)"
        )
