"""Element types of the values of an ONNX model, and the rules of its operators for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepsim.design.operators.importers import values as of
from stepsim.design.operators.importers.onnx_files.rules import Rules
from stepsim.design.operators.importers.values import Value

__all__ = ["ElementTypes", "WrongType"]


class WrongType(Exception):
    """Element types that an operator does not take or give; says which."""


class ElementTypes:
    """The element types of values by name, as far as ONNX knows them."""

    def __init__(self, onnx: Any, rules: Rules) -> None:
        self._onnx = onnx
        self._rules = rules
        self._types: dict[str, int] = {}

    def give(self, name: str, element: int) -> None:
        """A value that no node makes has this type, a number of ``TensorProto``."""
        self._types[name] = element

    def check(self, node: Any) -> dict[str, int]:
        """Check the types of the inputs of a node.

        Returns
        -------
        The types that the type parameters of its operator have.

        Raises
        ------
        WrongType
            An input is of a type that the operator does not take, or two inputs differ that it
            takes of one type only.
        """
        schema = self._schema(node)
        if schema is None:
            return {}
        newest = self._onnx.defs.get_schema(node.op_type)
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
        return {parameter: element for parameter, (element, _) in bound.items()}

    def follow(
        self, node: Any, bound: Mapping[str, int], inputs: Sequence[Value | None]
    ) -> dict[str, Any]:
        """Take the types of the results of a node: those of its inputs, or what ONNX infers.

        Parameters
        ----------
        bound : what `check` returned.

        Returns
        -------
        Types with shapes by name, as far as ONNX infers them.

        Raises
        ------
        BrokenRule : as `Rules.results`.
        """
        known = self._types.keys() >= {name for name in node.input if name}
        assumed = {
            name: self._types.get(name) or self._assumed(x)
            for name, x in zip(node.input, inputs, strict=True)
            if x is not None
        }
        inferred = self._rules.results(node, assumed, inputs)
        schema = self._schema(node)
        for at, name in enumerate(node.output):
            self._types.pop(name, None)
            formal = None if schema is None else self._formal(schema, at, results=True)
            if not name or formal is None:
                continue
            if formal.type_str in bound and formal.is_homogeneous:
                self._types[name] = bound[formal.type_str]
            elif formal.types == {"tensor(bool)"}:
                self._types[name] = self._onnx.TensorProto.BOOL
            elif known and (element := inferred[name].tensor_type.elem_type if name in inferred
                            else 0):  # fmt: skip
                self._types[name] = element
        return inferred

    def _schema(self, node: Any) -> Any:
        """The declaration of an operator of ONNX itself."""
        schema = self._rules.schema(node)
        return None if schema is None or schema.domain else schema

    def _assumed(self, x: Value) -> int:
        """The type of a value of which ONNX knows none, for rules of shapes."""
        named = {text: scalar for scalar, text in of.WHOLE_TYPES.items()}
        scalar = named.get(str(x.attributes.get("dtype")))
        if scalar is None:
            return int(self._onnx.TensorProto.FLOAT)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(scalar)))

    def check_result(self, name: str, declared: int, its: str = "operator") -> None:
        """Raise WrongType for a value that is not of the type that the model declares.

        ``its`` says what gives it.
        """
        element = self._types.get(name)
        if declared and element is not None and element != declared:
            raise WrongType(
                f"'{name}' is declared as {self._text(declared)}, and its {its} gives "
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
