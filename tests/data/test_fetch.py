"""Fetching from a server that does what it should, and from others."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stepsim.data import Dataset, datasets, fetch_datasets, is_fetched, place
from stepsim.errors import DataError, OutputError
from tests.data.conftest import CONTENT
from tests.data.server import Server, serve
from tests.shared import TRACES, needs_traces


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_file_arrives_once(dataset: Dataset, server: Server) -> None:
    heard: list[str] = []
    assert not is_fetched(dataset)
    assert fetch_datasets([dataset], notice=heard.append) == [dataset]
    assert place(dataset).read_bytes() == CONTENT
    assert is_fetched(dataset)
    assert heard[0] == "fetching group/name (1 of 1)"
    assert heard[-1] == "fetching group/name (1 of 1): 300,000 of 300,000 bytes"
    assert fetch_datasets([dataset]) == []
    assert len(server.asked) == 1


def test_a_cut_connection_is_continued(dataset: Dataset, server: Server) -> None:
    server.cuts = [98_304, 49_152]  # whole blocks
    fetch_datasets([dataset])
    assert place(dataset).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=98304-", "bytes=147456-"]


def test_the_next_call_continues(dataset: Dataset, server: Server, folder: Path) -> None:
    server.cuts = [100_000, 0]  # all but a last block is kept
    with pytest.raises(DataError, match="the connection was cut; the next call continues where"):
        fetch_datasets([dataset])
    assert not place(dataset).exists()
    fetch_datasets([dataset])
    assert [asked for _, asked in server.asked] == [None, "bytes=98304-", "bytes=98304-"]
    assert place(dataset).read_bytes() == CONTENT
    assert files_in(folder) == {"lengths.npy", ".lock"}


def test_a_server_without_ranges_sends_all_again(dataset: Dataset, server: Server) -> None:
    server.ranges = False
    server.cuts = [100_000]
    fetch_datasets([dataset])
    assert [asked for _, asked in server.asked] == [None, "bytes=98304-"]
    assert place(dataset).read_bytes() == CONTENT


def test_an_unfinished_download_of_something_else_is_dropped(
    dataset: Dataset, server: Server
) -> None:
    part = place(dataset).with_name(".lengths.npy.part")
    part.parent.mkdir(parents=True)
    for stale in (b"x" * 1000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 1)):
        part.write_bytes(stale)
        fetch_datasets([dataset])
        assert place(dataset).read_bytes() == CONTENT
        assert not part.exists()
        place(dataset).unlink()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"y" * len(CONTENT), "its SHA-256 is [0-9a-f]{64}"),
        (CONTENT + b"y", "it is longer"),
        (CONTENT[:-1], "it has only 299,999 bytes"),
        (b"", "it has only 0 bytes"),
    ],
)
def test_wrong_content_is_named_and_not_kept(
    dataset: Dataset, server: Server, folder: Path, content: bytes, found: str
) -> None:
    server.files = {"some%20folder/lengths.npy": content}
    with pytest.raises(DataError, match=found) as caught:
        fetch_datasets([dataset])
    for part in (dataset.name, dataset.address, dataset.sha256, str(place(dataset))):
        assert part in str(caught.value)
    assert files_in(folder) == {".lock"}


def test_a_damaged_file_is_replaced(dataset: Dataset) -> None:
    place(dataset).parent.mkdir(parents=True)
    place(dataset).write_bytes(b"damaged")
    assert fetch_datasets([dataset]) == [dataset]
    assert place(dataset).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "the server says 404 Not Found"), (503, "the server says 503 Service Unavailable")],
)
def test_refusals_say_how_to_get_the_file(
    dataset: Dataset, server: Server, status: int, reason: str
) -> None:
    server.status = status
    with pytest.raises(DataError) as caught:
        fetch_datasets([dataset])
    assert str(caught.value) == (
        f"group/name: cannot be fetched from {dataset.address}: {reason}. Get the file in another "
        f"way, or name a mirror with STEPSIM_DATA_MIRROR. Put it at {place(dataset)}; its "
        f"SHA-256 must be {dataset.sha256} (300,000 bytes)"
    )


def test_without_a_network_the_file_can_be_put_by_hand(dataset: Dataset) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/lengths.npy"
    dataset = replace(dataset, address=address)
    with pytest.raises(DataError, match="the server cannot be reached") as found:
        fetch_datasets([dataset])
    target = re.search(r"Put it at (.+); its SHA-256", str(found.value))
    assert target is not None
    Path(target[1]).write_bytes(CONTENT)
    assert fetch_datasets([dataset]) == []


@pytest.mark.parametrize("mirror", ["no address", "gopher://127.0.0.1/"])
def test_a_mirror_that_is_none(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, mirror: str
) -> None:
    monkeypatch.setenv("STEPSIM_DATA_MIRROR", mirror)
    with pytest.raises(DataError, match="STEPSIM_DATA_MIRROR: expected an address that begins"):
        fetch_datasets([dataset])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk(dataset: Dataset) -> None:
    part = place(dataset).with_name(".lengths.npy.part")
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    expected = r"data: cannot be written \(No space left on device\); make room, or name another"
    with pytest.raises(OutputError, match=expected):
        fetch_datasets([dataset])
    assert not place(dataset).exists()
    part.unlink()
    fetch_datasets([dataset])
    assert place(dataset).read_bytes() == CONTENT


def test_a_read_only_folder(
    dataset: Dataset, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *args: object, **more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    expected = r"data.traces: cannot be written \(Read-only file system\); make room, or name anoth"
    with pytest.raises(OutputError, match=expected):
        fetch_datasets([dataset])
    assert server.asked == []


def test_a_folder_that_is_a_file(dataset: Dataset, folder: Path) -> None:
    folder.touch()
    with pytest.raises(OutputError, match=r"data.* cannot be written .*STEPSIM_DATA_DIR"):
        fetch_datasets([dataset])


@needs_traces
def test_two_processes_fetch_a_file_once(folder: Path) -> None:
    with serve(TRACES) as server:
        server.delay = 1.0
        command = [sys.executable, "-m", "stepsim", "data", "fetch", "mooncake"]
        environment = os.environ | {"STEPSIM_DATA_MIRROR": server.address}
        running = [
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        errors = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
    assert server.asked == [("mooncake_conversation_trace.jsonl", None)]
    # On a slow machine lines of progress come before.
    assert all("1 data set is in" in error for error in errors), errors
    fetched = "fetched mooncake/conversation (3,029,533 bytes)"
    assert sum(fetched in error for error in errors) == 1, errors
    assert is_fetched(datasets()["mooncake/conversation"])
