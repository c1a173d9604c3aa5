"""Headlines as rows of a table: ours, as printed, and recomputed from the published data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepsim.errors import ArgError
from stepsim.reproduce.headline import Headline, MissingNumber, Numbers, UnknownName
from stepsim.reproduce.published import Published


def quoted_numbers(text: str) -> list[float]:
    """The numbers of an entry: ``1.14-1.26`` has two; text in parentheses is ignored."""
    plain = re.sub(r"\(.*?\)", "", text)
    return [float(number) for number in re.findall(r"(?<![\d.])[-+]?\d+(?:\.\d+)?", plain)]


def headline_rows(
    rows: Sequence[Mapping[str, Any]],
    published: Published | None,
    headlines: Iterable[Headline],
    *,
    whole: bool,
) -> list[dict[str, Any]]:
    """One row for each headline whose numbers are all available.

    Columns are those of ``HEADLINES_SCHEMA``; without published values, only ours. With ``whole``
    the rows are those of all figures that headlines may refer to.

    Raises
    ------
    ArgError : the rows are ``whole``, and a headline names a point that is not among them.
    """
    numbers = Numbers(rows)
    printed = {(h.figure, h.claim): h for h in (published.headlines if published else ())}
    table = []
    for headline in headlines:
        try:
            ours = headline.value(numbers)
        except UnknownName as error:
            if whole:
                raise ArgError(
                    f"figure {headline.figure}, headline {headline.claim!r}: {error}"
                ) from None
            continue
        except MissingNumber:
            continue
        row: dict[str, Any] = {
            "figure": headline.figure,
            "claim": headline.claim,
            "unit": headline.unit,
            "ours": list(ours),
        }
        notes = [headline.note]
        found = printed.get((headline.figure, headline.claim))
        if found is not None:
            theirs = quoted_numbers(found.recomputed)
            row |= {
                "printed": found.printed,
                "published": theirs,
                "deviation": headline.deviation(ours, theirs),
                "agrees": found.agrees,
            }
            notes.append(found.note)
        if headline.same_points and found is not None:
            row["published"] = list(headline.value(Numbers(rows, "published_")))
            row["deviation"] = headline.deviation(ours, row["published"])
            notes.append(
                f"over the {len(numbers.hardware(headline.same_points)[0])} tilings with known HDL "
                f"cycles; all 15 give {found.recomputed}"
            )
        row["note"] = "; ".join(note for note in notes if note)
        table.append(row)
    return table
