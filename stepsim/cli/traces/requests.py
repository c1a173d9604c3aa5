"""``stepsim trace select`` and ``replay``: batches of decode requests from a request trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import stepsim.trace_io
from stepsim.atomic import replacing
from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import Json, check_output, refuse_unused
from stepsim.cli.traces.importing import Column, FormatName
from stepsim.deferred import deferred
from stepsim.errors import ArgError, OutputError, TraceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import rich.table

    from stepsim.trace_io import Window
else:
    np = deferred("numpy")
    rich = deferred("rich")

_BLOCK_STEPS = 4096


def select(
    file: Annotated[Path, typer.Argument(help="A request trace of any format, or a data set.")],
    size: Annotated[int, typer.Option(help="Requests per window.")],
    by: Annotated[
        Literal["stdev"] | None, typer.Option(help="Measure of the classes. (default: stdev)")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Windows per class or deviation, without overlap. (default: 3)"
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of requests to use, from the start; 0 uses all. (default: 5000)",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Distance between the starts of two windows, in requests. (default: 2)",
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(metavar="X", help="Fraction of the windows in each class. (default: 0.1)"),
    ] = None,
    at: Annotated[
        list[int] | None,
        typer.Option(
            metavar="FIRST",
            help="Instead of classes, select the window that begins with this request, counted "
            "from 1; repeatable.",
        ),
    ] = None,
    near: Annotated[
        list[float] | None,
        typer.Option(
            metavar="STDEV",
            help="Instead of classes, select the --count windows of the nearest deviation; "
            "repeatable.",
        ),
    ] = None,
    format: FormatName = None,
    column: Column = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the window files.")] = "conv",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write each window as a .npy file.")
    ] = None,
    json: Json = False,
) -> None:
    """Select windows of a request trace by the standard deviation of their lengths."""
    if set(prefix) & set("/\\"):
        raise ArgError(
            f"--prefix: expected the beginning of a name, found '{prefix}' with a folder in it; "
            "name the folder with --out"
        )
    _check_count(requests)
    if at or near:
        refuse_unused("--at and --near select no classes", by=by, share=share)
    if at and not near:
        one = "--at selects one window for each request"
        refuse_unused(one, count=count, stride=stride, requests=requests)
    used = 5000 if requests is None else requests or None
    steps, several = 2 if stride is None else stride, 3 if count is None else count
    lengths = stepsim.trace_io.load_requests(file, format=format, column=column).context_tokens
    if at or near:
        chosen = _asked_for(lengths, size, at or [], near or [], used, steps, several)
    else:
        chosen = _of_classes(
            lengths, size, by or "stdev", used, steps,
            0.1 if share is None else share, several,
        )  # fmt: skip
    if out is not None:
        _write_windows(lengths, [window for _, window in chosen], prefix, out)
    if json:
        windows = [_record(kind, window, lengths, prefix) for kind, window in chosen]
        print_json({"file": str(file), "windows": windows})
        return

    table = rich.table.Table(box=None, pad_edge=False)
    table.add_column("class")
    for heading in ("first", "last", "stdev", "mean", "sum"):
        table.add_column(heading, justify="right")
    table.add_column("name")
    for kind, window in chosen:
        found = _record(kind, window, lengths, prefix)
        table.add_row(
            kind,
            *(str(found[key]) for key in ("first", "last")),
            *(f"{found[key]:.2f}" for key in ("stdev", "mean")),
            str(found["sum"]),
            found["name"],
        )
    show(table)


def replay(
    file: Annotated[
        Path, typer.Argument(help="A request trace with generated tokens, or a data set.")
    ],
    batch: Annotated[int, typer.Option(help="Maximum batch size in requests.")],
    step_seconds: Annotated[
        float | None,
        typer.Option(
            help="Duration of a step; without it, all requests are waiting from the start."
        ),
    ] = None,
    requests: Annotated[
        int, typer.Option(help="Number of requests to use, from the start; 0 uses all.")
    ] = 0,
    every: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write every N-th step to --out. (default: 1)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Parquet file to write the steps to.")] = None,
    json: Json = False,
) -> None:
    """Serve a request trace with continuous batching, and list the KV lengths of each step."""
    if every is not None and every < 1:
        raise ArgError(f"--every {every}: expected at least 1")
    if out is None:
        refuse_unused("it chooses the steps that --out writes, which is not given", every=every)
    else:
        check_output(out)
    _check_count(requests)
    trace = stepsim.trace_io.load_requests(file)
    if requests:
        trace = trace.window(1, min(requests, len(trace)))
    totals = {"steps": 0, "tokens": 0, "kv_tokens": 0, "most_kv_tokens": 0}

    def kept() -> Any:
        for step in stepsim.trace_io.replay(trace, batch, step_seconds=step_seconds):
            length = int(step.kv_lengths.sum())
            totals["steps"] += 1
            totals["tokens"] += len(step.requests)
            totals["kv_tokens"] += length
            totals["most_kv_tokens"] = max(totals["most_kv_tokens"], length)
            if step.step % (every or 1) == 0:
                yield step

    steps = kept()
    if out is None:
        for _ in steps:
            pass
    else:
        with stepsim.trace_io.ParquetStream(out) as stream:
            block = []
            for step in steps:
                block.append(step)
                if len(block) == _BLOCK_STEPS:
                    stream.write(stepsim.trace_io.replay_rows(block))
                    block = []
            stream.write(stepsim.trace_io.replay_rows(block))
            if not totals["steps"]:
                raise TraceError(
                    f"{file}: expected requests that generate tokens, found none; there are no "
                    "steps to write"
                )
    count = max(1, totals["steps"])
    record = {
        "file": str(file),
        "requests": len(trace),
        **totals,
        "mean_batch": totals["tokens"] / count,
        "mean_kv_tokens": totals["kv_tokens"] / count,
    }
    if json:
        print_json(record)
        return
    show(
        f"{record['steps']} steps for {record['requests']} requests, "
        f"{record['mean_batch']:.2f} requests and {record['mean_kv_tokens']:.0f} KV tokens per "
        f"step, at most {record['most_kv_tokens']}"
    )
    if out is not None:
        note(f"wrote {out}")


def _of_classes(
    lengths: npt.NDArray[np.int64],
    size: int,
    by: str,
    requests: int | None,
    stride: int,
    share: float,
    count: int,
) -> list[tuple[str, Window]]:
    """The first windows of each class."""
    classes = stepsim.trace_io.select_windows(
        lengths, size, by=by, requests=requests, stride=stride, share=share
    )
    return [
        (kind, window)
        for kind, windows in classes.items()
        for window in stepsim.trace_io.disjoint(windows, count)
    ]


def _asked_for(
    lengths: npt.NDArray[np.int64],
    size: int,
    at: list[int],
    near: list[float],
    requests: int | None,
    stride: int,
    count: int,
) -> list[tuple[str, Window]]:
    """The windows that begin at the given requests, then those nearest to the given deviations."""
    chosen = [("at", stepsim.trace_io.window_at(lengths, size, first)) for first in at]
    if near:
        windows = stepsim.trace_io.window_stdevs(lengths[:requests], size, stride=stride)
        chosen += [
            ("near", window)
            for stdev in near
            for window in stepsim.trace_io.disjoint(
                stepsim.trace_io.nearest_windows(windows, stdev), count
            )
        ]
    return chosen


def _record(
    kind: str, window: Window, lengths: npt.NDArray[np.int64], prefix: str
) -> dict[str, Any]:
    part = window.lengths(lengths)
    return {
        "class": kind,
        "first": window.first,
        "last": window.last,
        "stdev": window.stdev,
        "mean": float(part.mean()),
        "sum": int(part.sum()),
        "name": window.name(prefix),
        "lengths": part.tolist(),
    }


def _write_windows(
    lengths: npt.NDArray[np.int64], windows: list[Window], prefix: str, folder: Path
) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be created ({error.strerror}); check that it is a folder, or name "
            "another one"
        ) from error
    for window in windows:
        # An open file, since NumPy would append .npy to other names.
        with replacing(folder / f"{window.name(prefix)}.npy") as (part,), part.open("wb") as file:
            np.save(file, window.lengths(lengths))
    note(f"wrote {len(windows)} files to {folder}")


def _check_count(requests: int | None) -> None:
    if requests is not None and requests < 0:
        raise ArgError(f"--requests {requests}: expected at least 1, or 0 for all")
