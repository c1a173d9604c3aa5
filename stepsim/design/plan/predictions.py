"""How far predicted cycles have been from simulated ones, in designs of known models.

``python -m bench.prediction_errors`` compiles the designs and writes the table.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files

_FILE = "prediction_errors.csv"


@dataclass(frozen=True, slots=True)
class Prediction:
    """A design whose cycles were predicted and simulated.

    Attributes
    ----------
    phase : of the model; empty for one that is imported.
    config : of the design; empty for default choices.
    rows : tokens of a prompt, or rows of the cache in decoding.
    predicted, simulated : cycles of a block with unbounded FIFOs.
    """

    model: str
    phase: str
    rows: int
    config: str
    predicted: int
    simulated: int

    @property
    def ratio(self) -> float:
        """Predicted over simulated cycles."""
        return self.predicted / self.simulated


@cache
def predictions() -> tuple[Prediction, ...]:
    """The measured designs."""
    text = files("stepsim.design.plan").joinpath(_FILE).read_text("utf-8")
    return tuple(
        Prediction(
            row["model"], row["phase"], int(row["rows"]), row["config"], int(row["predicted"]),
            int(row["simulated"]),
        )
        for row in csv.DictReader(text.splitlines())
    )  # fmt: skip


def text_of(rows: Iterable[Prediction]) -> str:
    """Designs as CSV, which :func:`predictions` reads."""
    found = [asdict(row) for row in rows]
    lines = [",".join(found[0]), *(",".join(map(str, row.values())) for row in found)]
    return "\n".join(lines) + "\n"


def prediction_error(phase: str | None) -> str:
    """In words, how far predictions of a phase have been off.

    Without a phase, as of imported models and graphs of the user's own, those of all designs.
    """
    known = [row for row in predictions() if phase in (None, row.phase)]
    of_phase = "designs" if phase is None else f"designs for {phase}"
    text = f"in {len(known)} {of_phase} of known models, predictions were {_range(known)}"
    imported = [row for row in known if not row.phase]
    own = f" ({_range(imported)} in the {len(imported)} that were imported)" if imported else ""
    return f"{text} times the simulated cycles{own}"


def _range(rows: Iterable[Prediction]) -> str:
    """The least and largest ratio, as ``0.78 to 1.01``."""
    ratios = [row.ratio for row in rows]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"
