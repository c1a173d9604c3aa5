from stepsim.itensor.affine import AffineMap as AffineMap, Position as Position
from stepsim.itensor.branches import chunk as chunk, concat as concat, fork as fork, join as join
from stepsim.itensor.converters import (
    Converter as Converter,
    Repeats as Repeats,
    converter as converter,
    loop_prefix as loop_prefix,
)
from stepsim.itensor.cutting import (
    CutPoints as CutPoints,
    cut_points as cut_points,
    live_lower_bound as live_lower_bound,
    min_cells as min_cells,
    min_uniform_cells as min_uniform_cells,
)
from stepsim.itensor.differences import (
    Difference as Difference,
    cast as cast,
    difference as difference,
)
from stepsim.itensor.itensor_type import ITensor as ITensor
from stepsim.itensor.layouts import (
    Folded as Folded,
    Widened as Widened,
    fold as fold,
    pack as pack,
    vectorize as vectorize,
    widen as widen,
)
from stepsim.itensor.loop_nests import infer as infer
from stepsim.itensor.matching import matches as matches
from stepsim.itensor.normal_form import Loop as Loop, NormalForm as NormalForm
from stepsim.itensor.printing import (
    PrintedChunk as PrintedChunk,
    printed as printed,
    printed_with_constants as printed_with_constants,
)
from stepsim.itensor.reshapes import reassociate as reassociate
from stepsim.itensor.rules import RULES as RULES, Violation as Violation
