from stepsim.machine.chips import Chips as Chips
from stepsim.machine.compute import Compute as Compute
from stepsim.machine.costs import Costs as Costs
from stepsim.machine.device import Device as Device
from stepsim.machine.dram import Dram as Dram
from stepsim.machine.energy import Energy as Energy
from stepsim.machine.hbm import Hbm as Hbm
from stepsim.machine.loading import (
    known_keys as known_keys,
    list_machines as list_machines,
    load_machine as load_machine,
    parse_overrides as parse_overrides,
)
from stepsim.machine.memory_path import Addresses as Addresses, Port as Port
from stepsim.machine.model import (
    Fifo as Fifo,
    Machine as Machine,
    OnChip as OnChip,
    machine_json_schema as machine_json_schema,
)
from stepsim.machine.network import (
    Flits as Flits,
    Latencies as Latencies,
    Network as Network,
    PortRates as PortRates,
    Rates as Rates,
)
from stepsim.machine.network_loading import (
    list_networks as list_networks,
    load_network as load_network,
)
from stepsim.machine.sources import Provenance as Provenance, provenance as provenance

# isort: split
# for other rooms
from stepsim.machine.chips import MOST_CHIPS as MOST_CHIPS, ChipDimension as ChipDimension
from stepsim.machine.dram import MOST_CHANNELS as MOST_CHANNELS
from stepsim.machine.loading import (
    Family as Family,
    load_description as load_description,
    machine_columns as machine_columns,
)
from stepsim.machine.model import (
    DEFAULT_FIFO_DEPTH as DEFAULT_FIFO_DEPTH,
    milliseconds as milliseconds,
)
from stepsim.machine.network import CORES as CORES, packet_table as packet_table
from stepsim.machine.network_loading import parse_network_overrides as parse_network_overrides
from stepsim.machine.section import (
    Section as Section,
    choice as choice,
    integer as integer,
    number as number,
    optional as optional,
    setting as setting,
    text as text,
)
from stepsim.machine.sources import annotated_yaml as annotated_yaml
