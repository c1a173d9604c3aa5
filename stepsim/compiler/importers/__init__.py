"""Operator graphs of models that other frameworks hold; nothing of those is imported before."""

from stepsim.compiler.importers.imported import ImportedGraph
from stepsim.compiler.importers.models_of_files import graph_of, is_model
from stepsim.compiler.importers.onnx_graph import from_onnx
from stepsim.compiler.importers.recording import Costs
from stepsim.compiler.importers.torch_graph import from_torch

__all__ = ["Costs", "ImportedGraph", "from_onnx", "from_torch", "graph_of", "is_model"]
