"""Write files that are complete or absent: a temporary name beside the target, then a rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepsim.errors import OutputError

__all__ = ["replacing"]


@contextmanager
def replacing(*targets: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Temporary paths for ``targets``, renamed into place together when the block succeeds.

    Raises
    ------
    OutputError
        When a target cannot be written. Whatever ends the block early, no temporary file stays and
        files that were there before are untouched.
    """
    places = [_followed(Path(target)) for target in targets]
    for place in places:
        if place.exists() and not place.is_file():
            raise OutputError(f"cannot write {place}: it is a folder or a device; name a file")
    token = secrets.token_hex(6)
    parts = [place.with_name(f".{place.name}.{token}.tmp") for place in places]
    try:
        yield parts
        for part, place in zip(parts, places, strict=True):
            part.replace(place)
    except OutputError:  # an OSError too, but it says what is wrong already
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError(
            f"cannot write {places[0]}: {reason}; "
            "choose a folder that exists, is writable and has space"
        ) from error
    finally:
        for part in parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _followed(path: Path) -> Path:
    """The file behind a link, so that the link itself stays."""
    return path.resolve() if path.is_symlink() else path
