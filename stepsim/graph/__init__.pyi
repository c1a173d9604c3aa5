from stepsim.graph.accumulation import Init as Init
from stepsim.graph.functions.function import Function as Function
from stepsim.graph.metrics import (
    BoundMetrics as BoundMetrics,
    Metrics as Metrics,
    OperatorMetrics as OperatorMetrics,
)
from stepsim.graph.operator import Operator as Operator
from stepsim.graph.ops.feedback import Feedback as Feedback
from stepsim.graph.ops.flat_map.flat_maps import StreamFunction as StreamFunction
from stepsim.graph.ops.routing.routing_table import Routing as Routing
from stepsim.graph.programs.equalities import Assumption as Assumption
from stepsim.graph.programs.program import Program as Program
from stepsim.graph.rewrites.wiring import (
    WiredFifo as WiredFifo,
    WiredUnit as WiredUnit,
    Wiring as Wiring,
    wire as wire,
)
from stepsim.graph.sizes.dims import Dim as Dim, Kind as Kind
from stepsim.graph.stream import Stream as Stream
from stepsim.graph.types import (
    Ack as Ack,
    Buffer as Buffer,
    DType as DType,
    IndexSelector as IndexSelector,
    MultiHot as MultiHot,
    TensorSpec as TensorSpec,
    Tile as Tile,
    TupleType as TupleType,
)

# isort: split
# for other rooms
from stepsim.graph import fn as fn, nn as nn
from stepsim.graph.accounting import Accounting as Accounting, slot_bytes as slot_bytes
from stepsim.graph.accumulation import neg_infinity as neg_infinity, zero as zero
from stepsim.graph.functions.define import function as function
from stepsim.graph.functions.function import Rule as Rule
from stepsim.graph.functions.matrices import rotary as rotary
from stepsim.graph.functions.piece_size import (
    PIECE_WORDS as PIECE_WORDS,
    PieceSize as PieceSize,
    piece_size as piece_size,
)
from stepsim.graph.functions.polynomial import Polynomial as Polynomial
from stepsim.graph.graph_file import load_graph as load_graph
from stepsim.graph.graph_file.side_arrays import Missing as Missing
from stepsim.graph.metrics import (
    allocated_compute as allocated_compute,
    allocates_compute as allocates_compute,
    measured_bytes as measured_bytes,
)
from stepsim.graph.nn.expert_rows import (
    packed_rows as packed_rows,
    summed_results as summed_results,
    unpacked_rows as unpacked_rows,
)
from stepsim.graph.nn.layer import Layer as Layer
from stepsim.graph.nn.parallel.experts import (
    DividedExperts as DividedExperts,
    ExpertChip as ExpertChip,
    summed_rows as summed_rows,
)
from stepsim.graph.nn.routing import picked_scores as picked_scores
from stepsim.graph.operator import Bindings as Bindings
from stepsim.graph.ops.feedback import FeedbackSource as FeedbackSource, feedback as feedback
from stepsim.graph.ops.flat_map.flat_maps import FlatMap as FlatMap, flat_map as flat_map
from stepsim.graph.ops.flat_map.numbers import Counter as Counter, counter as counter
from stepsim.graph.ops.higher_order.compute import Compute as Compute
from stepsim.graph.ops.higher_order.group_results import (
    AccumBuffer as AccumBuffer,
    RowStat as RowStat,
    accum_buffer as accum_buffer,
    row_stat as row_stat,
)
from stepsim.graph.ops.higher_order.maps import Map as Map, map as map, unzip as unzip
from stepsim.graph.ops.higher_order.reductions import (
    Accum as Accum,
    MapAccum as MapAccum,
    accum as accum,
    map_accum as map_accum,
)
from stepsim.graph.ops.higher_order.scans import (
    GeneralScan as GeneralScan,
    Scan as Scan,
    scan as scan,
)
from stepsim.graph.ops.higher_order.selector_maps import SelectorMap as SelectorMap
from stepsim.graph.ops.memory.linear_loads import (
    LinearLoad as LinearLoad,
    linear_load as linear_load,
)
from stepsim.graph.ops.memory.offchip import (
    LinearStore as LinearStore,
    OffChipOperator as OffChipOperator,
    linear_store as linear_store,
)
from stepsim.graph.ops.memory.onchip import (
    Bufferize as Bufferize,
    Streamify as Streamify,
    bufferize as bufferize,
    streamify as streamify,
)
from stepsim.graph.ops.memory.random_access import (
    RandomLoad as RandomLoad,
    RandomStore as RandomStore,
    random_load as random_load,
    random_store as random_store,
)
from stepsim.graph.ops.routing.fixed_order import (
    Deinterleave as Deinterleave,
    Interleave as Interleave,
    StaticReassemble as StaticReassemble,
    deinterleave as deinterleave,
    interleave as interleave,
    static_reassemble as static_reassemble,
)
from stepsim.graph.ops.routing.merging import (
    EagerMerge as EagerMerge,
    Reassemble as Reassemble,
    eager_merge as eager_merge,
    reassemble as reassemble,
)
from stepsim.graph.ops.routing.partitioning import (
    Parallelize as Parallelize,
    Partition as Partition,
    parallelize as parallelize,
    partition as partition,
)
from stepsim.graph.ops.routing.routing_table import (
    RoutingSource as RoutingSource,
    check_bindings as check_bindings,
    check_indices as check_indices,
    routing as routing,
)
from stepsim.graph.ops.routing.selecting import (
    FilterRows as FilterRows,
    Shuffle as Shuffle,
    filter_rows as filter_rows,
    shuffle as shuffle,
)
from stepsim.graph.ops.shape.chunks import (
    MaskedReshape as MaskedReshape,
    Reshape as Reshape,
    reshape as reshape,
)
from stepsim.graph.ops.shape.levels import (
    Flatten as Flatten,
    Promote as Promote,
    Unsqueeze as Unsqueeze,
    Zip as Zip,
    flatten as flatten,
    promote as promote,
    unsqueeze as unsqueeze,
    zip as zip,
)
from stepsim.graph.ops.shape.references import (
    RepeatRef as RepeatRef,
    TakeLast as TakeLast,
    repeat_ref as repeat_ref,
    take_last as take_last,
)
from stepsim.graph.ops.shape.repeats import (
    ExpandRef as ExpandRef,
    Repeat as Repeat,
    expand as expand,
    repeat as repeat,
)
from stepsim.graph.ops.sources import (
    Broadcast as Broadcast,
    Consume as Consume,
    MetadataSource as MetadataSource,
    Print as Print,
    SelectorSource as SelectorSource,
    broadcast as broadcast,
    consume as consume,
    metadata as metadata,
    printer as printer,
    selector as selector,
)
from stepsim.graph.plugin_functions import offered_functions as offered_functions
from stepsim.graph.programs.binding import number_of as number_of, substitution as substitution
from stepsim.graph.programs.chips import (
    check_one_chip as check_one_chip,
    chip as chip,
    name_on as name_on,
)
from stepsim.graph.programs.current import current_program as current_program
from stepsim.graph.programs.draw import listing as listing
from stepsim.graph.programs.fingerprint import fingerprint as fingerprint
from stepsim.graph.programs.groups import Groups as Groups
from stepsim.graph.programs.keeping import MOST_KEPT as MOST_KEPT
from stepsim.graph.programs.many_bindings import check_many_bindings as check_many_bindings
from stepsim.graph.programs.program import check_program as check_program
from stepsim.graph.programs.source_line import (
    user_frame as user_frame,
    without_source_lines as without_source_lines,
)
from stepsim.graph.published_functions import (
    ACCUMULATIONS as ACCUMULATIONS,
    MAP_ACCUMULATIONS as MAP_ACCUMULATIONS,
    MAPS as MAPS,
    Record as Record,
    matmul as matmul,
    write_address as write_address,
)
from stepsim.graph.rewrites.broadcast import (
    readers_by_output as readers_by_output,
    resolved as resolved,
)
from stepsim.graph.rewrites.downtile.blocks import Refusal as Refusal, Sides as Sides
from stepsim.graph.rewrites.downtile.compute import ELEMENTWISE as ELEMENTWISE
from stepsim.graph.rewrites.former_names import named_now as named_now
from stepsim.graph.rewrites.wiring import construction_order as construction_order
from stepsim.graph.sizes.formula import Formula as Formula
from stepsim.graph.sizes.formulas import fold_sum as fold_sum
from stepsim.graph.sizes.levels import stop_levels as stop_levels
from stepsim.graph.sizes.limits import (
    COMPUTE_BW as COMPUTE_BW,
    FIFO_DEPTH as FIFO_DEPTH,
    MAX_LENGTH as MAX_LENGTH,
    MAX_VALUE as MAX_VALUE,
    PAR_DISPATCH as PAR_DISPATCH,
)
from stepsim.graph.sizes.sizes import Size as Size
from stepsim.graph.types import ElementType as ElementType, dtype_of as dtype_of, spec as spec
