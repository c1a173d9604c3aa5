"""Reading numbers by key from a user's mapping, collecting all problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from stepsim.arguments import shown as shown
from stepsim.dtypes import DType, dtype_of
from stepsim.errors import ArgError, DTypeError
from stepsim.workloads.models.model import LatentHeads

_T = TypeVar("_T")

LARGEST = 1 << 20
"""Largest size of a model: no side of a tile can be longer."""


class Keys:
    """The keys of one mapping, and the problems found in them.

    Attributes
    ----------
    path : prefix of keys in messages, for example ``experts.``.
    problems : one phrase per problem; shared with nested mappings.
    """

    def __init__(
        self, values: Mapping[Any, Any], path: str = "", problems: list[str] | None = None
    ) -> None:
        self.values = values
        self.path = path
        self.problems: list[str] = [] if problems is None else problems

    def has(self, *names: str) -> bool:
        """Whether one of the keys is present with a value other than null."""
        return any(self.values.get(name) is not None for name in names)

    def number(
        self,
        what: str,
        *names: str,
        default: int | None = None,
        least: int = 1,
        most: int = LARGEST,
    ) -> int:
        """The whole number of the first key that is present.

        A missing key without a default, or a value that is not a whole number in the range, is a
        problem; the number is then ``least``, so that reading can continue.
        """
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                expected = f"a whole number from {least} to {most}"
                self.problem(f"{self.path}{name}: expected {expected}, found {shown(value)}")
                return least
            return value
        if default is not None:
            return default
        keys = " or ".join(f"'{self.path}{name}'" for name in names)
        self.problem(f"{what} is missing: expected the key {keys}")
        return least

    def dtype(self, *names: str, default: DType) -> DType:
        """The element type of the first key that is present; the default after a problem."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            try:
                found = dtype_of(value.removeprefix("torch.") if isinstance(value, str) else value)
            except DTypeError as error:
                self.problem(f"{self.path}{name}: {error}")
                return default
            if not found.is_arithmetic:
                known = ", ".join(d.text for d in DType if d.is_arithmetic)
                self.problem(f"{self.path}{name}: expected one of {known}, found {found}")
                return default
            return found
        return default

    def choice(self, name: str, choices: Mapping[str, _T], default: _T) -> _T:
        """What the text of a key stands for; the default without the key and after a problem."""
        value = self.values.get(name)
        if isinstance(value, str) and value in choices:
            return choices[value]
        if value is not None:
            known = ", ".join(choices)
            self.problem(f"{self.path}{name}: expected one of {known}, found {shown(value)}")
        return default

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false of the first key that is present; the default after a problem."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, bool):
                return value
            if value is not None:
                self.problem(f"{self.path}{name}: expected true or false, found {shown(value)}")
                return default
        return default

    def inside(self, name: str) -> Keys | None:
        """The mapping of a key, None if absent; any other value is a problem."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.problem(f"{self.path}{name}: expected keys and values, found {shown(value)}")
            return None
        return Keys(value, f"{self.path}{name}.", self.problems)

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def refuse(self, where: str, hint: str = "") -> None:
        """Raise ArgError with all problems, if there are any."""
        if not self.problems:
            return
        found = list(dict.fromkeys(self.problems))
        end = f" {hint}" if hint else ""
        if len(found) == 1:
            raise ArgError(f"{where}: {found[0]}.{end}")
        listed = "".join(f"\n  {text}" for text in found)
        raise ArgError(f"{where}: {len(found)} problems.{end}{listed}")


def latent_heads(keys: Keys, heads: int) -> LatentHeads:
    """Latent attention with its dimensions under the keys of DeepSeek."""
    what = "a size of latent attention"
    return LatentHeads(
        heads,
        keys.number(what, "kv_lora_rank"),
        keys.number(what, "qk_nope_head_dim"),
        keys.number(what, "qk_rope_head_dim"),
        keys.number(what, "v_head_dim"),
        keys.number("", "q_lora_rank", default=0) or None,
    )
