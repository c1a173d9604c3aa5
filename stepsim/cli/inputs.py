"""What a layer is fed with: the tokens of a routing trace, the cached tokens of requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.options import Layer, Step, check_counts, find_model
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.trace_io import RoutingTable
    from stepsim.workloads import MoEShape
    from stepsim.workloads.attention_graph import Lengths

__all__ = ["DEFAULT_BATCH", "RequestSource", "Requests", "TokenSource", "routing_facts"]

DEFAULT_BATCH = 64
"""Tokens or requests of a layer that is looked at without a trace."""

Batch = Annotated[
    int | None,
    typer.Option(metavar="N", help="Only N tokens or requests, by default the first."),
]


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Options that choose tokens of a routing trace."""

    routing: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Routing trace of the batch.")
    ] = None
    batch: Batch = None
    window: Annotated[
        int | None,
        typer.Option(
            metavar="I",
            help="Which batch of N consecutive tokens of the trace, from 0; with --batch.",
        ),
    ] = None
    layer: Layer = None
    step: Step = None

    def read(self, model: str) -> RoutingTable | None:
        """The tokens: of one layer and step, all, or ``batch`` of them. None without a trace.

        Raises
        ------
        ArgError : no model has this name, ``window`` without ``batch``, one of them is out of
            range, or an option chooses from a trace that is not given.
        TraceError : the trace is unreadable, or has no such part.
        """
        shape = find_model(model)
        if self.routing is None:
            chosen = {"window": self.window, "layer": self.layer, "step": self.step}
            _check_unused("--routing", **chosen)
        _check_window(self.window, self.batch, "--window", "tokens")
        if self.routing is None:
            return None
        from stepsim.trace_io import read_routing

        return read_routing(
            self.routing,
            experts=shape.experts,
            k=shape.active,
            layer=self.layer,
            step=self.step,
            tokens=self.batch,
            window=None if self.batch is None else self.window or 0,
        )

    def count(self, routing: RoutingTable | None) -> int:
        """Number of tokens: those read, or as many as a layer without a trace has."""
        return (self.batch or DEFAULT_BATCH) if routing is None else routing.tokens


@dataclass(frozen=True, slots=True)
class Requests:
    """Cached tokens of the requests of a decode step.

    Attributes
    ----------
    in_file : requests that the file has; a run may serve the first of them only. Of one window
        those of the window.
    source : the file; None where no lengths were given, and all are 0.
    """

    lengths: Lengths
    in_file: int
    source: str | None

    @property
    def batch(self) -> int:
        return len(self.lengths)

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    def facts(self) -> dict[str, Any] | None:
        """For JSON: source, content hash and spread."""
        if self.source is None:
            return None
        return {
            "source": self.source,
            "identity": hashlib.sha256(self.lengths.tobytes()).hexdigest(),
            "requests": self.batch,
            "requests_in_file": self.in_file,
            "min_length": int(self.lengths.min()),
            "mean_length": float(self.lengths.mean()),
            "max_length": self.longest,
            "std_length": float(self.lengths.std()),
        }


@dataclass(frozen=True, slots=True)
class RequestSource:
    """Options that choose requests of a file of lengths."""

    kv_lengths: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cached tokens of each request of the batch."),
    ] = None
    batch: Batch = None
    kv_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of a CSV file that holds the lengths."),
    ] = None
    kv_step: Annotated[
        int | None,
        typer.Option(metavar="STEP", help="Which step of a file of `trace replay`."),
    ] = None
    kv_window: Annotated[
        int | None,
        typer.Option(
            metavar="I",
            help="Which batch of N consecutive requests of the file, from 0; with --batch.",
        ),
    ] = None

    def read(self, default: int = DEFAULT_BATCH) -> Requests:
        """The requests of the file, or ``batch`` of them.

        Without a file there are ``batch`` empty ones, else ``default``.

        Raises
        ------
        ArgError : the file has fewer than ``batch``, ``kv_window`` is given without it, or an
            option chooses from a file that is not given.
        TraceError : the file does not hold one length for each request, or has no such step or
            window.
        """
        import numpy as np

        if self.kv_lengths is None:
            chosen = {"kv_column": self.kv_column, "kv_step": self.kv_step}
            _check_unused("--kv-lengths", **chosen, kv_window=self.kv_window)
        _check_window(self.kv_window, self.batch, "--kv-window", "requests")
        if self.kv_lengths is None:
            count = default if self.batch is None else self.batch
            return Requests(np.zeros(count, dtype=np.int64), count, None)
        from stepsim.trace_io import read_kv_lengths

        file, windowed = self.kv_lengths, self.kv_window is not None
        lengths = read_kv_lengths(
            file,
            column=self.kv_column,
            step=self.kv_step,
            requests=self.batch if windowed else None,
            window=self.kv_window,
        )
        if self.batch is not None and self.batch > len(lengths):
            raise ArgError(
                f"--batch: expected at most the {len(lengths)} requests of {file}, "
                f"found {self.batch}"
            )
        return Requests(lengths[: self.batch], len(lengths), str(file))


def routing_facts(routing: RoutingTable, shape: MoEShape) -> dict[str, Any]:
    """For JSON: source, content hash and how even the load was."""
    from stepsim.trace_io import routing_statistics

    found = routing_statistics(routing, shape.experts)
    return {
        "source": routing.source,
        "identity": routing.identity(),
        "layer": routing.layer,
        "step": routing.step,
        "first_token": routing.first_token,
        "tokens": found.tokens,
        "k": found.k,
        "experts": found.experts,
        "active_experts": found.active,
        "max_load": found.max,
        "imbalance": found.imbalance,
    }


def _check_window(window: int | None, batch: int | None, option: str, what: str) -> None:
    """Refuse the number of a batch without its size, and numbers out of range."""
    check_counts(batch=batch)
    if window is not None and window < 0:
        raise ArgError(f"{option}: expected a whole number from 0, found {window}")
    if window is not None and batch is None:
        raise ArgError(f"{option}: of how many {what} each is not known; give --batch too")


def _check_unused(source: str, **choices: Any) -> None:
    """Refuse options that choose from a file that is not given."""
    for name, value in choices.items():
        if value is not None:
            option = name.replace("_", "-")
            raise ArgError(f"--{option}: chooses from {source} FILE; give the file too")
