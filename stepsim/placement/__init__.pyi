from stepsim.noc import Placement as Placement
from stepsim.placement.finding import place as place
from stepsim.placement.found import FoundPlacement as FoundPlacement

# isort: split
# for other rooms
from stepsim.placement.choice import PlaceChoice as PlaceChoice, read_choice as read_choice
from stepsim.placement.finding import check_machine as check_machine, placed as placed
from stepsim.placement.flows import Flows as Flows, flows_of as flows_of
from stepsim.placement.found import places_of as places_of
