"""Importers of models from other frameworks, which are imported only when used."""

from stepsim.design.operators.importers.imported import ImportedGraph
from stepsim.design.operators.importers.models_of_files import graph_of, is_model
from stepsim.design.operators.importers.onnx_files.graph import from_onnx
from stepsim.design.operators.importers.pytorch.graph import from_torch
from stepsim.design.operators.importers.recording import Costs

__all__ = ["Costs", "ImportedGraph", "from_onnx", "from_torch", "graph_of", "is_model"]
