"""Prompts and outputs on engines of their own: how many there are, and the link between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stepsim.arguments import Range, shown
from stepsim.documents import parse_yaml_value
from stepsim.errors import ArgError, did_you_mean
from stepsim.serving.seconds import NANOSECONDS
from stepsim.serving.service.quantities import Duration
from stepsim.workloads import plain_bytes

MOST_ENGINES: Final = 4096

_KEYS: Final = ("prefill", "decode", "latency", "bandwidth")
_LINK: Final = "link"
_ENGINES: Final = Range(MOST_ENGINES, "engines")
_MOST: Final = 1 << 60
_GRAMMAR: Final = "such as prefill=2,decode=2,latency=5us,bandwidth=50GB/s"
_RATE: Final = re.compile(r"(.*[A-Za-z])\s*/\s*s")


@dataclass(frozen=True, slots=True)
class Split:
    """Engines that compute prompts, engines that generate, and the link that joins them.

    Attributes
    ----------
    prefill, decode : engines of each kind.
    latency_ns : time of the first byte on the link.
    bandwidth : bytes per second of the link; None without a limit.
    """

    metavar: ClassVar[str] = "K=V,..."

    prefill: int
    decode: int
    latency_ns: Duration
    bandwidth: int | None

    @classmethod
    def parse(cls, value: Any) -> Split:
        """The split of a text such as ``prefill=2,decode=2,latency=5us,bandwidth=50GB/s``, or of a
        mapping, in which ``link`` may hold the latency and the bandwidth.

        Raises
        ------
        ArgError : a key is unknown, missing or given twice, there are no engines of a kind, or a
            quantity of the link has no unit or is out of range.
        """
        if isinstance(value, cls):
            return value
        given = _pairs(value)
        for key in given:
            if key not in _KEYS:
                raise ArgError(
                    f"unknown key {shown(key)}{did_you_mean(key, _KEYS)} Known: "
                    f"{', '.join(_KEYS)}, {_GRAMMAR}"
                )
        for key in _KEYS:
            if key not in given:
                raise ArgError(f"{key} is missing; give all of {', '.join(_KEYS)}, {_GRAMMAR}")
        prefill, decode = (_ENGINES.checked(key, given[key]) for key in ("prefill", "decode"))
        try:
            latency = Duration.parse(given["latency"])
        except ArgError as error:
            raise ArgError(f"latency: {error}") from error
        return cls(prefill, decode, latency, _bandwidth(given["bandwidth"]))

    @property
    def engines(self) -> int:
        """Engines of both kinds."""
        return self.prefill + self.decode

    def busy_ns(self, sent_bytes: int) -> int:
        """How long so many bytes occupy the link, in whole ns."""
        if self.bandwidth is None:
            return 0
        return -(-sent_bytes * NANOSECONDS // self.bandwidth)

    def __str__(self) -> str:
        rate = "inf" if self.bandwidth is None else f"{self.bandwidth}B/s"
        return (
            f"prefill={self.prefill},decode={self.decode},latency={self.latency_ns},"
            f"bandwidth={rate}"
        )


def _pairs(value: Any) -> dict[Any, Any]:
    """Keys and values of a text or a mapping, those of the link among the others."""
    if isinstance(value, Mapping):
        given = dict(value)
        link = given.pop(_LINK, {})
        if not isinstance(link, Mapping):
            raise ArgError(f"link: expected its latency and bandwidth, found {shown(link)}")
        twice = [key for key in link if key in given]
        if twice:
            raise ArgError(f"{twice[0]} is given twice, also of the link; keep one")
        return given | dict(link)
    if not isinstance(value, str):
        raise ArgError(f"expected engines and their link, {_GRAMMAR}, found {shown(value)}")
    found: dict[Any, Any] = {}
    for part in value.split(","):
        key, equals, text = (one.strip() for one in part.partition("="))
        if not equals or key in found:
            raise ArgError(f"expected KEY=VALUE, each once, {_GRAMMAR}, found {shown(part)}")
        is_count = key in ("prefill", "decode")
        found[key] = parse_yaml_value(text, key, ArgError) if is_count else text
    return found


def _bandwidth(value: Any) -> int | None:
    """Bytes per second of a text such as ``50GB/s``; None of ``inf``."""
    text = value.strip() if isinstance(value, str) else shown(value, str)
    if text.lower() in ("inf", ".inf"):
        return None
    match = _RATE.fullmatch(text)
    try:
        found = int(plain_bytes("" if match is None else match[1]))
    except ValueError as error:
        raise ArgError(
            "bandwidth: expected bytes per second with their unit, as in 50GB/s, 400MiB/s or inf, "
            f"found {shown(value)}"
        ) from error
    if not 1 <= found <= _MOST:
        raise ArgError(
            f"bandwidth: expected a number above 0 and at most 2**60 bytes per second, found "
            f"{shown(value)}; give one, or inf"
        )
    return found
