"""Parquet (and Arrow IPC) files with a column of lists, as Hugging Face datasets hold them.

The meaning of a row follows from the nesting of the list column:

* ``list<int>``: the k experts of one token; columns ``layer``, ``step``, ``token``, ``model`` and
  ``weights`` are read as in our own schema if present;
* ``list<list<int>>``: one token, [layers, k];
* ``list<list<list<int>>>``: one sequence, [tokens, layers, k]; each row becomes a step.

The column is the requested one, or the one with a usual name such as ``experts``, or the only
column of lists of integers. The file is read in batches: rows of a (model, layer) must be in the
order of step and token.

Sources: https://huggingface.co/docs/datasets/about_dataset_features (``List``, ``Array2D`` and
``Array3D`` are nested lists in the Parquet file).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stepsim.arrow import pa, pc
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.columns import is_list, plain
from stepsim.trace_io.files import detect_format
from stepsim.trace_io.formats.format import Content, Format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.formats.sequences import Sequence
from stepsim.trace_io.requests.decode_steps import refuse_decode_steps
from stepsim.trace_io.routing.rows import TokenRows, token_columns
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.schema import check_version
from stepsim.trace_io.sources.arrow import ARROW_KINDS, check_single, read_batches, read_schema

_KNOWN_COLUMNS = (
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
"""Known names of the list column; the first one present is taken."""

_BATCH_ROWS = {1: 1 << 16, 2: 1 << 12, 3: 1}


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


def _read(job: ImportJob) -> Iterator[RoutingTable]:
    name, kind = str(job.path), detect_format(job.path)
    if kind is None or kind not in ARROW_KINDS:
        raise TraceError(
            f"{name}: is not a Parquet file ({kind or 'unknown first bytes'}), expected Parquet or "
            "Arrow IPC; check --format"
        )
    schema = read_schema(job.path, kind)
    refuse_decode_steps(schema, job.path)
    check_version(schema, name)
    column = _chosen(job, schema)
    check_single(schema, [column], name)
    levels = depth(schema.field(column).type)
    columns = token_columns(schema, column, name) if levels == 1 else [column]
    if levels == 1:
        _check_rows_are_tokens(job)
    order = _TokenOrder(name)
    token = 0
    for first_row, table, bytes_read in read_batches(job.path, kind, columns, _BATCH_ROWS[levels]):
        if levels == 1:
            yield from _tokens(job, table, column, first_row, order)
        elif levels == 2:
            where = f"{name}: rows {first_row}..{first_row + len(table) - 1}"
            ids = _nested(table, column, where)
            part = Sequence(job, ids, name, column, first_row=first_row)
            yield from part.tables(0, token)
            token += part.tokens
        else:
            for row in range(first_row, first_row + len(table)):
                where = f"{name}: row {row}"
                (ids,) = _nested(table.slice(row - first_row, 1), column, where)
                yield from Sequence(job, ids, where, column).tables(row)
        job.done(bytes_read)


def _check_rows_are_tokens(job: ImportJob) -> None:
    """Refuse options about all layers of a token if each row is only one layer."""
    for option, given in (
        ("--layers (layers=)", job.layers is not None),
        ("--drop-missing (drop_missing=)", job.drop_missing),
    ):
        if given:
            raise ArgError(
                f"{job.path}: {option} is given, but each row is a token in one layer, expected "
                "lists nested 2 or 3 deep, of all layers of a token; leave it out"
            )


def _chosen(job: ImportJob, schema: pa.Schema) -> str:
    candidates = [field.name for field in schema if 1 <= depth(field.type) <= 3]
    if job.column is not None:
        if job.column in candidates:
            return job.column
        raise TraceError(
            f"{job.path}: column `{job.column}` is {_type_of(schema, job.column)}, expected lists "
            f"of integers, nested up to 3 deep; columns of lists are: {_listed(candidates)}"
        )
    for name in _KNOWN_COLUMNS:
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


class _TokenOrder:
    """Numbers tokens within their step, and refuses rows that are out of order.

    Only the latest step of each key is remembered, so that memory does not grow with the trace.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def place(
        self,
        key: Hashable,
        step: int,
        numbers: npt.NDArray[np.int64] | None,
        rows: npt.NDArray[np.int64],
    ) -> int:
        """Index of the first of the next tokens of (key, step), which are in ``rows``.

        ``numbers`` are the tokens' own numbers, if they have any.

        Raises:
            TraceError: the step is earlier than the latest of the key, or the numbers do not
                continue those before.
        """
        last, following = self._latest.get(key, (-1, 0))
        if step < last:
            raise TraceError(
                f"{self._source}: row {int(rows[0])}: step {step} follows step {last} of the "
                "same layer, expected the order of step and token; sort the file by (step, layer, "
                "token)"
            )
        expected = following if step == last else None
        first = expected or 0
        if numbers is not None:
            first = int(numbers[0]) if expected is None else expected
            wrong = numbers != first + np.arange(len(rows))
            if wrong.any():
                at = int(np.argmax(wrong))
                raise TraceError(
                    f"{self._source}: row {int(rows[at])}: token is {int(numbers[at])}, expected "
                    f"{first + at}, the next of its layer and step; sort the file by (step, "
                    "layer, token), or leave the column out to take the rows as they are"
                )
        self._latest[key] = (step, first + len(rows))
        return first


def _tokens(
    job: ImportJob, table: pa.Table, column: str, first_row: int, order: _TokenOrder
) -> Iterator[RoutingTable]:
    """Rows that are tokens, grouped by (model, layer, step)."""
    name = str(job.path)
    rows = TokenRows(table, name, column, first_row=first_row, by_number=False)
    for key, part in rows.groups.items():
        tokens = rows.take(part)
        first = order.place((key.model, key.layer), key.step, tokens.numbers, tokens.rows)
        place = tokens.place(name, key, first)
        ids, weights = tokens.values(place)
        yield job.table(ids, place, weights)


def _nested(table: pa.Table, column: str, where: str) -> npt.NDArray[Any]:
    """A column of nested lists of equal lengths as an array."""
    chunks = [plain(chunk, where, column) for chunk in table.column(column).chunks]
    array = pa.concat_arrays(chunks)
    shape = [len(array)]
    while is_list(array.type):
        if array.null_count:
            raise TraceError(
                f"{where}: `{column}` holds null, expected a list; drop the row or record it again"
            )
        lengths = pc.unique(pc.list_value_length(array)).to_pylist()
        if len(lengths) > 1:
            raise TraceError(
                f"{where}: `{column}` has lists of {min(lengths)} and {max(lengths)} values in "
                "one column, expected equal lengths; all tokens have the same layers and k"
            )
        shape.append(lengths[0] if lengths else 0)
        array = plain(array.flatten(), where, column)
    if array.null_count:
        raise TraceError(
            f"{where}: `{column}` holds null, expected expert ids; drop the row or record it again"
        )
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)


def _recognizes(content: Content) -> bool:
    if content.schema is None or "context_tokens" in content.schema.names:
        return False
    refuse_decode_steps(content.schema, content.path)
    return True


FORMAT = Format(
    "parquet",
    "routing",
    _read,
    _recognizes,
    options=("column", "layers", "drop_missing"),
    last=True,
)
