from stepsim.kernels.all_engines import ENGINES as ENGINES
from stepsim.kernels.batch.batches import MEMORY_TAIL as MEMORY_TAIL
from stepsim.kernels.batch.driver import BatchTotals as BatchTotals, execute_batch as execute_batch
from stepsim.kernels.build.entry_point import Origin as Origin
from stepsim.kernels.build.settings import (
    compiler_versions as compiler_versions,
    is_jit_disabled as is_jit_disabled,
)
from stepsim.kernels.calendar import next_unit as next_unit, pop_unit as pop_unit
from stepsim.kernels.catalog import KINDS as KINDS, code_of as code_of
from stepsim.kernels.declaration import UnitKind as UnitKind
from stepsim.kernels.dram.address import locate as locate
from stepsim.kernels.dram.channel import commands as commands, forwarded_reads as forwarded_reads
from stepsim.kernels.dram.table import DramSpec as DramSpec, dram_words as dram_words
from stepsim.kernels.dram.traffic import (
    LOG_WORDS as LOG_WORDS,
    PICKED as PICKED,
    STREAMS as STREAMS,
    new_traffic as new_traffic,
    run_traffic as run_traffic,
)
from stepsim.kernels.driver import (
    Execution as Execution,
    execute as execute,
    have_producers_park as have_producers_park,
    set_looks as set_looks,
    state_of as state_of,
)
from stepsim.kernels.engine import run as run
from stepsim.kernels.engines import Carries as Carries, engine_of as engine_of
from stepsim.kernels.free_memory import free_bytes as free_bytes
from stepsim.kernels.functions.records import (
    RECORD_RESULTS as RECORD_RESULTS,
    RULE_WORDS as RULE_WORDS,
    Adopt as Adopt,
    Side as Side,
    Valid as Valid,
    Value as Value,
    kept_words as kept_words,
)
from stepsim.kernels.hardware.buffers import buffer_words as buffer_words
from stepsim.kernels.hardware.clock import LAYOUT as LAYOUT, run_hardware as run_hardware
from stepsim.kernels.hardware.layout import (
    ADDRESS_BITS as ADDRESS_BITS,
    EVENT_WORDS as EVENT_WORDS,
    NEVER as NEVER,
    Event as Event,
    Hardware as Hardware,
    Kind as Kind,
    Outcome as Outcome,
    Policy as Policy,
    reference as reference,
    reference_number as reference_number,
    reference_release as reference_release,
    reference_stop as reference_stop,
    request_address as request_address,
    request_port as request_port,
    request_write as request_write,
)
from stepsim.kernels.layout import (
    CHANNEL as CHANNEL,
    INFINITY as INFINITY,
    MAX_TILE_SIDE as MAX_TILE_SIDE,
    PORT as PORT,
    SLOT as SLOT,
    TOKEN as TOKEN,
    Abort as Abort,
    Cause as Cause,
    Parks as Parks,
    Payload as Payload,
    RunState as RunState,
    Status as Status,
)
from stepsim.kernels.memory.bounded import (
    BOUNDED as BOUNDED,
    CAN_BE_BOUNDED as CAN_BE_BOUNDED,
    POSITIONS as POSITIONS,
    bounded_table as bounded_table,
    issuing_cycles as issuing_cycles,
    turn_of as turn_of,
    window_of as window_of,
)
from stepsim.kernels.memory.declaration import MemoryTable as MemoryTable
from stepsim.kernels.memory.dispatch import MEMORY_MODELS as MEMORY_MODELS
from stepsim.kernels.memory.dram_table import (
    ARBITERS as ARBITERS,
    DramTiming as DramTiming,
    FrontEnd as FrontEnd,
    PortAccess as PortAccess,
    dram_table as dram_table,
)
from stepsim.kernels.noc.annealing import Annealing as Annealing, anneal as anneal
from stepsim.kernels.noc.carried import (
    GROWING as GROWING,
    MOST_PACKETS as MOST_PACKETS,
    MOST_PORTS as MOST_PORTS,
    Loads as Loads,
    loads_of as loads_of,
    network_words as network_words,
)
from stepsim.kernels.noc.chip_memories import (
    OF_CHIPS as OF_CHIPS,
    table_places as table_places,
    tables_of_chips as tables_of_chips,
)
from stepsim.kernels.noc.chips.creation import (
    new_chip_collective as new_chip_collective,
    new_chip_messages as new_chip_messages,
)
from stepsim.kernels.noc.chips.layout import (
    MOST_WAITED_NS as MOST_WAITED_NS,
    ChipTopology as ChipTopology,
    CollectiveAlgorithm as CollectiveAlgorithm,
    CollectiveKind as CollectiveKind,
)
from stepsim.kernels.noc.chips.loop import run_chips as run_chips
from stepsim.kernels.noc.chips.plan import (
    CollectivePlan as CollectivePlan,
    plan_collective as plan_collective,
)
from stepsim.kernels.noc.link import (
    new_link_traffic as new_link_traffic,
    run_link_traffic as run_link_traffic,
)
from stepsim.kernels.noc.messages import (
    MARK as MARK,
    MOST_LINKS as MOST_LINKS,
    LinkLoads as LinkLoads,
    message_loads as message_loads,
    message_words as message_words,
)
from stepsim.kernels.noc.npe import (
    new_stepped_traffic as new_stepped_traffic,
    run_steps as run_steps,
)
from stepsim.kernels.noc.transfers import (
    new_byte_traffic as new_byte_traffic,
    run_ports as run_ports,
    run_shares as run_shares,
)
from stepsim.kernels.recording.journal import (
    CAUSE_BITS as CAUSE_BITS,
    LENGTH_SHIFT as LENGTH_SHIFT,
    MOST_PLACES as MOST_PLACES,
    PORT_BITS as PORT_BITS,
    route_of_message as route_of_message,
)
from stepsim.kernels.recording.recorded import Journal as Journal, run_recorded as run_recorded
from stepsim.kernels.recording.retiming import TimedWaits as TimedWaits, retime as retime
from stepsim.kernels.serving.creation import (
    free_order as free_order,
    new_requests as new_requests,
    new_service as new_service,
)
from stepsim.kernels.serving.expert_draws import (
    ExpertDraws as ExpertDraws,
    look_up_experts as look_up_experts,
    new_draws as new_draws,
    with_tokens as with_tokens,
)
from stepsim.kernels.serving.layout import (
    LOG_HEAD as LOG_HEAD,
    NO_TIME as NO_TIME,
    SERVICE as SERVICE,
    STEP as STEP,
    UNLIMITED as UNLIMITED,
    Pool as Pool,
    SchedulingPolicy as SchedulingPolicy,
    Service as Service,
    ServiceStatus as ServiceStatus,
    TimeModel as TimeModel,
)
from stepsim.kernels.serving.loop import run_service as run_service
from stepsim.kernels.serving.recalled import MOST_UNLIKE as MOST_UNLIKE
from stepsim.kernels.serving.recalled_words import (
    RecalledKind as RecalledKind,
    Recollection as Recollection,
    recalled_step as recalled_step,
)
from stepsim.kernels.serving.table import Layer as Layer, table_time as table_time
from stepsim.kernels.serving.table_words import (
    MOST_SKEW_BINS as MOST_SKEW_BINS,
    AttentionTable as AttentionTable,
    ExpertTable as ExpertTable,
    LayerTime as LayerTime,
    Line as Line,
    SkewTable as SkewTable,
    Stage as Stage,
    table_words as table_words,
)
from stepsim.kernels.units.merge import EAGER_MERGE as EAGER_MERGE
from stepsim.kernels.units.routing import REASSEMBLE as REASSEMBLE
from stepsim.kernels.units.sources import SOURCE as SOURCE
