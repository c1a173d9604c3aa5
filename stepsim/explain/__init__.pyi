from stepsim.explain.changes.runs import WhatIf as WhatIf, what_if as what_if
from stepsim.explain.explanation import Why as Why, explain as explain, why as why
from stepsim.explain.path import CriticalPath as CriticalPath, critical_path as critical_path
from stepsim.explain.stall_differences import (
    LANES as LANES,
    StallChange as StallChange,
    Stalls as Stalls,
    stall_changes as stall_changes,
    stalls_of as stalls_of,
)
from stepsim.explain.stalls import StallTree as StallTree, stall_tree as stall_tree
