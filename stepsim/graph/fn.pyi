from typing import Any

from stepsim.graph.accumulation import (
    empty as empty,
    full as full,
    neg_infinity as neg_infinity,
    one as one,
    zero as zero,
)
from stepsim.graph.functions.addresses import (
    append_row as append_row,
    cache_write_address as cache_write_address,
    pack_cols as pack_cols,
    pack_rows as pack_rows,
    set_offset as set_offset,
    signal as signal,
)
from stepsim.graph.functions.casts import (
    cast as cast,
    dequantize as dequantize,
    quantize as quantize,
)
from stepsim.graph.functions.constants import (
    add_const as add_const,
    clamp as clamp,
    div_const as div_const,
    floor_div_const as floor_div_const,
    full_like as full_like,
    mul_const as mul_const,
    sub_const as sub_const,
)
from stepsim.graph.functions.elementwise import (
    add as add,
    cos as cos,
    div as div,
    eq as eq,
    exp as exp,
    ge as ge,
    gelu as gelu,
    gelu_tanh as gelu_tanh,
    gt as gt,
    le as le,
    log as log,
    lt as lt,
    mul as mul,
    ne as ne,
    neg as neg,
    pow2 as pow2,
    reciprocal as reciprocal,
    relu as relu,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    silu as silu,
    sin as sin,
    softplus as softplus,
    sqrt as sqrt,
    square as square,
    sub as sub,
    tanh as tanh,
    where as where,
)
from stepsim.graph.functions.masks import causal_mask as causal_mask, length_mask as length_mask
from stepsim.graph.functions.matrices import (
    concat_cols as concat_cols,
    concat_rows as concat_rows,
    matmul as matmul,
    matmul_t as matmul_t,
    part as part,
    rotary as rotary,
    slice_cols as slice_cols,
    slice_rows as slice_rows,
    t_matmul as t_matmul,
    t_matmul_t as t_matmul_t,
    transpose as transpose,
)
from stepsim.graph.functions.numbers import (
    broadcast_rows as broadcast_rows,
    increment as increment,
    is_equal as is_equal,
    to_integer as to_integer,
)
from stepsim.graph.functions.reductions import (
    col_max as col_max,
    col_mean as col_mean,
    col_sum as col_sum,
    last as last,
    row_max as row_max,
    row_mean as row_mean,
    row_sum as row_sum,
)
from stepsim.graph.functions.selectors import (
    index_to_multihot as index_to_multihot,
    integer_to_multihot as integer_to_multihot,
    multihot_to_integer as multihot_to_integer,
    select_and as select_and,
    select_not as select_not,
    select_or as select_or,
    select_to_scalar as select_to_scalar,
    select_xor as select_xor,
)
from stepsim.graph.ops.flat_map.cutting import (
    emit as emit,
    unpack_cols as unpack_cols,
    unpack_rows as unpack_rows,
)
from stepsim.graph.ops.flat_map.flat_maps import (
    cache_read_addresses as cache_read_addresses,
    expert_addresses as expert_addresses,
    last_tile_filter as last_tile_filter,
)
from stepsim.graph.ops.flat_map.numbers import view_addresses as view_addresses
from stepsim.graph.short_names import (
    abs as abs,
    counter as counter,
    max as max,
    min as min,
    pow as pow,
)

def __getattr__(name: str) -> Any: ...  # functions of plugins
