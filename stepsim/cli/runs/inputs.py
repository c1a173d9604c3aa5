"""The inputs of a workload: tokens of a routing trace, and cached tokens of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.trace_io
from stepsim.cli.experts import experts_of_rows, noted_experts
from stepsim.cli.options import check_counts
from stepsim.cli.parts import file_and_parts, single
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
class Part:
    """A file, and the part of it that is read; None is all that there is."""

    file: Path
    column: str | None = None
    layer: int | None = None
    step: int | None = None
    window: int | None = None


@frozen
class TokenSource:
    """Options that choose tokens of a routing trace."""

    routing: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,KEY=VALUE]...",
            help="Routing trace of the batch: a file or a data set. The layer, the step (forward "
            "pass) and the window of --batch consecutive tokens, from 0, may follow, as in "
            "routing.npz,layer=3,window=1.",
        ),
    ] = None
    batch: Batch = None

    def chosen(self) -> Part | None:
        """The part of the trace that is meant; None without a trace.

        Raises
        ------
        ArgError : it is not a part of a trace, or a window has no size.
        """
        return _part("--routing", self.routing, self.batch, layer=int, step=int, window=int)

    def read(self, shape: tuple[int, int] | None, model: str | None) -> RoutingTable | None:
        """The tokens: of one layer and step, all, or ``batch`` of them. None without a trace.

        ``shape`` is the number of experts and those of a token, where they are known, and
        ``model`` the name of the model that has them.

        Raises
        ------
        ArgError : as `chosen`.
        TraceError : the trace is unreadable, or has no such part.
        """
        experts, k = (None, None) if shape is None else shape
        part = self.chosen()
        if part is None:
            return None
        return stepsim.trace_io.read_routing(
            part.file,
            experts=experts,
            k=k,
            owner=model,
            layer=part.layer,
            step=part.step,
            tokens=self.batch,
            window=None if self.batch is None else part.window or 0,
        )


@frozen
class Requests:
    """Cached tokens of the requests of a decode step.

    Attributes
    ----------
    in_file : requests in the file, of which a run may serve only the first; for a window,
        the requests of the window.
    part : of which file.
    """

    lengths: np.ndarray[Any, Any]
    in_file: int
    part: Part


@frozen
class RequestSource:
    """Options that choose requests of a file of lengths."""

    kv_lengths: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,KEY=VALUE]...",
            help="Cached tokens of each request: a file or a data set. The column of a CSV file, "
            "the step of a file of `trace replay` and the window of --batch consecutive requests, "
            "from 0, may follow, as in steps.parquet,step=40,window=2.",
        ),
    ] = None
    batch: Batch = None

    def read(self) -> Requests | None:
        """The requests of the file, or ``batch`` of them. None without a file.

        Raises
        ------
        ArgError : the file has fewer than ``batch``, or what follows its name is not a part of
            such a file, or a window has no size.
        TraceError : the file does not hold one length for each request, or has no such step or
            window.
        """
        part = _part("--kv-lengths", self.kv_lengths, self.batch, column=str, step=int, window=int)
        if part is None:
            return None
        lengths = stepsim.trace_io.read_kv_lengths(
            part.file,
            column=part.column,
            step=part.step,
            requests=None if part.window is None else self.batch,
            window=part.window,
        )
        if self.batch is not None and self.batch > len(lengths):
            raise ArgError(
                f"--batch: expected at most the {len(lengths)} requests of {part.file}, "
                f"found {self.batch}"
            )
        return Requests(lengths[: self.batch], len(lengths), part)


@frozen
class NewTokenSource:
    """Options for requests that have several new tokens."""

    new_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[,column=NAME]",
            help="New tokens of each request: a file or a data set; one of each by default. The "
            "column of a CSV file may follow.",
        ),
    ] = None
    batch: Batch = None

    def read(self) -> np.ndarray[Any, Any] | None:
        """The new tokens of the requests of the file, or of the first ``batch``. None without one.

        Raises
        ------
        ArgError : what follows the name of the file is not a column.
        TraceError : the file does not hold one number from 1 for each request.
        """
        part = _part("--new-tokens", self.new_tokens, self.batch, column=str)
        if part is None:
            return None
        found = stepsim.trace_io.read_kv_lengths(part.file, column=part.column, minimum=1)
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
    routed = None
    if tokens is not None:
        table, routed = tokens.read(shape, model), tokens.chosen()
        facts["routing"] = None
        if table is not None and routed is not None:
            facts["routing"] = _routing_facts(table, shape, routed.file)
    if requests is not None:
        served = requests.read()
        facts["kv_lengths"] = None if served is None else _request_facts(served, new)
    if new is None and table is not None and served is not None:
        _check_count(table, served, routed, several)
    data = Data.of(
        routing=None if table is None else table.experts,
        kv_lengths=None if served is None else served.lengths,
        new_tokens=new,
        rows=batch,
        whole=None if served is None else served.in_file,
    )
    return Traces(data, _columns(routed, table, served, new, alone=tokens is None), facts)


def _check_count(
    table: RoutingTable,
    served: Requests,
    routed: Part | None,
    several: NewTokenSource | None,
) -> None:
    if len(table.experts) != len(served.lengths):
        hint = "--batch limits both"
        if several is not None:
            hint += ", and --new-tokens says how many tokens each request brings"
        raise ArgError(
            f"--routing: expected one token for each of the {len(served.lengths)} requests of "
            f"{served.part.file}, found {len(table.experts)} in {routed and routed.file}; {hint}"
        )


def _columns(
    routed: Part | None,
    table: RoutingTable | None,
    served: Requests | None,
    new: np.ndarray[Any, Any] | None,
    *,
    alone: bool,
) -> dict[str, Any]:
    """Labels of the trace; cache lengths have separate columns unless they are ``alone``."""
    found: dict[str, Any] = {}
    if routed is not None and table is not None:
        found = {
            "trace": routed.file.name,
            "trace_id": table.identity(),
            "layer": table.layer,
            "step": table.step,
            "window": routed.window,
        }
    if served is not None:
        prefix = "trace" if alone else "lengths"
        found |= {
            prefix: served.part.file.name,
            f"{prefix}_id": _identity(served, new),
            "step" if alone else "lengths_step": served.part.step,
            "window" if alone else "lengths_window": served.part.window,
        }
    return found


def _routing_facts(
    routing: RoutingTable, shape: tuple[int, int] | None, file: Path
) -> dict[str, Any]:
    found = stepsim.trace_io.routing_statistics(routing, _experts(routing, shape, file))
    return {
        "source": routing.source,
        "first_token": routing.first_token,
        "tokens": found.tokens,
        "k": found.k,
        "imbalance": found.imbalance,
    }


def _experts(routing: RoutingTable, shape: tuple[int, int] | None, file: Path) -> int:
    """The experts over which the mean load is taken, as in `stepsim trace info`."""
    if shape is not None:
        return shape[0]
    least = int(routing.experts.max()) + 1
    noted = noted_experts(file)
    if noted is not None and noted >= least:
        return noted
    named = () if routing.model is None else (routing.model,)
    return experts_of_rows(named, least) or least


def _request_facts(requests: Requests, new: np.ndarray[Any, Any] | None) -> dict[str, Any]:
    lengths = requests.lengths
    more = {} if new is None else {"new_tokens": int(new.sum())}
    return more | {
        "source": str(requests.part.file),
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


def _part(
    option: str, text: str | None, batch: int | None, **keys: Callable[[str], Any]
) -> Part | None:
    """The part of a file that an option chooses, if it is given.

    Raises
    ------
    ArgError : it is not one, or ``batch`` or a window are out of range or do not go together.
    """
    check_counts(batch=batch)
    if text is None:
        return None
    file, parts = file_and_parts(option, text, keys)
    found = Part(file, **single(option, parts))
    if found.window is not None and found.window < 0:
        raise ArgError(f"{option}: window: expected a whole number from 0, found {found.window}")
    if found.window is not None and batch is None:
        raise ArgError(f"{option}: window: its size is missing; give --batch too")
    return found
