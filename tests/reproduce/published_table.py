"""Makes the shipped table of published numbers from the folder they were collected in.

``python -m tests.reproduce.published_table`` writes it anew; a test tells whether it is up to date.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from stepsim.reproduce import published
from tests.shared import DATA

__all__ = ["TABLE", "table"]

TABLE = Path(published.__file__).with_name("published.csv")

# Of a point, names as in the folder.
_POINT = (
    "figure", "point_id", "workload", "model", "batch", "trace_file", "variant", "kv_len_class",
    "tile_N", "tile_F", "par_regions", "base_channel_depth", "cycles", "off_chip_bytes",
    "on_chip_bytes", "flops", "padded_flops", "allocated_flops", "utilization_pct",
    "offchip_bw_util_pct", "normalized_value", "obtained_by", "notes",
)  # fmt: skip
_HEADLINE = {
    "figure": "figure", "claim": "claim", "printed": "paper_value", "unit": "unit",
    "recomputed": "recomputed_from_recovered_data", "agrees": "agrees", "notes": "note",
}  # fmt: skip
_COLUMNS = (
    "row", *_POINT[:13], "canonical_cycles", *_POINT[13:-2], "claim", "printed", "unit",
    "recomputed", "agrees", "source", *_POINT[-2:],
)  # fmt: skip


def table(folder: Path = DATA) -> str:
    """The table as text: points, then headlines."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    canonical = {p["point_id"]: p["canonical_cycles"] for p in _read(folder, "canonical_cycles")}
    for row in _read(folder, "ground_truth"):
        source = f"{row['source_repo']} {row['source_rev']}: {row['source_file']}"
        own = {name: row[name] for name in _POINT}
        cycles = canonical.get(row["point_id"], "")
        writer.writerow({"row": "point", **own, "canonical_cycles": cycles, "source": source})
    for row in _read(folder, "paper_headlines"):
        own = {ours: row[theirs] for ours, theirs in _HEADLINE.items()}
        source = f"STeP paper (ASPLOS 2026): {row['section']}"
        writer.writerow({"row": "headline", **own, "source": source})
    return text.getvalue()


def _read(folder: Path, name: str) -> Iterator[dict[str, str]]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file, strict=True)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
