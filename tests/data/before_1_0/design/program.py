"""The programs of the plan next to this file, one for each group."""

from pathlib import Path
from typing import Annotated

import stepsim as st

PLAN = st.design.Plan.load(Path(__file__).with_name("plan.yaml"))


def program(
    group: Annotated[int, st.workloads.Param("number of the group", least=0)] = PLAN.groups[
        0
    ].group,
) -> st.Program:
    return PLAN.programs()[PLAN.group(group)].program
