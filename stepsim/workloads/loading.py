"""Finding a workload: a ready-made one by name, one of a plugin, or one of the user's file.

``gemm.py:gemm`` names a function or a `Workload` of a file; ``gemm.py`` alone will do where the
file holds only one, or one finished program.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from stepsim.errors import ArgError, StepSimError, UserCodeError, WorkloadError, did_you_mean
from stepsim.plugins import found as found_plugins
from stepsim.plugins import usable
from stepsim.workloads.functions import of_function, of_program, returns_program
from stepsim.workloads.parameters import fields_of
from stepsim.workloads.values import split_target
from stepsim.workloads.workload import Workload

__all__ = ["BUILT_IN", "Source", "find_workload", "read_module", "user_code", "workload_names"]

BUILT_IN = {
    "moe": "stepsim.workloads.moe:Moe",
    "attention": "stepsim.workloads.attention:Attention",
    "swiglu": "stepsim.workloads.swiglu:Swiglu",
    "decoder": "stepsim.workloads.decoder:Decoder",
}
"""Ready-made workloads: module and class of each."""

_GROUP = "stepsim.workloads"
_EXAMPLE = "name the function or class behind a colon, as in {file}:{name}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a workload comes from; small, and the same in every process.

    Attributes
    ----------
    text : as results name it: ``moe``, or ``gemm.py:gemm``.
    path, attribute : file and the name in it, for a user's workload.
    digest : SHA-256 of the file, for workloads of users and plugins.
    """

    text: str
    path: str | None = None
    attribute: str | None = None
    digest: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether it is code of a user or of another package, which may raise anything."""
        return self.text not in BUILT_IN

    def load(self) -> type[Workload]:
        """The workload.

        Raises
        ------
        WorkloadError : it is not there (any more), the file has changed, or it is none.
        UserCodeError : the file raises when it is read.
        """
        if self.path is None:
            return _named(self.text)
        path = Path(self.path)
        content = _content(path)
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise WorkloadError(
                f"{path}: has changed since it was read first; put it back, or start again"
            )
        return _of_file(path, self.digest, self.attribute)


def find_workload(text: str, folder: Path | None = None) -> Source:
    """Look up a workload; a file is looked for in ``folder``, by default where the process runs.

    Raises
    ------
    WorkloadError : there is no such workload or file, or the file holds none, or several.
    UserCodeError : the file raises when it is read.
    """
    file, attribute = split_target(text)
    if file is None:
        found = _named(text)
        return Source(text, digest=None if text in BUILT_IN else _digest_of(found))
    path = (folder or Path()) / file
    digest = hashlib.sha256(_content(path)).hexdigest()
    name = attribute or _only_name(path, digest)
    source = Source(f"{path.name}:{name}", str(path.resolve()), name, digest)
    source.load()
    return source


def read_module(path: Path) -> tuple[ModuleType, str]:
    """A file of the user as a module, and the SHA-256 of the file.

    Raises
    ------
    WorkloadError : the file cannot be read.
    UserCodeError : it raises.
    """
    digest = hashlib.sha256(_content(path)).hexdigest()
    return _module(path, digest), digest


def workload_names() -> list[str]:
    """Names of the ready-made workloads and those of plugins."""
    return [*BUILT_IN, *(plugin.name for plugin in usable(_GROUP))]


def _digest_of(workload: type[Workload]) -> str | None:
    """SHA-256 of the file that defines the workload of a plugin; None where there is none."""
    made = getattr(workload, "function", workload)
    file = inspect.getsourcefile(made)
    return None if file is None else hashlib.sha256(_content(Path(file))).hexdigest()


@contextmanager
def user_code(where: str) -> Iterator[None]:
    """Turn what a user's code raises into an error with its traceback.

    Errors of stepsim say what is wrong themselves and pass.
    """
    try:
        yield
    except StepSimError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{where}: raised an exception\n{_traceback(error)}") from error


def _named(name: str) -> type[Workload]:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: type[Workload] = getattr(importlib.import_module(module), attribute)
        return found
    for plugin in found_plugins(_GROUP):
        if plugin.name == name:
            if plugin.error is not None:
                raise WorkloadError(
                    f"workload '{name}' of package {plugin.package} cannot be used: "
                    f"{plugin.error}; repair or uninstall the package"
                )
            return _as_workload(plugin.loaded, name, f"plugin {name} of {plugin.package}")
    known = workload_names()
    raise WorkloadError(
        f"unknown workload '{name}'{did_you_mean(name, known)} Known: {', '.join(known)}; or name "
        "a file, as in gemm.py:gemm"
    )


def _as_workload(value: Any, name: str, where: str) -> type[Workload]:
    found = _made_of(value, name, where)
    try:
        known = fields_of(found)
    except ArgError as error:
        raise WorkloadError(f"{where}: {error}") from None
    for parameter in known:
        if hasattr(Workload, parameter):
            raise WorkloadError(
                f"{where}: parameter {parameter} has the name of an attribute of every workload; "
                "choose another name"
            )
    return found


def _made_of(value: Any, name: str, where: str) -> type[Workload]:
    from stepsim.graph import Program

    if isinstance(value, type) and issubclass(value, Workload):
        if not value.name:
            value.name = name
        return value
    if isinstance(value, Program):
        return of_program(value, name)
    if inspect.isfunction(value):
        return of_function(value, name, where)
    raise WorkloadError(
        f"{where}: expected a function that returns a Program, a Workload, or a Program, found "
        f"{type(value).__name__}"
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkloadError(
            f"{path}: cannot be read: {error.strerror}; name a Python file, as in gemm.py:gemm"
        ) from error


_modules: dict[tuple[Path, str], ModuleType] = {}
_workloads: dict[tuple[Path, str, str], type[Workload]] = {}


def _module(path: Path, digest: str) -> ModuleType:
    """The file as a module, read once per content."""
    key = path.resolve(), digest
    if key not in _modules:
        # Its neighbors can be imported as they can when Python runs the file.
        if str(key[0].parent) not in sys.path:
            sys.path.append(str(key[0].parent))
        name = f"stepsim_user_{digest[:12]}_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, key[0])
        # There is a loader for every name that ends in .py.
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with user_code(str(path)):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _modules[key] = module
    return _modules[key]


def _of_file(path: Path, digest: str | None, attribute: str | None) -> type[Workload]:
    assert digest is not None
    assert attribute is not None
    key = path, digest, attribute
    if key not in _workloads:
        module = _module(path, digest)
        if not hasattr(module, attribute):
            known = _offered(module)
            near = did_you_mean(attribute, known)
            raise WorkloadError(
                f"{path}: has no '{attribute}'{near} It offers: {', '.join(known) or 'nothing'}"
            )
        _workloads[key] = _as_workload(
            getattr(module, attribute), attribute, f"{path.name}:{attribute}"
        )
    return _workloads[key]


def _only_name(path: Path, digest: str) -> str:
    offered = _offered(_module(path, digest))
    if len(offered) == 1:
        return offered[0]
    if not offered:
        raise WorkloadError(
            f"{path}: holds no workload; define a function that returns a Program or a Workload "
            "class, or make a Program"
        )
    raise WorkloadError(
        f"{path}: holds {len(offered)} workloads, {', '.join(offered)}; "
        + _EXAMPLE.format(file=path.name, name=offered[0])
    )


def _offered(module: ModuleType) -> list[str]:
    """Names of what the file itself makes that can be run.

    Functions count if they say that they return a Program; if nothing does, the only public one.
    """
    from stepsim.graph import Program

    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Program) or getattr(value, "__module__", "") == module.__name__)
    }
    functions = [name for name, value in own.items() if inspect.isfunction(value)]
    marked = [name for name in functions if returns_program(own[name])]
    found = [
        name
        for name, value in own.items()
        if isinstance(value, Program)
        or (isinstance(value, type) and issubclass(value, Workload))
        or name in marked
    ]
    return found or (functions if len(functions) == 1 else [])


def _traceback(error: BaseException) -> str:
    """The traceback from the user's code on."""
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
