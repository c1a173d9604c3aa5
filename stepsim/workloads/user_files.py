"""Python files of users: each is read once for both its digest and its code, with its neighbors.

Neighbors are the modules in the folder of a file that it imports. Every file has its own, so that
files in several folders can have neighbors of the same name, and an edited neighbor is read again.
Bytecode is neither read nor written: Python would use old bytecode for a file edited within a
second.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING

from stepsim.deferred import deferred, missing_extra
from stepsim.digests import sha256
from stepsim.errors import StepSimError, UserCodeError, WorkloadError

if TYPE_CHECKING:
    import sysconfig
else:
    sysconfig = deferred("sysconfig")

_KEPT = sys.stdlib_module_names | {"stepsim", "__main__"}
"""Modules that are never replaced by a neighbor of the same name."""


@cache
def _folders_of_packages() -> tuple[str, ...]:
    return tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))


_one_at_a_time = threading.RLock()
"""A lock, as the table of modules and stdout are shared by the process."""


def read_module(path: Path) -> tuple[ModuleType, str]:
    """A file of the user as a module, and the SHA-256 of the file and its neighbors.

    The digest covers the content of the file, then path and content of each neighbor, in the order
    of their paths.

    Raises
    ------
    WorkloadError : the file cannot be read.
    UserCodeError : the file raises an exception.
    """
    content = _content(path)
    place = path.resolve()
    for (known, digest), file in _files.items():
        if known == place and file.digest_now(content) == digest:
            return file.module, digest
    made = _UserFile(place, content, str(path))
    _files[place, made.digest] = made
    return made.module, made.digest


@contextmanager
def user_code(where: str, path: str | None = None, digest: str | None = None) -> Iterator[None]:
    """Turn exceptions of a user's code into an error with its traceback.

    Errors of stepsim are passed on unchanged. Output of the code goes to stderr.

    Parameters
    ----------
    where : name of the code in the error.
    path, digest : file that was read, whose neighbors the code can import.
    """
    file = None if path is None or digest is None else _files.get((Path(path), digest))
    try:
        with _one_at_a_time, redirect_stdout(sys.stderr):
            if file is None:
                yield
            else:
                with file.neighbors.reachable():
                    yield
    except StepSimError:
        raise
    except (Exception, SystemExit) as error:
        missing = missing_extra(error)
        if missing is not None:
            raise UserCodeError(f"{where}: {missing}") from error
        raise UserCodeError(f"{where}: raised an exception\n{_traceback(error)}") from error


class _UserFile:
    """A file that was read.

    Attributes
    ----------
    module, neighbors : the module, and the neighbors that it imported.
    digest : SHA-256 of all content read.
    """

    def __init__(self, path: Path, content: bytes, where: str) -> None:
        unique = sha256(repr((str(path), content)).encode()).hexdigest()
        name = f"stepsim_user_{unique[:12]}_{path.stem}"
        self.module = ModuleType(name)
        self.module.__file__ = str(path)
        self.neighbors = _Neighbors(path.parent)
        before = sys.modules.get(name)
        # Dataclasses look their module up by name.
        sys.modules[name] = self.module
        try:
            with user_code(where), self.neighbors.reachable():
                exec(_compiled(content, str(path)), self.module.__dict__)
        except BaseException:
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before
            raise
        # Later imports are not part of the digest.
        self._read = dict(self.neighbors.contents)
        self.digest = _digest(path.parent, content, self._read)

    def digest_now(self, content: bytes) -> str | None:
        """The digest with the present content of the neighbors; None if one no longer exists."""
        try:
            now = {file: Path(file).read_bytes() for file in self._read}
        except OSError:
            return None
        return _digest(Path(str(self.module.__file__)).parent, content, now)


_files: dict[tuple[Path, str], _UserFile] = {}


class _Neighbors:
    """Finds modules in the folder of a file, before all others, while they are reachable.

    Modules of Python and of installed packages take precedence, so that the result does not depend
    on whether they were imported before.

    Attributes
    ----------
    contents : content of every neighbor that was read, by its path.
    """

    def __init__(self, folder: Path) -> None:
        self.contents: dict[str, bytes] = {}
        self._folder = str(folder)
        self._found: set[str] = set()
        self._modules: dict[str, ModuleType] = {}
        self._active = False
        with os.scandir(folder) as entries:
            self._names = {entry.name.partition(".")[0] for entry in entries} - _KEPT
        # A folder that has just changed must be scanned again.
        sys.path_importer_cache.pop(self._folder, None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parent = fullname.rpartition(".")[0]
        if parent not in self._found if parent else fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path if parent else [self._folder])
        other = None if parent else PathFinder.find_spec(fullname)
        if spec is None or (other is not None and _is_installed(other.origin)):
            return None
        if spec.loader is None:
            # A folder without __init__.py is a package only if nothing else has its name.
            if other is not None and other.loader is not None:
                return None
            places = list(spec.submodule_search_locations or ())
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = places
        elif isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Source(fullname, spec.loader.path, self.contents)
        elif spec.origin is not None:
            self.contents[spec.origin] = Path(spec.origin).read_bytes()
        self._found.add(fullname)
        return spec

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Temporarily replace other modules of the same names by the neighbors."""
        if self._active:
            yield
            return
        hidden = {name: sys.modules.pop(name) for name in self._in_the_way()}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        self._active = True
        try:
            yield
        finally:
            self._active = False
            sys.meta_path.remove(self)
            own = self._found.intersection(sys.modules)
            self._modules = {name: sys.modules.pop(name) for name in own}
            sys.modules.update(hidden)

    def _in_the_way(self) -> list[str]:
        """Modules of other folders, and of the user's own process, that have the same names."""
        tops = {
            name
            for name in self._names.intersection(sys.modules)
            if not _is_installed(getattr(sys.modules[name], "__file__", None))
        }
        if not tops:
            return []
        return [name for name in sys.modules if name.partition(".")[0] in tops]


class _Source(SourceFileLoader):
    """Reads a neighbor once and keeps its content."""

    def __init__(self, name: str, path: str, contents: dict[str, bytes]) -> None:
        super().__init__(name, path)
        self._contents = contents

    def get_code(self, fullname: str) -> CodeType:
        content = self.get_data(self.path)
        self._contents[self.path] = content
        return _compiled(content, self.path)


def _compiled(content: bytes, file: str) -> CodeType:
    """The code of a file; tracebacks and `inspect` show the compiled lines."""
    made: CodeType = compile(content, file, "exec", dont_inherit=True)
    lines = importlib.util.decode_source(content).splitlines(keepends=True)
    linecache.cache[file] = (len(content), None, lines, file)
    return made


def _is_installed(file: str | None) -> bool:
    return file is not None and file.startswith(_folders_of_packages())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(
            f"{path}: cannot be read: {reason}; name a Python file, as in gemm.py:gemm"
        ) from error


def _digest(folder: Path, content: bytes, neighbors: dict[str, bytes]) -> str:
    found = sha256(content)
    named = {Path(os.path.relpath(file, folder)).as_posix(): file for file in neighbors}
    for name in sorted(named):
        for part in (name.encode(errors="surrogateescape"), neighbors[named[name]]):
            found.update(b"\0" + len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def _traceback(error: BaseException) -> str:
    """The traceback, starting at the user's code."""
    at: TracebackType | None = error.__traceback__
    here = str(Path(__file__).parent.parent)
    while at is not None and at.tb_next is not None and _ours(at, here):
        at = at.tb_next
    if isinstance(error, SyntaxError):
        at = None
    return "".join(traceback.format_exception(type(error), error, at)).rstrip()


def _ours(at: TracebackType, here: str) -> bool:
    file = at.tb_frame.f_code.co_filename
    return file.startswith((here, "<frozen importlib"))
