from stepsim.explain.changes.runs import WhatIf as WhatIf, what_if as what_if
from stepsim.explain.explanation import Why as Why, why as why
from stepsim.explain.path import CriticalPath as CriticalPath, critical_path as critical_path
from stepsim.explain.stall_differences import (
    StallChange as StallChange,
    stall_changes as stall_changes,
)
from stepsim.explain.stalls import StallTree as StallTree, stall_tree as stall_tree

# isort: split
# for other rooms
from stepsim.explain.explanation import explain as explain
from stepsim.explain.stall_differences import (
    LANES as LANES,
    Stalls as Stalls,
    stalls_of as stalls_of,
)
