"""What the package promises to those who install it."""

from __future__ import annotations

import re
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stepsim import MODEL_VERSION, __version__
from tests.packages.requirements import oldest
from tests.packages.smoke import EXTRAS as SMOKE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(requirements: list[str]) -> set[str]:
    return {_normal(re.split(r"[<>=~!\[ ;]", line, maxsplit=1)[0]) for line in requirements}


_APART = {"torch", "onnx"}
"""Extras of which a plain installation has nothing; `make test-torch` installs them."""


_LOCKS = ("requirements.lock", "requirements-dev.lock")
"""What runs need, and what else development needs."""


def _lock_lines(*files: str) -> list[str]:
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files or _LOCKS]
    return [
        line for text in texts for line in text.splitlines() if line and not line.startswith("#")
    ]


def _conditions(requirements: list[str]) -> dict[str, str]:
    """Those that hold on some platforms only, by name."""
    split = [line.partition(";") for line in requirements]
    return {_normal(re.split(r"[<>=~!\[ ]", r)[0]): c.strip() for r, _, c in split if c}


def test_lock_pins_plain_versions_and_names_no_place() -> None:
    for line in _lock_lines() + _lock_lines("requirements-torch.lock"):
        pin = line.partition(";")[0]
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.!+]+", pin), line


def test_lock_covers_every_declared_requirement() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    groups = [
        PROJECT["project"]["dependencies"],
        *(extra for name, extra in extras.items() if name not in _APART),
        *PROJECT["dependency-groups"].values(),
    ]
    declared = set().union(*map(_names, groups))
    assert declared <= _names(_lock_lines())


def test_what_the_demo_installs_is_what_runs_need() -> None:
    """Nothing that is installed there is missing, and nothing of development is there."""
    run, dev = (_names(_lock_lines(file)) for file in _LOCKS)
    needed, found = set(), ["stepsim", "matplotlib", "hatchling"]
    while found:
        name = _normal(found.pop())
        if name in needed:
            continue
        needed.add(name)
        for text in distribution(name).requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                found.append(one.name)
    assert run == needed - {"stepsim"}
    assert not run & dev


def test_what_only_imports_need_is_locked_apart() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    declared = set().union(*(_names(extras[name]) for name in _APART))
    apart = _names(_lock_lines("requirements-torch.lock"))
    assert declared <= apart
    assert not apart & _names(_lock_lines())


def test_lock_leaves_out_what_the_development_group_leaves_out_and_no_more() -> None:
    declared = _conditions(PROJECT["dependency-groups"]["dev"])
    assert _conditions(_lock_lines()) == declared
    assert set(declared) == {"ray"}


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    locked = [Requirement(line) for line in _lock_lines("requirements-lowest.lock")]
    pins = {_normal(one.name): next(iter(one.specifier)).version for one in locked}
    wanted = [Requirement(line) for line in oldest()]
    assert pins.keys() == {_normal(one.name) for one in wanted}
    assert all(one.specifier.contains(pins[_normal(one.name)]) for one in wanted)


def test_every_extra_has_something_that_shows_it_works() -> None:
    assert SMOKE.keys() == PROJECT["project"]["optional-dependencies"].keys()


def test_one_version() -> None:
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "stepsim/_version.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_changelog_lists_the_model_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    timing = text[text.index("### Timing changes") :]
    assert f"`MODEL_VERSION` {MODEL_VERSION}:" in timing


def test_data_files_lie_inside_the_package() -> None:
    package = ROOT / PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"][0]
    assert (package / "py.typed").is_file()
    assert (package / "__init__.pyi").is_file()
    assert (package / "data" / "registry.toml").is_file()
    assert (package / "reproduce" / "published.csv").is_file()
    assert (package / "results" / "columns.csv").is_file()
    assert (package / "machine" / "presets.json").is_file()
    assert (package / "machine" / "public_machines.json").is_file()


@pytest.mark.slow
def test_a_wheel_carries_the_files_of_reports(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as wheel:
        carried = set(wheel.namelist())
    folder = ROOT / "stepsim" / "report" / "html"
    files = {f"stepsim/report/html/{one.name}" for one in folder.iterdir() if one.is_file()}
    assert {Path(one).suffix for one in files} == {".py", ".js", ".css", ".html"}
    assert files <= carried
