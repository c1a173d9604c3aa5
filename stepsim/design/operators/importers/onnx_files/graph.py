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
from stepsim.design.operators.importers.onnx_files.ops import OPS
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
_OLDEST = 13
"""Version of the operators from which on an axis of softmax means what it says."""
_OF_LATER = "Unrecognized attribute"
"""What ONNX says of an attribute that only later versions of an operator have."""
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
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        version = self.opsets.get("", self.opsets.get("ai.onnx", _OLDEST))
        if version < _OLDEST:
            raise CompileError(
                f"{reader}: the operators are of version {version}; convert the model to "
                f"{_OLDEST} at least, by onnx.version_converter.convert_version"
            )
        self._rules = onnx.checker.C.CheckerContext()
        self._rules.ir_version = onnx.IR_VERSION
        self._rules.opset_imports = {**self.opsets, "": version}
        self.arguments: list[Value] = []
        self.results: dict[str, Value] = {}
        self.dtype = "f32"
        self._found: dict[str, Value] = {}
        self._types: list[str] = []
        self._elements = ElementTypes(onnx, {**self.opsets, "": version})
        graph = model.graph
        self._check_names(graph)
        held = {tensor.name: tensor for tensor in graph.initializer}
        for name, tensor in held.items():
            self._found[name] = self._weight(name, self._array(tensor))
            self._elements.give(name, tensor.data_type)
        for entry in graph.input:
            if entry.name not in held:
                self._found[entry.name] = self._input(entry)
                self._elements.give(entry.name, entry.type.tensor_type.elem_type)
        known = [_FLOATS[kind] for kind in self._types if kind in _FLOATS]
        self.dtype = known[0] if known else "f32"
        for node in graph.node:
            self._read(node)
        for entry in graph.output:
            self.results[entry.name] = self._value(entry.name)
            try:
                self._elements.check_result(entry.name, entry.type.tensor_type.elem_type)
            except WrongType as error:
                raise CompileError(f"{reader}: {error}; write the model again") from None

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
        self._check(node)
        place = _place(node)
        inputs = [self._value(name) if name else None for name in node.input]
        self._follow_types(node, place)
        attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        made: Any
        if node.op_type == "Shape" and inputs[0] is not None:
            shape = inputs[0].shape[attributes.get("start") : attributes.get("end")]
            made = of.constant(np.array(shape, np.int64), place)
        elif node.op_type == "Size" and inputs[0] is not None:
            made = of.constant(np.int64(np.prod(inputs[0].shape, dtype=np.int64)), place)
        elif all(x is None or x.is_constant for x in inputs) and not node.op_type.startswith(
            "Random"
        ):
            made = self._computed(node, inputs, place)
        else:
            made = self._written(node, inputs, attributes, place)
        results = made if isinstance(made, tuple) else (made,)
        for name, value in zip(node.output, results, strict=False):
            self._found[name] = value

    def _check_names(self, graph: Any) -> None:
        """Refuse names that are not UTF-8, which protobuf gives as bytes."""
        named = [*graph.initializer, *graph.input, *graph.output, *graph.node]
        names = [one.name for one in named]
        for node in graph.node:
            names += [node.op_type, node.domain, *node.input, *node.output]
            names += [attribute.name for attribute in node.attribute]
        for name in names:
            if isinstance(name, bytes):
                raise CompileError(
                    f"{self.reader}: the name {name!r} is not text in UTF-8, so that the file is "
                    "damaged; write the model again"
                )

    def _check(self, node: Any) -> None:
        """Refuse a node whose inputs or attributes its operator does not have, or that has no
        result."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        if not node.output:
            raise CompileError(f"{self.reader}: {node.op_type} '{node.name}' has no result")
        if domain or not self.onnx.defs.has(node.op_type):
            return  # nobody knows what it has
        try:
            self.onnx.checker.check_node(node, self._rules)
        except Exception as error:  # as in _loaded
            if _OF_LATER in str(error):
                return
            raise CompileError(
                f"{self.reader}: {node.op_type} '{node.name}' is not valid: {error}; write the "
                "model again"
            ) from error

    def _follow_types(self, node: Any, place: Place) -> None:
        try:
            self._elements.follow(node)
        except WrongType as error:
            raise CompileError(
                f"{self.reader}: {node.op_type} in {place} {error}; give it such an input, as by a "
                "Cast, or write the model again"
            ) from None

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
    ) -> Any:
        other = node.domain == "com.microsoft" and node.op_type in _OTHER_OF_MICROSOFT
        why = f"domain {node.domain}" if other or node.domain not in _DOMAINS else ""
        if node.op_type in OPS and not why:
            try:
                given = attributes | {"outputs": len(node.output)}
                return OPS[node.op_type](inputs, given, place)
            except Unsupported as error:
                why = str(error)
            except _UNFIT as error:
                # Of the right types, but axes, sizes and shapes do not fit each other, or memory.
                shapes = ", ".join("none" if x is None else str(x.shape) for x in inputs)
                raise CompileError(
                    f"{self.reader}: {node.op_type} in {place} does not fit inputs of shapes "
                    f"{shapes} ({error}); write the model again"
                ) from error
        own = [x for x in inputs if x is not None]
        if all(x.op in ("constant", "weight") for x in own):
            return self._computed(node, inputs, place)  # such as a mask, of numbers in the file
        return self._unknown(node, own, place, why)

    def _unknown(self, node: Any, inputs: list[Value], place: Place, why: str) -> Any:
        """An operator of which only the name is known; its result has the shape of ONNX."""
        shapes = self._inferred(node, inputs)
        if any(shape is None for shape in shapes):
            raise CompileError(
                f"{self.reader}: {node.op_type} in {place} is unknown, as is the shape of its "
                f"result{f' ({why})' if why else ''}; write the model without it"
            )
        return tuple(
            of.unknown(node.op_type, inputs, shape, place, why)
            for shape in shapes
            if shape is not None
        )

    def _inferred(self, node: Any, inputs: list[Value]) -> list[tuple[int, ...] | None]:
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        names = [name for name in node.input if name]
        entries = [
            helper.make_tensor_value_info(
                name, self._element(x, kind), list(x.shape)
            )
            for name, x in zip(names, inputs, strict=True)
        ]  # fmt: skip
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = helper.make_graph([node], "node", entries, results)
        opsets = [helper.make_opsetid(domain, at) for domain, at in self.opsets.items()]
        try:
            found = self.onnx.shape_inference.infer_shapes(
                helper.make_model(graph, opset_imports=opsets)
            )
        except Exception:  # what ONNX does not know it does not infer
            return [None for _ in node.output]
        made = []
        for entry in found.graph.output:
            shape = entry.type.tensor_type
            known = shape.HasField("shape") and all(
                d.HasField("dim_value") for d in shape.shape.dim
            )
            made.append(tuple(d.dim_value for d in shape.shape.dim) if known else None)
        return made

    def _element(self, x: Value, kind: int) -> int:
        named = {text: scalar for scalar, text in of.WHOLE_TYPES.items()}
        scalar = named.get(str(x.attributes.get("dtype")))
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(scalar)) if scalar else kind)


def _whole(value: Value, name: str | None = None) -> Value:
    """A constant of whole numbers or bools, with its scalar type."""
    scalar = str(value.array.dtype)
    value.attributes = {"name": name, "dtype": of.WHOLE_TYPES.get(scalar, scalar)}
    return value


def _place(node: Any) -> Place:
    """The place that PyTorch's exporter records for a node, or else the name of the node."""
    said = {entry.key: entry.value for entry in node.metadata_props}
    module = node.name or f"{node.op_type} '{node.output[0]}'"
    try:
        scopes = ast.literal_eval(said.get("pkg.torch.onnx.name_scopes", ""))
        module = scopes[-2] if len(scopes) > 1 else module
    except (ValueError, SyntaxError):
        pass
    frames = _FRAME.findall(said.get("pkg.torch.onnx.stack_trace", ""))
    own = [frame for frame in frames if not _OF_PYTORCH.search(PurePath(frame[0]).as_posix())]
    return Place(module, f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else "")
