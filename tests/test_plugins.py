"""Entry points of other packages: found, loaded, and named when they cannot be."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import NumbaError

from stepsim.errors import StepSimError, UserCodeError
from stepsim.graph import fn
from stepsim.kernels.build import foreign
from stepsim.kernels.build.compiling import compiled
from stepsim.plugins import GROUPS, found, usable

GROUP = "stepsim.functions"


class Numbers(NamedTuple):
    words: Any


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Put a package with entry points on the path, as an installer does."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, module: str, points: dict[str, str]) -> None:
        (tmp_path / f"{package}.py").write_text(module)
        info = tmp_path / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
        found.cache_clear()
        usable.cache_clear()

    yield install
    found.cache_clear()
    usable.cache_clear()


def test_plugin_is_found_with_its_package(install: Callable[..., None]) -> None:
    install("found_one", "thing = 7", {"seven": "found_one:thing"})
    (plugin,) = [p for p in found(GROUP) if p.package == "found_one"]
    assert (plugin.name, plugin.group, plugin.version) == ("seven", GROUP, "1.2")
    assert (plugin.loaded, plugin.error) == (7, None)
    assert plugin in usable(GROUP)


def test_a_function_whose_name_is_taken_is_named(
    install: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    install("taken", "thing = 7", {"gelu": "taken:thing"})
    assert "gelu" not in fn.offered_functions()
    assert "gelu" in dir(fn)
    (text,) = [record.getMessage() for record in caplog.records if "gelu" in record.getMessage()]
    assert text == (
        "plugin 'gelu' of package taken is left out: st.fn.gelu is a function of stepsim; offer "
        "it by another name"
    )


@pytest.mark.parametrize(
    ("module", "value", "message"),
    [
        ("import no_such_module", "broken_one:x", "No module named 'no_such_module'"),
        ("x = 1", "broken_one:y", "has no attribute 'y'"),
        ("raise OSError('no device')", "broken_one:x", "OSError: no device"),
        ("x = (", "broken_one:x", "SyntaxError"),
    ],
)
def test_plugin_that_cannot_be_loaded_is_named_and_the_rest_works(
    install: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    module: str,
    value: str,
    message: str,
) -> None:
    install("broken_one", module, {"bad": value})
    install("whole_one", "thing = 7", {"good": "whole_one:thing"})
    sys.modules.pop("broken_one", None)
    (bad,) = [p for p in found(GROUP) if p.package == "broken_one"]
    assert bad.error is not None
    assert message in bad.error
    with caplog.at_level(logging.WARNING, logger="stepsim"):
        assert [p.name for p in usable(GROUP) if p.package.endswith("_one")] == ["good"]
        usable(GROUP)
    (record,) = [r for r in caplog.records if "broken_one" in r.getMessage()]
    assert "plugin 'bad' of package broken_one is left out" in record.getMessage()


def test_of_two_plugins_with_one_name_the_second_is_left_out(
    install: Callable[..., None],
) -> None:
    install("twin_a", "thing = 1", {"twin": "twin_a:thing"})
    install("twin_b", "thing = 2", {"twin": "twin_b:thing"})
    first, second = [p for p in found(GROUP) if p.name == "twin"]
    assert (first.loaded, second.loaded) == (1, None)
    assert second.error == "the name is taken by package twin_a"


def test_unknown_group_is_refused() -> None:
    with pytest.raises(StepSimError, match=r"no group of plugins 'stepsim\.colors'; known are"):
        found("stepsim.colors")
    assert GROUP in GROUPS


def test_entry_points_are_not_read_before_they_are_needed() -> None:
    code = "import sys, stepsim.plugins; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", code], cwd=Path.cwd()).returncode == 0


MEMORY = """\
from stepsim.kernels.memory.declaration import MemoryModel

bad = MemoryModel("bad", "cannot be compiled")


@bad.issue
def issue(state, port, clock, requests):
    return (clock < "x") + requests
"""

UNKNOWN = MEMORY.replace('(clock < "x")', "no_such_name")


@pytest.mark.parametrize(
    ("group", "module", "message"),
    [
        (
            "stepsim.memory_models", UNKNOWN,
            r"the engine cannot be compiled with the plugins 'bad' of package uncompiled_c: "
            r"NameError: name 'no_such_name' is not defined; correct or uninstall",
        ),
        (
            "stepsim.memory_models", MEMORY,
            r"kernel 'issue' of plugin 'bad' of package uncompiled_a 1.2 cannot be compiled: "
            r"No implementation of function .*lt.* \(.*uncompiled_a\.py, line 8\); correct it",
        ),
    ],
)  # fmt: skip
def test_kernels_that_numba_refuses_are_named(
    install: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    module: str,
    message: str,
) -> None:
    # Modules stay loaded: a name for each.
    package = {MEMORY: "uncompiled_a", UNKNOWN: "uncompiled_c"}[module]
    monkeypatch.setattr(f"{__name__}.GROUP", group)
    install(package, module, {"bad": f"{package}:bad"})
    (bad,) = [plugin.loaded for plugin in usable(group) if plugin.package == package]
    called = bad.kernels["issue"]

    def memory(numbers: Numbers) -> int:
        return called(numbers.words[0], 1, 1, 1)  # type: ignore[no-any-return]

    with pytest.raises(UserCodeError, match=message):
        compiled(memory, [Numbers(np.int64)])


def test_an_error_of_numba_without_plugins_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(numbers: Numbers) -> int:
        return numbers.no_such_field  # type: ignore[attr-defined,no-any-return]

    monkeypatch.setattr(foreign, "usable", lambda group: ())
    with pytest.raises(NumbaError, match="no_such_field"):
        compiled(memory, [Numbers(np.int64)])
