"""How many messages of how many bytes a collective sends."""

from __future__ import annotations

from stepsim.frozen import frozen
from stepsim.kernels.noc.chips.layout import CollectiveAlgorithm, CollectiveKind


@frozen
class CollectivePlan:
    """The numbers of a collective that do not depend on its network.

    Attributes
    ----------
    kind, algorithm : what is sent, and in which steps.
    chunks, chunk_bytes : chunks, and bytes of each; 0 chunks where there is nothing to send.
    parallel : messages that a chip may have under way.
    following : of every round, messages after the first ``parallel``, which may need a reduction.
    sends : messages of a chip and chunk.
    """

    kind: CollectiveKind
    algorithm: CollectiveAlgorithm
    chunks: int
    chunk_bytes: int
    parallel: int
    following: int
    sends: int

    @property
    def messages(self) -> int:
        """Messages of a chip in all chunks."""
        return self.chunks * self.sends

    def most_bytes(self, chips: int) -> int:
        """Bytes of the largest message."""
        gathers = self.kind == CollectiveKind.ALL_GATHER
        if self.algorithm == CollectiveAlgorithm.HALVING_DOUBLING:
            return self.chunk_bytes * chips // 2 if gathers else self.chunk_bytes // 2
        return self.chunk_bytes if gathers else self.chunk_bytes // chips


def plan_collective(
    kind: CollectiveKind, algorithm: CollectiveAlgorithm, chips: int, amount: int, splits: int
) -> CollectivePlan:
    """Chunks and messages of a collective over ``amount`` bytes.

    All but an all-gather have chunks of a byte for every chip at least. All chunks are full, so
    that up to ``splits - 1`` bytes of a chunk more are sent than there are.
    """
    chunk = amount // splits
    if kind != CollectiveKind.ALL_GATHER and chips > chunk:
        chunk = chips
        amount = splits * chunk
    chunks = -(-amount // chunk) if chunk else 0
    others = chips - 1
    if algorithm == CollectiveAlgorithm.HALVING_DOUBLING:
        rounds = chips.bit_length() - 1
        sends = 2 * rounds if kind == CollectiveKind.ALL_REDUCE else rounds
        return CollectivePlan(kind, algorithm, chunks, chunk, 1, rounds - 1, sends)
    sends = 2 * others if kind == CollectiveKind.ALL_REDUCE else others
    if algorithm == CollectiveAlgorithm.RING:
        if kind == CollectiveKind.ALL_TO_ALL:
            sends = chips * others // 2
        return CollectivePlan(kind, algorithm, chunks, chunk, 1, others, sends)
    return CollectivePlan(kind, algorithm, chunks, chunk, others, others, sends)
