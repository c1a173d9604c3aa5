"""Reading a trace of any format for ``stepsim trace info`` and ``plot``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.data
import stepsim.trace_io
from stepsim.cli.experts import experts_of_rows, noted_experts
from stepsim.cli.options import Layer, OptionalModel, Step
from stepsim.cli.traces.importing import (
    Column,
    DropMissing,
    Experts,
    FormatName,
    Layers,
    Ranks,
    TopK,
    progress,
    router_of,
)

if TYPE_CHECKING:
    from stepsim.trace_io import RequestTrace, RoutingSummary, RoutingTable

_MAX_BYTES = 16 << 20
_MAX_ROWS = 1 << 18
_MAX_TABLES = 1 << 12
_MAX_LOADS = 1 << 22


@dataclass(frozen=True)
class TraceReading:
    """The trace to read, and what the caller knows about it; the fields are the options."""

    file: Annotated[
        Path, typer.Argument(help="A trace of any format that import reads, or a data set.")
    ]
    format: FormatName = None
    model: OptionalModel = None
    experts: Experts = None
    k: TopK = None
    layers: Layers = None
    layer: Layer = None
    step: Step = None
    column: Column = None
    drop_missing: DropMissing = False
    ranks: Ranks = None

    @cached_property
    def kind(self) -> str:
        """Name of the format."""
        return (
            stepsim.trace_io.detect_trace_format(self.file) if self.format is None else self.format
        )

    @cached_property
    def holds_requests(self) -> bool:
        """Whether it is a trace of requests rather than of expert routing.

        Raises
        ------
        ArgError : an option has no effect on traces of the format.
        """
        found = stepsim.trace_io.trace_formats().get(self.kind)
        if found is None:  # reading reports it
            return False
        stepsim.trace_io.check_options(found, self.file, vars(self))
        return found.holds == "requests"

    def requests(self) -> RequestTrace:
        """The requests."""
        return stepsim.trace_io.load_requests(self.file, format=self.format, column=self.column)

    @cached_property
    def known_experts(self) -> int | None:
        """Experts of the model: as given, or as the file states."""
        experts, _ = router_of(self.model, self.experts, self.k)
        return noted_experts(self.file) if experts is None else experts

    @property
    def _narrowed(self) -> bool:
        return self.layer is not None or self.step is not None

    def tables(self) -> list[RoutingTable] | None:
        """The tables of a short trace; None if it is long or has to be imported."""
        options = (self.layers, self.column, self.ranks)
        if self.drop_missing or any(value is not None for value in options):
            return None
        if self.format is not None and (
            self.format not in ("numpy", "parquet")
            or self.format != stepsim.trace_io.detect_trace_format(self.file)
        ):
            return None
        if not stepsim.trace_io.is_routing_table(self.file) or (
            stepsim.data.locate(self.file).stat().st_size > _MAX_BYTES and not self._narrowed
        ):
            return None
        _, k = router_of(self.model, self.experts, self.k)
        parts = stepsim.trace_io.routing_parts(
            self.file,
            experts=self.known_experts,
            k=k,
            layers=None if self.layer is None else [self.layer],
            steps=None if self.step is None else [self.step],
        )
        rows = sum(part.tokens for part in parts)
        # If nothing matches, the summary reports what the trace has.
        if not parts or len(parts) > _MAX_TABLES or rows > _MAX_ROWS:
            return None
        tables = [part.read() for part in parts]
        experts = self.known_experts or max(int(table.experts.max()) + 1 for table in tables)
        return tables if len(tables) * experts <= _MAX_LOADS else None

    def summary(self, tables: list[RoutingTable] | None = None) -> RoutingSummary:
        """The loads of the experts, from ``tables`` if they were read already."""
        experts, k = self.known_experts, router_of(self.model, self.experts, self.k)[1]
        if tables is not None:
            counter = stepsim.trace_io.RoutingCounter(experts)
            for table in tables:
                counter.add(table)
            if experts is None and self._narrowed:
                # The highest id may be in a part that was not asked for.
                every = stepsim.trace_io.routing_parts(self.file, k=k)
                for part in sorted(every, key=lambda part: part.first_row):
                    counter.see(part.read())
            found = counter.summary()
        else:
            with progress("reading") as report:
                found = stepsim.trace_io.summarize_routing(
                    self.file,
                    format=self.format,
                    experts=experts,
                    k=k,
                    layers=self.layers,
                    column=self.column,
                    drop_missing=self.drop_missing,
                    ranks=self.ranks,
                    layer=self.layer,
                    step=self.step,
                    progress=report,
                )
        return found if experts is not None else _with_idle_experts(found)

    def experts_are_guessed(self, summary: RoutingSummary) -> bool:
        """Whether the number of experts can only be derived from the highest id."""
        return self.known_experts is None and _experts_of_rows(summary) is None


def _with_idle_experts(summary: RoutingSummary) -> RoutingSummary:
    """The trace with the number of experts of the model that its rows name."""
    experts = _experts_of_rows(summary)
    return summary if experts is None else summary.with_experts(experts)


def _experts_of_rows(summary: RoutingSummary) -> int | None:
    return experts_of_rows(summary.models, summary.experts)
