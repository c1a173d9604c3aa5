"""``stepsim machines``, ``stepsim env`` and what every command shares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stepsim import MODEL_VERSION, __version__, hardware
from stepsim.machine import list_machines, load_machine
from tests.cli.conftest import Cli

HEAVY = ("numba", "numpy", "sympy", "pyarrow", "pydantic", "yaml", "matplotlib")


def test_version(cli: Cli) -> None:
    outcome = cli("--version")
    assert (outcome.code, outcome.out) == (0, f"stepsim {__version__}\n")


def test_help_names_every_command_and_the_exit_codes(cli: Cli) -> None:
    outcome = cli("--help")
    assert outcome.code == 0
    for word in ("run", "inspect", "trace", "machines", "env", "warmup", "demo", "Exit codes"):
        assert word in outcome.out


def test_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, stepsim.cli.main;"
        f"heavy = set({HEAVY!r}) & set(sys.modules);"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [("--hepl",), ("walk",), ("machines", "--sho", "x")])
def test_usage_errors_exit_with_2_and_keep_stdout_clean(cli: Cli, arguments) -> None:
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err != ""


def test_machines_lists_names_numbers_and_sources(cli: Cli) -> None:
    outcome = cli("machines")
    assert outcome.code == 0
    assert "sda-1024" in outcome.out
    assert "= 256 B/cycle peak" in outcome.out
    assert "\x1b" not in outcome.out


def test_machines_json(cli: Cli) -> None:
    machines = cli("machines", "--json").json()
    assert list(machines) == [*list_machines(), *hardware.list_machines()]
    assert machines["sda-1024"]["peak_bandwidth"] == 1024


def test_shown_machine_is_a_machine_file(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("machines", "--show", "sda-hdl", "--set", "hbm.channels=16")
    assert outcome.code == 0
    path = tmp_path / "mine.yaml"
    path.write_text(outcome.out)
    assert load_machine(path) == load_machine("sda-hdl", {"hbm.channels": 16})
    assert cli("machines", "--show", path, "--json").json() == yaml.safe_load(outcome.out)


def test_the_model_of_a_machine_is_set_like_any_value(cli: Cli) -> None:
    shown = cli("machines", "--show", "sda-1024", "--set", "model=step-2026", "--json").json()
    assert (shown["model"], shown["onchip"]["bytes_per_cycle"]) == ("step-2026", 64)
    outcome = cli("machines", "--show", "sda-1024", "--set", "model=2026")
    assert "model: expected 'step-2025' or 'step-2026' (timing rules" in " ".join(
        outcome.err.split()
    )


def test_a_shown_machine_has_its_notes(cli: Cli) -> None:
    outcome = cli("machines", "--show", "sda-1024", "--set", "hbm.channels=33")
    assert yaml.safe_load(outcome.out)["hbm"]["channels"] == 33
    assert "33 channels can take longer than fewer" in " ".join(outcome.err.split())
    assert "model published" in cli("machines").out


def test_schema_is_json(cli: Cli) -> None:
    assert cli("machines", "--schema").json()["title"] == "Machine"
    for other in ("--show", "mesh"), ("--set", "a=b"):
        assert (
            "has no effect, since --schema prints no machine"
            in cli("machines", "--schema", *other).err
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--show", "sda-1023"),
            "error: unknown machine 'sda-1023'; did you mean 'sda-1024'? "
            f"Known machines: {', '.join(list_machines())}; or give the path of a YAML file.\n",
        ),
        (
            ("--show", "sda-hdl", "--set", "hbm.channels"),
            "error: machine override 'hbm.channels': expected key=value, "
            "for example hbm.channels=16\n",
        ),
        (
            ("--set", "hbm.model=channel", "--show", "sda-1024"),
            "error: machine 'sda-1024': hbm.model is 'channel', expected one of interleaved, "
            "published, uncontended, dram; 'channel' is named 'published' now. "
            "A package adds models under the entry points 'stepsim.memory_models'\n",
        ),
        (
            ("--set", "hbm.channels=1"),
            "error: --set changes the machine that --show prints; add --show MACHINE\n",
        ),
    ],
)
def test_machine_mistakes(cli: Cli, arguments, message: str) -> None:
    outcome = cli("machines", *arguments)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", message)


def test_env_reports_versions_and_variables(cli: Cli, monkeypatch) -> None:
    monkeypatch.setenv("STEPSIM_DATA_DIR", "/somewhere")
    found = cli("env", "--json").json()
    assert found["stepsim"] == __version__
    assert found["model_version"] == MODEL_VERSION
    assert found["variables"]["STEPSIM_DATA_DIR"] == "/somewhere"
    assert all(found["packages"][name] for name in ("numba", "numpy", "pyarrow", "sympy"))
    text = cli("env").out
    assert __version__ in text
    assert "/somewhere" in text


def test_env_says_what_is_not_installed(cli: Cli, monkeypatch) -> None:
    from stepsim.cli import system

    monkeypatch.setattr(system, "_PACKAGES", ("no-such-package",))
    assert cli("env", "--json").json()["packages"] == {"no-such-package": None}
    assert "not installed" in cli("env").out


def test_env_names_the_engine_in_use(cli: Cli) -> None:
    cli("warmup", "runs")
    found = cli("env", "--json").json()["engine"]
    assert (found["origin"], found["level"]) == ("cached", None)
    assert found["file"].endswith(".kernel")
    assert Path(found["file"]).is_file()
    assert "cached, for this processor: " in cli("env").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "origin", "text"),
    [
        ("STEPSIM_CACHE_DIR", "{}", "compiled", "compiles it"),
        pytest.param(
            "NUMBA_DISABLE_JIT",
            "1",
            "python",
            "plain Python, because NUMBA_DISABLE_JIT is set",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_env_says_that_no_engine_is_there(tmp_path: Path, name, value, origin, text) -> None:
    environment = os.environ | {name: value.format(tmp_path)}
    command = [sys.executable, "-m", "stepsim", "env"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert text in shown.stdout
    asked = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(asked.stdout)["engine"] == {"origin": origin, "level": None, "file": None}
    assert list(tmp_path.iterdir()) == []


def test_env_names_the_level_of_an_engine_of_the_wheel(cli: Cli, monkeypatch) -> None:
    from stepsim import simulation
    from stepsim.kernels.build.entry_point import Origin

    there = Origin("installed", Path("/there/engine.kernel"), "x86-64-v3")
    monkeypatch.setattr(simulation, "engine_in_use", lambda: there)
    assert cli("env", "--json").json()["engine"] == {
        "origin": "installed", "level": "x86-64-v3", "file": "/there/engine.kernel",
    }  # fmt: skip
    assert "part of the wheel, for x86-64-v3: /there/engine.kernel" in cli("env").out


@pytest.mark.parametrize("given", [None, "20"])
def test_threads_of_numpy_do_not_wait_in_a_loop(given: str | None) -> None:
    code = (
        "import os; from stepsim.cli.main import main\n"
        "try: main()\n"
        "finally: print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    environment = {key: value for key, value in os.environ.items() if "OPENBLAS" not in key}
    environment |= {} if given is None else {"OPENBLAS_THREAD_TIMEOUT": given}
    command = [sys.executable, "-c", code, "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.split()[-1] == (given or "4")
