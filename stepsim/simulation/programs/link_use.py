"""The link that a run used most."""

from __future__ import annotations

from stepsim.frozen import NamedTuple
from stepsim.results import sharing_text


class LinkUse(NamedTuple):
    """A link of a network on chip, a place that sends or receives, or a link between chips.

    Attributes
    ----------
    name : in words.
    used, unit : flits that passed it, one a cycle, or cycles in which it sent.
    nbytes : that it carried.
    streams : names of the FIFOs that share it, those with the most first.
    bound : cycles that a run takes at the least because of what it carried.
    """

    name: str
    used: int
    unit: str
    nbytes: int
    streams: tuple[str, ...]
    bound: int

    def sentence(self, cycles: int) -> str:
        """What it was, how much of a run of these ``cycles`` it was busy, and for which streams."""
        share = self.used / max(cycles, 1)
        return (
            f"the busiest link is {self.name}, with {self.nbytes:,} bytes in {share:.1%} of the "
            f"cycles; {sharing_text(self.streams)}"
        )
