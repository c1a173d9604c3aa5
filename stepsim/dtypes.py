"""The table of scalar types: names, widths, and which of them operators compute with."""

from __future__ import annotations

import enum

from stepsim.errors import ArgError, DTypeError, did_you_mean
from stepsim.shown import shown


class DType(enum.Enum):
    """Scalar types: name, bits of an element, whether functions compute with it, other names.

    Types narrower than a byte are packed: two elements of 4 bits are one byte, and the bytes of a
    tile are rounded up. The scales of a quantized format are not counted.
    """

    f32 = ("f32", 32, True, "fp32", "float32", "float")
    bf16 = ("bf16", 16, True, "bfloat16")
    f16 = ("f16", 16, True, "fp16", "float16", "half")
    f8e4m3 = ("f8e4m3", 8, True, "fp8", "fp8_e4m3", "e4m3", "float8_e4m3fn", "float8_e4m3")
    f8e5m2 = ("f8e5m2", 8, True, "fp8_e5m2", "e5m2", "float8_e5m2")
    i8 = ("i8", 8, True, "int8")
    f4 = ("f4", 4, True, "fp4", "mxfp4", "nvfp4", "fp4_e2m1", "float4_e2m1fn")
    i4 = ("i4", 4, True, "int4")
    i32 = ("i32", 32, False, "int32")
    i64 = ("i64", 64, False, "int64")
    u32 = ("u32", 32, False, "uint32")
    u64 = ("u64", 64, False, "uint64")
    bool_ = ("bool", 8, False)

    def __init__(self, text: str, bits: int, is_arithmetic: bool, *aliases: str) -> None:
        self.text = text
        self.bits = bits
        self.is_arithmetic = is_arithmetic
        self.aliases = aliases

    @classmethod
    def parse(cls, value: object) -> DType:
        """A type to compute with, from itself or any of its names, as parameters take it.

        Raises
        ------
        ArgError
            No such type.
        """
        found = value if isinstance(value, DType) else _BY_NAME.get(shown(value, str))
        if found is None or not found.is_arithmetic:
            usual = [name for name, d in _BY_NAME.items() if d.is_arithmetic]
            known = ", ".join(d.text for d in DType if d.is_arithmetic)
            near = did_you_mean(shown(value, str), usual) if found is None else "."
            hint = "" if near == "." else near
            raise ArgError(f"expected one of {known}, found '{shown(value, str)}'{hint}")
        return found

    @property
    def is_float(self) -> bool:
        """Floating point."""
        return self.text.startswith(("f", "bf"))

    @property
    def is_address(self) -> bool:
        """Unsigned integers can address tiles."""
        return self in (DType.u32, DType.u64)

    @property
    def element_bytes(self) -> int | float:
        """Bytes of an element: a whole number, or 0.5 for types of 4 bits."""
        return self.bits / 8 if self.bits % 8 else self.bits // 8

    def __str__(self) -> str:
        return self.text


_BY_NAME = {name: d for d in DType for name in (d.text, *d.aliases)}


def dtype_of(value: DType | str) -> DType:
    """A DType from itself or any of its names.

    Raises
    ------
    DTypeError
        No type has this name.
    """
    if isinstance(value, DType):
        return value
    if not (isinstance(value, str) and value in _BY_NAME):
        usual = [name for name, d in _BY_NAME.items() if d.is_arithmetic]
        near = did_you_mean(value, usual)
        hint = ";" if near == "." else near
        known = ", ".join(str(d) for d in DType)
        raise DTypeError(f"unknown scalar type {shown(value)}{hint} use one of {known}")
    return _BY_NAME[value]


def packed_bytes(elements: int, bits: int) -> int:
    """Bytes of ``elements`` scalars of ``bits`` bits each, rounded up."""
    return -(-elements * bits // 8)
