"""From a model to a program: the operator graph, and passes over it."""

from stepsim.compiler.dataflow import DataflowGraph, Dma, Kernel, KernelLoop, Port
from stepsim.compiler.dma import pack, widen
from stepsim.compiler.fifos import fold_buffers, vectorize_fifos
from stepsim.compiler.graph_builder import GraphBuilder
from stepsim.compiler.graph_passes import fold_unit_dims, fuse_elementwise
from stepsim.compiler.group_program import GroupProgram
from stepsim.compiler.grouping import border_dmas, fuse_kernels, share_converters
from stepsim.compiler.kernels import kernels_of
from stepsim.compiler.model_shapes import MODELS, MOE_MODELS, ModelShape
from stepsim.compiler.models import RepeatedBlock, block, moe_block, whole_model
from stepsim.compiler.operators import (
    Dim,
    Edge,
    Index,
    Op,
    Operand,
    OperatorGraph,
    Tensor,
    Tiling,
)
from stepsim.compiler.placement import buffers_of, place_in_memory, place_on_dies
from stepsim.compiler.program import program_of, programs_of
from stepsim.compiler.recorder import Ref
from stepsim.compiler.routed_costs import RoutedCost, routed_flops, routed_parameters
from stepsim.compiler.single_buffers import single_buffers
from stepsim.compiler.tiling import permute, tile, unroll
from stepsim.compiler.untyped import Untyped

__all__ = [
    "MODELS",
    "MOE_MODELS",
    "DataflowGraph",
    "Dim",
    "Dma",
    "Edge",
    "GraphBuilder",
    "GroupProgram",
    "Index",
    "Kernel",
    "KernelLoop",
    "ModelShape",
    "Op",
    "Operand",
    "OperatorGraph",
    "Port",
    "Ref",
    "RepeatedBlock",
    "RoutedCost",
    "Tensor",
    "Tiling",
    "Untyped",
    "block",
    "border_dmas",
    "buffers_of",
    "fold_buffers",
    "fold_unit_dims",
    "fuse_elementwise",
    "fuse_kernels",
    "kernels_of",
    "moe_block",
    "pack",
    "permute",
    "place_in_memory",
    "place_on_dies",
    "program_of",
    "programs_of",
    "routed_flops",
    "routed_parameters",
    "share_converters",
    "single_buffers",
    "tile",
    "unroll",
    "vectorize_fifos",
    "whole_model",
    "widen",
]
