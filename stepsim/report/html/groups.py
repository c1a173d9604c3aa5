"""The boxes of a run's page: operators with their lanes, and calls with their parts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stepsim.results import folded


@dataclass(frozen=True, slots=True)
class Groups:
    """The boxes of a program.

    Attributes
    ----------
    names, kinds, sources : of each box, as those of `stepsim.results.Folded`.
    counts : lanes of each, or calls.
    members : numbers of its units.
    of_unit : number of the box of each unit.
    edges : numbers of two boxes and the number of FIFOs between them.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sources: tuple[str, ...]
    counts: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    of_unit: tuple[int, ...]
    edges: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, units: pa.Table, fifos: pa.Table) -> Groups:
        """Group the units of a run, as its tables have them."""
        names = units["name"].to_pylist()
        numbers = {name: number for number, name in enumerate(names)}
        ends = [
            (numbers[producer], numbers[consumer])
            for producer, consumer in zip(
                fifos["producer"].to_pylist(), fifos["consumer"].to_pylist(), strict=True
            )
        ]
        known = "source" in units.schema.names
        sources = units["source"].to_pylist() if known else [None] * len(names)
        boxes = folded(names, units["operator"].to_pylist(), sources, ends)
        of_unit = [0] * len(names)
        for number, box in enumerate(boxes):
            for unit in box.members:
                of_unit[unit] = number
        joined: dict[tuple[int, int], int] = {}
        for producer, consumer in ends:
            pair = of_unit[producer], of_unit[consumer]
            joined[pair] = joined.get(pair, 0) + 1
        return cls(
            tuple(box.name for box in boxes),
            tuple(box.kind for box in boxes),
            tuple(box.source for box in boxes),
            tuple(box.count for box in boxes),
            tuple(box.members for box in boxes),
            tuple(of_unit),
            tuple((a, b, count) for (a, b), count in joined.items() if a != b),
        )
