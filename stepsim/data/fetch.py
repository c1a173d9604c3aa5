"""Fetching data sets: each file is stored complete and with the published digest, or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from stepsim.data.folder import data_folder, is_fetched, place
from stepsim.data.registry import Dataset
from stepsim.deferred import deferred
from stepsim.errors import DataError, OutputError
from stepsim.typed import typed

download = deferred("stepsim.data.download")
pooch = deferred("pooch")
requests = deferred("requests")

_MIRROR: Final = "STEPSIM_DATA_MIRROR"


@typed
def fetch_datasets(
    chosen: Sequence[Dataset], *, notice: Callable[[str], None] = lambda text: None
) -> list[Dataset]:
    """Fetch data sets that are not in the data folder yet; returns those that were fetched.

    Only one process at a time fetches into a folder; others wait. An interrupted download is
    resumed, also by the next call.

    Parameters
    ----------
    notice : is called with progress messages.

    Raises
    ------
    DataError : a file cannot be fetched from its server, or is not the published one; the message
        has its address, its digest and where to put it manually.
    OutputError : the data folder cannot be written.
    """
    if all(map(is_fetched, chosen)):
        return []
    folder = data_folder()
    with _writing(folder):
        (folder / "traces").mkdir(parents=True, exist_ok=True)
        with _alone(folder, notice):
            missing = [dataset for dataset in chosen if not is_fetched(dataset)]
            for number, dataset in enumerate(missing, 1):
                _fetch(dataset, f"fetching {dataset.name} ({number} of {len(missing)})", notice)
    return missing


def _fetch(dataset: Dataset, doing: str, notice: Callable[[str], None]) -> None:
    pooch.get_logger().setLevel(logging.WARNING)
    target = place(dataset)
    address = _address(dataset)
    traces = target.parents[len(Path(dataset.file).parts) - 1]
    target.parent.mkdir(parents=True, exist_ok=True)
    notice(doing)
    downloader = download.ResumingDownloader(
        dataset,
        target.with_name(f".{target.name}.part"),
        lambda size: notice(f"{doing}: {size:,} of {dataset.bytes:,} bytes"),
    )
    store = pooch.create(
        path=traces,
        base_url="",
        registry={dataset.file: f"sha256:{dataset.sha256}"},
        urls={dataset.file: address},
    )
    try:
        store.fetch(dataset.file, downloader=downloader)
    except requests.RequestException as error:
        raise _refused(dataset, address, _reason(error)) from error
    except download.WrongContent as error:
        reason = f"what it gives is not the published file: {error}"
        raise _refused(dataset, address, reason) from error


def _reason(error: Exception) -> str:
    """Why a request failed, in one line: the innermost cause is the plainest."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server says {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "the server does not respond in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut; the next call continues where it stopped"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached"
    return " ".join(str(error).split())


def _address(dataset: Dataset) -> str:
    mirror = os.environ.get(_MIRROR)
    if not mirror:
        return dataset.address
    if not mirror.startswith(("http://", "https://")):
        raise DataError(
            f"{_MIRROR}: expected an address that begins with http:// or https://, found "
            f"{mirror!r}; correct it or unset it"
        )
    return f"{mirror.rstrip('/')}/{quote(dataset.file)}"


def _refused(dataset: Dataset, address: str, reason: str) -> DataError:
    other = f"from {dataset.address}" if address != dataset.address else "in another way"
    return DataError(
        f"{dataset.name}: cannot be fetched from {address}: {reason}. Get the file {other}, or "
        f"name a mirror with {_MIRROR}. Put it at {place(dataset)}; its SHA-256 must be "
        f"{dataset.sha256} ({dataset.bytes:,} bytes)"
    )


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except (DataError, OutputError):  # these are OSErrors as well, but already have a message
        raise
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder}: cannot be written ({error.strerror or error}); make "
            "room, or name another folder for data sets with STEPSIM_DATA_DIR"
        ) from error


@contextmanager
def _alone(folder: Path, notice: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the folder; it is released when the process ends, in whatever way."""
    try:
        import fcntl
    except ImportError:  # not on this platform; concurrent downloads may then fail
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notice(f"waiting for another process that fetches into {folder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
