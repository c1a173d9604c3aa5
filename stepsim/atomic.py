"""Write files that are complete or absent: a temporary file next to the target, then a rename."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepsim.errors import OutputError
from stepsim.paths import exists


@contextmanager
def replacing(*targets: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Temporary paths for ``targets``, renamed into place together when the block succeeds.

    Raises
    ------
    OutputError
        When a target cannot be written, or memory runs out in the block. However the block fails,
        no temporary file remains and existing files are unchanged.
    """
    first = _followed(Path(targets[0]))
    try:
        with renamed(*targets) as parts:
            yield parts
    except OutputError:  # an OSError as well, but it already has a message
        raise
    except MemoryError as error:
        raise OutputError(
            f"cannot write {first}: not enough memory; end other programs or write less at once"
        ) from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError(
            f"cannot write {first}: {reason}; "
            "choose a folder that exists, is writable and has space"
        ) from error


@contextmanager
def renamed(*targets: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Like `replacing`, for callers with their own messages for errors of disk and memory.

    Raises
    ------
    OutputError
        When a target is not a file, or has no name that can be written.
    OSError, MemoryError
        Passed on unchanged.
    """
    places = [_followed(Path(target)) for target in targets]
    for place in places:
        if not _is_utf8(place):
            raise OutputError(
                f"cannot write {str(place)!a}: the path is not UTF-8; choose another name"
            )
        if exists(place, OutputError) and not place.is_file():
            raise OutputError(f"cannot write {place}: it is a folder or a device; name a file")
    token = os.urandom(6).hex()
    # Absolute, since Arrow takes a relative path such as "a:b/c" for an address.
    parts = [place.absolute().with_name(f".{place.name}.{token}.tmp") for place in places]
    try:
        yield parts
        for part, place in zip(parts, places, strict=True):
            part.replace(place)
    finally:
        for part in parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _is_utf8(path: Path) -> bool:
    """Whether libraries that take paths as text can write the path."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _followed(path: Path) -> Path:
    """The file behind a link, so that the link itself stays."""
    with suppress(OSError, ValueError):  # errors of the path are reported later
        return path.resolve() if path.is_symlink() else path
    return path
