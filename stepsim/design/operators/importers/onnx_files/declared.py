"""What the graph of an ONNX model declares of its values: names, element types and shapes."""

from __future__ import annotations

from typing import Any

from stepsim.errors import CompileError

__all__ = ["WrongShape", "check_names", "check_shape", "outer_values"]


class WrongShape(Exception):
    """The shape that a value has, and the one that is declared."""


def check_names(model: Any, reader: str) -> None:
    """Refuse names that are not text, and values of one name.

    Raises
    ------
    CompileError : a name is not UTF-8, which protobuf gives as bytes, or two have it.
    """
    graph = model.graph
    named = [*graph.initializer, *graph.input, *graph.output, *graph.value_info, *graph.node]
    names = [graph.name, *(one.name for one in named), *(one.domain for one in model.opset_import)]
    for node in graph.node:
        names += [node.op_type, node.domain, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    for name in names:
        if isinstance(name, bytes):
            raise CompileError(
                f"{reader}: the name {name!r} is not text in UTF-8, so that the file is "
                "damaged; write the model again"
            )
    made: dict[str, str] = {}
    for kind, entries in (("input", graph.input), ("initializer", graph.initializer)):
        seen: set[str] = set()
        for entry in entries:
            if entry.name in seen:
                raise CompileError(
                    f"{reader}: there are two of the name '{entry.name}' for an {kind}, expected "
                    "one; rename one of them"
                )
            seen.add(entry.name)
            made.setdefault(entry.name, f"an {kind}")  # an input may have an initializer
    for node in graph.node:
        own = f"a result of {node.op_type} in {node.name or 'a node without a name'}"
        for name in filter(None, node.output):
            if name in made:
                raise CompileError(
                    f"{reader}: '{name}' is {own}, and {made[name]} as well, expected each value "
                    "to be made once; rename one of them"
                )
            made[name] = own


def check_shape(entry: Any, shape: tuple[int, ...], its: str = "operator") -> None:
    """Refuse a value of another shape than its entry declares, as far as that states sizes.

    ``its`` says what gives the value.

    Raises
    ------
    WrongShape : the numbers of axes, or the sizes of one, differ.
    """
    kind = entry.type.tensor_type
    if not kind.HasField("shape"):
        return
    sizes = [one.dim_value if one.HasField("dim_value") else None for one in kind.shape.dim]
    if len(sizes) == len(shape) and all(
        size in (None, own) for size, own in zip(sizes, shape, strict=True)
    ):
        return
    texts = [one.dim_param or "?" if size is None else str(size)
             for one, size in zip(kind.shape.dim, sizes, strict=True)]  # fmt: skip
    raise WrongShape(
        f"'{entry.name}' is declared with shape ({', '.join(texts)}), and its {its} gives {shape}"
    )


def outer_values(node: Any) -> list[str]:
    """Names that the bodies of a node, as those of an If or a Loop, take from around it."""
    bodies = [
        body for one in node.attribute for body in (*((one.g,) if one.HasField("g") else ()),
                                                    *one.graphs)
    ]  # fmt: skip
    found: dict[str, None] = {}
    for body in bodies:
        known = {one.name for one in (*body.input, *body.initializer)}
        for inner in body.node:
            for name in (*filter(None, inner.input), *outer_values(inner)):
                if name not in known:
                    found[name] = None
            known |= set(inner.output)
        found |= {one.name: None for one in body.output if one.name not in known}
    return list(found)
