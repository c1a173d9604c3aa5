"""Sources to compile: operator graphs, models by name, and models of users' files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import FunctionType
from typing import Any, get_type_hints

import stepsim.workloads
from stepsim.arguments import shown, text_of
from stepsim.design.configs import Config
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.blocks import RepeatedBlock, graph_of_sizes
from stepsim.design.operators.models.shapes import ModelShape
from stepsim.design.operators.models.sizes import OF_SHAPE, ModelSizes, sizes_of
from stepsim.errors import ArgError, CompileError, WorkloadError, did_you_mean
from stepsim.machine import Machine
from stepsim.typed import typed
from stepsim.workloads.models import BLOCK, Model, read_model


@dataclass(frozen=True)
class Source:
    """An operator graph to compile, and what it was made of.

    Attributes
    ----------
    notes : what of the model is not in the graph, a sentence each.
    named : the model that was named or read from a file, and the sizes that were given.
    imported : the graph with the values of the model, where it was imported.
    original : what was imported; of PyTorch ``(module, arguments)`` or an exported program.
    """

    graph: OperatorGraph
    notes: tuple[str, ...] = ()
    named: tuple[Model | ModelShape, Mapping[str, Any]] | None = None
    imported: OperatorGraph | None = None
    original: Any = None


def source_of(
    model: Any,
    machine: Machine,
    sizes: Mapping[str, Any],
    *,
    keep_going: bool = False,
    choices: Iterable[str] = (),
) -> Source:
    """The operator graph to compile, and its source; for a whole model, that of its block.

    What is named or imported has the element types of the machine's device, if it states them; a
    model of a file else has its own.

    Parameters
    ----------
    choices : other names that the caller takes, for messages about unknown names.

    Raises
    ------
    CompileError : it is not a model, sizes are given for a graph that has its own, or
        ``keep_going`` for a model that is not imported.
    ArgError : there is no such model, file or size.
    """
    named = isinstance(model, (Model, ModelShape)) or (
        isinstance(model, str) and not model.endswith(".onnx")
    )
    made = isinstance(model, (Source, RepeatedBlock)) or type(model) is OperatorGraph
    if keep_going and (named or made):
        what = f"'{model}'" if isinstance(model, str) else f"a {type(model).__name__}"
        raise CompileError(
            "compile: keep_going (--keep-going) has an effect only where a PyTorch module or an "
            f"ONNX file is imported, found {what}; leave it out"
        )
    if named:
        return _named(model, machine, sizes, tuple(choices))
    if sizes:
        raise CompileError(
            f"compile: {', '.join(sizes)}: a graph has its own sizes; give them where it is made"
        )
    if isinstance(model, Source):
        return model
    if isinstance(model, RepeatedBlock):
        return Source(model.block)
    if type(model) is OperatorGraph:
        return Source(model)
    from stepsim.design.operators.importers import graph_of

    types = element_types(machine)
    found = graph_of(model, keep_going=keep_going, **types)
    # Without the arrays of an import, which no plan holds.
    graph = OperatorGraph(found.name, found.tensors, found.ops, found.attributes)
    notes: tuple[str, ...] = ()
    if types:
        notes = (
            f"{found.name}: activations are {types['dtype']} and weights {types['weight_dtype']}, "
            f"as machine {machine.name} states; an operator graph, as from_torch makes it, keeps "
            "its own types",
        )
    return Source(graph, notes, imported=found, original=model)


def _named(
    model: str | Model | ModelShape,
    machine: Machine,
    sizes: Mapping[str, Any],
    choices: tuple[str, ...],
) -> Source:
    if isinstance(model, str):
        model = read_model(model)
    made = sizes_of("compile", dict(sizes), also=choices)
    if isinstance(model, ModelShape):
        graph = graph_of_sizes(model, sizes, **element_types(machine))
        return Source(graph, named=(model, sizes))
    described = model.where != model.name
    types = element_types(machine)
    own = {"dtype": model.activation_dtype, "weight_dtype": model.weight_dtype}
    if described and not types:
        types = own
    graph = graph_of_sizes(model, sizes, **types)
    notes = model.notes(BLOCK)
    if described and types != own:
        notes.append(
            f"{model.name}: activations are {types['dtype']} and weights {types['weight_dtype']}, "
            f"as machine {machine.name} states, in place of {own['dtype']} and "
            f"{own['weight_dtype']}"
        )
    windows = model.windows
    differ = windows is not None and windows.layers is not None and made.attention_layer is None
    if windows is not None and differ and made.rows + made.cached > windows.tokens:
        seen = f"the last {windows.tokens:,} tokens" if model.window(0) else "all tokens"
        notes.append(
            f"{model.name}: windows differ by layer; all layers are taken to be as layer 0, which "
            f"attends to {seen}; choose another with attention_layer"
        )
    if model.experts is not None and model.dense is not None and model.dense.layers:
        notes.append(
            f"{model.name}: {model.dense.layers} layers have a dense network; all layers are taken "
            "to have experts"
        )
    return Source(graph, tuple(notes), named=(model, sizes))


def configured(source: Source, config: Config, machine: Machine) -> Source:
    """The model of a configuration, with its cache in decoding.

    Raises
    ------
    CompileError : it is another model, a part of one, or has another cache.
    """
    name = source.graph.attributes.get("model")
    if source.named is None or name != config.model:
        raise CompileError(
            f"compile: config {config.name} is of model {config.model}, found "
            f"{source.graph.name if name is None else name}; leave config out, or give its choices "
            "one by one in Python"
        )
    model, given = source.named
    smaller = [size for size in OF_SHAPE if size in given]
    if smaller:
        raise CompileError(
            f"compile: config {config.name} is of the whole model; leave {', '.join(smaller)} out"
        )
    sizes = sizes_of("compile", dict(given))
    if sizes.phase != "decode" or sizes.context is not None:
        return source
    return source_of(model, machine, {**given, "context": config.context})


def element_types(machine: Machine) -> dict[str, Any]:
    """Element types of designs for a machine."""
    device = machine.device
    if device is None:
        return {}
    return {"dtype": device.activation_dtype, "weight_dtype": device.weight_dtype}


@typed
def find_model(
    text: str, machine: Machine, sizes: Mapping[str, Any], *, keep_going: bool = False
) -> Source:
    """The model named on the command line: what :func:`stepsim.workloads.models.read_model` reads,
    an ONNX file, or ``FILE.py:NAME``.

    Raises
    ------
    CompileError, ArgError, WorkloadError, UserCodeError : there is none, or the file raises.
    """
    found = _of_file(text)
    if found is None:
        return source_of(text, machine, sizes, keep_going=keep_going)
    made, where, path, digest = found
    if _is_maker(made):
        _check_sizes(made, where, sizes)
        with stepsim.workloads.user_code(where, str(path.resolve()), digest):
            made = made(**sizes)
        sizes = {}
    return source_of(made, machine, sizes, keep_going=keep_going)


def arguments_of(text: str) -> dict[str, stepsim.workloads.Field] | None:
    """The arguments by name that options can set, where ``FILE.py:NAME`` is a function.

    Those are of models that are named, or have an annotation or a default that implies their type.

    Raises
    ------
    ArgError : ``text`` is not a text.
    CompileError, WorkloadError, UserCodeError : there is no such function, or the file raises.
    """
    found = _of_file(text_of("arguments_of, text", text))
    if found is None or not _is_maker(found[0]):
        return None
    make, where = found[:2]
    try:
        hints = get_type_hints(make, include_extras=True)
    except Exception:  # a name that does not exist; defaults may imply the types
        hints = {}
    taken = _parameters(make, where)
    any_size = any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())
    sizes = stepsim.workloads.fields_of(ModelSizes)
    fields = {name: field for name, field in sizes.items() if any_size or name in taken}
    for one in taken.values():

        def alone() -> None: ...

        vars(alone)["__signature__"] = Signature([one])
        alone.__annotations__ = {one.name: hints[one.name]} if one.name in hints else {}
        with suppress(ArgError, WorkloadError):  # it keeps its default
            made = stepsim.workloads.of_function(alone, where.replace(":", "_"), where)
            fields |= stepsim.workloads.fields_of(made)
    return fields


def _of_file(text: str) -> tuple[Any, str, Path, str] | None:
    """What ``FILE.py:NAME`` names, its text, the file and the digest of that; None of others."""
    file, name = stepsim.workloads.split_target(text)
    if file is None or not file.endswith(".py"):
        return None
    path = Path(file)
    module, digest = stepsim.workloads.read_module(path)
    made = getattr(module, name, None) if name else None
    if made is None:
        known = [key for key in vars(module) if not key.startswith("_")]
        functions = [
            key for key in known
            if isinstance(one := vars(module)[key], FunctionType)
            and one.__module__ == module.__name__
        ]  # fmt: skip
        raise CompileError(
            f"{file}: name what makes the model, as in {path.name}:{(*functions, 'model')[0]}; "
            + (f"it has no '{name}'{did_you_mean(name, known)} Its " if name else "its ")
            + f"functions: {', '.join(functions) or 'none'}"
        )
    return made, f"{path.name}:{name}", path, digest


def _is_maker(made: Any) -> bool:
    """Whether it is called for the model; a module of PyTorch can be called, but is not to be."""
    from stepsim.design.operators.importers import is_model

    return callable(made) and not is_model(made)


def _parameters(make: Callable[..., Any], where: str) -> Mapping[str, Parameter]:
    """The arguments of a function.

    Raises
    ------
    CompileError : they are not known, as those of some functions that are not written in Python.
    """
    try:
        return signature(make).parameters
    except (TypeError, ValueError):
        raise CompileError(
            f"{where}: the arguments of {shown(make)} are not known; write a function that calls it"
        ) from None


def _check_sizes(make: Callable[..., Any], where: str, sizes: Mapping[str, Any]) -> None:
    """Reject sizes that a function does not take, and arguments that none of them gives, before the
    call raises a TypeError."""
    taken = _parameters(make, where)
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    for name, one in taken.items():
        if one.kind is Parameter.POSITIONAL_ONLY and one.default is Parameter.empty:
            raise CompileError(
                f"{where}: {name}: the argument has no value, and cannot be given one by its name; "
                "leave out the '/' behind it"
            )
        if one.kind in named and one.default is Parameter.empty and name not in sizes:
            raise CompileError(
                f"{where}: {name}: the argument has no value; give it one by "
                f"--{name.replace('_', '-')}, for which it needs an annotation such as "
                f"{name}: int, or a default"
            )
    if any(p.kind is Parameter.VAR_KEYWORD for p in taken.values()):
        return
    for size in sizes:
        if size not in taken:
            raise CompileError(
                f"{where}: {size}: the function has no such argument"
                f"{did_you_mean(size, taken)} Its arguments: {', '.join(taken) or 'none'}"
            )
