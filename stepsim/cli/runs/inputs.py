"""The inputs of a workload: tokens of a routing trace, and cached tokens of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.trace_io
from stepsim.cli.experts import experts_of_rows, noted_experts
from stepsim.cli.options import Layer, Step, check_counts
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.workloads import Data

if TYPE_CHECKING:
    import hashlib

    import numpy as np

    from stepsim.trace_io import RoutingTable
else:
    hashlib = deferred("hashlib")

Batch = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Use only N tokens or requests: the first N, unless a window is chosen."
    ),
]


@frozen
class TokenSource:
    """Options that choose tokens of a routing trace."""

    routing: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Routing trace of the batch: a file or a data set."),
    ] = None
    batch: Batch = None
    window: Annotated[
        int | None,
        typer.Option(
            metavar="I",
            help="Window of --batch consecutive tokens of the trace, counted from 0.",
        ),
    ] = None
    layer: Layer = None
    step: Step = None

    def read(self, shape: tuple[int, int] | None, model: str | None) -> RoutingTable | None:
        """The tokens: of one layer and step, all, or ``batch`` of them. None without a trace.

        ``shape`` is the number of experts and those of a token, where they are known, and
        ``model`` the name of the model that has them.

        Raises
        ------
        ArgError : ``window`` without ``batch``, one of them is out of range, or an option chooses
            from a trace that is not given.
        TraceError : the trace is unreadable, or has no such part.
        """
        experts, k = (None, None) if shape is None else shape
        if self.routing is None:
            chosen = {"window": self.window, "layer": self.layer, "step": self.step}
            _check_unused("--routing", **chosen)
        _check_window(self.window, self.batch, "--window", "tokens")
        if self.routing is None:
            return None
        return stepsim.trace_io.read_routing(
            self.routing,
            experts=experts,
            k=k,
            owner=model,
            layer=self.layer,
            step=self.step,
            tokens=self.batch,
            window=None if self.batch is None else self.window or 0,
        )


@frozen
class Requests:
    """Cached tokens of the requests of a decode step.

    Attributes
    ----------
    in_file : requests in the file, of which a run may serve only the first; for a window,
        the requests of the window.
    source : the file.
    """

    lengths: np.ndarray[Any, Any]
    in_file: int
    source: Path


@frozen
class RequestSource:
    """Options that choose requests of a file of lengths."""

    kv_lengths: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cached tokens of each request: a file or a data set."),
    ] = None
    batch: Batch = None
    kv_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of a CSV file that holds the lengths."),
    ] = None
    kv_step: Annotated[
        int | None,
        typer.Option(metavar="STEP", help="Decode step of a file written by `trace replay`."),
    ] = None
    kv_window: Annotated[
        int | None,
        typer.Option(
            metavar="I",
            help="Window of --batch consecutive requests of the file, counted from 0.",
        ),
    ] = None

    def read(self) -> Requests | None:
        """The requests of the file, or ``batch`` of them. None without a file.

        Raises
        ------
        ArgError : the file has fewer than ``batch``, ``kv_window`` is given without it, or an
            option chooses from a file that is not given.
        TraceError : the file does not hold one length for each request, or has no such step or
            window.
        """
        if self.kv_lengths is None:
            chosen = {"kv_column": self.kv_column, "kv_step": self.kv_step}
            _check_unused("--kv-lengths", **chosen, kv_window=self.kv_window)
        _check_window(self.kv_window, self.batch, "--kv-window", "requests")
        if self.kv_lengths is None:
            return None
        file, windowed = self.kv_lengths, self.kv_window is not None
        lengths = stepsim.trace_io.read_kv_lengths(
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
        return Requests(lengths[: self.batch], len(lengths), file)


@frozen
class NewTokenSource:
    """Options for requests that have several new tokens."""

    new_tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="New tokens of each request: a file or a data set; one of each by default.",
        ),
    ] = None
    new_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of a CSV file that holds the new tokens."),
    ] = None
    batch: Batch = None

    def read(self) -> np.ndarray[Any, Any] | None:
        """The new tokens of the requests of the file, or of the first ``batch``. None without one.

        Raises
        ------
        ArgError : the column of a file is given without the file.
        TraceError : the file does not hold one number from 1 for each request.
        """
        if self.new_tokens is None:
            _check_unused("--new-tokens", new_column=self.new_column)
            return None
        found = stepsim.trace_io.read_kv_lengths(self.new_tokens, column=self.new_column, minimum=1)
        return found[: self.batch]


@frozen
class Traces:
    """The inputs as read: the data, and its description in results.

    Attributes
    ----------
    columns : labels and identities, by column.
    facts : source and statistics of each trace, by name; None where none was given.
    """

    data: Data
    columns: Mapping[str, Any]
    facts: Mapping[str, Any]


def read_traces(
    shape: tuple[int, int] | None,
    model: str | None,
    tokens: TokenSource | None,
    requests: RequestSource | None,
    several: NewTokenSource | None = None,
) -> Traces:
    """Read what the options choose; for ``shape`` and ``model`` see `TokenSource.read`.

    Where requests have several new tokens, the routing is of as many tokens as all of them have.

    Raises
    ------
    ArgError : the options contradict each other, or there are more tokens than requests.
    TraceError : a trace cannot be read.
    """
    table, served = None, None
    facts: dict[str, Any] = {}
    batch = next((source.batch for source in (tokens, requests) if source is not None), None)
    new = None if several is None else several.read()
    if new is not None and tokens is not None and tokens.routing is not None:
        tokens = replace(tokens, batch=int(new.sum()))
    if tokens is not None:
        table = tokens.read(shape, model)
        facts["routing"] = None if table is None else _routing_facts(table, shape, tokens)
    if requests is not None:
        served = requests.read()
        facts["kv_lengths"] = None if served is None else _request_facts(served, new)
    if new is None and table is not None and served is not None:
        _check_count(table, served, tokens, several)
    data = Data.of(
        routing=None if table is None else table.experts,
        kv_lengths=None if served is None else served.lengths,
        new_tokens=new,
        rows=batch,
        whole=None if served is None else served.in_file,
    )
    return Traces(data, _columns(tokens, table, requests, served, new), facts)


def _check_count(
    table: RoutingTable,
    served: Requests,
    tokens: TokenSource | None,
    several: NewTokenSource | None,
) -> None:
    if len(table.experts) != len(served.lengths):
        hint = "--batch limits both"
        if several is not None:
            hint += ", and --new-tokens says how many tokens each request brings"
        raise ArgError(
            f"--routing: expected one token for each of the {len(served.lengths)} requests of "
            f"{served.source}, found {len(table.experts)} in {tokens and tokens.routing}; {hint}"
        )


def _columns(
    tokens: TokenSource | None,
    table: RoutingTable | None,
    requests: RequestSource | None,
    served: Requests | None,
    new: np.ndarray[Any, Any] | None,
) -> dict[str, Any]:
    """Labels of the trace; with a routing trace, cache lengths have separate columns."""
    found: dict[str, Any] = {}
    if tokens is not None and table is not None and tokens.routing is not None:
        found = {
            "trace": tokens.routing.name,
            "trace_id": table.identity(),
            "layer": table.layer,
            "step": table.step,
            "window": tokens.window,
        }
    if requests is not None and served is not None:
        alone = tokens is None
        prefix = "trace" if alone else "lengths"
        found |= {
            prefix: served.source.name,
            f"{prefix}_id": _identity(served, new),
            "step" if alone else "lengths_step": requests.kv_step,
            "window" if alone else "lengths_window": requests.kv_window,
        }
    return found


def _routing_facts(
    routing: RoutingTable, shape: tuple[int, int] | None, source: TokenSource
) -> dict[str, Any]:
    found = stepsim.trace_io.routing_statistics(routing, _experts(routing, shape, source.routing))
    return {
        "source": routing.source,
        "first_token": routing.first_token,
        "tokens": found.tokens,
        "k": found.k,
        "imbalance": found.imbalance,
    }


def _experts(routing: RoutingTable, shape: tuple[int, int] | None, file: Path | None) -> int:
    """The experts over which the mean load is taken, as in `stepsim trace info`."""
    if shape is not None:
        return shape[0]
    least = int(routing.experts.max()) + 1
    noted = None if file is None else noted_experts(file)
    if noted is not None and noted >= least:
        return noted
    named = () if routing.model is None else (routing.model,)
    return experts_of_rows(named, least) or least


def _request_facts(requests: Requests, new: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    lengths = requests.lengths
    more = {} if new is None else {"new_tokens": int(new.sum())}
    return more | {
        "source": str(requests.source),
        "requests": len(lengths),
        "requests_in_file": requests.in_file,
        "min_length": int(lengths.min()),
        "mean_length": float(lengths.mean()),
        "max_length": int(lengths.max()),
        "std_length": float(lengths.std()),
    }


def _identity(requests: Requests, new: np.ndarray[Any, Any] | None) -> str:
    content = requests.lengths.tobytes() + (b"" if new is None else new.tobytes())
    return hashlib.sha256(content).hexdigest()


def _check_window(window: int | None, batch: int | None, option: str, what: str) -> None:
    """Refuse the number of a batch without its size, and numbers out of range."""
    check_counts(batch=batch)
    if window is not None and window < 0:
        raise ArgError(f"{option}: expected a whole number from 0, found {window}")
    if window is not None and batch is None:
        raise ArgError(f"{option}: the number of {what} per window is missing; give --batch too")


def _check_unused(source: str, **choices: Any) -> None:
    """Refuse options that choose from a file that is not given."""
    for name, value in choices.items():
        if value is not None:
            option = name.replace("_", "-")
            raise ArgError(f"--{option}: has an effect only with {source} FILE; give the file too")
