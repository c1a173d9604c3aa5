"""Operator graphs of ONNX models."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from stepsim.deferred import require
from stepsim.design.operators.building.builder import GraphBuilder
from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.imported import ImportedGraph
from stepsim.design.operators.importers.masks import MINUS_INFINITY
from stepsim.design.operators.importers.onnx_files.declared import (
    WrongShape,
    check_names,
    check_shape,
    outer_values,
)
from stepsim.design.operators.importers.onnx_files.ops import OPS
from stepsim.design.operators.importers.onnx_files.rules import (
    BrokenRule,
    Rules,
    check_results,
    known_shape,
    unfit,
)
from stepsim.design.operators.importers.onnx_files.types import ElementTypes, WrongType
from stepsim.design.operators.importers.recording import Costs, recorded
from stepsim.design.operators.importers.values import Place, Unsupported, Value
from stepsim.dtypes import DType
from stepsim.errors import CompileError
from stepsim.paths import exists
from stepsim.shown import shown

_FLOATS = {"float32": "f32", "float16": "f16", "float64": "f32", "bfloat16": "bf16"}
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_OTHER_OF_MICROSOFT = ("Attention", "RotaryEmbedding")
"""Operators of com.microsoft that differ from the ONNX operators of the same name."""
_RANDOM = ("Bernoulli", "Multinomial")
"""Operators of which every run gives other numbers, besides those whose names say so."""
_OLDEST = 13
"""Version of the operators from which on an axis of softmax means what it says."""
_UNFIT = (LookupError, TypeError, ValueError, AssertionError, ArithmeticError, MemoryError)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_OF_PYTORCH = re.compile(r"/torch/(nn/|_|utils/|fx/|export/|onnx/)")


def from_onnx(
    model: str | PathLike[str] | Any,
    *,
    name: str | None = None,
    keep_going: bool = False,
    costs: Costs | None = None,
    dtype: DType | str | None = None,
    weight_dtype: DType | str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> ImportedGraph:
    """The operator graph of an ONNX model.

    Needs ``pip install 'stepsim[onnx]'``.

    Parameters
    ----------
    model : a file, or a ``ModelProto``.
    name : of the graph; None is that of the file's graph.
    keep_going, costs, dtype, weight_dtype, attributes : as of :func:`from_torch`; operators are
        called as in the file (``"Erf"``).

    Returns
    -------
    The graph, with ``arrays``. Initializers are weights, but for masks and single numbers. Inputs
    and outputs keep their names, and an input that is concatenated before computed rows is a
    ``state``.

    Raises
    ------
    CompileError : the package onnx is not installed, the file is not a model, a shape is not
        static, or operators are not known, all of them in one message.
    """
    onnx = require("onnx", CompileError, "checker", "inliner", "numpy_helper", "reference",
                   "shape_inference")  # fmt: skip
    proto = _loaded(onnx, model)
    reader = f"from_onnx({name or proto.graph.name or 'model'})"
    reading = _Reading(onnx, proto, reader)
    builder = GraphBuilder(
        name or proto.graph.name or "model", dtype or reading.dtype,
        weight_dtype or dtype or reading.dtype, **dict(attributes or {}),
    )  # fmt: skip
    return recorded(
        builder, reading.arguments, reading.results, {},
        reader=reader, keep_going=keep_going, costs=costs,
    )  # fmt: skip


def _loaded(onnx: Any, model: Any) -> Any:
    """The model, with functions of its own put in their places."""
    if isinstance(model, (str, PathLike)):
        path = fspath(model)
        if not exists(Path(path), CompileError) or not Path(path).is_file():
            raise CompileError(f"from_onnx: there is no file {path}")
        try:
            model = onnx.load(path)
        except Exception as error:
            raise CompileError(f"{path} is not an ONNX model: {error}") from error
    if not isinstance(model, onnx.ModelProto):
        raise CompileError(f"from_onnx: expected a file or a ModelProto, found {shown(model)}")
    if not model.functions:
        return model
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # what ONNX raises has no common class
        raise CompileError(
            f"from_onnx({model.graph.name or 'model'}): the functions of the model cannot be put "
            f"in their places: {error}"
        ) from error


class _Reading:
    """The values of a model, node by node.

    Attributes
    ----------
    dtype : scalar type of the first floating-point weight or input.
    """

    def __init__(self, onnx: Any, model: Any, reader: str) -> None:
        self.onnx = onnx
        self.reader = reader
        check_names(model, reader)
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        version = self.opsets.get("", self.opsets.get("ai.onnx"))
        if version is None:
            raise CompileError(
                f"{reader}: the model states no version of ONNX's operators; add the domain '' "
                "to its opset_import"
            )
        if version < _OLDEST:
            raise CompileError(
                f"{reader}: the operators are of version {version}; convert the model to "
                f"{_OLDEST} at least, by onnx.version_converter.convert_version"
            )
        self._rules = Rules(onnx, {**self.opsets, "": version})
        self.arguments: list[Value] = []
        self.results: dict[str, Value] = {}
        self.dtype = "f32"
        self._found: dict[str, Value] = {}
        self._types: list[str] = []
        self._elements = ElementTypes(onnx, self._rules)
        graph = model.graph
        held = {tensor.name: tensor for tensor in graph.initializer}
        for name, tensor in held.items():
            self._found[name] = self._weight(name, self._array(tensor))
            self._elements.give(name, tensor.data_type)
        for entry in graph.input:
            if entry.name in held:
                cure = "correct the entry or the initializer"
                self._check_declared("input", entry, cure, its="initializer")
            else:
                self._found[entry.name] = self._input(entry)
                self._elements.give(entry.name, entry.type.tensor_type.elem_type)
        known = [_FLOATS[kind] for kind in self._types if kind in _FLOATS]
        self.dtype = known[0] if known else "f32"
        for node in graph.node:
            self._read(node)
        for entry in graph.output:
            self.results[entry.name] = self._value(entry.name)
        for entry in graph.output:
            self._check_declared("output", entry, "write the model again")
        for entry in graph.value_info:
            self._check_declared("value", entry, "correct or delete its value_info")

    def _value(self, name: str) -> Value:
        if name not in self._found:
            raise CompileError(
                f"{self.reader}: '{name}' is not made by any operator, or is a second result of an "
                "operator whose first result alone is supported; write the model without it"
            )
        return self._found[name]

    def _array(self, tensor: Any) -> Any:
        try:
            return self.onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # as in _loaded
            raise CompileError(
                f"{self.reader}: the numbers of '{tensor.name}' cannot be read: {error}; write "
                "the model again"
            ) from error

    def _weight(self, name: str, array: Any) -> Value:
        self._types.append(str(array.dtype))
        if str(array.dtype) not in _FLOATS:
            return _whole(of.constant(array), name)
        array = array.astype(np.float32)
        # Single numbers say what is done, and a mask is no weight, even if it hides nothing.
        is_mask = np.any(array <= MINUS_INFINITY) or (array.ndim > 1 and not np.any(array != 0))
        is_weight = array.size > 1 and not is_mask
        role = "weight" if is_weight else "constant"
        return Value(role, (), array.shape, {"name": name}, Place(), array)

    def _input(self, entry: Any) -> Value:
        kind = entry.type.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        if not kind.HasField("shape") or None in sizes:
            names = [d.dim_param or d.dim_value or "?" for d in kind.shape.dim]
            raise CompileError(
                f"{self.reader}: input '{entry.name}' has shape {names}, which is not static; "
                "export the model with numbers, or set them by "
                "onnx.tools.update_model_dims.update_inputs_outputs_dims"
            )
        try:
            scalar = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        except (KeyError, TypeError):
            raise CompileError(
                f"{self.reader}: input '{entry.name}' has the type {kind.elem_type}, which ONNX "
                "does not have; write the model again"
            ) from None
        attributes: dict[str, Any] = {"name": entry.name}
        if str(scalar) in _FLOATS:
            self._types.append(str(scalar))
        else:
            attributes["dtype"] = of.WHOLE_TYPES.get(str(scalar), str(scalar))
        value = Value("input", (), tuple(int(size or 0) for size in sizes), attributes)
        self.arguments.append(value)
        return value

    def _read(self, node: Any) -> None:
        place = _place(node)
        try:
            self._rules.check(node)
        except BrokenRule as error:
            raise self._refused(node, place, error) from error
        inputs = [self._value(name) if name else None for name in node.input]
        # Values that the body of an If or a Loop takes from outside.
        outer = [self._value(name) for name in outer_values(node)]
        try:
            bound = self._elements.check(node)
        except WrongType as error:
            raise CompileError(
                f"{self.reader}: {node.op_type} in {place} {error}; give it such an input, as by a "
                "Cast, or write the model again"
            ) from None
        attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        made: Any = None
        why = ""
        if node.op_type == "Shape" and inputs[0] is not None:
            shape = inputs[0].shape[attributes.get("start") : attributes.get("end")]
            made = of.constant(np.array(shape, np.int64), place)
        elif node.op_type == "Size" and inputs[0] is not None:
            made = of.constant(np.int64(np.prod(inputs[0].shape, dtype=np.int64)), place)
        elif outer:
            why = "its body takes values from outside"
        elif all(x is None or x.is_constant for x in inputs) and not _is_random(node, inputs):
            made = self._computed(node, inputs, place)
        else:
            made, why = self._written(node, inputs, attributes, place)
        # After operators that say better what does not fit.
        try:
            inferred = self._elements.follow(node, bound, inputs)
            if made is None:
                own = [x for x in (*inputs, *outer) if x is not None]
                results = self._unknown(node, own, place, why, inferred)
            else:
                several = made if isinstance(made, tuple) else (made,)
                results = dict(zip(node.output, several, strict=False))
                check_results(results, inferred, inputs)
        except BrokenRule as error:
            raise self._refused(node, place, error) from error
        self._found |= results

    def _check_declared(self, kind: str, entry: Any, cure: str, *, its: str = "operator") -> None:
        """Refuse a value that is of another type or shape than the model declares."""
        if entry.name not in self._found:
            return
        try:
            self._elements.check_result(entry.name, entry.type.tensor_type.elem_type, its)
            check_shape(entry, self._found[entry.name].shape, its)
        except (WrongType, WrongShape) as error:
            raise CompileError(f"{self.reader}: {kind} {error}; {cure}") from None

    def _refused(self, node: Any, place: Place, error: BrokenRule) -> CompileError:
        return CompileError(f"{self.reader}: {node.op_type} in {place} {error}")

    def _computed(self, node: Any, inputs: Sequence[Value | None], place: Place) -> Any:
        """Results of a node of known numbers, by the reference of ONNX."""
        feeds = {name: x.array for name, x in zip(node.input, inputs, strict=True) if x is not None}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                run = self.onnx.reference.ReferenceEvaluator(node, opsets=self.opsets)
                results = run.run(None, feeds)
            except Exception as error:
                raise CompileError(
                    f"{self.reader}: {node.op_type} in {place} cannot be computed: {error}"
                ) from error
        values = []
        for result in results:
            value = of.constant(result, place)
            values.append(_whole(value) if value.array.dtype.kind in "biu" else value)
        return tuple(values)

    def _written(
        self, node: Any, inputs: Sequence[Value | None], attributes: dict[str, Any], place: Place
    ) -> tuple[Any, str]:
        """What an operator makes; or None, of one that is not known, and why."""
        other = node.domain == "com.microsoft" and node.op_type in _OTHER_OF_MICROSOFT
        why = f"domain {node.domain}" if other or node.domain not in _DOMAINS else ""
        if node.op_type in OPS and not why:
            try:
                given = attributes | {"outputs": len(node.output)}
                return OPS[node.op_type](inputs, given, place), ""
            except Unsupported as error:
                why = str(error)
            except _UNFIT as error:
                # Of the right types, but axes, sizes and shapes do not fit each other, or memory.
                raise self._refused(node, place, unfit(inputs, error)) from error
        if all(x.op in ("constant", "weight") for x in inputs if x is not None):
            if _is_random(node, inputs):
                return None, why or "its numbers are random"
            return self._computed(node, inputs, place), ""  # a mask, of numbers in the file
        return None, why

    def _unknown(
        self, node: Any, inputs: list[Value], place: Place, why: str, inferred: Mapping[str, Any]
    ) -> dict[str, Value]:
        """An operator of which only the name is known; its results have the shapes of ONNX."""
        made = {}
        for name in filter(None, node.output):
            sizes = known_shape(inferred, name)
            if sizes is None:
                raise CompileError(
                    f"{self.reader}: {node.op_type} in {place} is unknown, as is the shape of its "
                    f"result{f' ({why})' if why else ''}; write the model without it"
                )
            if 0 in sizes:
                raise CompileError(
                    f"{self.reader}: {node.op_type} in {place} gives '{name}' of shape {sizes}, "
                    "expected sizes from 1; write the model without it"
                )
            made[name] = of.unknown(node.op_type, inputs, sizes, place, why)
        return made


def _whole(value: Value, name: str | None = None) -> Value:
    """A constant of whole numbers or bools, with its scalar type."""
    scalar = str(value.array.dtype)
    value.attributes = {"name": name, "dtype": of.WHOLE_TYPES.get(scalar, scalar)}
    return value


def _is_random(node: Any, inputs: Sequence[Value | None]) -> bool:
    """Whether every run of a node gives other numbers."""
    if node.op_type == "Dropout":
        training = inputs[2] if len(inputs) > 2 else None
        return training is not None and training.number != 0
    return node.op_type.startswith("Random") or node.op_type in _RANDOM


def _place(node: Any) -> Place:
    """The place that PyTorch's exporter records for a node, or else the name of the node.

    Nothing depends on these records, so that those that cannot be read are left out.
    """
    texts = ((entry.key, entry.value) for entry in node.metadata_props)
    said = {key: value for key, value in texts if isinstance(value, str)}
    module = node.name or f"{node.op_type} '{''.join(node.output[:1])}'"
    try:
        scopes = ast.literal_eval(said.get("pkg.torch.onnx.name_scopes", ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        scopes = None
    if isinstance(scopes, list) and len(scopes) > 1 and isinstance(scopes[-2], str):
        module = scopes[-2]
    frames = _FRAME.findall(said.get("pkg.torch.onnx.stack_trace", ""))
    own = [frame for frame in frames if not _OF_PYTORCH.search(PurePath(frame[0]).as_posix())]
    return Place(module, f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else "")
