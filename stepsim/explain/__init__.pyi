from stepsim.explain.changes.runs import WhatIf as WhatIf, what_if as what_if
from stepsim.explain.explanation import Why as Why, why as why
from stepsim.explain.path import CriticalPath as CriticalPath, critical_path as critical_path
from stepsim.results import (
    StallChange as StallChange,
    StallTree as StallTree,
    stall_changes as stall_changes,
    stall_tree as stall_tree,
)

# isort: split
# for other rooms
from stepsim.explain.explanation import explain as explain
from stepsim.explain.speed_of_light import largest_bound as largest_bound
