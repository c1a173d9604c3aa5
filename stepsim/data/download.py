"""A downloader for pooch that resumes an unfinished download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import requests
from pooch import file_hash

from stepsim.data.registry import Dataset

_TIMEOUTS: Final = (10.0, 60.0)
"""Seconds to wait for a connection, and for the next bytes."""

_BLOCK: Final = 1 << 13
"""Bytes read at once; the last block is lost if the connection breaks."""


class WrongContent(Exception):
    """A server returned something other than what was published; the message says what."""


class ResumingDownloader:
    """Downloads one file over HTTP into ``part``, and moves it to the place that pooch expects once
    complete.

    Bytes that ``part`` already holds are not requested again; a server without byte ranges sends
    everything again. A broken connection is reopened as long as each one makes progress. A part
    with the wrong digest is removed; if it began with bytes of an earlier download, everything is
    downloaded once more.

    Parameters
    ----------
    part : file of the unfinished download.
    progress : is called with the number of bytes so far.
    """

    def __init__(self, dataset: Dataset, part: Path, progress: Callable[[int], None]) -> None:
        self._dataset = dataset
        self._part = part
        self._progress = progress

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Called by pooch.

        Raises
        ------
        WrongContent : size or digest are not as published.
        requests.RequestException : the server cannot be reached, refuses, or breaks the connection.
        OSError : the part cannot be written; the bytes written so far are kept.
        """
        resumed = self._present() > 0
        try:
            self._complete(url)
            found = file_hash(self._part)
            if found != self._dataset.sha256 and resumed:
                self._part.unlink()
                self._complete(url)
                found = file_hash(self._part)
            if found != self._dataset.sha256:
                raise WrongContent(f"its SHA-256 is {found}")
        except WrongContent:
            self._part.unlink(missing_ok=True)
            raise
        self._part.replace(output_file)

    def _complete(self, url: str) -> None:
        """Download until the part has the published size."""
        before = -1
        while before < (size := self._present()) < self._dataset.bytes:
            before = size
            try:
                self._append(url, size)
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                if self._present() <= before:
                    raise
        if size < self._dataset.bytes:
            raise WrongContent(f"it has only {size:,} bytes")

    def _append(self, url: str, start: int) -> None:
        # If the server compressed the data, the bytes would not be those of the file.
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUTS) as answer:
            if start and answer.status_code == requests.codes.requested_range_not_satisfiable:
                return  # the file is complete
            answer.raise_for_status()
            continues = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            resumes = answer.status_code == requests.codes.partial_content and continues
            with self._part.open("ab" if resumes else "wb") as file:
                size = start if resumes else 0
                for block in answer.iter_content(_BLOCK):
                    size += len(block)
                    if size > self._dataset.bytes:
                        raise WrongContent("it is longer")
                    file.write(block)
                    self._progress(size)

    def _present(self) -> int:
        """Bytes of the part; 0 if it is too long and thus not of this file."""
        size = self._part.stat().st_size if self._part.exists() else 0
        return size if size <= self._dataset.bytes else 0
