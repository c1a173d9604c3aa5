from stepsim.processes.forked import ForkedProcesses as ForkedProcesses, can_fork as can_fork
from stepsim.processes.fresh import FreshProcesses as FreshProcesses, ResultLost as ResultLost
from stepsim.processes.pool import Pool as Pool, pool_of as pool_of
from stepsim.processes.threads import (
    THREADS as THREADS,
    in_threads as in_threads,
    thread_count as thread_count,
    usable_cpus as usable_cpus,
)
