from stepsim.results.columns import COLUMNS as COLUMNS, SCHEMA_VERSION as SCHEMA_VERSION
from stepsim.results.diagnosis import Diagnosis as Diagnosis, Failure as Failure, Wait as Wait
from stepsim.results.raw_events import write_events as write_events
from stepsim.results.result import Result as Result
from stepsim.results.schemas import (
    FIFOS_SCHEMA as FIFOS_SCHEMA,
    RUN_SCHEMA as RUN_SCHEMA,
    STALLS_SCHEMA as STALLS_SCHEMA,
    UNITS_SCHEMA as UNITS_SCHEMA,
)

# isort: split
# for other rooms
from stepsim.results import schemas as schemas
from stepsim.results.arrays import (
    arrow_table as arrow_table,
    named_table as named_table,
    sums_by as sums_by,
)
from stepsim.results.columns import (
    BETTER as BETTER,
    COUNTED as COUNTED,
    COUNTINGS as COUNTINGS,
    ENERGY as ENERGY,
    ENERGY_OF_UNITS as ENERGY_OF_UNITS,
    EVERY_MEASURE as EVERY_MEASURE,
    MEASURES as MEASURES,
    OF_LIMITS as OF_LIMITS,
    SERVING as SERVING,
    SPREAD as SPREAD,
    TAKEN as TAKEN,
    Direction as Direction,
    check_version as check_version,
    declaration_of as declaration_of,
    field as field,
    schema as schema,
)
from stepsim.results.comparing.inputs import (
    provenance_changes as provenance_changes,
    settings_changes as settings_changes,
)
from stepsim.results.comparing.numbers import (
    OF_CYCLES as OF_CYCLES,
    Tolerance as Tolerance,
    geometric_mean as geometric_mean,
    ratio as ratio,
    within_spread as within_spread,
    worsening as worsening,
)
from stepsim.results.comparing.programs import (
    Listing as Listing,
    is_listing as is_listing,
    listing_of as listing_of,
    program_changes as program_changes,
)
from stepsim.results.comparing.runs import (
    Pair as Pair,
    RunComparison as RunComparison,
    compare_runs as compare_runs,
)
from stepsim.results.comparing.stalls import (
    LANES as LANES,
    StallChange as StallChange,
    Stalls as Stalls,
    stall_changes as stall_changes,
    stalls_of as stalls_of,
)
from stepsim.results.diagnosis import ENDED as ENDED
from stepsim.results.events import (
    ACCESS as ACCESS,
    BUFFERED as BUFFERED,
    PASSED as PASSED,
    WAIT as WAIT,
    Events as Events,
    Memory as Memory,
    records_by as records_by,
)
from stepsim.results.folding import Folded as Folded, folded as folded
from stepsim.results.occupancy import (
    OF_FIFOS as OF_FIFOS,
    OF_UNITS as OF_UNITS,
    fifo_occupancy as fifo_occupancy,
    unit_occupancy as unit_occupancy,
)
from stepsim.results.outline import (
    OUTLINE_VERSION as OUTLINE_VERSION,
    Outline as Outline,
    outline_of as outline_of,
)
from stepsim.results.places import (
    Place as Place,
    flow_of as flow_of,
    flows_text as flows_text,
    line_of as line_of,
    operators_of as operators_of,
    place_of as place_of,
    sharing_text as sharing_text,
    unnumbered as unnumbered,
)
from stepsim.results.result import utilization as utilization
from stepsim.results.schemas import ENERGY_STALLS_SCHEMA as ENERGY_STALLS_SCHEMA
from stepsim.results.stalls import (
    RECEIVERS as RECEIVERS,
    Cause as Cause,
    OperatorStalls as OperatorStalls,
    StallTree as StallTree,
    stall_tree as stall_tree,
)
from stepsim.results.tables import Tables as Tables
from stepsim.results.writing import (
    NEEDED as NEEDED,
    OPTIONAL as OPTIONAL,
    neighbor as neighbor,
    run_of as run_of,
    write_run_tables as write_run_tables,
    write_tables as write_tables,
)
