from stepsim.ensembles.disturbances import Bounds as Bounds, Disturbance as Disturbance
from stepsim.ensembles.ensemble import Ensemble as Ensemble

# isort: split
# for other rooms
from stepsim.ensembles.disturbances import (
    bounds_of as bounds_of,
    checked_bounds as checked_bounds,
    draw_one as draw_one,
)
from stepsim.ensembles.members import (
    Ending as Ending,
    check_members as check_members,
    disturbed_runs as disturbed_runs,
)
