"""The parameter for a model; workloads without one need not read any."""

from __future__ import annotations

from typing import Annotated

from stepsim.workloads.models.model import Model
from stepsim.workloads.parameters import Param

LayerModel = Annotated[Model, Param("model whose layer is built")]
