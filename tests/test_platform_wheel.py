"""A wheel that carries compiled engines: in `make slow` that of most runs.

`make thorough` builds it with all of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from stepsim.kernels.all_engines import ENGINES
from stepsim.kernels.build.processors import LEVELS, levels_that_run
from stepsim.kernels.build.settings import is_jit_disabled
from tests.equal_numbers.digest import COMMON, GROUPS
from tests.property_profile import THOROUGH

ROOT = Path(__file__).parents[1]

CARRIED = list(ENGINES) if THOROUGH else ["runs"]
ENGINES_OF_WHEEL = "1" if THOROUGH else ",".join(CARRIED)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.wheel,
    pytest.mark.skipif(
        is_jit_disabled() or not LEVELS,
        reason="nothing is compiled, or for no level of this kind of machine",
    ),
]

RUN = """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
from stepsim.kernels.driver import execute
from stepsim.kernels.engine import run
from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image

units = (
    UnitSpec("load", "OffChipLoad", (), (0,), {"tile": [1, 1], "view": [1], "par": 1, "bpe": 2}),
    UnitSpec("store", "OffChipStore", (0,), (), {"tile": [1, 1], "par": 1}),
)
stored = run.is_stored()
result = execute(build_image(Network(units, (ChannelSpec("tiles", 2),))))
how = run.origin
heavy = {"numba", "llvmlite", "stepsim.kernels.build.compiling"} & set(sys.modules)
print(stored, result.finished, how.how, how.processor, sorted(heavy))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out],
        cwd=ROOT, env={**os.environ, "STEPSIM_PLATFORM_WHEEL": ENGINES_OF_WHEEL}, check=True,
        capture_output=True,
    )  # fmt: skip
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*command, "--target", target, wheel], check=True)
    return target


def _run(site: Path, code: str = RUN, **variables: str) -> Sequence[str]:
    """Lines that a new process prints, which sees that installation and an empty cache."""
    cache = site.parent / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=site.parent, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(site), "STEPSIM_CACHE_DIR": str(cache), **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_the_first_run_compiles_nothing(installed: Path) -> None:
    level = levels_that_run()[0]
    assert _run(installed) == [f"True True installed {level} []"]
    assert not (installed.parent / "cache").exists()
    code = "import stepsim as st\n" + RUN.replace(
        "stored =", "with st.Program(compute_bw=16) as p:\n"
        "    st.linear_store(st.linear_load(st.spec(16, 16), tile=(16, 16)))\n"
        "st.simulate(p)\nstored ="
    )  # fmt: skip
    assert _run(installed, code)[-1].startswith(f"True True installed {level} ")
    assert "stepsim.kernels.build.compiling" not in _run(installed, code)[-1]
    assert not (installed.parent / "cache").exists()


@pytest.mark.long
def test_what_does_not_fit_is_compiled(installed: Path) -> None:
    # A setting of the compiler, and then a source that was changed.
    code = "from stepsim.kernels.engine import run; print(run.is_stored())"
    assert _run(installed, code) == ["True"]
    assert _run(installed, code, NUMBA_OPT="1") == ["False"]
    source = installed / "stepsim" / "kernels" / "queues.py"
    source.write_text(source.read_text() + "\n")
    assert _run(installed, code) == ["False"]


@pytest.mark.long
def test_damaged_code_is_compiled_anew(installed: Path) -> None:
    for path in (installed / "stepsim" / "kernels" / "built").iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    *warnings, last = _run(installed)
    assert last.startswith("False True compiled ")
    assert len(warnings) == len(levels_that_run())
    assert all("is damaged: its content has another digest" in line for line in warnings)


def test_every_engine_that_is_carried_is_found(installed: Path) -> None:
    code = "from stepsim.kernels.all_engines import ENGINES\n"
    code += "print(sorted(name for name in ENGINES if all(e.is_stored() for e in ENGINES[name])))"
    assert _run(installed, code) == [str(sorted(CARRIED))]


def test_code_of_every_level_runs(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/kernels/built/" in name]
        archive.extractall(tmp_path)
    assert len(names) == len(LEVELS) * sum(len(ENGINES[name]) for name in CARRIED)
    for level in levels_that_run():
        code = "from stepsim.kernels.build import entry_point\n"
        code += f"entry_point.levels_that_run = lambda: ['{level}']\n" + RUN
        assert _run(tmp_path, code) == [f"True True installed {level} []"]


@pytest.mark.long
def test_code_of_every_level_has_the_same_numbers(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    shutil.copytree(ROOT / "tests", tmp_path / "site" / "tests")  # beside the package installed
    groups = list(GROUPS) if THOROUGH else COMMON
    for level in levels_that_run():
        code = "import logging, sys\nlogging.basicConfig(level='INFO', stream=sys.stdout)\n"
        code += "from stepsim.kernels.build import entry_point\n"
        code += f"entry_point.levels_that_run = lambda: ['{level}']\n"
        code += "from tests.equal_numbers.digest import differing\n"
        code += f"print(differing({groups}))"
        assert _run(tmp_path / "site", code) == ["[]"]  # and no word of compiling
