"""Fields of the messages of the public graph format: numbers, names, types.

One line per message. ``n name`` is a field; ``?`` after the name means that its absence is
significant, ``[]`` that it is repeated. The default type is ``uint32``. Names are not stored in
files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes
    ----------
    type : ``uint32``, ``uint64``, ``int32``, ``bool``, ``string`` or the name of a message.
    repeated : a list of values.
    optional : a scalar whose absence differs from its default.
    """

    number: int
    name: str
    type: str
    repeated: bool = False
    optional: bool = False


_TYPES: Final = {"b": "bool", "s": "string", "i": "int32", "l": "uint64"}

_IN = "1 input_id, 2 stream_idx?"
_TWO = "1 input_id1, 2 stream_idx1?, 3 input_id2, 4 stream_idx2?"

OPERATOR_FIELDS: Final = {
    "BinaryMap": f"{_TWO}, 5 func ElementFunction, 6 compute_bw, 7 write_back_mu b, "
    "8 dtype_a DataType, 9 dtype_b DataType, 10 dtype_out DataType, 11 st_from_input?",
    "UnaryMap": f"{_IN}, 3 func ElementFunction, 4 compute_bw, 5 write_back_mu b, "
    "6 input_dtype DataType, 7 output_dtype DataType",
    "BinaryMapAccum": f"{_TWO}, 5 func MapAccumFunction, 6 init_func InitFunction, 7 tile_row, "
    "8 tile_col, 9 rank, 10 compute_bw, 11 write_back_mu b, 12 dtype_a DataType, "
    "13 dtype_b DataType",
    "Accum": f"{_IN}, 3 func AccumFunction, 4 init_func InitFunction, 5 tile_row, 6 tile_col, "
    "7 rank, 8 compute_bw, 9 write_back_mu b, 10 dtype_a DataType, 11 dtype_b DataType",
    "Scan": f"{_TWO}, 5 ctr_id, 6 ctr_stream_idx?, 7 func1 AccumFunction, 8 func2 AccumFunction, "
    "9 init_func InitFunction, 10 inclusive b, 11 dtype_a DataType, 12 dtype_b DataType, "
    "13 tile_row, 14 tile_col, 15 compute_bw, 16 write_back_mu b, 17 chunk_factor",
    "AccumBuffer": f"{_IN}, 3 func AccumFunction, 4 init_func InitFunction, 5 rank, "
    "6 buffer_shape[], 7 tile_row, 8 tile_col, 9 compute_bw, 10 write_back_mu b, "
    "11 dtype_a DataType, 12 dtype_b DataType",
    "LinearOffChipLoad": "1 tensor_shape_tiled[], 2 stride[], 3 out_shape_tiled[], "
    "4 npy_path? s, 5 tile_row, 6 tile_col, 7 n_byte, 8 dtype DataType, 9 par_dispatch, "
    "10 transposed b",
    "LinearOffChipLoadRef": "1 ref_id, 2 ref_stream_idx?, 3 tensor_shape_tiled[], 4 stride[], "
    "5 out_shape_tiled[], 6 npy_path? s, 7 tile_row, 8 tile_col, 9 n_byte, 10 dtype DataType, "
    "11 ref_dtype DataType, 12 par_dispatch, 13 transposed b, 14 trigger_rank",
    "DynLinearOffChipLoad": "1 shape_path s, 2 npy_path s, 3 tile_row, 4 tile_col, 5 n_byte, "
    "6 base_addr_byte, 7 addr_offset, 8 par_dispatch, 9 dtype DataType",
    "RandomOffChipLoad": "1 raddr_id, 2 raddr_stream_idx?, 3 tensor_shape_tiled[], "
    "4 npy_path? s, 5 tile_row, 6 tile_col, 7 n_byte, 8 base_addr_byte, 9 par_dispatch, "
    "10 dtype DataType, 11 transposed b, 12 track_traffic",
    "RandomOffChipStore": "1 waddr_id, 2 waddr_stream_idx?, 3 wdata_id, 4 wdata_stream_idx?, "
    "5 tensor_shape_tiled[], 6 npy_path? s, 7 tile_row, 8 tile_col, 9 n_byte, "
    "10 base_addr_byte, 11 par_dispatch, 12 ack_based_on_waddr b, 13 wdata_dtype DataType, "
    "14 has_done_stream b, 15 transposed b",
    "OffChipStore": f"{_IN}, 3 tensor_shape_tiled[], 4 store_path? s, 5 tile_row, 6 tile_col, "
    "7 dtype DataType, 8 par_dispatch",
    "DynOffChipStore": f"{_IN}, 3 shape_path s, 4 store_path s, 5 tile_row, 6 tile_col, "
    "7 dtype DataType, 8 par_dispatch",
    "MetadataGen": "1 npy_path s, 2 dtype DataType, 3 tensor_shape_tiled[]",
    "SelectGen": "1 npy_path s, 2 is_multihot b, 3 dtype DataType, 4 tensor_shape_tiled[]",
    "ExpertAddrGen": f"{_IN}, 3 num_tile_per_expert, 4 expert_addr_base, 5 dtype DataType",
    "CacheReadAddrGen": "1 idx_id, 2 idx_stream_idx?, 3 seq_len_id, 4 seq_len_stream_idx?, "
    "5 offset_per_idx l",
    "FilterLastTile": "1 seq_len_id, 2 seq_len_stream_idx?",
    "ExpandRef": f"{_IN}, 3 ref_id, 4 ref_stream_idx?, 5 expand_rank, 6 dtype DataType, "
    "7 ref_dtype DataType",
    "RepeatRef": f"{_IN}, 3 ref_id, 4 ref_stream_idx?, 5 dtype DataType, 6 ref_dtype DataType, "
    "7 rank",
    "RepeatStatic": f"{_IN}, 3 repeat_factor, 4 dtype DataType",
    "Broadcast": f"{_IN}, 3 num_consumers, 4 dtype DataType",
    "FlatPartition": "1 input_id, 2 control_id, 3 input_stream_idx?, 4 control_stream_idx?, "
    "5 partition_rank, 6 num_consumers, 7 input_dtype DataType, 8 control_dtype DataType, "
    "9 switch_cycles[], 10 write_back_mu b",
    "Shuffle": "1 input_id, 2 index_id, 3 input_stream_idx?, 4 index_stream_idx?, 5 rank, "
    "6 input_dtype DataType, 7 index_dtype DataType, 8 write_back_mu b",
    "Parallelize": f"{_IN}, 3 parallelize_rank, 4 num_consumers, 5 input_dtype DataType, "
    "6 switch_cycles[], 7 write_back_mu b",
    "FlatReassemble": "1 input_id_list[], 2 input_stream_idx_list[] i, 3 control_id, "
    "4 control_stream_idx?, 5 reassemble_rank, 6 input_dtype DataType, 7 control_dtype DataType, "
    "8 switch_cycles[], 9 write_back_mu b",
    "StaticReassemble": "1 input_id_list[], 2 input_stream_idx_list[] i, 3 merge_rank, "
    "4 input_dtype DataType, 5 switch_cycles[], 6 write_back_mu b",
    "EagerMerge": "1 input_id_list[], 2 input_stream_idx_list[] i, 3 input_rank, 4 dtype DataType",
    "Promote": f"{_IN}, 3 promote_rank, 4 dtype DataType",
    "PromoteOuter": f"{_IN}, 3 dtype DataType",
    "TakeLast": f"{_IN}, 3 dtype DataType",
    "FlatmapCounter": f"{_IN}, 3 dtype DataType",
    "PrinterContext": f"{_IN}, 3 dtype DataType",
    "ConsumerContext": f"{_IN}, 3 dtype DataType",
    "Flatten": f"{_IN}, 3 min_rank, 4 max_rank, 5 dtype DataType",
    "Bufferize": f"{_IN}, 3 rank, 4 dtype DataType, 5 passthrough? b",
    "Streamify": f"{_IN}, 3 repeat_factor[], 4 rank, 5 dtype DataType",
    "StaticStreamify": f"{_IN}, 3 repeat_factor[], 4 dtype DataType, 5 stride[], 6 out_shape[]",
    "DynStreamify": f"{_IN}, 3 ref_id, 4 ref_stream_idx?, 5 bufferized_rank, 6 repeat_rank, "
    "7 input_dtype DataType, 8 ref_dtype DataType",
    "Reshape": f"{_IN}, 3 split_dim, 4 chunk_size, 5 dtype DataType, 6 write_back_mu b, "
    "7 input_stream_rank, 8 add_outer_dim b, 9 pad_func InitFunction, 10 tile_row?, 11 tile_col?",
    "ReshapePadStream": f"{_IN}, 3 split_dim, 4 chunk_size, 5 dtype DataType, 6 write_back_mu b, "
    "7 input_stream_rank, 8 pad_func InitFunction, 9 tile_row, 10 tile_col, 11 have_pad_stream b",
    "RetileStreamify": f"{_IN}, 3 split_row b, 4 filter_mask b, 5 dtype DataType, 6 chunk",
    "FlatmapFilterRowStreamify": f"{_IN}, 3 mask_id?, 4 mask_stream_idx?, 5 dtype DataType",
    "Counter": "1 max, 2 input_id?, 3 stream_idx?, 4 dtype DataType",
    "Counter2D": "1 rows, 2 cols, 3 input_id?, 4 stream_idx?, 5 dtype DataType",
}
"""Operators of generation B."""

_GENERATION_A: Final = {
    "Reshape": f"{_IN}, 3 split_dim, 4 chunk_size, 5 dtype DataType, 6 write_back_mu b, "
    "7 pad_func InitFunction, 8 tile_row, 9 tile_col",
    "RetileStreamify": f"{_IN}, 3 split_row b, 4 filter_mask b, 5 dtype DataType",
    "SelectGen": "1 npy_path s, 2 is_multihot b",
    "BinaryMap": f"{_TWO}, 5 func ElementFunction, 6 compute_bw, 7 write_back_mu b, "
    "8 dtype_a DataType, 9 dtype_b DataType",
    "LinearOffChipLoad": "1 tensor_shape_tiled[], 2 stride[], 3 out_shape_tiled[], "
    "4 npy_path? s, 5 tile_row, 6 tile_col, 7 n_byte, 8 dtype DataType, 9 par_dispatch",
    "LinearOffChipLoadRef": "1 ref_id, 2 ref_stream_idx?, 3 tensor_shape_tiled[], 4 stride[], "
    "5 out_shape_tiled[], 6 npy_path? s, 7 tile_row, 8 tile_col, 9 n_byte, 10 dtype DataType, "
    "11 ref_dtype DataType, 12 par_dispatch",
}
"""Operators whose fields have different numbers in generation A, or fewer fields."""

_HELPERS: Final = {
    "ProgramGraph": "1 name s, 2 operators[] Operation",
    "DimShape": "1 static?, 2 dynamic? s",
    "Placement": "1 domain, 2 shard",
    "Matmul": "1 weight_transposed b",
    "CacheWriteAddrGen": "1 offset_per_idx l",
    "BufferType": "1 f16 Empty, 2 f32 Empty",
    "Empty": "",
}

OPERATION_FIELDS: Final = (
    "1 name s, 2 id, 3 group_id, 4 stream_shape[] DimShape, 48 parallel_factor, "
    "55 chiplet_placement Placement"
)
"""Fields of an operation, in addition to the operator itself."""


def _parsed(line: str) -> tuple[Field, ...]:
    made = []
    for part in filter(None, (piece.strip() for piece in line.split(","))):
        number, name, *rest = part.split()
        kind = _TYPES.get(rest[0], rest[0]) if rest else "uint32"
        made.append(
            Field(int(number), name.rstrip("?[]"), kind, name.endswith("[]"), name.endswith("?"))
        )
    return tuple(made)


@cache
def fields_of(generation: str, message: str) -> tuple[Field, ...]:
    """Fields of an operator or another message, in the order of their numbers."""
    if message == "Operation":
        return _parsed(OPERATION_FIELDS)
    if generation == "A" and message in _GENERATION_A:
        return _parsed(_GENERATION_A[message])
    return _parsed(OPERATOR_FIELDS.get(message) or _HELPERS[message])


def messages_of(generation: str) -> dict[str, tuple[Field, ...]]:
    """Every message of a generation except types and functions, which are selected by numbers."""
    names = (*_HELPERS, *OPERATOR_FIELDS)
    return {name: fields_of(generation, name) for name in names}
