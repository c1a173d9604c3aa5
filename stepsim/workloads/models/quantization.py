"""Element types of a quantized model, from the quantization part of its config.json."""

from __future__ import annotations

from stepsim.dtypes import DType
from stepsim.workloads.models.keys import Keys, shown

METHODS = (
    "fp8", "fbgemm_fp8", "mxfp4", "awq", "gptq", "auto-round", "bitsandbytes", "compressed-tensors",
    "modelopt",
)  # fmt: skip
_INTEGERS = {4: DType.i4, 8: DType.i8}
_FLOATS = {4: DType.f4, 8: DType.f8e4m3}
_MODES = {"affine": _INTEGERS, "mxfp4": _FLOATS, "mxfp8": _FLOATS, "nvfp4": _FLOATS}
_SCHEMES = {"int": _INTEGERS, "float": _FLOATS}
_FORMATS = {
    "e4m3": DType.f8e4m3, "e5m2": DType.f8e5m2, "float8_e4m3fn": DType.f8e4m3,
    "float8_e5m2": DType.f8e5m2,
}  # fmt: skip
_ALGORITHMS = {
    "FP8": DType.f8e4m3, "FP8_PB_WO": DType.f8e4m3, "NVFP4": DType.f4, "W4A16_AWQ": DType.i4,
    "INT8": DType.i8,
}  # fmt: skip


def quantized(keys: Keys, plain: DType) -> tuple[DType, DType]:
    """Types of weights and of the KV cache; ``plain`` if not quantized.

    Scales and zero points are not counted. Modules excluded from a method are not treated
    separately.
    """
    method = keys.values.get("quant_method")
    if method is None and keys.has("bits"):  # in the format of MLX
        return _by_bits(keys, keys.choice("mode", _MODES, _INTEGERS)), plain
    name = method.lower().replace("_", "-") if isinstance(method, str) else method
    if name in ("fp8", "fbgemm-fp8"):
        return keys.choice("fmt", _FORMATS, DType.f8e4m3), _cache(keys, plain)
    if name == "mxfp4":
        return DType.f4, plain
    if name in ("awq", "gptq", "auto-round"):
        return _by_bits(keys, _INTEGERS), plain
    if name == "bitsandbytes":
        four = keys.flag("load_in_4bit", "_load_in_4bit")
        eight = keys.flag("load_in_8bit", "_load_in_8bit")
        return (DType.f4 if four else DType.i8 if eight else plain), plain
    if name == "compressed-tensors":
        return _compressed(keys, plain), _cache(keys, plain)
    if name == "modelopt":
        weights = keys.choice("quant_algo", _ALGORITHMS, plain)
        return weights, keys.choice("kv_cache_quant_algo", _ALGORITHMS, plain)
    keys.problem(
        f"{keys.path}quant_method: expected one of {', '.join(METHODS)}, found {shown(method)}; "
        "describe the model in a YAML file, with weight_dtype"
    )
    return plain, plain


def _by_bits(keys: Keys, types: dict[int, DType], name: str = "bits") -> DType:
    bits = keys.number("the bits of a weight", name)
    if bits in types:
        return types[bits]
    if bits > 1 or keys.values.get(name) == 1:
        known = " or ".join(map(str, types))
        keys.problem(f"{keys.path}{name}: expected {known} bits, found {bits}")
    return DType.i4


def _compressed(keys: Keys, plain: DType) -> DType:
    """The weights of the first group; all groups of common files agree."""
    groups = keys.inside("config_groups")
    first = next(iter(groups.values), None) if groups is not None else None
    group = groups.inside(first) if groups is not None and isinstance(first, str) else None
    weights = group.inside("weights") if group is not None else None
    if weights is None:
        keys.problem(f"the type of the weights is missing: expected {keys.path}config_groups")
        return plain
    return _scheme(weights)


def _cache(keys: Keys, plain: DType) -> DType:
    scheme = keys.inside("kv_cache_scheme")
    return plain if scheme is None else _scheme(scheme)


def _scheme(keys: Keys) -> DType:
    return _by_bits(keys, keys.choice("type", _SCHEMES, _INTEGERS), "num_bits")
