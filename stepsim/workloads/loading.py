"""Finding a workload: a ready-made one or one of a plugin by name, or one in a user's file.

``gemm.py:gemm`` names a function or a `Workload` in a file; ``gemm.py`` is enough if the file has
only one, or one finished program. ``graph.pb`` is a program of the public graph format.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import stepsim.graph
from stepsim.errors import ArgError, WorkloadError, did_you_mean
from stepsim.frozen import frozen
from stepsim.plugins import Plugin, found as found_plugins, source_digest, usable
from stepsim.shown import shown
from stepsim.typed import typed_but
from stepsim.workloads.functions import of_function, of_program, returns_program
from stepsim.workloads.graph_files import ENDING, graph_digest, of_graph_file
from stepsim.workloads.inputs import KV_LENGTHS, NEW_TOKENS, ROUTING
from stepsim.workloads.parameters import fields_of
from stepsim.workloads.plans import PLAN, plan_digest, plan_file
from stepsim.workloads.user_files import read_module as read_module, user_code as user_code
from stepsim.workloads.values import split_target
from stepsim.workloads.workload import Workload

BUILT_IN = {
    "moe": "stepsim.workloads.moe:Moe",
    "attention": "stepsim.workloads.attention:Attention",
    "swiglu": "stepsim.workloads.swiglu:Swiglu",
    "decoder": "stepsim.workloads.decoder:Decoder",
    "step": "stepsim.workloads.step:Step",
    "compiled": "stepsim.design.workload:CompiledModel",
}
"""Ready-made workloads: module and class of each."""

_GROUP = "stepsim.workloads"
_EXAMPLE = "name the function or class behind a colon, as in {file}:{name}"


@frozen
class Source:
    """Where a workload comes from; small, and the same in every process.

    Attributes
    ----------
    text : its name in results: ``moe``, or ``gemm.py:gemm``.
    path, attribute : file and name in it, for a user's workload; a graph file has no name in it.
    digest : SHA-256 of the code, for workloads of users, see `read_module`, and of plugins, all
        sources of the package.
    """

    text: str
    path: str | None = None
    attribute: str | None = None
    digest: str | None = None

    @property
    def plugin(self) -> Plugin | None:
        """The plugin that provides it, if one does."""
        return _plugin(self.text) if self.is_foreign and self.path is None else None

    @property
    def is_foreign(self) -> bool:
        """Whether it is code of a user or of another package, which may raise any exception."""
        return self.text not in BUILT_IN and not self.is_graph and not self.is_plan

    @property
    def is_graph(self) -> bool:
        """Whether it is a file of the public graph format."""
        return self.path is not None and self.path.endswith(ENDING)

    @property
    def is_plan(self) -> bool:
        """Whether it is the plan of a compiled model."""
        return self.path is not None and Path(self.path).name == PLAN

    def load(self) -> type[Workload]:
        """The workload.

        Raises
        ------
        WorkloadError : it does not exist (any more), the file has changed, or it is not a workload.
        UserCodeError : the file raises when it is read.
        """
        if self.path is None:
            return _named(self.text)
        if self.is_graph:
            return self._load_file(graph_digest, of_graph_file)
        if self.is_plan:
            # Plans belong to a room above this one.
            return self._load_file(plan_digest, import_module("stepsim.design").of_plan)
        assert self.attribute is not None
        module, digest = read_module(Path(self.path))
        if digest != self.digest:
            raise WorkloadError(
                f"{self.path}: has changed since it was read first, or a module next to it that it "
                "imports has; put it back, or start again"
            )
        key = self.path, digest, self.attribute
        if key not in _workloads:
            with self.user_code():
                _workloads[key] = _of_module(module, Path(self.path), self.attribute)
        return _workloads[key]

    def _load_file(
        self, digest_of: Callable[[Path], str], make: Callable[[Path], type[Workload]]
    ) -> type[Workload]:
        assert self.path is not None
        digest = digest_of(Path(self.path))
        if digest != self.digest:
            raise WorkloadError(
                f"{self.path}: has changed since it was read first; put it back, or start again"
            )
        key = self.path, digest, ""
        if key not in _workloads:
            _workloads[key] = make(Path(self.path))
        return _workloads[key]

    def user_code(self) -> AbstractContextManager[None]:
        """A context for running its code, whose exceptions become errors of the user's code.

        Code of stepsim must not raise; if it does, the exception is not hidden.
        """
        if not self.is_foreign:
            return nullcontext()
        return user_code(self.text, self.path, self.digest)


@typed_but("text")
def find_workload(text: str | Path, folder: Path | None = None) -> Source:
    """Look up a workload; a file is looked up in ``folder``, by default the current one.

    Raises
    ------
    WorkloadError : there is no such workload or file, or the file holds no workload, or several; or
        a name is both that of a workload and of a folder of a plan.
    UserCodeError : the file raises when it is read.
    """
    if not isinstance(text, str | Path):
        raise WorkloadError(
            f"workload: expected a name, or a file as in gemm.py:gemm, found {shown(text)}"
        )
    text = str(text)
    plan = plan_file(text, folder)
    if plan is not None:
        if text in BUILT_IN or text in workload_names():
            raise WorkloadError(
                f"'{text}' is both a workload and the folder of a plan; name the folder "
                f"./{text} for the plan, or rename it for the workload"
            )
        name = plan.resolve().parent.name
        return Source(name, str(plan.resolve()), None, plan_digest(plan))
    file, attribute = split_target(text)
    if file is None:
        name, colon, attribute = text.partition(":")
        # Looking for plugins takes longer than building a small program.
        known = text in BUILT_IN or text in workload_names()
        if not known and _is_file((folder or Path()) / f"{name}.py"):
            near = f"{name}.py{colon}{attribute}"
            raise WorkloadError(f"unknown workload '{text}'; did you mean '{near}'?")
        _named(text)
        plugin = None if text in BUILT_IN else _plugin(text)
        return Source(text, digest=None if plugin is None else source_digest(plugin))
    path = (folder or Path()) / file
    if file.endswith(ENDING):
        return Source(path.name, str(path.resolve()), None, graph_digest(path))
    module, digest = read_module(path)
    name = attribute or _only_name(module, path)
    source = Source(f"{path.name}:{name}", str(path.resolve()), name, digest)
    source.load()
    return source


def workload_names() -> list[str]:
    """Names of the ready-made workloads and those of plugins."""
    return [*BUILT_IN, *(plugin.name for plugin in usable(_GROUP))]


def _named(name: str) -> type[Workload]:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: type[Workload] = getattr(importlib.import_module(module), attribute)
        return found
    plugin = _plugin(name)
    if plugin is not None:
        if plugin.error is not None:
            raise WorkloadError(
                f"workload '{name}' of package {plugin.package} cannot be used: "
                f"{plugin.error}; repair or uninstall the package"
            )
        return _as_workload(plugin.loaded, name, f"plugin {name} of {plugin.package}")
    known = workload_names()
    raise WorkloadError(
        f"unknown workload '{name}'{did_you_mean(name, known)} Known: {', '.join(known)}; or name "
        "a file, as in gemm.py:gemm, or the folder of `stepsim compile --out`, as in ./design"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # not a valid file name: too long, or with a null character
        return False


def _plugin(name: str) -> Plugin | None:
    return next((plugin for plugin in found_plugins(_GROUP) if plugin.name == name), None)


def _as_workload(value: Any, name: str, where: str) -> type[Workload]:
    found = _made_of(value, name, where)
    try:
        known = fields_of(found)
    except ArgError as error:
        raise WorkloadError(f"{where}: {error}") from None
    if found.build is Workload.build:
        raise WorkloadError(f"{where}: has no method build; define one that returns a Built")
    inputs: Any = found.inputs
    if not isinstance(inputs, tuple) or not all(inputs.count(one) == 1 for one in inputs):
        raise WorkloadError(
            f"{where}: inputs: expected a tuple of different inputs, found {_listed(inputs)}; each "
            "trace can be given once"
        )
    for one in inputs:
        if one not in (ROUTING, KV_LENGTHS, NEW_TOKENS):
            raise WorkloadError(
                f"{where}: inputs: expected ROUTING, KV_LENGTHS and NEW_TOKENS only, found "
                f"{_listed([one])}; make other data a parameter, such as the path of a file"
            )
    for parameter in known:
        if hasattr(Workload, parameter):
            raise WorkloadError(
                f"{where}: parameter {parameter} has the name of an attribute of every workload; "
                "choose another name"
            )
    return found


def _listed(inputs: Any) -> str:
    if not isinstance(inputs, tuple | list):
        return repr(inputs)
    return ", ".join(getattr(one, "name", repr(one)) for one in inputs)


def _made_of(value: Any, name: str, where: str) -> type[Workload]:
    if isinstance(value, type) and issubclass(value, Workload):
        if not value.name:
            value.name = name
        return value
    if isinstance(value, stepsim.graph.Program):
        return of_program(value, name)
    if inspect.isfunction(value):
        return of_function(value, name, where)
    raise WorkloadError(
        f"{where}: expected a function that returns a Program, a Workload, or a Program, found "
        f"{type(value).__name__}"
    )


_workloads: dict[tuple[str, str, str], type[Workload]] = {}


def _of_module(module: ModuleType, path: Path, attribute: str) -> type[Workload]:
    if not hasattr(module, attribute):
        known = _offered(module)
        near = did_you_mean(attribute, known)
        raise WorkloadError(
            f"{path}: has no '{attribute}'{near} It offers: {', '.join(known) or 'nothing'}"
        )
    return _as_workload(getattr(module, attribute), attribute, f"{path.name}:{attribute}")


def _only_name(module: ModuleType, path: Path) -> str:
    offered = _offered(module)
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
    """Names of runnable objects that the file itself defines.

    These are functions annotated to return a Program; if there are none, the only public function.
    """
    own = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, stepsim.graph.Program)
            or getattr(value, "__module__", "") == module.__name__
        )
    }
    functions = [name for name, value in own.items() if inspect.isfunction(value)]
    marked = [name for name in functions if returns_program(own[name])]
    found = [
        name
        for name, value in own.items()
        if isinstance(value, stepsim.graph.Program)
        or (isinstance(value, type) and issubclass(value, Workload))
        or name in marked
    ]
    return found or (functions if len(functions) == 1 else [])
