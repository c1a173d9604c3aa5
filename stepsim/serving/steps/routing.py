"""Routing by request: the experts of a token follow its request, whatever step computes it.

Recorded routing gives them by request, layer and position. Without a recording they are drawn from
a distribution, by a generator that is seeded for each request, layer and position, so that two
schedulers see the same tokens and tokens that are computed again have the same experts.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import stepsim.trace_io
from stepsim.errors import ArgError, ServingError
from stepsim.kernels import ExpertDraws, look_up_experts, new_draws, with_tokens
from stepsim.serving.scheduling.interface import Batch

if TYPE_CHECKING:
    from stepsim.serving.requests.requests import Requests
    from stepsim.trace_io import RoutingTable
    from stepsim.workloads import Model

Ints = NDArray[np.int64]

_BLOCK = 256
"""Tokens of a request that are counted together."""

_BLOCKS = 4096
"""Blocks of tokens whose counts are kept, each of some 20 kB."""

_WHOLE = 1 << 32
_LARGEST_SEED = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Zipf:
    """Experts whose frequencies fall as ``1 / rank**exponent``; ranks are shuffled by layer.

    Attributes
    ----------
    exponent : 0 for equal frequencies.

    Raises
    ------
    ArgError : the exponent is not a number from 0 to 8.
    """

    exponent: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.exponent <= 8:
            raise ArgError(f"zipf: expected an exponent from 0 to 8, found {self.exponent}")

    def frequencies(self, layers: int, experts: int, seed: int) -> NDArray[np.float64]:
        """Frequencies ``[layers, experts]``."""
        falling = 1.0 / np.arange(1, experts + 1) ** self.exponent
        rng = np.random.default_rng([seed, 1])
        return np.stack([falling[rng.permutation(experts)] for _ in range(layers)])


@dataclass(frozen=True, eq=False, slots=True)
class Empirical:
    """Experts with the frequencies of a recording, layer by layer.

    Attributes
    ----------
    counts : tokens of each expert. [layers, experts]
    """

    counts: Ints

    def frequencies(self, layers: int, experts: int, seed: int) -> NDArray[np.float64]:
        """Frequencies ``[layers, experts]``; recorded layers are repeated where there are fewer.

        Raises
        ------
        ArgError : the recording is of other experts.
        """
        if self.counts.shape[1] > experts:
            raise ArgError(
                f"routing: the recording has experts to {self.counts.shape[1] - 1}, expected those "
                f"of a model with {experts}; choose a recording of this model"
            )
        found = np.zeros((layers, experts))
        which = np.arange(layers) % len(self.counts)
        found[:, : self.counts.shape[1]] = self.counts[which]
        # An expert that was never chosen is rare, not impossible.
        found += 0.5
        return found


Distribution = Zipf | Empirical


class RequestRouting:
    """The experts of the tokens of requests.

    Attributes
    ----------
    layers, experts, chosen : layers with experts, experts of each, and those of a token.
    """

    def __init__(self, draws: ExpertDraws, numbers: Ints, shape: tuple[int, int, int]) -> None:
        self.layers, self.experts, self.chosen = shape
        self._draws, self._numbers = draws, numbers
        self._blocks: OrderedDict[tuple[int, int], NDArray[np.int32]] = OrderedDict()

    @classmethod
    def drawn(
        cls, model: Model, requests: Requests, distribution: Distribution, seed: int
    ) -> RequestRouting:
        """Routing from a distribution.

        Raises
        ------
        ArgError : the model has no experts or an unknown number of layers, or the seed is not a
            whole number from 0 to 2**63 - 1.
        """
        layers, experts, chosen = _shape_of(model)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
            raise ArgError(f"seed: expected a whole number from 0 to 2**63 - 1, found {seed!r}")
        threshold, alias = alias_table(distribution.frequencies(layers, experts, seed))
        draws = new_draws(
            experts=experts, chosen=chosen, layers=layers, seed=seed, threshold=threshold.ravel(),
            alias=alias.ravel(),
        )  # fmt: skip
        return cls(draws, requests.number, (layers, experts, chosen))

    @classmethod
    def recorded(
        cls, model: Model, requests: Requests, source: str | PathLike[str] | Recording
    ) -> RequestRouting:
        """Recorded routing, in which a step is a request, as importing from vLLM or SGLang makes.

        Raises
        ------
        TraceError : the recording is unreadable or of another model.
        ServingError : a request has more tokens than were recorded of it.
        """
        layers, experts, chosen = _shape_of(model)
        found = source if isinstance(source, Recording) else read_recording(source, model)
        found.check(requests)
        draws = new_draws(
            experts=experts, chosen=chosen, layers=layers, begin=found.begin,
            recorded=np.ascontiguousarray(found.ids).ravel(),
        )  # fmt: skip
        return cls(draws, requests.number, (layers, experts, chosen))

    def counts(self, batch: Batch) -> Ints:
        """Tokens of each expert in every layer. [layers, experts]

        Chunks of prompts are counted by blocks of their tokens, which come again when a service is
        served again.
        """
        first = -(-batch.before // _BLOCK)
        last = (batch.before + batch.new) // _BLOCK
        whole = np.flatnonzero(last > first)
        if not len(whole):
            return self._counted(batch)
        # What is before and after the whole blocks of an entry, each an entry of its own.
        lengths = np.where(last > first, first * _BLOCK - batch.before, batch.new)
        begin = last[whole] * _BLOCK
        rest = Batch(
            np.concatenate([batch.request, batch.request[whole]]),
            np.concatenate([lengths, (batch.before + batch.new)[whole] - begin]),
            np.concatenate([batch.before, begin]),
            np.zeros(len(lengths) + len(whole), bool),
        )
        found = self._counted(rest)
        for entry in whole:
            for block in range(int(first[entry]), int(last[entry])):
                found += self._of_block(int(batch.request[entry]), block)
        return found

    def _of_block(self, request: int, block: int) -> NDArray[np.int32]:
        """The counts of whole blocks of tokens of a request, which are kept."""
        key = request, block
        known = self._blocks.get(key)
        if known is None:
            one = (np.array([value]) for value in (request, _BLOCK, block * _BLOCK, False))
            known = self._blocks[key] = self._counted(Batch(*one)).astype(np.int32)
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(key)
        return known

    def _counted(self, batch: Batch) -> Ints:
        # The kernel counts into the same array every time.
        counts: Ints = self._filled(batch, None).counts.reshape(self.layers, self.experts)
        return counts.copy()

    def ids(self, batch: Batch, layer: int) -> NDArray[np.int32]:
        """Expert ids of the tokens of a step, entry by entry. [tokens, k]"""
        found = self._filled(batch, (layer, layer + 1)).ids
        ids: NDArray[np.int32] = found.reshape(-1, self.chosen)
        return ids

    def all_ids(self, batch: Batch) -> NDArray[np.int32]:
        """Expert ids of all layers. [layers, tokens, k]"""
        found = self._filled(batch, (0, self.layers)).ids
        ids: NDArray[np.int32] = found.reshape(self.layers, -1, self.chosen)
        return ids

    def _filled(self, batch: Batch, layers: tuple[int, int] | None) -> ExpertDraws:
        numbers = self._numbers[batch.request]
        # The kernel takes arrays of its own, whatever views a scheduler hands over.
        before, new = np.array(batch.before, np.int64), np.array(batch.new, np.int64)
        draws = with_tokens(self._draws, numbers, before, new, layers)
        ended = look_up_experts(draws)
        if ended < 0:
            entry = -1 - int(ended)
            raise ServingError(
                f"routing: request {int(numbers[entry])} computes token "
                f"{int(batch.before[entry] + batch.new[entry]) - 1}, of which nothing was recorded"
            )
        return draws


@dataclass(frozen=True, eq=False, slots=True)
class Recording:
    """Recorded experts of whole requests.

    Attributes
    ----------
    ids : expert ids of all tokens. [tokens, layers, k]
    begin : first token of each request, and the end of the last. [requests + 1]
    source : for messages.
    """

    ids: NDArray[np.int32]
    begin: Ints
    source: str

    def check(self, requests: Requests) -> None:
        """Refuse requests that have more tokens than were recorded of them.

        The last token of a request is never computed.
        """
        numbers = requests.number
        if len(numbers) and int(numbers.max()) >= len(self.begin) - 1:
            raise ServingError(
                f"routing: {self.source} has {len(self.begin) - 1} requests, expected one of "
                f"number {int(numbers.max())}; serve fewer requests, or record more"
            )
        held = (self.begin[1:] - self.begin[:-1])[numbers]
        needed = requests.prompt_tokens + requests.output_tokens - 1
        short = np.flatnonzero(needed > held)
        if len(short):
            worst = int(short[0])
            raise ServingError(
                f"routing: {self.source} has {int(held[worst])} tokens of request "
                f"{int(numbers[worst])}, expected the {int(needed[worst])} that it computes; "
                "choose the recording of these requests"
            )

    def counts(self, experts: int) -> Ints:
        """Tokens of each expert in every layer. [layers, experts]"""
        layers = self.ids.shape[1]
        of_layer = self.ids.transpose(1, 0, 2).reshape(layers, -1)
        return np.stack([np.bincount(row, minlength=experts) for row in of_layer]).astype(np.int64)


def read_recording(source: str | PathLike[str], model: Model) -> Recording:
    """All requests of a routing trace, whose steps are requests.

    Raises
    ------
    TraceError : the trace is unreadable, or of another model.
    ServingError : a layer or some tokens of a request are missing.
    """
    layers, experts, chosen = _shape_of(model)
    tables: dict[tuple[int, int], RoutingTable] = {}
    for table in stepsim.trace_io.read_routing_batches(source, experts=experts, k=chosen):
        tables[table.step, table.layer] = table
    found = sorted({layer for _, layer in tables})
    if len(found) != layers:
        raise ServingError(
            f"routing: {source} has {len(found)} layers, expected the {layers} of {model.name} "
            "with experts; choose a recording of this model"
        )
    steps = sorted({step for step, _ in tables})
    parts = []
    for step in steps:
        rows = [tables.get((step, layer)) for layer in found]
        sizes = {len(one.experts) for one in rows if one is not None}
        if any(one is None for one in rows) or len(sizes) != 1:
            raise ServingError(
                f"routing: {source}: step {step} lacks tokens of a layer; record it again"
            )
        parts.append(np.stack([one.experts for one in rows if one is not None], axis=1))
    begin = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Recording(np.concatenate(parts).astype(np.int32), begin, Path(source).name)


def alias_table(frequencies: NDArray[np.float64]) -> tuple[Ints, Ints]:
    """Thresholds of 2**32 and aliases of the alias method, for each row of frequencies."""
    rows, count = frequencies.shape
    share = frequencies / frequencies.sum(axis=1, keepdims=True) * count
    threshold = np.full((rows, count), _WHOLE, dtype=np.int64)
    alias = np.tile(np.arange(count, dtype=np.int64), (rows, 1))
    for row in range(rows):
        left = share[row].copy()
        small = [e for e in range(count) if left[e] < 1]
        large = [e for e in range(count) if left[e] >= 1]
        while small and large:
            low, high = small.pop(), large[-1]
            threshold[row, low] = int(left[low] * _WHOLE)
            alias[row, low] = high
            left[high] -= 1 - left[low]
            if left[high] < 1:
                small.append(large.pop())
    return threshold, alias


def _shape_of(model: Model) -> tuple[int, int, int]:
    """Layers with experts, experts of each, and those of a token."""
    layers = model.expert_layers
    if model.experts is None or not layers:
        what = "no experts" if model.experts is None else "an unknown number of layers"
        raise ArgError(f"routing: model {model.name} has {what}, expected one with routed experts")
    return layers, model.experts.count, model.experts.active
