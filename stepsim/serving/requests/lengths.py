"""Requests of lengths that are fixed, drawn, or resampled from a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range
from stepsim.errors import ArgError
from stepsim.serving.requests.prefixes import Segments
from stepsim.serving.requests.requests import MOST_TOKENS, Requests
from stepsim.serving.requests.traces import generated_tokens
from stepsim.shown import shown
from stepsim.trace_io import load_requests
from stepsim.typed import typed_fields

_COUNT = Range(1 << 27, "requests")
_SEED = Range((1 << 63) - 1, "the seed of a generator", low=0)
_TOKENS = Range(MOST_TOKENS, "tokens")
_TOKENS_OR_NONE = Range(MOST_TOKENS, "tokens", low=0)


@typed_fields
@dataclass(frozen=True, slots=True)
class FixedLengths:
    """Requests of one length. Nothing is known of their tokens.

    Attributes
    ----------
    count : number of requests.
    prompt_tokens, output_tokens : of each.

    Raises
    ------
    ArgError : one of them is below 1.
    """

    count: int
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        _COUNT.checked("count", self.count)
        _TOKENS.checked("prompt_tokens", self.prompt_tokens)
        _TOKENS.checked("output_tokens", self.output_tokens)

    def requests(self) -> Requests:
        return Requests.of(
            np.full(self.count, self.prompt_tokens),
            np.full(self.count, self.output_tokens),
            source=f"{self.count} requests of fixed length",
        )


@typed_fields
@dataclass(frozen=True, slots=True)
class RandomLengths:
    """The random data set of ``vllm bench serve``: lengths uniform around a mean.

    Prompts are consecutive token ids from a random one on, so two of them share a prefix only if
    they begin with the same id. A common prefix goes in front of all.

    Attributes
    ----------
    count : number of requests.
    input_len, output_len : mean tokens of the drawn part of the prompt, and of the output.
    input_range, output_range : how far a length may be from its mean, as a part of it, from 0 to
        less than 1.
    prefix_len : tokens of the common prefix.
    special_tokens : tokens that the tokenizer adds to a prompt; the drawn part has that many less.
    vocabulary : number of token ids that can be drawn.
    seed : of numpy's ``default_rng``.

    Raises
    ------
    ArgError : a number is out of range, or a prompt may have no token.
    """

    count: int = 1000
    input_len: int = 1024
    output_len: int = 128
    input_range: float = 0.0
    output_range: float = 0.0
    prefix_len: int = 0
    special_tokens: int = 0
    vocabulary: int = 32_000
    seed: int = 0

    def __post_init__(self) -> None:
        _COUNT.checked("count", self.count)
        for name in ("input_len", "output_len", "prefix_len", "special_tokens"):
            _TOKENS_OR_NONE.checked(name, getattr(self, name))
        _TOKENS.checked("vocabulary", self.vocabulary)
        _SEED.checked("seed", self.seed)
        for name in ("input_range", "output_range"):
            if not 0 <= getattr(self, name) < 1:
                raise ArgError(
                    f"{name} is {shown(getattr(self, name))}, expected the part of the mean by "
                    "which lengths differ, from 0 to less than 1"
                )
        if not self.prefix_len and not _bounds(self._drawn_len, self.input_range)[0]:
            raise ArgError(
                f"input_len is {self.input_len} with {self.special_tokens} special tokens and an "
                f"input_range of {self.input_range:g}: prompts may have no token; raise input_len"
            )

    @property
    def _drawn_len(self) -> int:
        return max(0, self.input_len - self.special_tokens)

    def draw(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Drawn tokens of the prompts, tokens of the outputs, and first token ids. [count] each"""
        generator = np.random.default_rng(self.seed)
        low, high = _bounds(self._drawn_len, self.input_range)
        inputs = generator.integers(low, high + 1, size=self.count)
        low, high = (max(1, bound) for bound in _bounds(self.output_len, self.output_range))
        outputs = generator.integers(low, high + 1, size=self.count)
        return inputs, outputs, generator.integers(0, self.vocabulary, size=self.count)

    def requests(self) -> Requests:
        inputs, outputs, offsets = self.draw()
        # Prefix, consecutive ids from the first one, and the output, which is of the request alone.
        index = np.arange(self.count)
        segment = np.stack(
            [
                np.zeros(self.count, np.int64),
                1 + (offsets + index) % self.vocabulary,
                1 + self.vocabulary + index,
            ],
            axis=1,
        )
        tokens = np.stack([np.full(self.count, self.prefix_len), inputs, outputs], axis=1)
        return Requests.of(
            inputs + self.prefix_len,
            outputs,
            prefix=Segments(3 * np.arange(self.count + 1), segment.ravel(), tokens.ravel()),
            source=f"{self.count} random requests",
        )


@typed_fields
@dataclass(frozen=True, slots=True)
class LognormalLengths:
    """Requests whose lengths follow log-normal distributions. Nothing is known of their tokens.

    Normal deviates are drawn first and then scaled, so one seed gives requests of the same order of
    lengths whatever the medians are.

    Attributes
    ----------
    count : number of requests.
    prompt_median, output_median : tokens.
    prompt_sigma, output_sigma : standard deviation of the natural logarithm, from 0 on.
    longest : tokens to which longer prompts and outputs are cut.
    seed : of numpy's ``default_rng``.

    Raises
    ------
    ArgError : a number is out of range.
    """

    count: int
    prompt_median: float
    output_median: float
    prompt_sigma: float = 1.0
    output_sigma: float = 1.0
    longest: int = 1 << 17
    seed: int = 0

    def __post_init__(self) -> None:
        _COUNT.checked("count", self.count)
        _TOKENS.checked("longest", self.longest)
        _SEED.checked("seed", self.seed)
        for name, low in (
            ("prompt_median", 1), ("output_median", 1), ("prompt_sigma", 0), ("output_sigma", 0)
        ):  # fmt: skip
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= low):
                raise ArgError(f"{name} is {shown(value)}, expected a number from {low} on")

    def requests(self) -> Requests:
        deviates = np.random.default_rng(self.seed).standard_normal((2, self.count))
        return Requests.of(
            self._tokens(self.prompt_median, self.prompt_sigma, deviates[0]),
            self._tokens(self.output_median, self.output_sigma, deviates[1]),
            source=f"{self.count} requests of log-normal lengths",
        )

    def _tokens(
        self, median: float, sigma: float, deviates: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        # Logarithms are cut first: powers may be beyond all floats.
        logs = np.minimum(math.log(median) + sigma * deviates, math.log(self.longest))
        return np.clip(np.rint(np.exp(logs)), 1, self.longest).astype(np.int64)


@typed_fields
@dataclass(frozen=True, slots=True)
class ResampledLengths:
    """Requests of the lengths of a trace, drawn with replacement: prompt and output together.

    Attributes
    ----------
    trace : a request trace of any format, or the name of a data set.
    count : number of requests.
    output_tokens : generated tokens of each; None: those of the trace.
    format, column : as in :func:`stepsim.load_requests`.
    seed : of numpy's ``default_rng``.

    Raises
    ------
    ArgError : a number is out of range.
    """

    trace: str
    count: int
    output_tokens: int | None = None
    format: str | None = None
    column: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _COUNT.checked("count", self.count)
        _SEED.checked("seed", self.seed)
        if self.output_tokens is not None:
            _TOKENS.checked("output_tokens", self.output_tokens)

    def requests(self) -> Requests:
        """The requests.

        Raises
        ------
        TraceError : the trace is unreadable or has no generated tokens.
        """
        trace = load_requests(self.trace, format=self.format, column=self.column)
        outputs = generated_tokens(trace, self.output_tokens)
        rows = np.random.default_rng(self.seed).integers(0, len(trace), size=self.count)
        return Requests.of(
            trace.context_tokens[rows],
            outputs[rows],
            number=rows,
            source=f"{self.count} requests resampled from {trace.source}",
        )


def _bounds(mean: int, part: float) -> tuple[int, int]:
    return math.floor(mean * (1 - part)), math.ceil(mean * (1 + part))
