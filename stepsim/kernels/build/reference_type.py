"""What the compiler makes of :func:`~stepsim.kernels.build.by_reference.by_reference`.

Compiled code hands a tuple of arrays over as seven words for each of them. As a pointer the state
costs one word per call; the descriptors of the arrays never change during a run, which every load
of them says, so that LLVM loads each once in a function, whatever is written meanwhile. Kernels are
compiled for either: what calls them decides.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils
from numba.core.types import NamedTuple, Type  # type: ignore[attr-defined]
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    type_callable,
)

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.columns import IS_CHECKED, Column, column


class Reference(Type):
    """A pointer to a named tuple of arrays of one dim."""

    def __init__(self, pointee: Any) -> None:
        self.pointee = pointee
        super().__init__(name=f"Reference({pointee})")

    @property
    def mangling_args(self) -> tuple[str, tuple[Any, ...]]:
        return "Reference", ()  # the name has all fields of all records

    def place(self, attribute: str) -> int | None:
        fields = self.pointee.fields
        return fields.index(attribute) if attribute in fields else None


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: Reference) -> None:
        super().__init__(manager, of, manager.lookup(of.pointee).get_value_type().as_pointer())


@infer_getattr
class _ReferenceAttribute(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Reference, attribute: str) -> Any:
        place = reference.place(attribute)
        return None if place is None else Column(reference.pointee.types[place].dtype)


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def load_array(context: Any, builder: Any, of: Reference, value: Any, attribute: str) -> Any:
    """The column of a field of the tuple that ``value`` points to."""
    place = of.place(attribute)
    assert place is not None
    array = of.pointee.types[place]
    # The model of an array knows where in the tuple the address is.
    fields = context.data_model_manager[array]._fields

    def load(field: str) -> Any:
        word = builder.load(cgutils.gep_inbounds(builder, value, 0, place, fields.index(field)))
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word

    return column(builder, load("data"), load("nitems") if IS_CHECKED else None)


@type_callable(by_reference)  # type: ignore[untyped-decorator]
def _type_by_reference(context: Any) -> Any:
    def typer(state: Any) -> Reference:
        return Reference(state)

    return typer


@lower_builtin(by_reference, NamedTuple)  # type: ignore[untyped-decorator]
def _point_to(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return cgutils.alloca_once_value(builder, arguments[0])
