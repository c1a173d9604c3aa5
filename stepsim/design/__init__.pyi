from stepsim.design.choices import Choices as Choices
from stepsim.design.configs import CONFIGS as CONFIGS, Config as Config
from stepsim.design.dataflow.graph import (
    DataflowGraph as DataflowGraph,
    Dma as Dma,
    Kernel as Kernel,
    KernelLoop as KernelLoop,
    Port as Port,
)
from stepsim.design.dataflow.kernels import kernels_of as kernels_of
from stepsim.design.operators.building.builder import GraphBuilder as GraphBuilder
from stepsim.design.operators.building.recorder import Ref as Ref
from stepsim.design.operators.graph import (
    Dim as Dim,
    Edge as Edge,
    Index as Index,
    Op as Op,
    Operand as Operand,
    OperatorGraph as OperatorGraph,
    Tensor as Tensor,
    Tiling as Tiling,
)
from stepsim.design.operators.models.blocks import (
    RepeatedBlock as RepeatedBlock,
    block as block,
    moe_block as moe_block,
    whole_model as whole_model,
)
from stepsim.design.operators.models.shapes import (
    MODELS as MODELS,
    MOE_MODELS as MOE_MODELS,
    ModelShape as ModelShape,
    model_shape as model_shape,
)
from stepsim.design.operators.models.sizes import ModelSizes as ModelSizes
from stepsim.design.operators.models.sources import (
    Source as Source,
    arguments_of as arguments_of,
    find_model as find_model,
)
from stepsim.design.operators.routed_costs import (
    RoutedCost as RoutedCost,
    routed_flops as routed_flops,
    routed_parameters as routed_parameters,
)
from stepsim.design.passes.fusion.grouping import (
    fuse_kernels as fuse_kernels,
    share_converters as share_converters,
)
from stepsim.design.passes.fusion.methods import merged_groups as merged_groups
from stepsim.design.passes.graph_passes import (
    fold_unit_dims as fold_unit_dims,
    fuse_elementwise as fuse_elementwise,
)
from stepsim.design.passes.loops.streaming import stream_tokens as stream_tokens
from stepsim.design.passes.loops.tiling import permute as permute, tile as tile, unroll as unroll
from stepsim.design.passes.memory.dma import widen as widen
from stepsim.design.passes.memory.fifos import (
    fold_buffers as fold_buffers,
    vectorize_fifos as vectorize_fifos,
)
from stepsim.design.passes.memory.placement import (
    buffers_of as buffers_of,
    place_in_memory as place_in_memory,
    place_on_dies as place_on_dies,
)
from stepsim.design.passes.memory.single_buffers import single_buffers as single_buffers
from stepsim.design.passes.pipeline import designed as designed
from stepsim.design.plan.checking import Checked as Checked
from stepsim.design.plan.compiled import Compiled as Compiled
from stepsim.design.plan.model_times import (
    RequestTimes as RequestTimes,
    joules_per_token as joules_per_token,
    request as request,
    request_times as request_times,
)
from stepsim.design.plan.plan import Plan as Plan
from stepsim.design.programs.group_program import GroupProgram as GroupProgram
from stepsim.design.programs.program import program_of as program_of, programs_of as programs_of
from stepsim.design.search.compiling import compile as compile
from stepsim.design.search.routed_sizing import (
    TracedSizes as TracedSizes,
    size_over_traces as size_over_traces,
)
from stepsim.design.search.routing_windows import routing_windows as routing_windows
from stepsim.design.workload import (
    CompiledModel as CompiledModel,
    CompiledWorkload as CompiledWorkload,
)

# isort: split
# for other rooms
from stepsim.design.choices import (
    OrderChoice as OrderChoice,
    SearchedChoices as SearchedChoices,
    Sizing as Sizing,
)
from stepsim.design.dataflow.untyped import Untyped as Untyped
from stepsim.design.operators.models.sizes import Phase as Phase
from stepsim.design.passes.fusion.grouping import border_dmas as border_dmas
from stepsim.design.passes.fusion.groups import FusionEdge as FusionEdge, FusionGraph as FusionGraph
from stepsim.design.passes.fusion.methods import (
    best_groups as best_groups,
    greedy_groups as greedy_groups,
)
from stepsim.design.passes.loops.lanes import stage_of as stage_of
from stepsim.design.passes.loops.tiling import thin_tiles as thin_tiles
from stepsim.design.passes.loops.unrolling import Unrollable as Unrollable, heap_skip as heap_skip
from stepsim.design.passes.memory.dies import (
    Stream as Stream,
    Task as Task,
    crossings as crossings,
    imbalance as imbalance,
    partition as partition,
)
from stepsim.design.passes.memory.dma import pack as pack
from stepsim.design.passes.memory.memory_kinds import (
    Buffer as Buffer,
    allocate as allocate,
    kinds_of as kinds_of,
)
from stepsim.design.passes.pipeline import Pass as Pass
from stepsim.design.plan.compiled import die_regions as die_regions, placed_case as placed_case
from stepsim.design.plan.folder_workload import of_plan as of_plan
from stepsim.design.plan.summary import (
    converter_rows as converter_rows,
    fifo_rows as fifo_rows,
    group_rows as group_rows,
    kernel_rows as kernel_rows,
    memory_rows as memory_rows,
    order_text as order_text,
    tile_text as tile_text,
    times_text as times_text,
)
from stepsim.design.programs.streams import converted as converted
from stepsim.design.search.fifo_planning import FifoPlan as FifoPlan, fifo_plan as fifo_plan
from stepsim.design.search.group_sizing import GroupSizing as GroupSizing
