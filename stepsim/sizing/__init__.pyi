from stepsim.sizing.deadlock import DeadlockFix as DeadlockFix, fix_deadlock as fix_deadlock
from stepsim.sizing.rates import (
    Fifo as Fifo,
    FifoNetwork as FifoNetwork,
    SteppingKernel as SteppingKernel,
    planned_depths as planned_depths,
)
from stepsim.sizing.result import FifoSizes as FifoSizes
from stepsim.sizing.sizing import size_fifos as size_fifos

# isort: split
# for other rooms
from stepsim.sizing.deadlock import fix_of as fix_of
from stepsim.sizing.judge import (
    STUCK as STUCK,
    Depths as Depths,
    Judge as Judge,
    Trials as Trials,
    Verdict as Verdict,
)
from stepsim.sizing.program_runs import (
    ProgramRuns as ProgramRuns,
    checked_slowdown as checked_slowdown,
)
from stepsim.sizing.rates import (
    Cycles as Cycles,
    Equalization as Equalization,
    depths_of_delays as depths_of_delays,
    intervals as intervals,
    lower_bounds as lower_bounds,
    most_tokens as most_tokens,
)
from stepsim.sizing.search import Found as Found, Problem as Problem, solved as solved
from stepsim.sizing.sizing import (
    sized as sized,
    slot_bytes as slot_bytes,
    with_least_depths as with_least_depths,
)
from stepsim.sizing.timetable import Row as Row, minimized as minimized
