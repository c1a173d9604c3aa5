"""The rows of a batch on their way from the chips of a stage to those of the next one."""

from __future__ import annotations

from stepsim.dtypes import DType
from stepsim.graph import Program, chip, linear_load, linear_store
from stepsim.workloads.parallel.split import Split
from stepsim.workloads.tensors import tensor_of


def handover(split: Split, stage: int, rows: int, width: int, dtype: DType) -> Program:
    """Each member of a stage reads its rows off chip, and the same member of the next one writes
    them there, row by row."""
    with Program(f"handover_{stage}_b{rows}") as program:
        for t in range(split.tp):
            with chip(split.chip(stage, 0, t)):
                left = tensor_of(rows, width, dtype=dtype, name=f"left.{t}")
                sent = linear_load(left, (1, width), label=f"left.{t}").flatten(0, 1)
            with chip(split.chip(stage + 1, 0, t)):
                linear_store(sent, f"handed_over.{t}", label=f"handed_over.{t}")
    return program
