"""The same rows from ray, also when it loses workers; and what else it can lose.

Sweeps run in processes of their own, because ray leaves settings, threads and handlers of signals
in the one it is used from. Nothing may be left running when they end.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepsim.sweep import run_sweep, tune
from tests.sweep.search.test_tune import space
from tests.sweep.support import QWEN_TILES, ROOT, rows_of, sweep_command, timings, tiny, wait_until

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed; it has wheels for few platforms", allow_module_level=True)

NOWHERE = "http://127.0.0.1:9"

# A sweep whose workers do something else, with so many CPUs.
SWEEP = """
import json, sys
from stepsim.sweep import run_sweep
from stepsim.sweep.backends import RayBackend, patience
from tests.sweep import support
spec, folder, work, cpus = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
patience.LOOK_SECONDS, patience.DESERTED_SECONDS, patience.ANSWER_SECONDS = 0.1, 0.5, 3.0
backend = RayBackend(cpus, *sys.argv[5:], work=getattr(support, work))
try:
    print(json.dumps(run_sweep(spec, folder, backend=backend).to_dict()))
finally:
    backend.close()
"""


@pytest.fixture(scope="module", autouse=True)
def place() -> Iterator[Path]:
    """Where ray keeps its files, with a name as short as its sockets need it."""
    with (
        tempfile.TemporaryDirectory(prefix="ray-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        # Otherwise one is made in the home folder, and stays there.
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("PYTHONPATH", str(ROOT))
        yield Path(folder)


def processes_in(place: Path) -> list[psutil.Process]:
    """Those of ray that have their files there."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("RAY_TMPDIR") == str(place)
        except psutil.Error:  # of somebody else, or at its end
            continue
        if ours and re.search("ray::|/ray/", title(process)):
            found.append(process)
    return found


def workers(place: Path) -> list[psutil.Process]:
    """Those that are computing a chunk; ray says so in their names."""
    return [process for process in processes_in(place) if "execute_chunk" in title(process)]


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Head:
    """A running cluster of one node, started and ended by hand."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        options = [
            f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats",
            "--object-store-memory=100000000",
        ]  # fmt: skip
        alone = {"http_proxy": NOWHERE, "https_proxy": NOWHERE}
        alone["RAY_USAGE_STATS_REPORT_URL"] = NOWHERE
        self._process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=os.environ | alone,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill_raylet(self) -> None:
        for process in psutil.Process(self._process.pid).children():
            if process.name() == "raylet":
                process.kill()

    def freeze(self) -> None:
        """It has connections accepted, and responds to nothing."""
        for process in psutil.Process(self._process.pid).children():
            if process.name() == "gcs_server":
                process.suspend()

    def freeze_and_kill(self) -> None:
        """It is lost while a query of the sweep waits for it."""
        self.freeze()
        time.sleep(1)
        for process in psutil.Process(self._process.pid).children():
            process.kill()

    def close(self) -> None:
        family = [psutil.Process(self._process.pid)]
        family += family[0].children(recursive=True)
        for process in family[1:]:
            process.resume()
        self._process.terminate()
        _, alive = psutil.wait_procs(family, timeout=20)
        for process in alive:
            process.kill()
        self._process.wait()


@pytest.fixture
def head() -> Iterator[Head]:
    made = Head()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_a_worker_killed_at_work_costs_nothing(place: Path, tmp_path: Path) -> None:
    local, folder = tmp_path / "local", tmp_path / "ray"
    command = sweep_command(QWEN_TILES, folder, "--backend", "ray", "--jobs", "2", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sweep:
        try:
            wait_until(lambda: half_way(folder) or sweep.poll() is not None, 120)
            killed = freeze_a_worker(place)
            saved = timings(folder)
            reports, proxies = (
                {process.environ().get(name) for process in processes_in(place)}
                for name in ("RAY_USAGE_STATS_ENABLED", "http_proxy")
            )
            killed.kill()
            out, err = sweep.communicate(timeout=120)
        finally:
            sweep.kill()
    assert sweep.returncode == 0
    assert 20 <= len(saved) < 40
    assert killed.pid in {record["process"] for record in saved}
    records = timings(folder)
    assert len(records) == len({record["chunk"] for record in records}) == 40
    # No process of it can report to anybody, or ask the web where it is.
    assert reports == {"0"}
    assert proxies == {NOWHERE}
    # Nothing but what stepsim itself has to say.
    assert json.loads(out)["simulated"] == 200
    assert chatter(err.decode()) == []
    assert run_sweep(QWEN_TILES, local, jobs=2).complete
    assert rows_of(folder) == rows_of(local)
    wait_until(lambda: not processes_in(place), 90)


def half_way(folder: Path) -> bool:
    saved = timings(folder)
    return len(saved) >= 20 and len({record["process"] for record in saved}) == 2


def freeze_a_worker(place: Path) -> psutil.Process:
    """One that computes a chunk, and will not end it."""
    while True:
        for process in workers(place):
            process.send_signal(signal.SIGSTOP)
            if "execute_chunk" in title(process):
                return process
            process.send_signal(signal.SIGCONT)


def sweep_script(work: str, folder: Path, cpus: int = 2, address: str | None = None) -> list[str]:
    given = [json.dumps(tiny()), str(folder), work, str(cpus)]
    return [sys.executable, "-c", SWEEP, *given, *([] if address is None else [address])]


def sweep_with(work: str, folder: Path, cpus: int = 2) -> subprocess.CompletedProcess[str]:
    command = sweep_script(work, folder, cpus)
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def summary_of(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What it printed, which is nothing else."""
    assert chatter(process.stderr) == []
    return json.loads(process.stdout)


def chatter(err: str) -> list[str]:
    """What is neither of stepsim nor of the native part of ray, which says when it had to wait."""
    known = re.compile(r"timing .*|200 runs: .*|starting .*|running: .*|\[\d{4}-\d\d-\d\d .* W .*")
    return [line for line in err.splitlines() if not known.fullmatch(line)]


@pytest.mark.slow
def test_a_chunk_that_kills_its_worker_once_is_run_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_TEST_FLAG", str(tmp_path / "flag"))
    summary = summary_of(sweep_with("die_once", tmp_path / "ray"))
    assert (tmp_path / "flag").exists()
    assert (summary["simulated"], summary["unfinished"]) == (24, {})
    run_sweep(tiny(), tmp_path / "local")
    assert rows_of(tmp_path / "ray") == rows_of(tmp_path / "local")
    wait_until(lambda: not processes_in(place), 90)


@pytest.mark.slow
def test_a_chunk_that_kills_every_worker_is_reported_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    summary = summary_of(sweep_with("die_of_one_chunk", folder))
    assert list(summary["unfinished"]) == ["0001-00000"]
    assert "died unexpectedly" in summary["unfinished"]["0001-00000"]
    assert summary["simulated"] == 20
    assert run_sweep(tiny(), folder, resume=True).computed == 4
    run_sweep(tiny(), tmp_path / "local")
    assert rows_of(folder) == rows_of(tmp_path / "local")


@pytest.mark.slow
def test_a_search_chooses_and_saves_the_same(place: Path, tmp_path: Path) -> None:
    spec, out = tmp_path / "tune.yaml", tmp_path / "ray"
    spec.write_text(json.dumps(space()))
    command = [sys.executable, "-m", "stepsim", "sweep", "tune", str(spec), "--out", str(out)]
    options = ["--backend", "ray", "--jobs", "2", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE) as search:
        try:
            said, _ = search.communicate(timeout=120)
        finally:
            search.kill()
    assert search.returncode == 0
    local = tune(space(), tmp_path / "local")
    trials = json.loads(said)["trials"]
    assert [trial["values"] for trial in trials] == [trial.values for trial in local.trials]
    assert rows_of(out) == rows_of(tmp_path / "local")
    assert search.pid not in {record["process"] for record in timings(out)}
    wait_until(lambda: not processes_in(place), 90)


@pytest.mark.slow
def test_a_running_cluster_is_used_and_its_loss_is_named(head: Head, tmp_path: Path) -> None:
    used, lost, local = tmp_path / "used", tmp_path / "lost", tmp_path / "local"
    options = ["--backend", "ray", "--address", head.address]
    wait_until(lambda: answers(head.address))
    subprocess.run(sweep_command(QWEN_TILES, used, *options), check=True)
    assert run_sweep(QWEN_TILES, local, jobs=2).complete
    assert rows_of(used) == rows_of(local)
    # It still runs, until it is killed.
    command = sweep_command(QWEN_TILES, lost, *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sweep:
        try:
            wait_until(lambda: len(timings(lost)) >= 10 or sweep.poll() is not None, 120)
            head.kill_raylet()
            err = sweep.communicate(timeout=120)[1]
        finally:
            sweep.kill()
    assert "Traceback" not in err
    assert sweep.returncode == 3, err
    assert "error: ray: lost the cluster" in err
    assert "continue with --resume" in err
    assert 0 < run_sweep(QWEN_TILES, lost, resume=True).computed < 200
    assert rows_of(lost) == rows_of(local)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Head.freeze, Head.freeze_and_kill])
def test_a_head_lost_while_it_is_queried_is_named(
    loss: Callable[[Head], None], head: Head, place: Path, tmp_path: Path
) -> None:
    def at_work() -> bool:
        return any("work_without_end" in title(process) for process in processes_in(place))

    wait_until(lambda: answers(head.address))
    command = sweep_script("work_without_end", tmp_path / "ray", address=head.address)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sweep:
        try:
            wait_until(lambda: at_work() or sweep.poll() is not None, 120)
            loss(head)
            err = sweep.communicate(timeout=60)[1]
        finally:
            sweep.kill()
    # That of any error, and not of a crash of ray's threads at the end of the process.
    assert sweep.returncode == 1, err
    assert "WorkerError: ray: lost the cluster" in err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "code", "said"),
    [
        ("DashboardAgent", 3, "error: ray: lost the cluster"),
        ("RuntimeEnvAgent", 3, "error: ray: lost the cluster"),
        # The handler that ray puts in place ends the process without a word.
        (None, 128 + signal.SIGTERM, "ended by SIGTERM; what was finished is kept, continue with"),
    ],
)
def test_no_end_is_silent(
    place: Path, tmp_path: Path, agent: str | None, code: int, said: str
) -> None:
    folder = tmp_path / "ray"
    command = sweep_command(QWEN_TILES, folder, "--backend", "ray", "--jobs", "2")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sweep:
        try:
            wait_until(lambda: len(timings(folder)) >= 5 or sweep.poll() is not None, 120)
            if agent is None:
                sweep.terminate()
            for process in psutil.Process(sweep.pid).children(recursive=True):
                if agent is not None and agent in title(process):
                    process.kill()
            err = sweep.communicate(timeout=120)[1]
        finally:
            sweep.kill()
    assert "Traceback" not in err
    assert sweep.returncode == code, err
    assert err.splitlines()[-1].startswith(said)
    wait_until(lambda: not processes_in(place), 90)


def answers(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_a_wrong_address_is_named(tmp_path: Path, address: str) -> None:
    command = sweep_command(tiny(), tmp_path / "ray", "--backend", "ray", "--address", address)
    process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert process.returncode == 2
    assert f"error: ray: no cluster responds at {address} (" in process.stderr
    assert "check the address, as in host:6379" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.slow
def test_a_cluster_without_cpus_is_not_waited_for_forever(tmp_path: Path) -> None:
    process = sweep_with("execute_chunk", tmp_path / "ray", cpus=0)
    assert process.returncode == 1
    assert "WorkerError: ray: the cluster has no CPUs; add nodes with" in process.stderr
