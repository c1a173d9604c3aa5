"""How experts are divided among groups of chips, and within a group.

Chips are numbered by stage, by group within a stage, and by member within a group. A *stage* has
one layer (``pp``), a *group* the layer for some of the requests (``dp``), and the *members* of a
group some of the heads and of the inner columns each (``tp``).

Experts are divided into ``ep`` parts: first among groups that follow each other, as far as the
greatest common divisor of ``ep`` and ``dp`` goes, then among the members of a group. Members that
have the same experts divide their inner columns, and groups beyond those have copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class Groups:
    """Chips of a layer; see the module.

    Attributes
    ----------
    tp, ep, pp, dp : members of a group, chips that experts are divided among, stages, and groups of
        a stage.
    """

    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1

    @property
    def chips(self) -> int:
        """Chips of all stages."""
        return self.pp * self.dp * self.tp

    def chip(self, stage: int, group: int, member: int) -> int:
        """The number of a chip."""
        return (stage * self.dp + group) * self.tp + member

    @property
    def across(self) -> int:
        """Groups that experts are divided among."""
        return gcd(self.ep, self.dp)

    @property
    def within(self) -> int:
        """Parts among which the members of a group divide the experts of their group again."""
        return self.ep // self.across

    @property
    def wrong_ep(self) -> str:
        """What is wrong with ``ep`` beside ``dp`` and ``tp``; empty if nothing is."""
        if self.tp % self.within == 0:
            return ""
        return (
            f"expected a divisor of dp {self.dp} times a divisor of tp {self.tp}, found {self.ep}"
        )

    @property
    def sharing(self) -> int:
        """Members of a group that have the same experts, and divide their inner columns."""
        return self.tp // self.within

    @property
    def exchanges(self) -> list[range]:
        """The groups that send rows to each other."""
        return [range(d, d + self.across) for d in range(0, self.dp, self.across)]

    def block(self, group: int, member: int) -> int:
        """Which of ``ep`` parts of the experts a chip has."""
        return member // self.sharing * self.across + group % self.across
