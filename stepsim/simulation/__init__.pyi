from stepsim.simulation.cases.case import Case as Case, make_case as make_case
from stepsim.simulation.ensembles.runs import ensemble as ensemble
from stepsim.simulation.many.runs import simulate_many as simulate_many
from stepsim.simulation.many.variants import Variant as Variant
from stepsim.simulation.outcome.totals import Totals as Totals
from stepsim.simulation.programs.prepared import Prepared as Prepared
from stepsim.simulation.programs.simulate import prepare as prepare, simulate as simulate
from stepsim.simulation.programs.values import run_functional as run_functional
from stepsim.simulation.running.limits import Limits as Limits
from stepsim.simulation.running.progress import Progress as Progress
from stepsim.simulation.running.warm_up import warm_up as warm_up

# isort: split
# for other rooms
from stepsim.simulation.cases.case import usual_machine as usual_machine
from stepsim.simulation.cases.columns import (
    check_columns as check_columns,
    counting_of as counting_of,
    describe as describe,
    parameter_columns as parameter_columns,
    routing_load as routing_load,
)
from stepsim.simulation.ensembles.disturbances import DISTURBANCES as DISTURBANCES
from stepsim.simulation.ensembles.runs import ensemble_of as ensemble_of
from stepsim.simulation.many.tables import run_units as run_units
from stepsim.simulation.many.variants import (
    checked_variants as checked_variants,
    variant_runs as variant_runs,
)
from stepsim.simulation.outcome.tables import MEMORY_TAIL as MEMORY_TAIL, last_unit as last_unit
from stepsim.simulation.outcome.token_bytes import largest_tokens as largest_tokens
from stepsim.simulation.outcome.verdict import excess_of as excess_of
from stepsim.simulation.programs.changes import (
    depth_of as depth_of,
    with_metadata as with_metadata,
    with_named_depths as with_named_depths,
)
from stepsim.simulation.programs.fix_file import (
    Fix as Fix,
    depths_text as depths_text,
    fix_text as fix_text,
    load_fix as load_fix,
    machine_hash as machine_hash,
    write_fix as write_fix,
)
from stepsim.simulation.programs.fixes import save_depths as save_depths, save_fix as save_fix
from stepsim.simulation.programs.on_chip import (
    AUTO_PLACE as AUTO_PLACE,
    ROW_MAJOR as ROW_MAJOR,
    carrying_network as carrying_network,
)
from stepsim.simulation.programs.prepared import FifoDepth as FifoDepth, wired as wired
from stepsim.simulation.programs.rerun import Rerun as Rerun
from stepsim.simulation.programs.simulate import (
    as_prepared as as_prepared,
    kept_prepared as kept_prepared,
    simulate_network as simulate_network,
)
from stepsim.simulation.recording.record import (
    Cause as Cause,
    Record as Record,
    record_of as record_of,
)
from stepsim.simulation.running.batches import ManyRuns as ManyRuns, run_all as run_all
from stepsim.simulation.running.compile_ahead import compile_ahead as compile_ahead
from stepsim.simulation.running.depth_runs import DepthRuns as DepthRuns, run_depths as run_depths
from stepsim.simulation.running.image_run import ImageRun as ImageRun, run_image as run_image
from stepsim.simulation.running.limits import check_limits as check_limits
from stepsim.simulation.running.lone_access import (
    access_parts as access_parts,
    lone_access as lone_access,
)
from stepsim.simulation.running.warm_up import (
    engine_in_use as engine_in_use,
    ensure_compiled as ensure_compiled,
)
