from stepsim.hardware.ensembles import ensemble as ensemble
from stepsim.hardware.from_program import network_of as network_of
from stepsim.hardware.loading import (
    list_machines as list_machines,
    load_machine as load_machine,
    parse_overrides as parse_overrides,
)
from stepsim.hardware.machine import Machine as Machine
from stepsim.hardware.network import Network as Network
from stepsim.hardware.result import (
    FifoCounts as FifoCounts,
    HardwareResult as HardwareResult,
    UnitCounts as UnitCounts,
)
from stepsim.hardware.simulation import simulate as simulate
from stepsim.hardware.swiglu_layer import swiglu as swiglu
from stepsim.hardware.units import Fifo as Fifo, Unit as Unit, reference as reference

# isort: split
# for other rooms
from stepsim.hardware.ensembles import DISTURBANCES as DISTURBANCES
from stepsim.hardware.simulation import measures as measures, on_hardware as on_hardware
