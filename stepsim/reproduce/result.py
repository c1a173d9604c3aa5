"""The results of a reproduction: rows, headlines, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepsim.reproduce.choice import Chosen
from stepsim.reproduce.figure import Row


@dataclass(frozen=True)
class Reproduction:
    """The results of a reproduction.

    Attributes
    ----------
    figures : rows of each figure, by number.
    chosen : the selected figures, by number.
    remarks : sentences about the rows of each figure.
    headlines : rows of the table of headlines.
    seconds : time of the runs of each figure, in one process; figures that share a run all
        count it.
    elapsed : total seconds, with ``jobs`` processes.
    runs : number of distinct runs.
    compared : whether published values were available for the figures of the paper.
    problems : runs that did not succeed, with the reason.
    """

    figures: Mapping[str, Sequence[Row]]
    chosen: Mapping[str, Chosen]
    remarks: Mapping[str, Sequence[str]]
    headlines: Sequence[Row]
    seconds: Mapping[str, float]
    elapsed: float
    runs: int
    jobs: int
    compared: bool
    closure_slack: int
    problems: tuple[str, ...]

    @property
    def traces(self) -> str:
        """The source of the traces of the paper's figures, in words; empty where none are read."""
        paper = [rows for number, rows in self.figures.items() if not self.chosen[number].is_own]
        if not any(row.get("trace") for rows in paper for row in rows):
            return ""
        return "recorded traces" if self.compared else "synthetic traces, no comparison"
