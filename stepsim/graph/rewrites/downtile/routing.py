"""Rules of routing operators: chunks gain the two dims of a block, selectors are unchanged."""

from __future__ import annotations

from stepsim.graph.ops.routing.fixed_order import StaticReassemble
from stepsim.graph.ops.routing.merging import EagerMerge, Reassemble
from stepsim.graph.ops.routing.partitioning import Parallelize, Partition
from stepsim.graph.rewrites.downtile.site import Rewrite, rule


@rule(Partition, Parallelize, Reassemble, EagerMerge, StaticReassemble)
def route(work: Rewrite, op: Partition) -> None:
    """The same routing of larger chunks."""
    work.take_over(op, rank=op.rank + work.gained(op.inputs[0]))
