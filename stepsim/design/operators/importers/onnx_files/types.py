"""Element types of the values of an ONNX model, and the rules of its operators for them."""

from __future__ import annotations

from typing import Any

__all__ = ["ElementTypes", "WrongType"]


class WrongType(Exception):
    """Element types that an operator does not take or give; says which."""


class ElementTypes:
    """The element types of values by name, as far as ONNX knows them.

    Parameters
    ----------
    opsets : versions of the operators by domain; that of ONNX itself is named "".
    """

    def __init__(self, onnx: Any, opsets: dict[str, int]) -> None:
        self._onnx = onnx
        self._opsets = opsets
        self._types: dict[str, int] = {}

    def give(self, name: str, element: int) -> None:
        """A value that no node makes has this type, a number of ``TensorProto``."""
        self._types[name] = element

    def follow(self, node: Any) -> None:
        """Check the types of the inputs of a node, and take those of its results.

        Raises
        ------
        WrongType
            An input is of a type that the operator does not take, or two inputs differ that it
            takes of one type only.
        """
        domain = "" if node.domain == "ai.onnx" else node.domain
        defs = self._onnx.defs
        if domain or not defs.has(node.op_type):
            return  # nobody knows its rules
        newest = defs.get_schema(node.op_type)
        try:
            schema = defs.get_schema(node.op_type, self._opsets[""], "")
        except defs.SchemaError:
            schema = newest
        bound = self._checked(node, schema, newest)
        self._take(node, schema, bound)

    def _checked(self, node: Any, schema: Any, newest: Any) -> dict[str, tuple[int, str]]:
        """Types of the type parameters of a schema, each with the input that has it."""
        bound: dict[str, tuple[int, str]] = {}
        for at, name in enumerate(node.input):
            element = self._types.get(name)
            formal = self._formal(schema, at)
            if formal is not None and not name and not self._is_optional(formal):
                raise WrongType(f"takes an input as {formal.name}, found none at place {at}")
            if not name or element is None or formal is None:
                continue
            # Some exporters write types that only later versions of an operator take.
            allowed = set(formal.types)
            if (later := self._formal(newest, at)) is not None:
                allowed |= set(later.types)
            if f"tensor({self._text(element)})" not in allowed:
                tensors = [kind[7:-1] for kind in sorted(allowed) if kind.startswith("tensor(")]
                raise WrongType(
                    f"takes {', '.join(tensors) or 'no tensor'} as {formal.name}, found "
                    f"{self._text(element)} in '{name}'"
                )
            if formal.type_str.startswith("tensor(") or not formal.is_homogeneous:
                continue
            first, other = bound.setdefault(formal.type_str, (element, name))
            if first != element:
                raise WrongType(
                    f"takes '{other}' and '{name}' of one type, found {self._text(first)} and "
                    f"{self._text(element)}"
                )
        return bound

    def _take(self, node: Any, schema: Any, bound: dict[str, tuple[int, str]]) -> None:
        """The types of the results: those of inputs, or what ONNX infers."""
        inferred: dict[str, Any] | None = None
        for at, name in enumerate(node.output):
            self._types.pop(name, None)
            formal = self._formal(schema, at, results=True)
            if not name or formal is None:
                continue
            if formal.type_str in bound and formal.is_homogeneous:
                self._types[name] = bound[formal.type_str][0]
                continue
            if formal.types == {"tensor(bool)"}:
                self._types[name] = self._onnx.TensorProto.BOOL
                continue
            if inferred is None:
                inferred = self._inferred(node, schema)
            kind = inferred.get(name)
            if kind is not None and kind.HasField("tensor_type") and kind.tensor_type.elem_type:
                self._types[name] = kind.tensor_type.elem_type

    def _inferred(self, node: Any, schema: Any) -> dict[str, Any]:
        helper = self._onnx.helper
        given = {
            name: helper.make_tensor_type_proto(self._types[name], None)
            for name in node.input
            if name in self._types
        }
        opsets = [helper.make_opsetid(domain, at) for domain, at in self._opsets.items()]
        infer = self._onnx.shape_inference.infer_node_outputs
        try:
            found: dict[str, Any] = infer(schema, node, given, opset_imports=opsets)
        except Exception:  # of no common class: shapes that are not given, or a damaged node
            return {}
        return found

    def check_result(self, name: str, declared: int) -> None:
        """Raise WrongType for a result of the model that is not of the type it declares."""
        element = self._types.get(name)
        if declared and element is not None and element != declared:
            raise WrongType(
                f"output '{name}' is declared as {self._text(declared)}, and its operator gives "
                f"{self._text(element)}"
            )

    def _is_optional(self, formal: Any) -> bool:
        return bool(formal.option == self._onnx.defs.OpSchema.FormalParameterOption.Optional)

    def _formal(self, schema: Any, at: int, *, results: bool = False) -> Any:
        """The declaration of an input or result; None for one that there is not."""
        declared = schema.outputs if results else schema.inputs
        if at < len(declared):
            return declared[at]
        variadic = self._onnx.defs.OpSchema.FormalParameterOption.Variadic
        return declared[-1] if declared and declared[-1].option == variadic else None

    def _text(self, element: int) -> str:
        try:
            return str(self._onnx.TensorProto.DataType.Name(element).lower())
        except ValueError:
            return f"type {element}"
