"""Run tests against changed functions in one process, without drawing or importing anything anew.

The tests are collected once. Property tests keep the examples of their first run, and reference
models what they answered to them, so that a mutant costs no more than the changed code itself.
"""

from __future__ import annotations

import functools
import gc
import os
import resource
import signal
import time
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation import CHOSEN

__all__ = ["Tests", "with_tests"]

_REFERENCES: Final = ("interpret", "per_cycle")
"""Functions of test modules whose answers do not depend on what is changed."""


def with_tests(arguments: Sequence[str], then: Callable[[Tests], None]) -> None:
    """Collect tests and hand them over; raises SystemExit when one fails without any change."""
    plugin = _Plugin(then)
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist", "-m", CHOSEN,
         "--capture=no", *arguments],
        plugins=[plugin],
    )  # fmt: skip
    if plugin.problem is not None:
        raise plugin.problem


class _Plugin:
    def __init__(self, then: Callable[[Tests], None]) -> None:
        self.then = then
        self.problem: BaseException | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        try:
            self.then(Tests(session.items))
        except (Exception, SystemExit) as problem:  # pytest would only print it
            self.problem = problem
        return True


class Tests:
    """Collected tests that have passed once, the quickest first.

    Functions that a module runs when it is imported have run before: changes of them go unnoticed.
    """

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        seconds: dict[pytest.Item, float] = {}
        for item in items:
            assert isinstance(item, pytest.Function)
            for name in _REFERENCES:
                _remember(item.module, name)
            if hasattr(item.obj, "hypothesis"):
                item.obj = _replay(item.obj)
            begin = time.process_time()
            if not _passes(item, None):
                raise SystemExit(f"{item.nodeid}: fails without any change; fix that first")
            seconds[item] = time.process_time() - begin
        self._items = sorted(items, key=seconds.__getitem__)
        self._seconds = seconds
        gc.unfreeze()  # those that were there when the tests were found are among them
        self._functions = [f for f in gc.get_objects() if isinstance(f, types.FunctionType)]
        gc.freeze()

    def notice(self, path: Path, source: str) -> bool:
        """Whether a test fails, hangs or kills its process when ``path`` has this source."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                os._exit(self._run(path, source, writer))
            os._exit(1)
        os.close(writer)
        with os.fdopen(reader, "rb") as begun:
            last = len(begun.read()) - 1
        if os.waitpid(child, 0)[1] == 0:
            return False
        # What noticed one change often notices the next.
        self._items.insert(0, self._items.pop(max(0, last)))
        return True

    def _run(self, path: Path, source: str, begun: int) -> int:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
        self._change(path, source)
        for item, following in zip(self._items, [*self._items[1:], None], strict=True):
            os.write(begun, b".")
            # An endless loop ends the process.
            signal.setitimer(signal.ITIMER_PROF, 1 + 3 * self._seconds[item])
            if not _passes(item, following):
                return 1
        return 0

    def _change(self, path: Path, source: str) -> None:
        """Put the code of a changed module into the functions that were made from it."""
        codes = dict(_codes(compile(source, str(path), "exec")))
        for function in self._functions:
            code = function.__code__
            if code.co_filename == str(path) and code.co_qualname in codes:
                function.__code__ = codes[code.co_qualname]


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(r.failed for r in runtestprotocol(item, log=False, nextitem=following))


def _remember(module: types.ModuleType, name: str) -> None:
    reference = getattr(module, name, None)
    if reference is None or hasattr(reference, "answers"):
        return
    answers: dict[str, Any] = {}

    def remembered(*given: Any) -> Any:
        key = repr(given)
        if key not in answers:
            answers[key] = reference(*given)
        return answers[key]

    vars(remembered)["answers"] = answers
    setattr(module, name, remembered)


def _replay(test: Any) -> Callable[[], None]:
    """A property test that is run on the examples of its first run."""
    inner = test.hypothesis.inner_test
    drawn: list[tuple[Any, Any]] = []

    @functools.wraps(inner)
    def record(*args: Any, **kwargs: Any) -> None:
        inner(*args, **kwargs)
        drawn.append((args, kwargs))

    test.hypothesis.inner_test = record
    test()

    def again() -> None:
        for args, kwargs in drawn:
            inner(*args, **kwargs)

    return again


def _codes(code: types.CodeType) -> Iterator[tuple[str, types.CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner.co_qualname, inner
            yield from _codes(inner)
