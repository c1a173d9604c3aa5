"""Run the tests against every mutant of a room: ``python -m tests.mutation units --out FILE``.

One process imports what all tests need and forks for every mutant, so that a mutant costs the time
of its tests; kernels are changed in place (:mod:`tests.mutation.replay`). A mutant is killed when a
test fails, the tests do not end in time, or the process dies.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.mutation import CHOSEN
from tests.mutation.mutants import Mutant, mutants

_ROOT: Final = Path(__file__).resolve().parents[2]

_WALL_TIMES: Final = 20.0
"""Wall time that tests may take, in times of their CPU time."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is changed and which tests stand for it, the quick ones first.

    Attributes
    ----------
    sources : patterns of modules, relative to the project.
    stages : arguments of pytest; a later stage sees only what the earlier ones did not notice.
    compiled : whether the engine runs compiled. Changed kernels run as plain Python.
    """

    sources: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    compiled: bool


_AGREES: Final = "tests/kernels/test_differential.py::test_engine_agrees_with_the_interpreter"
_FAILS: Final = "tests/kernels/test_differential.py::test_failures_and_deadlocks_agree"
_CASES: Final = (
    "tests/kernels/test_cases.py",
    "tests/kernels/test_failures.py",
    "tests/kernels/test_aborts.py",
    "tests/kernels/test_slots.py",
    "tests/kernels/test_buffers.py",
    "tests/kernels/test_firings.py",
    "tests/kernels/test_units.py",
)
_ENGINE: Final = ("arena", "calendar", "driver", "engine", "parking", "queues", "walks")
_MEMORY: Final = ("accesses", "interleaved", "published", "uncontended")
# Without the test that starts a type checker, which does not see the changed module.
_GRAPH: Final = ("tests/graph", "--ignore=tests/graph/test_size_types.py")
_INFERRED: Final = (
    "tests/simulation/test_inferred.py",
    "tests/functional/test_random_programs.py",
    "tests/functional/test_routing.py",
    "tests/functional/test_higher_order.py",
)
ROOMS: Final = {
    "units": Room(("stepsim/kernels/units/*.py",), (_CASES, (_AGREES, _FAILS)), False),
    "engine": Room(
        tuple(f"stepsim/kernels/{name}.py" for name in _ENGINE),
        ((*_CASES, "tests/kernels/test_parking.py"), (_AGREES, _FAILS)),
        False,
    ),
    "memory": Room(
        # The others are run when they are imported.
        tuple(f"stepsim/kernels/memory/{name}.py" for name in _MEMORY),
        (("tests/kernels/test_memory.py",),),
        False,
    ),
    "ops": Room(("stepsim/graph/ops/**/*.py",), (_GRAPH, _INFERRED), True),
    "metrics": Room(
        (
            "stepsim/graph/metrics.py",
            "stepsim/graph/sizes/dims.py",
            "stepsim/graph/programs/binding.py",
        ),
        (_GRAPH, _INFERRED),
        True,
    ),
}


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads the changed text of one module; tracebacks and sources point at the file as it is."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.changed = source

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.changed, self.path, "exec"), vars(module))


class _Finder:
    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        loader = _Changed(name, str(self.path), self.source)
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(_ROOT).with_suffix("").parts)


class _NoShrinking:
    """The first example that fails is enough."""

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutation")


def _run(
    path: Path, source: str, tests: Sequence[str], seconds: int, log: Path = Path(os.devnull)
) -> tuple[bool, float]:
    """Whether all tests pass in a process that imports the changed module, and its CPU seconds.

    It may take ``seconds`` of CPU time, and on a busy machine far more of wall time. One that waits
    for ever takes no CPU time. What pytest prints goes to the file ``log``.
    """
    end = time.monotonic() + _WALL_TIMES * seconds
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for stream in (0, 1, 2):
                os.dup2(output, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
            sys.meta_path.insert(0, _Finder(_module_name(path), path, source))
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]
            # Otherwise pytest loads the modules of a package with a plugin, before the finder.
            options.append("--assert=plain")
            code = int(pytest.main([*options, "-m", CHOSEN, *tests], plugins=[_NoShrinking()]))
        finally:
            os._exit(code)
    options = os.WNOHANG
    while True:
        ended, status, usage = os.wait4(child, options)
        if ended:
            break
        time.sleep(0.02)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            options = 0
    return status == 0, usage.ru_utime + usage.ru_stime


def _preload() -> None:
    # Not stepsim itself, which the child imports with the change, and no plugin of pytest.
    for name in ("numba", "pyarrow.parquet", "sympy"):
        importlib.import_module(name)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--out", type=Path, required=True, help="file for the mutants that survive")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only modules whose path contains this")
    parser.add_argument("--again", type=Path, help="only those that survived in this file")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th mutant, from the K-th")
    given = parser.parse_args()
    room = ROOMS[given.room]
    os.chdir(_ROOT)
    if not room.compiled:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    _preload()
    files = [path for pattern in room.sources for path in sorted(_ROOT.glob(pattern))]
    if not files:
        parser.error(f"no file of room {given.room} in {_ROOT}: {', '.join(room.sources)}")
    found: list[tuple[Path, Mutant]] = [
        (path, mutant)
        for path in files
        if given.only in str(path)
        for mutant in mutants(path.read_text(encoding="utf-8"))
    ]
    if given.again is not None:
        listed = set(given.again.read_text(encoding="utf-8").splitlines())
        found = [each for each in found if _described(*each) in listed]
    if given.sample is not None:
        chosen = random.Random(given.seed).sample(range(len(found)), min(given.sample, len(found)))
        found = [found[index] for index in sorted(chosen)]
    first, parts = map(int, given.part.split("/"))
    found = found[first::parts]
    if room.compiled:
        _try_all(found, _staged(room, files[0], given.out), given.out)
    else:
        from tests.mutation.replay import with_tests  # imports pytest, which is to see the switch

        arguments = [test for stage in room.stages for test in stage]
        with_tests(arguments, lambda tests: _try_all(found, tests.notice, given.out))


def _described(path: Path, mutant: Mutant) -> str:
    return f"{path.relative_to(_ROOT)}:{mutant.line}: {mutant.change}"


def _staged(room: Room, file: Path, out: Path) -> Callable[[Path, str], bool]:
    """Whether a test notices a changed module: every stage in a process of its own.

    Raises SystemExit when one fails without any change; its output is then in ``out``.
    """
    limits: list[int] = []
    for stage in room.stages:
        passed, seconds = _run(file, file.read_text(encoding="utf-8"), stage, 1000, out)
        if not passed:
            sys.exit(f"{' '.join(stage)}: fails without any change, see {out}; fix that first")
        # An endless loop is noticed.
        limits.append(round(3 * seconds) + 5)
    stages = list(zip(room.stages, limits, strict=True))
    return lambda path, source: (
        not all(_run(path, source, stage, limit)[0] for stage, limit in stages)
    )


def _try_all(
    found: list[tuple[Path, Mutant]], notice: Callable[[Path, str], bool], file: Path
) -> None:
    survivors = 0
    with file.open("w", encoding="utf-8") as out:
        for count, (path, mutant) in enumerate(found, 1):
            if not notice(path, mutant.source()):
                survivors += 1
                print(_described(path, mutant), file=out)
                out.flush()
            if count % 50 == 0:
                _say(f"{count} of {len(found)}, {survivors} survive")
    _say(f"{len(found)} mutants, {survivors} survive: {file}")


if __name__ == "__main__":
    main()
