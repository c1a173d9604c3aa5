"""Models by name, from YAML files and from config.json; nothing here imports the graph."""

from stepsim.workloads.models.builtin import MODELS
from stepsim.workloads.models.model import Dense, Experts, GroupedHeads, LatentHeads, Model
from stepsim.workloads.models.reading import read_model
from stepsim.workloads.models.shapes import AttentionShape, MoEShape

__all__ = [
    "MODELS",
    "AttentionShape",
    "Dense",
    "Experts",
    "GroupedHeads",
    "LatentHeads",
    "MoEShape",
    "Model",
    "read_model",
]
