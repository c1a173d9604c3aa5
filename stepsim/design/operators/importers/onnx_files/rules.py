"""ONNX's own rules for a node: what its operator declares, and shapes that fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepsim.design.operators.importers.onnx_files.declared import outer_values
from stepsim.design.operators.importers.values import Value

__all__ = ["FLAGS", "BrokenRule", "Rules", "check_results", "known_shape", "unfit"]

FLAGS: Final = frozenset((
    "align_corners", "allowzero", "antialias", "batch_axis", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "exclusive",
    "fmod", "input_forget", "interleaved", "inverse", "is_case_sensitive", "is_causal", "keepdims",
    "largest", "layout", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided",
    "periodic", "reverse", "saturate", "select_last_index", "sorted", "storage_order", "time_axis",
    "training_mode", "transA", "transB", "upper",
))  # fmt: skip
"""Attributes, of whichever operator, that are whole numbers and may be 0 or 1 alone."""

_REAL_TYPES: Final = (1, 10, 11, 16)
"""FLOAT, FLOAT16, DOUBLE and BFLOAT16 of ``TensorProto``."""
_PADDING: Final = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_REDUCTIONS: Final = ("none", "add", "mul", "max", "min")
_CHOICES: Final[Mapping[tuple[str, str], tuple[int, ...] | tuple[str, ...]]] = {
    ("Attention", "qk_matmul_output_mode"): (0, 1, 2, 3),
    ("Attention", "softmax_precision"): _REAL_TYPES,
    ("AveragePool", "auto_pad"): _PADDING,
    ("Conv", "auto_pad"): _PADDING,
    ("Gelu", "approximate"): ("none", "tanh"),
    ("LayerNormalization", "stash_type"): _REAL_TYPES,
    ("MaxPool", "auto_pad"): _PADDING,
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("RMSNormalization", "stash_type"): _REAL_TYPES,
    ("ScatterElements", "reduction"): _REDUCTIONS,
    ("ScatterND", "reduction"): _REDUCTIONS,
}
"""Values of other attributes of operators that are read."""

_OF_LATER: Final = "Unrecognized attribute"
"""What ONNX says of an attribute that this version of an operator does not have."""

_MOST_NUMBERS: Final = 4096
"""Numbers of an input that say how its operator works, such as sizes; weights have more."""


class BrokenRule(Exception):
    """What a node has that its operator does not allow, and how to correct it."""


class Rules:
    """The rules for the nodes of a model.

    Parameters
    ----------
    opsets : versions of the operators by domain; that of ONNX itself is named "".
    """

    def __init__(self, onnx: Any, opsets: Mapping[str, int]) -> None:
        self._onnx = onnx
        self._opsets = opsets
        self._own = self._context(opsets)
        self._newest = self._context({**opsets, "": onnx.defs.onnx_opset_version()})

    def _context(self, opsets: Mapping[str, int]) -> Any:
        made = self._onnx.checker.C.CheckerContext()
        made.ir_version = self._onnx.IR_VERSION
        made.opset_imports = dict(opsets)
        return made

    def schema(self, node: Any) -> Any:
        """The declaration of the operator of a node; None of one that ONNX does not know.

        It is of the version of the model, or the newest one of a node with an attribute that only
        later versions have, which some exporters write.
        """
        domain = "" if node.domain == "ai.onnx" else node.domain
        defs = self._onnx.defs
        if not defs.has(node.op_type, domain):
            return None
        newest = defs.get_schema(node.op_type, domain)
        try:
            own = defs.get_schema(node.op_type, self._opsets.get(domain, 0), domain)
        except defs.SchemaError:
            return newest
        return own if {one.name for one in node.attribute} <= set(own.attributes) else newest

    def check(self, node: Any) -> None:
        """Check the numbers of inputs and results, and names and values of attributes.

        Raises
        ------
        BrokenRule : the operator does not have them.
        """
        if not node.output:
            raise BrokenRule("has no result; write the model again")
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in self._opsets:
            raise BrokenRule(
                f"is of the domain '{domain}', of whose operators the model states no version; add "
                "the domain to its opset_import"
            )
        schema = self.schema(node)
        if schema is None or schema.domain:
            return  # nobody knows what it has
        if outer_values(node):
            return  # ONNX checks a node alone, and knows of no values around it
        try:
            self._onnx.checker.check_node(node, self._own)
        except Exception as error:  # what ONNX raises has no common class
            late = _OF_LATER in str(error)
            if late and {one.name for one in node.attribute} <= set(schema.attributes):
                self._check_as_newest(node)
            else:
                raise BrokenRule(f"is not valid: {error}; write the model again") from error
        for attribute in node.attribute:
            self._check_value(node.op_type, attribute)

    def _check_as_newest(self, node: Any) -> None:
        try:
            self._onnx.checker.check_node(node, self._newest)
        except Exception as error:  # as above
            raise BrokenRule(f"is not valid: {error}; write the model again") from error

    def _check_value(self, operator: str, attribute: Any) -> None:
        name = attribute.name
        choices = (0, 1) if name in FLAGS else _CHOICES.get((operator, name))
        if choices is None:
            return
        given = self._onnx.helper.get_attribute_value(attribute)
        found = given.decode(errors="replace") if isinstance(given, bytes) else given
        if found not in choices:
            raise BrokenRule(
                f"has {name}={found}, expected {' or '.join(map(str, choices))}; correct the "
                "attribute, or write the model again"
            )

    def results(
        self, node: Any, types: Mapping[str, int], inputs: Sequence[Value | None]
    ) -> dict[str, Any]:
        """Types of the results by name, each a ``TypeProto``, as far as ONNX knows them.

        Parameters
        ----------
        types : element types of values by name, of every input of the node.

        Raises
        ------
        BrokenRule : the shapes of the inputs, and numbers that are known, do not fit each other or
            the attributes.
        """
        schema = self.schema(node)
        given = {name: x for name, x in zip(node.input, inputs, strict=True) if x is not None}
        # ONNX itself ends the process over some nodes without elements.
        if schema is None or any(size < 1 for x in given.values() for size in x.shape):
            return {}
        helper = self._onnx.helper
        shapes = {
            name: helper.make_tensor_type_proto(types[name], x.shape) for name, x in given.items()
        }
        numbers = {
            name: self._onnx.numpy_helper.from_array(np.asarray(x.array), name)
            for name, x in given.items()
            if x.array is not None and np.size(x.array) <= _MOST_NUMBERS
        }
        numbers = {name: x for name, x in numbers.items() if x.data_type == types[name]}
        opsets = [helper.make_opsetid(domain, at) for domain, at in self._opsets.items()]
        try:
            found: dict[str, Any] = self._onnx.shape_inference.infer_node_outputs(
                schema, node, shapes, numbers, opset_imports=opsets
            )
        except Exception as error:  # as above
            raise unfit(inputs, error) from error
        for name, kind in found.items():
            sizes = [one.dim_value for one in kind.tensor_type.shape.dim]
            if min(sizes, default=0) < 0:
                raise unfit(inputs, f"'{name}' would have the sizes {sizes}")
        return found


def known_shape(inferred: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    """The shape of a result, as `Rules.results` found it; None if not all of it is known."""
    if name not in inferred or not inferred[name].tensor_type.HasField("shape"):
        return None
    sizes = inferred[name].tensor_type.shape.dim
    known = all(size.HasField("dim_value") for size in sizes)
    return tuple(size.dim_value for size in sizes) if known else None


def check_results(
    made: Mapping[str, Value], inferred: Mapping[str, Any], inputs: Sequence[Value | None]
) -> None:
    """Check that results have the shapes that ONNX infers.

    Raises
    ------
    BrokenRule : one has another, such as that of a bound which is no scalar.
    """
    for name, value in made.items():
        expected = known_shape(inferred, name)
        if expected not in (None, value.shape):
            raise unfit(inputs, f"'{name}' would have shape {value.shape}, expected {expected}")


def unfit(inputs: Sequence[Value | None], why: object) -> BrokenRule:
    """Axes, sizes and shapes of inputs do not fit each other, or the attributes."""
    shapes = ", ".join("none" if x is None else str(x.shape) for x in inputs)
    return BrokenRule(f"does not fit inputs of shapes {shapes} ({why}); write the model again")
