"""Running the cases of a fuzzer: limits, failures told apart, and shorter ways to the same one."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import random
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import stepsim
import tests.fuzz

__all__ = [
    "CASE_SECONDS",
    "CaseTimeout",
    "Failure",
    "Found",
    "Tape",
    "again",
    "campaign",
    "fuzzers",
    "load",
    "minimize",
    "note",
    "run_case",
]

One = Callable[[random.Random], str]

CASE_SECONDS = 300.0
"""Wall time after which a case is taken for endless, for one that waits too. On a busy machine the
start of some worker processes alone takes half a minute."""

CASE_BYTES = 12 << 30
"""Address space of the process while a case runs. The compiled engine alone maps some gigabytes."""

_PACKAGE = str(Path(stepsim.__file__).parent)
_HERE = str(Path(__file__).parent)

_notes: list[str] = []


class CaseTimeout(BaseException):
    """The case does not end. No Exception, so that nothing on the way catches it."""


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case, and where: the same key means most likely the same defect."""

    key: str
    traceback: str
    notes: str


@dataclass
class Found:
    """The outcome of many cases: how many of each, and one case of every distinct failure."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[int, Failure]] = field(default_factory=dict)

    def add(self, seed: int, outcome: str | Failure) -> bool:
        """Count the outcome; True for a failure that is new."""
        if isinstance(outcome, str):
            self.counts[outcome] += 1
            return False
        self.counts["failed"] += 1
        self.counts[outcome.key] += 1
        return self.failures.setdefault(outcome.key, (seed, outcome))[1] is outcome

    def summary(self) -> str:
        of = self.counts
        cases = of["accepted"] + of["refused"] + of["failed"]
        return (
            f"{cases} cases: {of['accepted']} accepted, {of['refused']} refused, {of['failed']} "
            f"failed in {len(self.failures)} ways"
        )


class Tape(random.Random):
    """A random source that plays given numbers and then zeros, and remembers what it gave.

    Everything that :class:`random.Random` draws comes from these two methods. A zero is the first
    of the choices, so that fuzzers put the simplest one there.
    """

    def __init__(self, source: random.Random | None = None, numbers: Sequence[float] = ()) -> None:
        self.source = source
        self.given = list(numbers)
        self.played: list[float] = []
        super().__init__(0)

    def _next(self, fresh: Callable[[], float]) -> float:
        position = len(self.played)
        if position < len(self.given):
            number = self.given[position]
        else:
            number = fresh() if self.source is not None else 0.0
        self.played.append(number)
        return number

    def random(self) -> float:
        return self._next(lambda: self.source.random())  # type: ignore[union-attr]

    def getrandbits(self, k: int) -> int:
        return int(self.random() * (1 << min(k, 53))) << max(0, k - 53)


def note(line: str) -> None:
    """Say what the case does next; the last line is what it was doing when it failed."""
    _notes.append(line)


def again(name: str, seed: int) -> str:
    """The command that runs a case once more. What is drawn depends on the variable too."""
    draws = os.environ.get("STEPSIM_DRAWS", "few")
    return f"STEPSIM_DRAWS={draws} python -m tests.fuzz {name} --case {seed}"


def fuzzers() -> list[str]:
    """Names of all fuzzers, sorted."""
    names = [module.name for module in pkgutil.iter_modules(tests.fuzz.__path__)]
    sources = [name for name in names if not name.startswith(("test_", "__"))]
    return sorted(name for name in sources if hasattr(_module(name), "one"))


def load(name: str) -> One:
    """The fuzzer's function; ValueError for a name that there is not."""
    if name not in fuzzers():
        raise ValueError(f"no fuzzer {name!r}; there are {', '.join(fuzzers())}")
    one: One = _module(name).one
    return one


def _module(name: str) -> object:
    return importlib.import_module(f"tests.fuzz.{name}")


def run_case(
    one: One, source: random.Random | int, *, seconds: float = CASE_SECONDS
) -> str | Failure:
    """Run a case from its seed or random source: "accepted", "refused" or a Failure."""
    # Of a tape from the start, so that a failure can be played again from its draws.
    rng = Tape(random.Random(source)) if isinstance(source, int) else source
    _notes.clear()
    try:
        with _bounded(seconds):
            outcome = one(rng)
        assert outcome in ("accepted", "refused"), f"the fuzzer returned {outcome!r}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failure(_key(error), "".join(traceback.format_exception(error)), "\n".join(_notes))
    return outcome


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Time and address space of the block are bounded."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)

    def stop(signum: int, frame: object) -> None:
        raise CaseTimeout(f"endless: took more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (CASE_BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _key(error: BaseException) -> str:
    """Type of the exception and the innermost place of the package, else of the fuzzer."""
    frames = traceback.extract_tb(error.__traceback__)
    for root in (_PACKAGE, _HERE):
        for frame in reversed(frames):
            if frame.filename.startswith(root) and frame.filename != __file__:
                path = Path(frame.filename).relative_to(Path(root).parent)
                where = f"{path}:{frame.lineno} in {frame.name}"
                # A broken law is told apart by what it says, not only by who noticed.
                law = isinstance(error, AssertionError) and root == _HERE
                return f"{type(error).__name__} at {where}" + (f": {_head(error)}" if law else "")
    return f"{type(error).__name__}: {_head(error)}"


def _head(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(":")[0][:60]


def campaign(
    one: One, seeds: Iterable[int], on_failure: Callable[[int, Failure], None] | None = None
) -> Found:
    """Run the cases of all seeds; a failure ends its case only."""
    found = Found()
    for seed in seeds:
        outcome = run_case(one, seed)
        if found.add(seed, outcome) and on_failure is not None and isinstance(outcome, Failure):
            on_failure(seed, outcome)
    return found


def minimize(one: One, seed: int, key: str, *, attempts: int = 200) -> Failure | None:
    """A shorter case that fails in the same way; None when the case does not fail alone.

    Blocks of the draws are left out or made zero, as long as the key stays the same.
    """
    tape = Tape(random.Random(seed))
    best = run_case(one, tape)
    if not isinstance(best, Failure) or best.key != key:
        return None
    numbers, size, left = list(tape.played), max(1, len(tape.played) // 2), attempts
    while size >= 1 and left > 0:
        start = 0
        while start < len(numbers) and left > 0:
            for filler in ([], [0.0] * min(size, len(numbers) - start)):
                trial = [*numbers[:start], *filler, *numbers[start + size :]]
                if trial == numbers:
                    continue
                left -= 1
                again = Tape(numbers=trial)
                outcome = run_case(one, again, seconds=CASE_SECONDS / 4)
                if isinstance(outcome, Failure) and outcome.key == key:
                    numbers, best = list(again.played[: len(trial)]), outcome
                    break
            else:
                start += size
        size //= 2
    return best
