"""Models by name, from YAML files and from config.json; nothing here imports the graph."""

from stepsim.workloads.models.builtin import MODELS as MODELS
from stepsim.workloads.models.layer import LLAMA as LLAMA, Layer as Layer
from stepsim.workloads.models.model import (
    Dense as Dense,
    Experts as Experts,
    GroupedHeads as GroupedHeads,
    LatentHeads as LatentHeads,
    Model as Model,
)
from stepsim.workloads.models.parameter import LayerModel as LayerModel
from stepsim.workloads.models.reading import read_model as read_model
from stepsim.workloads.models.shapes import AttentionShape as AttentionShape, MoEShape as MoEShape
from stepsim.workloads.models.unmodeled import (
    ATTENTION as ATTENTION,
    BLOCK as BLOCK,
    EXPERTS as EXPERTS,
    ROWS as ROWS,
)
from stepsim.workloads.models.windows import Windows as Windows
