"""How much memory is free, read from folders as Linux has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.kernels.free_memory import free_bytes

GROUPS = "sys/fs/cgroup"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def group(folder: str, most: str, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{folder}/memory.max": f"{most}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon 7\nactive_file 5\ninactive_file {cached}\nslab 3\n",
    }


@pytest.fixture
def system(tmp_path: Path) -> Path:
    put(tmp_path, {"proc/meminfo": "MemTotal:   9 kB\nMemFree:  1 kB\nMemAvailable:   4 kB\n"})
    return tmp_path


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) == float("inf")


def test_what_the_system_has(system: Path) -> None:
    assert free_bytes(system) == 4096


def test_a_limit_of_the_group_that_is_seen_as_the_top(system: Path) -> None:
    put(system, group(GROUPS, "3000", 1000))
    assert free_bytes(system) == 2000


def test_cached_files_that_nobody_uses_are_free(system: Path) -> None:
    put(system, group(GROUPS, "3000", 2000, cached=500))
    assert free_bytes(system) == 1500


def test_a_group_that_is_full(system: Path) -> None:
    put(system, group(GROUPS, "3000", 3001))
    assert free_bytes(system) == 0


@pytest.mark.parametrize("most", ["max", "", "-1", "many"])
def test_a_group_without_a_limit(system: Path, most: str) -> None:
    put(system, group(GROUPS, most, 1000))
    assert free_bytes(system) == 4096


@pytest.mark.parametrize("tightest", ["", "/a.slice", "/a.slice/b.scope"])
def test_the_group_of_the_process_and_those_around_it(system: Path, tightest: str) -> None:
    put(system, {"proc/self/cgroup": "12:cpu:/other\n0::/a.slice/b.scope\n"})
    for folder in ("", "/a.slice", "/a.slice/b.scope"):
        most = "1500" if folder == tightest else "max"
        put(system, group(f"{GROUPS}{folder}", most, 1000))
    put(system, group(f"{GROUPS}/other", "1001", 1000))
    assert free_bytes(system) == 500


@pytest.mark.parametrize("place", ["0::/\n", "0::/../a\n", "0::/gone\n", "1:memory:/a\n", ""])
def test_places_of_a_process_that_are_not_seen(system: Path, place: str) -> None:
    put(system, {"proc/self/cgroup": place})
    put(system, group(f"{GROUPS}/a", "1001", 1000))
    assert free_bytes(system) == 4096


def test_files_that_cannot_be_read(system: Path) -> None:
    (system / GROUPS / "memory.max").mkdir(parents=True)
    (system / "proc" / "self" / "cgroup").mkdir(parents=True)
    assert free_bytes(system) == 4096
    (system / "proc" / "meminfo").write_bytes(b"MemAvailable: \xff kB\n")
    assert free_bytes(system) == float("inf")
