"""Values of a service's parameters: durations, limits, parts by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stepsim.arguments import shown
from stepsim.documents import parse_yaml_value
from stepsim.errors import ArgError
from stepsim.serving.metrics.slo import Slo, read_slo

_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([a-z]*)\s*")
_MOST_NS: Final = 1 << 60


class Duration(int):
    """A time in ns, written with its unit."""

    metavar: ClassVar[str] = "TIME"

    @classmethod
    def parse(cls, value: Any) -> Duration:
        """The time of a text such as ``50ms``.

        Raises
        ------
        ArgError : it is not a number of ns, us, ms or s.
        """
        if isinstance(value, cls):
            return value
        text = value if isinstance(value, str) else shown(value, str)
        match = _DURATION.fullmatch(text)
        if match is None or match[2] not in _NS:
            bare = match is not None and not match[2]
            hint = f" without a unit; write {text}ms or {text}s" if bare else ""
            raise ArgError(
                f"expected a time in {', '.join(_NS)}, as in 50ms, found {shown(value)}{hint}"
            )
        found = round(float(match[1]) * _NS[match[2]])
        if found > _MOST_NS:
            raise ArgError(f"expected a time of at most 30 years, found {value}; give less")
        return cls(found)

    def __str__(self) -> str:
        unit = next(name for name in reversed(_NS) if int(self) % _NS[name] == 0)
        return f"{int(self) // _NS[unit]}{unit}"


class Limits(Slo):
    """The limits of an SLO as the value of a parameter."""

    metavar: ClassVar[str] = "LIMITS"

    @staticmethod
    def parse(value: Any) -> Slo:
        """The SLO of a text such as ``ttft=1s,tpot=50ms,share=0.99``, or of a mapping.

        Raises
        ------
        ArgError : as in `read_slo`.
        """
        if isinstance(value, Slo):
            return value
        if isinstance(value, Mapping):
            value = ",".join(f"{name}={shown(one, str)}" for name, one in value.items())
        if not isinstance(value, str):
            raise ArgError(f"expected limits, such as ttft=1s,tpot=50ms, found {shown(value)}")
        try:
            return read_slo(value)
        except ArgError as error:
            # The name of the parameter stands before it.
            raise ArgError(str(error).removeprefix("slo: ")) from None


@dataclass(frozen=True, slots=True)
class Named:
    """A part of a service by name, and what belongs to it: ``table:FILE``, ``linear:1e6,4e4,8``.

    Attributes
    ----------
    name : its name.
    about : the text after the colon; empty without one.
    """

    metavar: ClassVar[str] = "NAME"

    name: str
    about: str = ""

    @classmethod
    def parse(cls, value: Any) -> Named:
        """The part that a text names.

        Raises
        ------
        ArgError : it is not a text, or it has no name.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, str) or not value.partition(":")[0].strip():
            raise ArgError(f"expected a name, as in 'exact' or 'table:FILE', found {shown(value)}")
        name, _, about = value.partition(":")
        return cls(name.strip(), about.strip())

    def __str__(self) -> str:
        return f"{self.name}:{self.about}" if self.about else self.name


@dataclass(frozen=True, slots=True)
class Source:
    """A source of requests by name, with its settings: ``fixed:count=64,prompt_tokens=512``.

    Attributes
    ----------
    name : its name.
    settings : pairs of a setting and its value.
    """

    metavar: ClassVar[str] = "NAME:K=V,..."

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, value: Any) -> Source:
        """The source of a text, or of a mapping with the key ``name``.

        Raises
        ------
        ArgError : a setting has no value, or is given twice.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            settings = {str(key): one for key, one in value.items()}
            name = settings.pop("name", None)
            if not isinstance(name, str):
                raise ArgError(f"expected the name of a source as key 'name', found {shown(name)}")
            return cls(name, tuple(settings.items()))
        if not isinstance(value, str):
            raise ArgError(f"expected a text such as fixed:count=64, found {shown(value)}")
        name, _, rest = value.partition(":")
        found: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            key, equals, text = part.partition("=")
            if not equals or key.strip() in found:
                raise ArgError(f"expected settings KEY=VALUE, each once, found {shown(part)}")
            found[key.strip()] = parse_yaml_value(text.strip(), key, ArgError)
        return cls(name.strip(), tuple(found.items()))

    def __str__(self) -> str:
        settings = ",".join(f"{key}={shown(value, str)}" for key, value in self.settings)
        return f"{self.name}:{settings}" if settings else self.name
