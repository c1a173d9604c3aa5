from stepsim.functional.evaluation import FunctionalResult as FunctionalResult, evaluate as evaluate
from stepsim.functional.values import (
    BufferValue as BufferValue,
    Selection as Selection,
    TileValue as TileValue,
    Token as Token,
)

# isort: split
# for other rooms
from stepsim.functional.decisions import Decisions as Decisions, needs_decisions as needs_decisions
from stepsim.functional.measure import Sizes as Sizes, sizes_of as sizes_of
from stepsim.functional.registry import evaluates as evaluates
from stepsim.functional.symbols import (
    Symbols as Symbols,
    broken_assumption as broken_assumption,
    streams_of as streams_of,
)
