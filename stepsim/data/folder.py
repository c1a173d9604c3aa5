"""The folder of fetched data sets, and the way from a name to a file in it."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path, PurePath

from stepsim.data.registry import Dataset, find, in_known_group
from stepsim.errors import ArgError, TraceError
from stepsim.paths import exists
from stepsim.typed import typed


def data_folder() -> Path:
    """Folder of the fetched data sets, which may not exist yet.

    It is ``STEPSIM_DATA_DIR``; without that, ``data`` below ``STEPSIM_CACHE_DIR`` or below the
    user's cache folder, like the cache of the compiled engine.
    """
    own = os.environ.get("STEPSIM_DATA_DIR")
    if own:
        return Path(own)
    root = os.environ.get("STEPSIM_CACHE_DIR")
    if root is None:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(home) / "stepsim")
    return Path(root) / "data"


def place(dataset: Dataset) -> Path:
    """The path of the file of a data set once it is fetched."""
    return data_folder() / "traces" / dataset.file


@typed
def locate(source: str | os.PathLike[str]) -> Path:
    """The file of a trace that is given as a path or as the name of a data set.

    An existing path is always taken as a path. Names are ``group/name``; anything else is returned
    as a path, whether it exists or not. Data sets are never fetched here.

    Raises
    ------
    TraceError : the name has the group of a data set but is not known, or its file is not fetched
        yet or is not the published one; or the path is not valid for a file.
    """
    path = Path(source)
    name = PurePath(source).as_posix()
    if exists(path, TraceError) or not in_known_group(name):
        return path
    try:
        dataset = find(name)
    except ArgError as error:
        raise TraceError(str(error)) from None
    file = place(dataset)
    if not file.is_file():
        raise TraceError(
            f"{name}: is not fetched yet ({dataset.bytes:,} bytes); run: stepsim data fetch {name}"
        )
    digest = found_digest(file)
    if digest != dataset.sha256:
        raise TraceError(
            f"{file}: is not the published file of {name}, its SHA-256 is {digest}, expected "
            f"{dataset.sha256}; run: stepsim data fetch {name}"
        )
    return file


@typed
def is_fetched(dataset: Dataset) -> bool:
    """Whether the file exists with the published content.

    Raises
    ------
    TraceError : the file cannot be read.
    """
    file = place(dataset)
    return file.is_file() and found_digest(file) == dataset.sha256


def found_digest(file: Path) -> str:
    """SHA-256 of a file in hexadecimal digits.

    Raises
    ------
    TraceError : the file cannot be read.
    """
    try:
        state = file.stat()
        return _digest(file, state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise TraceError(
            f"{file}: cannot be read ({error.strerror or error}); check its permissions"
        ) from error


@lru_cache(maxsize=256)
def _digest(file: Path, size: int, changed: int) -> str:
    """The digest of a file of this size and time; cached, as a command looks up a name
    repeatedly."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
