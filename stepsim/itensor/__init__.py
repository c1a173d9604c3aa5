"""Typed streams (itensors): a tensor as tokens in the order of a loop nest, and what joins two.

``st.itensor.ITensor`` is the type. ``matches`` says whether a FIFO alone joins two streams,
``difference`` why not, and ``converter`` with which buffer then.
"""

from __future__ import annotations

from stepsim.itensor.affine import AffineMap, Position
from stepsim.itensor.branches import chunk, concat, fork, join
from stepsim.itensor.converters import Converter, Repeats, converter, loop_prefix
from stepsim.itensor.cut_points import (
    CutPoints,
    cut_points,
    live_lower_bound,
    min_cells,
    min_uniform_cells,
)
from stepsim.itensor.differences import Difference, cast, difference
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.layouts import Folded, Widened, fold, pack, vectorize, widen
from stepsim.itensor.loop_nests import infer
from stepsim.itensor.matching import matches
from stepsim.itensor.normal_form import Loop, NormalForm
from stepsim.itensor.printed import PrintedChunk, printed, printed_with_constants
from stepsim.itensor.reshapes import reassociate
from stepsim.itensor.rules import RULES, Violation

__all__ = [
    "RULES",
    "AffineMap",
    "Converter",
    "CutPoints",
    "Difference",
    "Folded",
    "ITensor",
    "Loop",
    "NormalForm",
    "Position",
    "PrintedChunk",
    "Repeats",
    "Violation",
    "Widened",
    "cast",
    "chunk",
    "concat",
    "converter",
    "cut_points",
    "difference",
    "fold",
    "fork",
    "infer",
    "join",
    "live_lower_bound",
    "loop_prefix",
    "matches",
    "min_cells",
    "min_uniform_cells",
    "pack",
    "printed",
    "printed_with_constants",
    "reassociate",
    "vectorize",
    "widen",
]
