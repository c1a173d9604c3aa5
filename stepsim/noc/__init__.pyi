from stepsim.machine import list_networks as list_networks, load_network as load_network
from stepsim.noc.chips.collective_steps import simulate_collective as simulate_collective
from stepsim.noc.chips.messages import simulate_chips as simulate_chips
from stepsim.noc.chips.run import ChipRun as ChipRun, CollectiveRun as CollectiveRun
from stepsim.noc.placement import Placement as Placement
from stepsim.noc.run import NocRun as NocRun
from stepsim.noc.simulate import simulate as simulate
from stepsim.noc.traces import NocTrace as NocTrace, read_traces as read_traces

# isort: split
# for other rooms
from stepsim.noc.chips.links import ChipLinks as ChipLinks
from stepsim.noc.legs import (
    SHORTER as SHORTER,
    Leg as Leg,
    copies_in_trees as copies_in_trees,
    legs_of as legs_of,
    nearest_tiles as nearest_tiles,
    network_of_leg as network_of_leg,
    networks_taken as networks_taken,
    tree_of as tree_of,
)
from stepsim.noc.placement import PER_TILE as PER_TILE, PlacementFile as PlacementFile
from stepsim.noc.places import (
    memory_places as memory_places,
    placed_operators as placed_operators,
    worker_places as worker_places,
)
from stepsim.noc.simulate import MODELS as MODELS, STEP as STEP
from stepsim.noc.tables import link_table as link_table
from stepsim.noc.topology import Topology as Topology, Whole as Whole
from stepsim.noc.traffic import Traffic as Traffic
