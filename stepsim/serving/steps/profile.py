"""Profiles of a model on a device: the measured time of every layer, as tables.

A profile is a folder:

* ``profile.json``: sizes of the model, the ``sequence`` of its layers, tables over the tokens of a
  step (``dense``) and over its requests (``per_sequence``) as lists of [key, ns], and ``skew``.
* ``attention.csv``: prefill_chunk, n_decode, kv_prefill, kv_decode, ns.
* ``skew.csv``: pc, n, skew_rate, kv_big, kp, alpha; only if ``skew`` is not null.
* ``moe.csv``: activated_experts, tokens, ns; only with layers of experts.

Times are whole ns, those of attention and experts are of one block. Other columns and keys that
have no effect here are not read: the names of device and model are kept for messages.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import TraceError
from stepsim.shown import shown
from stepsim.typed import typed

Words = NDArray[np.int64]
Line = tuple[Words, Words]
"""Ascending keys, and the time in ns of each."""

SECTIONS: Final = ("prologue", "pre_attn", "post_attn", "mlp_dense", "mlp_moe", "head")
"""The parts of the sequence; all but the first and the last are repeated in every block."""

ATTENTION: Final = "attention"
EXPERTS: Final = "moe"

_SIZES = (
    "tp", "layers", "hidden", "vocab", "heads", "kv_heads", "head_dim", "ffn", "moe_ffn", "experts",
    "top_k", "dtype_bytes",
)  # fmt: skip
_ATTENTION_COLUMNS = ("prefill_chunk", "n_decode", "kv_prefill", "kv_decode", "ns")
_EXPERT_COLUMNS = ("activated_experts", "tokens", "ns")
_SKEW_COLUMNS = ("pc", "n", "skew_rate", "kv_big", "kp", "alpha")
_AXES = ("n", "skew_rate", "kv_big", "kp")


@dataclass(frozen=True, eq=False)
class Skew:
    """Corrections for decodes of different lengths.

    Attributes
    ----------
    default : where there is none of its own.
    chunks : ascending lengths of prefills.
    bounds : ascending upper bounds of the bins of decodes, skew, longest decode, and tokens before
        the prefills.
    values : [chunks, decodes, skew, longest, before]
    """

    default: float
    chunks: Words
    bounds: tuple[Words, NDArray[np.float64], Words, Words]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile of a model on one of ``tp`` devices.

    Attributes
    ----------
    folder : where it was read.
    hardware, model : names.
    tp : devices that share every layer.
    layers, hidden, vocab, heads, kv_heads, head_dim, ffn, moe_ffn, experts, top_k, dtype_bytes :
        sizes of the whole model; 0 for what it does not have.
    sequence : names of layers, by section.
    lines : tables of layers over the tokens of a step, or over its requests, by name.
    per_request : names of the layers whose tables are over requests.
    attention : chunk of prefills, number of decodes, tokens before them, tokens before each decode,
        and ns, sorted. [rows] each
    skew : None without corrections.
    expert_lines : number of active experts to a table over tokens, ascending.
    """

    folder: Path
    hardware: str
    model: str
    tp: int
    layers: int
    hidden: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    moe_ffn: int
    experts: int
    top_k: int
    dtype_bytes: int
    sequence: Mapping[str, Sequence[str]]
    lines: Mapping[str, Line]
    per_request: frozenset[str]
    attention: tuple[Words, Words, Words, Words, Words]
    skew: Skew | None
    expert_lines: Mapping[int, Line]

    @property
    def kv_token_bytes(self) -> int:
        """Keys and values of a token on one device."""
        values = 2 * self.kv_heads * self.head_dim * self.layers
        return values * self.dtype_bytes // self.tp

    def weight_bytes(self) -> int:
        """Weights on one device. With experts all of them are there."""
        block = sum(
            self.layer_bytes(name) for section in SECTIONS[1:-1] for name in self.sequence[section]
        )
        ends = sum(
            self.layer_bytes(name)
            for section in (SECTIONS[0], SECTIONS[-1])
            for name in self.sequence[section]
        )
        return ends + self.layers * block

    def layer_bytes(self, name: str) -> int:
        """Weights of a layer on one device, 0 for layers without any."""
        h, queries, keys = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
        ffn = h * (self.ffn // self.tp)
        values = {
            "embedding": self.vocab // self.tp * h,
            "lm_head": self.vocab // self.tp * h,
            "layernorm": h,
            "final_layernorm": h,
            "qkv_proj": h * ((queries + 2 * keys) // self.tp),
            "o_proj": queries // self.tp * h,
            "gate_up_proj": 2 * ffn,
            "down_proj": ffn,
            EXPERTS: h * self.experts + self.experts * 3 * h * self.moe_ffn,
        }
        return values.get(name, 0) * self.dtype_bytes

    def kv_blocks(self, memory_bytes: int, block_tokens: int) -> int:
        """Blocks of keys and values that fit a device beside the weights.

        Raises
        ------
        TraceError : not one fits.
        """
        left = memory_bytes - self.weight_bytes()
        blocks = left // (block_tokens * self.kv_token_bytes)
        if blocks < 1:
            raise TraceError(
                f"{self.folder}: {self.model} has {self.weight_bytes()} bytes of weights on a "
                f"device, and {memory_bytes} bytes can be used; expected room for a block of "
                f"{block_tokens} tokens beside them: take a larger device or more of them"
            )
        return int(blocks)


@typed
def read_profile(folder: str | os.PathLike[str]) -> Profile:
    """Read a profile.

    Raises
    ------
    TraceError : a file is missing or unreadable, a size or a table is missing, or a value is out of
        range.
    """
    path = Path(folder)
    file = path / "profile.json"
    document = _document(file)
    sizes = {name: _size(file, document, name) for name in _SIZES}
    sequence = _sequence(file, document)
    lines, per_request = {}, set()
    for group in ("dense", "per_sequence"):
        for name, pairs in _table(file, document, group).items():
            lines[name] = _line(f"{file}: {group}.{name}", pairs)
            if group == "per_sequence":
                per_request.add(name)
    for section, names in sequence.items():
        for name in names:
            if name not in lines and name not in (ATTENTION, EXPERTS):
                raise TraceError(
                    f"{file}: sequence.{section} has a layer `{name}` without a table, expected "
                    "one in dense or per_sequence"
                )
    skew = document.get("skew")
    return Profile(
        folder=path,
        hardware=str(document.get("hardware", "")),
        model=str(document.get("model", "")),
        **sizes,
        sequence=sequence,
        lines=lines,
        per_request=frozenset(per_request),
        attention=_attention(path / "attention.csv"),
        skew=None if skew is None else _skew(file, skew, path / "skew.csv"),
        expert_lines=_experts(path / "moe.csv") if sequence["mlp_moe"] else {},
    )


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise TraceError(
            f"{file}: cannot be read ({error.strerror}); name the folder of a profile"
        ) from error
    except ValueError as error:
        raise TraceError(f"{file}: is not JSON ({error}); profile the model again") from error
    if not isinstance(document, dict):
        raise TraceError(f"{file}: is {shown(document)}, expected an object")
    return document


def _table(file: Path, document: dict[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise TraceError(f"{file}: `{name}` is {shown(value)}, expected an object")
    return value


def _size(file: Path, document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if value is None and name in ("ffn", "moe_ffn"):
        return 0
    least = 0 if name in ("ffn", "moe_ffn", "experts", "top_k") else 1
    if type(value) is not int or not least <= value < 1 << 31:
        raise TraceError(
            f"{file}: `{name}` is {shown(value)}, expected a whole number from {least}"
        )
    return value


def _sequence(file: Path, document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    given = _table(file, document, "sequence")
    unknown = [name for name in given if name not in SECTIONS]
    if unknown:
        raise TraceError(
            f"{file}: sequence has {shown(unknown[0])}, expected only {', '.join(SECTIONS)}"
        )
    sequence = {section: tuple(given.get(section, ())) for section in SECTIONS}
    if sequence["mlp_dense"] and sequence["mlp_moe"]:
        raise TraceError(
            f"{file}: sequence has both mlp_dense and mlp_moe, expected one kind of blocks"
        )
    return sequence


def _line(place: str, pairs: Any) -> Line:
    array = np.array(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu" or not len(array):
        raise TraceError(f"{place}: is {shown(pairs)}, expected a list of [key, ns]")
    keys, times = array[:, 0].astype(np.int64), array[:, 1].astype(np.int64)
    if (np.diff(keys) <= 0).any() or (keys < 0).any() or (times < 0).any():
        raise TraceError(f"{place}: expected ascending keys from 0 and times of at least 0 ns")
    return keys, times


def _rows(file: Path, columns: Sequence[str]) -> list[list[str]]:
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: cannot be read ({error}); profile the model again") from error
    if not rows or rows[0] != list(columns):
        raise TraceError(
            f"{file}: line 1 is {shown(rows[0] if rows else [])}, expected {','.join(columns)}"
        )
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(columns):
            raise TraceError(f"{file}: line {line}: has {len(row)} of {len(columns)} fields")
    if len(rows) == 1:
        raise TraceError(f"{file}: has no rows, expected at least 1")
    return rows[1:]


def _numbers(file: Path, columns: Sequence[str]) -> Words:
    """The columns of a file of whole numbers, sorted by all but the last. [columns, rows]"""
    rows = _rows(file, columns)
    try:
        array = np.array(rows).astype(np.int64).T
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{file}: {error}; expected whole numbers in all columns") from error
    if (array < 0).any():
        line = int(np.argmax((array < 0).any(axis=0))) + 2
        raise TraceError(f"{file}: line {line}: has a number below 0")
    array = array[:, np.lexsort(array[-2::-1])]
    same = (np.diff(array[:-1]) == 0).all(axis=0)
    if same.any():
        row = ",".join(map(str, array[:-1, int(np.argmax(same))]))
        raise TraceError(f"{file}: has two rows {row}, expected one")
    return array


def _attention(file: Path) -> tuple[Words, Words, Words, Words, Words]:
    chunk, decodes, chunk_before, decode_before, times = _numbers(file, _ATTENTION_COLUMNS)
    return chunk, decodes, chunk_before, decode_before, times


def _experts(file: Path) -> dict[int, Line]:
    active, tokens, times = _numbers(file, _EXPERT_COLUMNS)
    return {
        int(count): (tokens[active == count], times[active == count]) for count in np.unique(active)
    }


def _skew(file: Path, settings: Any, rows_file: Path) -> Skew:
    try:
        axes = settings["axes"]
        default = float(settings["alpha_default"])
        bounds = [np.array(axes[f"{axis}_bins"], dtype=float)[1:] for axis in _AXES]
        labels = [{label: at for at, label in enumerate(axes[f"{axis}_labels"])} for axis in _AXES]
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(
            f"{file}: `skew` lacks {error}, expected alpha_default and axes with bins and labels "
            f"of {', '.join(_AXES)}"
        ) from error
    for axis, ends, names in zip(_AXES, bounds, labels, strict=True):
        if len(ends) != len(names) or (np.diff(ends) <= 0).any():
            raise TraceError(
                f"{file}: skew.axes.{axis}_bins must be ascending and one more than the "
                f"{len(names)} labels"
            )
    rows = _rows(rows_file, _SKEW_COLUMNS)
    try:
        chunks, at = np.unique(np.array([int(row[0]) for row in rows]), return_inverse=True)
        values = np.full((len(chunks), *map(len, labels)), default)
        for chunk, row in zip(at.tolist(), rows, strict=True):
            bins = tuple(names[label] for names, label in zip(labels, row[1:5], strict=True))
            values[(chunk, *bins)] = float(row[5])
    except (KeyError, ValueError) as error:
        raise TraceError(
            f"{rows_file}: {error} is not a number, or not a label of {file.name}"
        ) from error
    decodes, skew, longest, before = bounds
    return Skew(
        default,
        chunks.astype(np.int64),
        # A whole number is at most a bound if it is at most the whole part of it.
        (
            np.floor(decodes).astype(np.int64),
            skew,
            np.floor(longest).astype(np.int64),
            np.floor(before).astype(np.int64),
        ),
        values,
    )
