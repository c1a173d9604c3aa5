from stepsim.machine import list_networks as list_networks, load_network as load_network
from stepsim.noc.run import NocRun as NocRun
from stepsim.noc.simulate import simulate as simulate
from stepsim.noc.traces import NocTrace as NocTrace, read_traces as read_traces

# isort: split
# for other rooms
from stepsim.noc.simulate import MODELS as MODELS, STEP as STEP
from stepsim.noc.topology import Topology as Topology
from stepsim.noc.traffic import Traffic as Traffic
