"""Digests of small contents without OpenSSL, which takes longer to load than a small run takes."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final, Protocol

from stepsim.deferred import deferred

__all__ = ["Digest", "blake2b", "sha256"]

hashlib: Any = deferred("hashlib")

_LARGE: Final = 1 << 20
"""From so many bytes on, in all, the faster code of OpenSSL makes up for its loading."""

_taken = [0]
"""Bytes that digests of this process took so far."""


class Digest(Protocol):
    """What has taken some content and takes more."""

    def update(self, content: Any, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


def sha256(content: bytes, size: int | None = None) -> Digest:
    """A SHA-256 object that has taken ``content``; ``size`` of all it will take, if that is more.

    Its digests are those of ``hashlib.sha256``, whichever code computes them.
    """
    _taken[0] += len(content) if size is None else size
    own = None
    if _taken[0] < _LARGE and "_hashlib" not in sys.modules:
        own = _own("_sha2" if sys.version_info >= (3, 12) else "_sha256", "sha256")
    made: Digest = (own or hashlib.sha256)(content)
    return made


def blake2b(content: bytes = b"") -> Digest:
    """A BLAKE2b object of 32 bytes: for contents of any size that only stepsim reads again."""
    made: Digest = (_own("_blake2", "blake2b") or hashlib.blake2b)(content, digest_size=32)
    return made


def _own(module: str, name: str) -> Any:
    """A function of the interpreter's own modules, None where it was built without them."""
    try:
        return getattr(import_module(module), name)
    except ImportError:
        return None
