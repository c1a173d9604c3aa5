from stepsim.sizing.baselines import (
    annealed_depths as annealed_depths,
    random_depths as random_depths,
)
from stepsim.sizing.deadlock import DeadlockFix as DeadlockFix, fix_deadlock as fix_deadlock
from stepsim.sizing.linear_programs import planned_depths as planned_depths
from stepsim.sizing.network import (
    Fifo as Fifo,
    FifoNetwork as FifoNetwork,
    SteppingKernel as SteppingKernel,
)
from stepsim.sizing.network_search import Search as Search
from stepsim.sizing.result import FifoSizes as FifoSizes
from stepsim.sizing.sizing import size_fifos as size_fifos

# isort: split
# for other rooms
from stepsim.sizing.baselines import Judge as Judge
from stepsim.sizing.deadlock import fix_of as fix_of
from stepsim.sizing.linear_programs import (
    Equalization as Equalization,
    depths_of_delays as depths_of_delays,
    intervals as intervals,
    lower_bounds as lower_bounds,
    path_delays as path_delays,
)
from stepsim.sizing.problem import (
    Found as Found,
    Problem as Problem,
    Runs as Runs,
    checked_slowdown as checked_slowdown,
)
from stepsim.sizing.sizing import sized as sized, slot_bytes as slot_bytes
from stepsim.sizing.token_model import Link as Link
from stepsim.sizing.trials import Depths as Depths, Trials as Trials
