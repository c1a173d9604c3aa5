"""Parquet (and Arrow IPC) files with a column of lists, as Hugging Face datasets hold them.

What a row is, follows from the nesting of the list column:

* ``list<int>``: the k experts of one token; columns ``layer``, ``step``, ``token``, ``model`` and
  ``weights`` are read as in our own schema, as far as they are there;
* ``list<list<int>>``: one token, [layers, k];
* ``list<list<list<int>>>``: one sequence, [tokens, layers, k]; each row becomes a step.

The column is the one asked for, or one called ``experts`` or by another usual name, or the only
column of lists of integers. The file is read in batches: rows of a (model, layer) must be in the
order of step and token.

Sources: https://huggingface.co/docs/datasets/about_dataset_features (``List``, ``Array2D`` and
``Array3D`` are nested lists in the Parquet file).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from stepsim.errors import TraceError
from stepsim.trace_io.arrow_columns import (
    index_column,
    is_list,
    list_column,
    name_column,
    plain,
)
from stepsim.trace_io.arrow_pieces import check_data, check_rows, check_single
from stepsim.trace_io.decode_steps import refuse_decode_steps
from stepsim.trace_io.files import damaged, detect_format
from stepsim.trace_io.formats.job import ImportJob, RoutingChunk
from stepsim.trace_io.formats.sequences import sequence_chunks
from stepsim.trace_io.formats.tokens import TokenOrder
from stepsim.trace_io.schema import check_version
from stepsim.trace_io.validate import Place

__all__ = ["KNOWN_COLUMNS", "depth", "read"]

KNOWN_COLUMNS = (
    "experts",
    "selected_experts",
    "routed_experts",
    "expert_ids",
    "expert_indices",
    "topk_ids",
    "topk_indices",
    "top_indices",
    "router_indices",
)
"""Names of the list column that are known, the first that is there is taken."""

_BATCH_ROWS = {1: 1 << 16, 2: 1 << 12, 3: 1}
_LABELS = ("model", "layer", "step", "token")


def depth(kind: pa.DataType) -> int:
    """How many lists are nested around integers; 0 for any other type."""
    levels = 0
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif is_list(kind):
            kind = kind.value_type
            levels += 1
        else:
            return levels if pa.types.is_integer(kind) else 0


def read(job: ImportJob) -> Iterator[RoutingChunk]:
    """Read a file with a list column.

    Raises:
        TraceError: the file is unreadable, it is not clear which column is meant, rows are out of
            order, or a value is invalid.
    """
    name = str(job.path)
    kind = detect_format(job.path)
    if kind not in ("parquet", "ipc file", "ipc stream"):
        raise TraceError(
            f"{name}: is no Parquet file ({kind or 'no known first bytes'}), expected Parquet or "
            "Arrow IPC; check --format"
        )
    first_row = 0
    order = TokenOrder(name)
    try:
        for table, share in _batches(job, kind):
            check_data(table, name)
            column = _choose(job, table.schema)
            levels = depth(table.schema.field(column).type)
            if levels == 1:
                yield from _tokens(job, table, column, first_row, order)
            else:
                yield from _sequences(job, table, column, levels, first_row)
            first_row += table.num_rows
            job.done(int(share * job.path.stat().st_size))
    # Names of columns are decoded when they are looked at; Arrow does not check them.
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise damaged(job.path, kind, error) from error


def _batches(job: ImportJob, kind: str) -> Iterator[tuple[pa.Table, float]]:
    """Pieces of the file, columns wanted only, and the share of the file read after each."""
    if kind == "parquet":
        with pq.ParquetFile(job.path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            column = _choose(job, schema)
            wanted = _wanted(schema, column)
            rows = _BATCH_ROWS[depth(schema.field(column).type)]
            total, done = max(1, file.metadata.num_rows), 0
            for group in range(file.num_row_groups):
                # One by one: over several row groups pyarrow keeps what it has read.
                first = done
                for batch in file.iter_batches(rows, row_groups=[group], columns=wanted):
                    done += batch.num_rows
                    yield pa.Table.from_batches([batch]), done / total
                announced = file.metadata.row_group(group).num_rows
                check_rows(done - first, announced, first, str(job.path))
        return
    with pa.OSFile(str(job.path)) as file:
        if kind == "ipc file":
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(file))
        size = max(1, job.path.stat().st_size)
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield (
                table.select(_wanted(table.schema, _choose(job, table.schema))),
                (file.tell() / size),
            )


def _choose(job: ImportJob, schema: pa.Schema) -> str:
    refuse_decode_steps(schema, job.path)
    check_version(schema, str(job.path))
    column = _chosen(job, schema)
    check_single(schema, [column], str(job.path))
    if depth(schema.field(column).type) == 1:
        check_single(schema, (*_LABELS, "weights"), str(job.path))
    return column


def _chosen(job: ImportJob, schema: pa.Schema) -> str:
    candidates = [field.name for field in schema if 1 <= depth(field.type) <= 3]
    if job.column is not None:
        if job.column in candidates:
            return job.column
        raise TraceError(
            f"{job.path}: column `{job.column}` is {_type_of(schema, job.column)}, expected lists "
            f"of integers, nested up to 3 deep; columns of lists are: {_listed(candidates)}"
        )
    for name in KNOWN_COLUMNS:
        if name in candidates:
            return name
    if len(candidates) == 1:
        return str(candidates[0])
    raise TraceError(
        f"{job.path}: has {len(candidates)} columns of lists of integers "
        f"({_listed(candidates)}; all columns: {_listed(schema.names)}), expected one with the "
        "experts of each token; choose it with --column"
    )


def _type_of(schema: pa.Schema, name: str) -> str:
    types = [str(field.type) for field in schema if field.name == name]
    return " and ".join(types) or "not there"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _wanted(schema: pa.Schema, column: str) -> list[str]:
    if depth(schema.field(column).type) > 1:
        return [column]
    return [name for name in (*_LABELS, "weights") if name in schema.names] + [column]


def _tokens(
    job: ImportJob, table: pa.Table, column: str, first_row: int, order: TokenOrder
) -> Iterator[RoutingChunk]:
    """Rows that are tokens, grouped by (model, layer, step)."""
    name = str(job.path)
    present = table.column_names
    ids = list_column(table, column, name, what="expert ids")
    gates = None
    if "weights" in present:
        gates = list_column(table, "weights", name, what="gate weights", floating=True)
    zeros = np.zeros(table.num_rows, dtype=np.int64)
    layers, steps, tokens = (
        index_column(table, label, name, first_row) if label in present else None
        for label in ("layer", "step", "token")
    )
    models: list[str | None] = [None]
    codes = zeros
    if "model" in present:
        models, codes = name_column(table, "model", name)
    keys = np.stack([codes, zeros if layers is None else layers, zeros if steps is None else steps])
    if table.num_rows == 0:
        return
    rows = np.lexsort(keys[::-1]).astype(np.int64)
    ordered = keys[:, rows]
    starts = np.flatnonzero((ordered[:, 1:] != ordered[:, :-1]).any(axis=0)) + 1
    for part in np.split(rows, starts):
        code, layer, step = (int(value) for value in keys[:, part[0]])
        model = models[code]
        numbers = None if tokens is None else tokens[part]
        first = order.place((model, layer), step, len(part), numbers, part + first_row)
        place = Place(name, layer, step, first, model, part, first_row)
        yield job.chunk(
            ids.gather(place),
            source=name,
            layer=layer,
            step=step,
            first_token=first,
            rows=part,
            first_row=first_row,
            weights=None if gates is None else gates.gather(place),
            model=model,
        )


def _sequences(
    job: ImportJob, table: pa.Table, column: str, levels: int, first_row: int
) -> Iterator[RoutingChunk]:
    """Rows that are tokens [layers, k], or sequences [tokens, layers, k]."""
    name = str(job.path)
    rows = plain(table.column(column).combine_chunks(), name, column)
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if levels == 2:
        ids = _regular(rows, f"{name}: rows {first_row}..{first_row + len(rows) - 1}", column)
        yield from sequence_chunks(
            job,
            ids,
            source=name,
            field=column,
            step=0,
            first_token=first_row,
            first_row=first_row,
        )
        return
    for index in range(len(rows)):
        where = f"{name}: row {first_row + index}"
        ids = _regular(rows.slice(index, 1), where, column)[0]
        yield from sequence_chunks(
            job, ids, source=where, field=column, step=first_row + index, first_token=0
        )


def _regular(array: pa.Array, where: str, column: str) -> npt.NDArray[Any]:
    """Nested lists of equal lengths as an array."""
    shape = [len(array)]
    while is_list(array.type):
        if array.null_count:
            raise TraceError(
                f"{where}: `{column}` holds null, expected a list; drop the row or record it again"
            )
        lengths = pc.unique(pc.list_value_length(array)).to_pylist()
        if len(lengths) > 1:
            raise TraceError(
                f"{where}: `{column}` has lists of {min(lengths)} and {max(lengths)} values side "
                "by side, expected equal lengths; all tokens have the same layers and k"
            )
        shape.append(lengths[0] if lengths else 0)
        array = plain(array.flatten(), where, column)
    if array.null_count:
        raise TraceError(
            f"{where}: `{column}` holds null, expected expert ids; drop the row or record it again"
        )
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)
