"""One compiled function in one file that is checked as a whole before any of it is loaded.

Machine code with a flipped bit runs, and gives a wrong number or a crash. A file is therefore read
into memory, compared with its digest, and loaded from there::

    magic      24 bytes, with the version of this layout
    key        32 bytes, BLAKE2b of what the code was compiled for
    form        8 bytes, a shared object, or a relocatable one
    length      8 bytes, of the payload, most significant first
    digest     32 bytes, BLAKE2b of form and payload
    payload    the object

The digest guards against damage. It does not guard against someone who may write to a file:
machine code is as powerful as a program. Files of other users, or that other users may write, are
not loaded.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, get_args

from stepsim.atomic import replacing
from stepsim.digests import blake2b
from stepsim.frozen import frozen

SUFFIX: Final = ".kernel"
"""What the names of the files end with."""

_DIGITS: Final = 16
"""Of the digest of a key, in the names of the files."""

_WRITING_SECONDS: Final = 20.0
"""After which a file of a few MB that nobody writes to is one that nobody will write to. It takes
longer to compile the engine, so that a process that is started in place of a killed one finds what
that one left."""

_MODE: Final = 0o644
"""Others may read a file and not write it, whatever the umask allows."""
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_MAGIC: Final = b"stepsim compiled code 3\n"
_HEADER: Final = struct.Struct(f">{len(_MAGIC)}s32s8sQ32s")

Form = Literal["shared", "object", "unlinked", "bitcode"]
"""A shared object; a relocatable one that is to stay so; one that could not be linked so far; and
what is for the compiler."""


@frozen
class Code:
    """Machine code as it is stored."""

    form: Form
    binary: bytes


class UnusableError(Exception):
    """A file is not what was stored for a key; the message names it and says why."""


class EntryFiles:
    """The stored code of one function, a file for every key.

    Args:
        folder: where the files are; others may be there too.
        name: the beginning of the names of the files.
        stamp: what all keys depend on, as the digest of the sources.
        of_anyone: files of other users are used too, as where the sources are whose code it is.
    """

    def __init__(self, folder: Path, name: str, stamp: str, *, of_anyone: bool = False) -> None:
        self.folder = folder
        self._name = name
        self._stamp = stamp
        self._of_anyone = of_anyone

    def load(self, key: object) -> Code | None:
        """What was stored for ``key``, None if nothing was.

        Raises:
            UnusableError: the file is damaged, foreign or not a regular one, or the folder is one.
            OSError: it cannot be read.
        """
        digest = self._digest(key)
        try:
            return _code(self._path(digest), digest, self._of_anyone)
        except (FileNotFoundError, NotADirectoryError) as error:
            if self.folder.is_file():
                raise UnusableError("a file is in the place of the folder") from error
            return None

    def save(self, key: object, code: Code) -> Path:
        """Store ``code`` for ``key``, completely or not at all; the file that has it.

        Raises:
            OutputError: it cannot be written.
            OSError: the folder cannot be made.
        """
        if self.folder.is_file():  # as wrong as a damaged entry, which is replaced too
            self.folder.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = self._digest(key)
        path = self._path(digest)
        if path.is_dir() and not path.is_symlink():
            import shutil  # not needed to load

            shutil.rmtree(path)
        elif path.is_symlink() or not path.is_file():  # `replacing` follows links, and keeps pipes
            path.unlink(missing_ok=True)
        # Not flushed to the disk: what a power cut tears is noticed.
        with replacing(path) as (temporary,):
            temporary.touch(_MODE, exist_ok=False)  # before others could open it for writing
            temporary.write_bytes(_header(digest, code) + code.binary)
        self._remove_torn()
        return path

    def path(self, key: object) -> Path:
        """Where the code for ``key`` is, or would be."""
        return self._path(self._digest(key))

    def _remove_torn(self) -> None:
        """Remove what writers that were killed left under temporary names.

        Should one of them be alive after all, it only cannot store what is stored now.
        """
        for path in self.folder.glob(f".{self._name}.{'[0-9a-f]' * _DIGITS}{SUFFIX}.*.tmp"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _WRITING_SECONDS:
                    path.unlink()

    def _digest(self, key: object) -> bytes:
        # Equal keys must have equal digests in every process. Their pickles differ, their
        # representations do not, and those of record types name all fields.
        return blake2b(repr((self._stamp, self._name, key)).encode()).digest()

    def _path(self, digest: bytes) -> Path:
        return self.folder / f"{self._name}.{digest.hex()[:_DIGITS]}{SUFFIX}"


def is_whole(path: Path) -> bool:
    """Whether a file is one that could be loaded for some key. Nothing of it is loaded."""
    try:
        _code(path, None, of_anyone=False)
    except (OSError, UnusableError):
        return False
    return True


def _header(key: bytes, code: Code) -> bytes:
    form = code.form.encode().ljust(8)
    return _HEADER.pack(_MAGIC, key, form, len(code.binary), _checksum(form, code.binary))


def _checksum(form: bytes, binary: bytes) -> bytes:
    found = blake2b(form)
    found.update(binary)
    return found.digest()


def _code(path: Path, key: bytes | None, of_anyone: bool) -> Code:
    """The code in a file once all of the file has been checked; ``key`` None: of any key."""
    # A pipe must not be waited for.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableError(f"{path.name} is not a regular file")
        # What the superuser stored for all is good: who can write as root needs no cache for that.
        if not of_anyone and hasattr(os, "geteuid"):
            if status.st_uid not in (os.geteuid(), 0):
                raise UnusableError(f"{path.name} belongs to user {status.st_uid}")
            if status.st_mode & _OF_OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise UnusableError(f"{path.name} may be written by other users (mode {mode:04o})")
        with os.fdopen(handle, "rb", closefd=False) as file:
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size:
                raise UnusableError(f"{path.name} is cut off after {len(head)} bytes")
            magic, found, form, length, digest = _HEADER.unpack(head)
            if magic != _MAGIC:
                raise UnusableError(f"{path.name} is damaged or of another version")
            if key not in (None, found):
                raise UnusableError(f"{path.name} is damaged or was compiled for something else")
            # Before it is read, because a foreign file may be larger than memory.
            if status.st_size != _HEADER.size + length:
                raise UnusableError(
                    f"{path.name} is damaged or cut off: it has {status.st_size} bytes, expected "
                    f"{_HEADER.size + length}"
                )
            binary = file.read(length)
    finally:
        os.close(handle)
    if _checksum(form, binary) != digest:
        raise UnusableError(f"{path.name} is damaged: its content has another digest")
    for known in get_args(Form):
        if form == known.encode().ljust(8):
            return Code(known, binary)
    raise UnusableError(f"{path.name} is of another version")
