"""The runs left to do of a sweep, and saving those that are done."""

from __future__ import annotations

from stepsim.errors import SweepError
from stepsim.sweep.planning.plan import Chunk, Plan, versions
from stepsim.sweep.running.work import ChunkRows
from stepsim.sweep.storage.store import Store


class Saving:
    """Saves chunks as they come and joins those of design points that are complete.

    Attributes
    ----------
    left : number of runs that are not on disk yet.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self._store = store
        self._finished = store.finished()
        self._by_point: dict[int, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self.left = 0
        self.extend(plan)

    def extend(self, plan: Plan) -> None:
        """Add the additional design points of a larger plan."""
        self._plan = plan
        self._points = {point.index: point for point in plan.points}
        known = set(self._by_point)
        for point in plan.points:
            self._by_point.setdefault(point.index, [])
        for chunk in plan.chunks():
            if chunk.point.index in known:
                continue
            self._by_point[chunk.point.index].append(chunk.key)
            self._sizes[chunk.key] = len(chunk.traces)
            if chunk.key not in self._finished:
                self.left += len(chunk.traces)
        for index in self._points.keys() - known:
            # Design points that an earlier start finished but did not join.
            self._compact_if_complete(index)

    def missing(self) -> list[Chunk]:
        """Chunks that are not on disk yet, in their order."""
        return [chunk for chunk in self._plan.chunks() if chunk.key not in self._finished]

    def save(self, rows: ChunkRows) -> None:
        """Write the rows of a chunk to disk.

        Raises
        ------
        SweepError
            Other versions computed them.
        OutputError
            They cannot be written.
        """
        if dict(rows.versions) != versions():
            raise SweepError(
                f"chunk {rows.key} was computed with {dict(rows.versions)}, this process has "
                f"{versions()}; install the same versions on the workers"
            )
        self._store.save(rows)
        self._finished.add(rows.key)
        self.left -= self._sizes[rows.key]
        self._compact_if_complete(int(rows.key.split("-")[0]))

    def _compact_if_complete(self, index: int) -> None:
        keys = self._by_point[index]
        if self._finished.issuperset(keys):
            self._store.compact(self._points[index], keys)
