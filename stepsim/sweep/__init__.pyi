from stepsim.sweep.analysis import (
    AgainstBaseline as AgainstBaseline,
    Best as Best,
    BestOfGroup as BestOfGroup,
    Change as Change,
    DesignCost as DesignCost,
    DesignCosts as DesignCosts,
    LeftOut as LeftOut,
    NewFailure as NewFailure,
    Statistics as Statistics,
    best as best,
    compare as compare,
    compare_baseline as compare_baseline,
    design_costs as design_costs,
    dominates as dominates,
    frontier as frontier,
    open_table as open_table,
    pareto_improvement_distance as pareto_improvement_distance,
    query as query,
    read_designs as read_designs,
    read_runs as read_runs,
)
from stepsim.sweep.analysis.baseline import BaselineComparison as BaselineComparison
from stepsim.sweep.analysis.compare import Comparison as Comparison
from stepsim.sweep.analysis.curves import (
    Curve as Curve,
    CurvePoint as CurvePoint,
    Curves as Curves,
    curves as curves,
)
from stepsim.sweep.analysis.tables import read_failures as read_failures
from stepsim.sweep.backends import LocalBackend as LocalBackend
from stepsim.sweep.planning.plan import Plan as Plan
from stepsim.sweep.running.run import (
    SweepProgress as SweepProgress,
    SweepSummary as SweepSummary,
    estimate_seconds as estimate_seconds,
    plan_sweep as plan_sweep,
    run_sweep as run_sweep,
)
from stepsim.sweep.running.signals import Ended as Ended
from stepsim.sweep.search import (
    TuneProgress as TuneProgress,
    TuneSpec as TuneSpec,
    Tuning as Tuning,
    tune as tune,
)
from stepsim.sweep.search.tune import Trial as Trial
from stepsim.sweep.spec.reading import load_spec as load_spec
from stepsim.sweep.spec.specification import SweepSpec as SweepSpec
from stepsim.sweep.storage.schema import (
    FAILURES_SCHEMA as FAILURES_SCHEMA,
    UNIT_ROWS_SCHEMA as UNIT_ROWS_SCHEMA,
    runs_schema as runs_schema,
)

# isort: split
# for other rooms
from stepsim.sweep.analysis import parse_assignments as parse_assignments
from stepsim.sweep.analysis.common_traces import (
    CONTENT_COLUMNS as CONTENT_COLUMNS,
    compared_traces as compared_traces,
    trace_numbers as trace_numbers,
)
from stepsim.sweep.analysis.feasibility import (
    search_constraints as search_constraints,
    violated_constraints as violated_constraints,
)
from stepsim.sweep.analysis.frame import read_frame as read_frame
from stepsim.sweep.analysis.labels import TRACE_COLUMNS as TRACE_COLUMNS
from stepsim.sweep.analysis.measured import (
    count_missing as count_missing,
    read_succeeded as read_succeeded,
    usual_measures as usual_measures,
)
from stepsim.sweep.analysis.objectives import (
    COST as COST,
    is_cost as is_cost,
    parse_objective as parse_objective,
    parse_weights as parse_weights,
)
from stepsim.sweep.planning.plan import Chunk as Chunk
from stepsim.sweep.running.run import (
    check_backend as check_backend,
    chunks_left as chunks_left,
    timed as timed,
)
from stepsim.sweep.running.signals import ended_by_signals as ended_by_signals
from stepsim.sweep.search.proposals import Sampler as Sampler, make_proposals as make_proposals
from stepsim.sweep.search.space import Place as Place, Space as Space
from stepsim.sweep.spec.filters import find_name as find_name
from stepsim.sweep.spec.problems import listing as listing
from stepsim.sweep.storage.manifest import (
    load_manifest as load_manifest,
    read_manifest as read_manifest,
)
