"""The load of the experts over a whole trace, counted piece by piece in constant memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepsim.arguments import shown
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.formats.job import MAX_EXPERTS, MAX_GIVEN_EXPERTS, id_too_high
from stepsim.trace_io.routing.stats import LayerLoad
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.typed import typed


@dataclass(frozen=True)
class RoutingSummary:
    """What a routing trace holds.

    Attributes:
        layers: the load of each layer, by index.
        steps: distinct forward passes.
        rows: tokens of all layers and steps.
        k: experts per token.
        experts: experts of each layer; without a number given, the highest id of the whole trace
            + 1.
        models: names that the rows have, sorted.
        notes: what the user should know, such as skipped records.
    """

    layers: tuple[LayerLoad, ...]
    steps: int
    rows: int
    k: int
    experts: int
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @typed
    def with_experts(self, experts: int) -> RoutingSummary:
        """The same with more experts, which are idle.

        Raises:
            ArgError: fewer experts than the ids require.
        """
        if not self.experts <= experts <= MAX_GIVEN_EXPERTS:
            raise ArgError(
                f"with_experts: {shown(experts)} experts, but ids go up to {self.experts - 1}; "
                f"expected at least one more, and at most {MAX_GIVEN_EXPERTS:,}"
            )
        layers = tuple(
            replace(layer, counts=_padded(layer.counts, experts)) for layer in self.layers
        )
        return replace(self, layers=layers, experts=experts)

    @property
    def tokens(self) -> int:
        """Tokens of the layer that has most; in a complete trace all layers have the same
        number."""
        return max(layer.tokens for layer in self.layers)

    @property
    def idle(self) -> int:
        """Idle experts, summed over the layers."""
        return sum(layer.idle for layer in self.layers)

    @property
    def worst(self) -> LayerLoad:
        """The layer with the highest imbalance."""
        return max(self.layers, key=lambda layer: layer.imbalance)

    @property
    def mean_imbalance(self) -> float:
        """max / mean of the loads of a layer, mean over the layers."""
        return float(np.mean([layer.imbalance for layer in self.layers]))

    @property
    def mean_cv(self) -> float:
        """Coefficient of variation of the loads of a layer, mean over the layers."""
        return float(np.mean([layer.cv for layer in self.layers]))


class RoutingCounter:
    """Adds up the tables of a trace.

    Args:
        experts: number of experts of the model; None: inferred from the ids.

    Attributes:
        rows: number of tokens added.

    Raises:
        ArgError: ``experts`` is out of range.
    """

    def __init__(self, experts: int | None = None) -> None:
        if experts is not None and not 1 <= experts <= MAX_GIVEN_EXPERTS:
            raise ArgError(
                f"RoutingCounter: experts is {experts}, expected 1..{MAX_GIVEN_EXPERTS}, since "
                "the load of each is counted; check the number of experts (--experts)"
            )
        self._experts = experts
        self._counts: dict[int, npt.NDArray[np.int64]] = {}
        self._tokens: dict[int, int] = {}
        self._steps: set[int] = set()
        self._models: set[str] = set()
        self._k = self._ids = 0
        self.rows = 0

    def add(self, table: RoutingTable) -> None:
        """Count the ids of a table, of any part of the trace.

        Raises:
            TraceError: an id is not below the number of experts, or above 65535 without one.
        """
        self.see(table)
        size = self._experts or 0
        found = np.bincount(table.experts.ravel(), minlength=size).astype(np.int64)
        known = self._counts.get(table.layer)
        if known is None:
            self._counts[table.layer] = found
        elif len(known) < len(found):
            found[: len(known)] += known
            self._counts[table.layer] = found
        else:
            known[: len(found)] += found
        tokens, self._k = table.experts.shape
        self._tokens[table.layer] = self._tokens.get(table.layer, 0) + tokens
        self._steps.add(table.step)
        if table.model is not None:
            self._models.add(table.model)
        self.rows += tokens

    def see(self, table: RoutingTable) -> None:
        """Know the ids of a table that is not counted, so that its experts are among the others.

        Raises:
            TraceError: as `add`.
        """
        highest = int(table.experts.max())
        if highest >= (self._experts or MAX_EXPERTS):
            raise self._too_high(table, highest)
        self._ids = max(self._ids, highest + 1)

    def summary(self) -> RoutingSummary:
        """The totals counted so far.

        Raises:
            ArgError: nothing was counted.
        """
        if not self._counts:
            raise ArgError("RoutingCounter: no tables were added, expected at least 1")
        experts = self._experts or self._ids
        layers = tuple(
            LayerLoad(layer, self._tokens[layer], _padded(self._counts[layer], experts))
            for layer in sorted(self._counts)
        )
        return RoutingSummary(
            layers, len(self._steps), self.rows, self._k, experts, tuple(sorted(self._models))
        )

    def _too_high(self, table: RoutingTable, value: int) -> TraceError:
        token = table.first_token + int(np.argmax((table.experts == value).any(axis=1)))
        where = f"{table.source}: layer {table.layer}, step {table.step}, token {token}"
        if self._experts is None:
            return id_too_high(where, value)
        return TraceError(
            f"{where}: expert id {value} is out of range, expected 0..{self._experts - 1}; check "
            "that the trace belongs to this model"
        )


def none_of(
    source: Path, layer: int | None, step: int | None, present: Collection[tuple[int, int]]
) -> TraceError:
    """The error for a layer and step that are not among the (layer, step) ``present``."""
    asked, options, found = [], [], []
    for name, value, at in (("layer", layer, 0), ("step", step, 1)):
        numbers = sorted({labels[at] for labels in present})
        span = f"{numbers[0]}..{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        found.append(f"{name} {span}")
        if value is not None:
            asked.append(f"{name} {value}")
            options.append(f"--{name}")
    return TraceError(
        f"{source}: has no tokens of {' and '.join(asked)}, found {' and '.join(found)}; choose "
        f"others, or leave {' and '.join(options)} out"
    )


def _padded(counts: npt.NDArray[np.int64], experts: int) -> npt.NDArray[np.int64]:
    padded = np.zeros(experts, dtype=np.int64)
    padded[: len(counts)] = counts
    padded.flags.writeable = False
    return padded
