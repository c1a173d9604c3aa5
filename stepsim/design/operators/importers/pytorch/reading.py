"""Reads an exported program of PyTorch, node by node."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from stepsim.design.operators.importers import logic, values as of
from stepsim.design.operators.importers.pytorch.ops import OPS
from stepsim.design.operators.importers.values import Place, Unsupported, Value
from stepsim.errors import CompileError

_FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_OF_PYTORCH = re.compile(r"/torch/(nn/|_|utils/|fx/|export/)")
_CONVERSIONS = ("to.dtype", "to.dtype_layout", "_to_copy.default", "type_as.default")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_ANY_TYPE = (
    "zeros_like", "ones_like", "new_zeros", "new_ones", "argmax", "argmin", "bucketize",
    "searchsorted", "count_nonzero", "nonzero", "multinomial",
)  # fmt: skip
"""Functions whose whole numbers are positions, counts or constants, not converted values."""


def _short(target: Any) -> str:
    """``add.Tensor`` of ``aten.add.Tensor``; operators of other libraries keep their name."""
    return str(target).removeprefix("aten.")


def _computes_nothing(target: Any) -> bool:
    return getattr(target, "__name__", "") == "getitem" or _short(target).startswith("_assert")


def unknown_targets(program: Any) -> set[Any]:
    """Operators of a program that are in no table, without those of numbers alone."""
    known_results: set[Any] = set()
    found = set()
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if all(x in known_results for x in node.all_input_nodes):
            known_results.add(node)
        elif _short(node.target) not in OPS and not _computes_nothing(node.target):
            found.add(node.target)
    return found


def place_of(node: Any) -> Place:
    """The module that a node is of, and the last line that is not PyTorch's own."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values()]
    module = re.sub(r"^L\['self'\]\.?", "", paths[-1]) if paths else ""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not _OF_PYTORCH.search(PurePath(frame[0]).as_posix())]
    line = f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""
    return Place(module, line)


@dataclass(eq=False)
class _Known:
    """A tensor of PyTorch that is known before the model runs, and its value once one is needed."""

    tensor: Any
    name: str | None = None
    value: Value | None = None


@dataclass(eq=False)
class _Several:
    """The results of an operator that is not known."""

    target: str
    inputs: list[Value]
    place: Place
    why: str


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from _leaves(part)
    elif isinstance(x, dict):
        yield from _leaves(list(x.values()))
    else:
        yield x


class Reading:
    """The values of an exported program without operators in place.

    Attributes
    ----------
    arguments : tensors that the program is called with.
    results : tensors that it returns.
    mutated : what it writes to its buffers and arguments, by their names.
    """

    def __init__(self, torch: Any, program: Any) -> None:
        self.torch = torch
        self.program = program
        self.arguments: list[Value] = []
        self.results: list[Value] = []
        self.mutated: dict[str, Value] = {}
        self._found: dict[Any, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch, about what constants are computed with
            self._read()

    def dtype(self) -> str | None:
        """The scalar type of the program: that of its first parameter, or of its first tensor."""
        tensors = [*self.program.state_dict.values()]
        tensors += [node.meta.get("val") for node in self.program.graph.nodes]
        for tensor in tensors:
            if isinstance(tensor, self.torch.Tensor) and tensor.dtype.is_floating_point:
                return _FLOATS.get(str(tensor.dtype).removeprefix("torch."))
        return None

    def _read(self) -> None:
        signature = self.program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        changed = set(signature.buffers_to_mutate.values())
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._found[node] = self._argument(node, specs[node.name], changed)
            elif node.op == "call_function":
                self._found[node] = self._call(node)
            elif node.op == "output":
                self._outputs(node, signature)
            else:
                raise CompileError(
                    f"{place_of(node)}: {node.op} '{node.target}' of an exported program is not "
                    "known; control flow that depends on values cannot be compiled"
                )

    # Arguments and results

    def _array(self, tensor: Any) -> Any:
        tensor = tensor.detach().cpu()
        return tensor.float().numpy() if tensor.dtype.is_floating_point else tensor.numpy()

    def _dtype(self, tensor: Any) -> str | None:
        """The scalar type of what is not a floating-point tensor; others have that of the graph."""
        if tensor.dtype.is_floating_point:
            return None
        scalar = str(tensor.dtype).removeprefix("torch.")
        return of.WHOLE_TYPES.get(scalar, scalar)

    def _argument(self, node: Any, spec: Any, changed: Collection[str]) -> Any:
        kind, target = spec.kind.name, spec.target
        if kind == "USER_INPUT":
            tensor = node.meta.get("val")
            if not isinstance(tensor, self.torch.Tensor):
                return tensor  # a number, which is part of the program
            attributes = {"name": node.name, "dtype": self._dtype(tensor)}
            written = node.name in self.program.graph_signature.user_inputs_to_mutate.values()
            role = "state" if written else "input"
            value = Value(role, (), tuple(tensor.shape), attributes)
            self.arguments.append(value)
            return value
        held = self.program.state_dict
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            raise CompileError(f"argument '{node.name}' of an exported program is a {kind}; pass "
                               "tensors and numbers only")  # fmt: skip
        tensor = held[target] if target in held else self.program.constants[target]
        if kind == "PARAMETER" or target in changed:
            role = "weight" if kind == "PARAMETER" else "state"
            array = self._array(tensor)
            if role == "state":
                array = array.copy()  # which a run of the module would change
            return Value(role, (), array.shape, {"name": target}, Place(), array)
        return _Known(tensor, target)

    def _outputs(self, node: Any, signature: Any) -> None:
        values = [self._found.get(arg) if hasattr(arg, "op") else None for arg in node.args[0]]
        for value, spec in zip(values, signature.output_specs, strict=True):
            if spec.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION"):
                self.mutated[spec.target] = self._value(value, Place())
            elif isinstance(value, (Value, _Known)):
                self.results.append(self._value(value, Place()))

    def _value(self, x: Any, place: Place) -> Any:
        """An argument of an operator, with tensors that are known as constants."""
        if isinstance(x, _Known):
            if x.value is None:
                x.value = of.constant(self._array(x.tensor), place)
                x.value.attributes = {"name": x.name, "dtype": self._dtype(x.tensor)}
            return x.value
        if isinstance(x, (list, tuple)):
            return [self._value(part, place) for part in x]
        return x

    # Operators

    def _call(self, node: Any) -> Any:
        if _short(node.target).startswith("_assert"):
            return None
        place = place_of(node)
        arguments = self.torch.fx.node.map_arg((node.args, node.kwargs), self._found.get)
        if getattr(node.target, "__name__", "") == "getitem":
            whole, at = arguments[0]
            if not isinstance(whole, _Several):
                return whole[at]
            shape = tuple(node.meta["val"].shape)
            return of.unknown(whole.target, whole.inputs, shape, whole.place, whole.why)
        leaves = list(_leaves(list(arguments)))
        if not any(isinstance(x, (Value, _Several)) for x in leaves) and not self._random(node):
            return self._computed(node, arguments)
        return self._written(node, arguments, place)

    def _random(self, node: Any) -> bool:
        tags = getattr(node.target, "tags", ())
        return self.torch.Tag.nondeterministic_seeded in tags

    def _computed(self, node: Any, arguments: Any) -> Any:
        """The result of an operator of known tensors and numbers, by PyTorch itself."""

        def tensors(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [tensors(part) for part in x]
            return x.tensor if isinstance(x, _Known) else x

        def known(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return tuple(known(part) for part in x)
            return _Known(x) if isinstance(x, self.torch.Tensor) else x

        args, kwargs = arguments
        with self.torch.no_grad():
            return known(
                node.target(*map(tensors, args), **{k: tensors(x) for k, x in kwargs.items()})
            )

    def _written(self, node: Any, arguments: Any, place: Place) -> Any:
        """The translation of an operator, by the table."""
        name = _short(node.target)
        args = self._value(arguments[0], place)
        kwargs = {key: self._value(x, place) for key, x in arguments[1].items()}
        made = node.meta.get("val")
        why = self._loss(node, name)
        if name in _CONVERSIONS and not why and made.dtype == self.torch.bool:
            return of.elementwise("ne", (args[0], of.constant(0.0)), place)
        if name in OPS and not why:
            self._completed(node, name, args, kwargs, place)
            try:
                written = OPS[name](*args, **kwargs, at=place)
            except Unsupported as error:
                why = str(error)
            except (TypeError, CompileError) as error:
                raise CompileError(f"{place}: {node.target} cannot be read: {error}; please report "
                                   "this model") from error  # fmt: skip
            else:
                self._check(node, written, place)
                return written
        inputs = [x for x in _leaves([args, kwargs]) if isinstance(x, Value)]
        if isinstance(made, self.torch.Tensor):
            return of.unknown(str(node.target), inputs, tuple(made.shape), place, why)
        return _Several(str(node.target), inputs, place, why)

    def _check(self, node: Any, written: Any, place: Place) -> None:
        shape = getattr(node.meta.get("val"), "shape", None)
        if isinstance(written, Value) and shape is not None and written.shape != tuple(shape):
            raise CompileError(
                f"{place}: {node.target} was read as {written} where PyTorch makes {tuple(shape)}; "
                "please report this model"
            )

    def _loss(self, node: Any, name: str) -> str:
        """Why values that are real numbers here would differ; empty when they do not."""
        made = node.meta.get("val")
        if not isinstance(made, self.torch.Tensor) or made.dtype.is_floating_point:
            return ""
        function = name.partition(".")[0]
        if function in (*_COMPARISONS, *_OF_ANY_TYPE):
            return ""
        given = [getattr(x, "meta", {}).get("val", x) for x in _leaves([node.args, node.kwargs])]
        sources = [x.dtype for x in given if isinstance(x, self.torch.Tensor)]
        real = [str(x) for x in sources if x.is_floating_point]
        real += [f"{x:g}" for x in given if isinstance(x, float) and not x.is_integer()]
        if real:
            return f"it converts {real[0]} to {made.dtype}, which changes values"
        if made.dtype == self.torch.bool and function == "add":
            return "it adds bools, whose sum is a bool; use torch.maximum"
        if function.startswith("bitwise_") and made.dtype != self.torch.bool:
            return "it takes whole numbers bit by bit; known are bools"
        return ""

    def _completed(
        self, node: Any, name: str, args: list[Any], kwargs: dict[str, Any], place: Place
    ) -> None:
        """Fill in the defaults that depend on the types of an operator's tensors."""
        if name == "rms_norm.default" and len(args) < 4 and kwargs.get("eps") is None:
            kwargs["eps"] = self.torch.finfo(node.args[0].meta["val"].dtype).eps
        if name == "rms_norm.default" and len(args) == 4 and args[3] is None:
            args[3] = self.torch.finfo(node.args[0].meta["val"].dtype).eps
        if name == "scaled_dot_product_attention.default":
            mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
            given = node.args[3] if len(args) > 3 else node.kwargs.get("attn_mask")
            is_bool = mask is not None and given.meta["val"].dtype == self.torch.bool
            if is_bool and isinstance(mask, Value) and not mask.is_constant:
                kwargs["seen"], mask = mask, logic.added_mask(mask, place)
            kwargs.pop("attn_mask", None)
            if len(args) > 3:
                args[3] = mask
            elif mask is not None:
                args.append(mask)
