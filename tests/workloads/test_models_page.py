"""What the page on models shows is what the code reads."""

from __future__ import annotations

import re
from pathlib import Path

from stepsim.dtypes import DType
from stepsim.workloads.models import MODELS, Dense, Experts, GroupedHeads, read_model
from stepsim.workloads.models.config_json import KEYS
from stepsim.workloads.models.quantization import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_yaml_example(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    path = tmp_path / "file.yaml"
    path.write_text(block, encoding="utf-8")
    model = read_model(str(path))
    assert (model.name, model.model_dim, model.layers, model.vocabulary) == ("small", 512, 4, 1000)
    assert model.heads == GroupedHeads(8, 2, 64)
    assert (model.experts, model.dense) == (Experts(16, 2, 256, 128), Dense(1024, 1))
    types = model.weight_dtype, model.activation_dtype, model.kv_dtype
    assert types == (DType.f4, DType.bf16, DType.f8e4m3)


def test_element_types() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (\S+) \|$", TEXT, flags=re.MULTILINE)
    expected = [
        (
            dtype.text,
            ", ".join(f"`{name}`" for name in dtype.aliases),
            "1/2" if dtype.bits == 4 else str(dtype.bits // 8),
        )
        for dtype in DType
        if dtype.is_arithmetic
    ]
    assert rows == expected


def test_every_key_and_method_of_config_json_is_documented() -> None:
    documented = set(re.findall(r"`([\w-]+)`", TEXT))
    assert set(KEYS) <= documented
    assert set(METHODS) <= documented


def test_every_built_in_model_is_listed() -> None:
    rows = re.findall(r"^\| `([\w.-]+)` \| ((?:[\d-]+ \| ){9}[\d-]+) \|$", TEXT, flags=re.MULTILINE)
    assert [name for name, _ in rows] == list(MODELS)
    for name, cells in rows:
        model = MODELS[name]
        heads = model.attention
        experts: list[object] = ["-"] * 4
        if model.experts is not None:
            shared = model.experts.shared_inner or "-"
            experts = [
                model.experts.count, model.experts.active, model.experts.inner_dim, shared,
            ]  # fmt: skip
        dense = "-" if model.dense is None else model.dense.inner_dim
        sizes = [dense, heads.heads, heads.kv_heads, heads.head_dim, heads.value_width]
        assert cells.split(" | ") == [str(n) for n in (model.model_dim, *experts, *sizes)], name
