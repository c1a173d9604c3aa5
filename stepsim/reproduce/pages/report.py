"""The one-page report, in Markdown, with the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepsim._version import MODEL_VERSION, __version__
from stepsim.reproduce.figure import Rows, countings
from stepsim.reproduce.result import Reproduction


def report(result: Reproduction) -> str:
    """The text of ``report.md``; pictures are expected in the same folder."""
    traces = f"{result.traces}; " if result.traces else ""
    lines = [
        f"# {_title(result)}",
        "",
        f"stepsim {__version__}, model version {MODEL_VERSION}; {traces}closure slack "
        f"{result.closure_slack}. {result.runs} runs in {result.elapsed:.1f} s with {result.jobs} "
        f"process{'es' if result.jobs > 1 else ''}, reading, drawing and writing included.",
        "",
    ]
    if result.problems:
        lines += ["**Runs that failed:**", "", *(f"* {text}" for text in result.problems), ""]
    lines += _figure_table(result)
    lines += _headline_table(result)
    for figure, rows in result.figures.items():
        lines += ["", f"![Figure {figure}]({result.chosen[figure].figure.stem}.png)"]
        lines += ["", f"* bytes and FLOPs: counting {countings(rows)}"]
        lines += [f"* {line}" for line in result.remarks[figure]]
    return "\n".join(lines) + "\n"


def _title(result: Reproduction) -> str:
    of_paper = any(not one.is_own for one in result.chosen.values())
    return "Figures of the STeP paper, reproduced" if of_paper else "Figures"


def agreement(rows: Rows) -> dict[str, int | float]:
    """How a figure's rows compare: counts of points, and the largest relative difference.

    ``published``, ``canonical`` and ``bytes`` count points with such values; ``exact``, ``same``
    and ``same_bytes`` count the equal ones among them. ``worst`` is the largest difference of
    cycles, or of ratios where no cycles are published.
    """
    published = [r for r in rows if r.get("published_cycles") is not None]
    canonical = [r for r in rows if r.get("canonical_cycles") is not None]
    pairs = [
        (r[f"published_{name}"], r[name])
        for r in rows
        for name in ("offchip_bytes", "onchip_bytes")
        if r.get(f"published_{name}") is not None
    ]
    relative = [r["cycles_relative"] for r in published]
    if not relative:
        relative = [r["ratio_relative"] for r in rows if r.get("ratio_relative") is not None]
    return {
        "points": sum(r.get("status") is not None for r in rows),
        "published": len(published),
        "exact": sum(r["cycles_difference"] == 0 for r in published),
        "canonical": len(canonical),
        "same": sum(r["cycles"] == r["canonical_cycles"] for r in canonical),
        "bytes": len(pairs),
        "same_bytes": sum(a == b for a, b in pairs),
        "worst": max(relative, key=abs, default=float("nan")),
    }


def headline_cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Ours, as printed, recomputed from the published data, and the deviation."""
    digits = 2 if row["unit"] == "%" else 4
    ours, theirs = (_numbers(row.get(name) or (), digits) for name in ("ours", "published"))
    return ours, row.get("printed") or "-", theirs or "-", signed_percent(row.get("deviation"))


def signed_percent(value: float | None) -> str:
    """A readable relative difference: a dash if unknown, plain 0 only if exactly zero."""
    if value is None or value != value:
        return "-"
    if 0 < abs(value) < 5e-6:
        return "< 0.001 %"
    return "0" if value == 0 else f"{100 * value:+.3f} %"


def _numbers(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}".rstrip("0").rstrip(".") for value in values)


def _figure_table(result: Reproduction) -> list[str]:
    rows = []
    for figure, own in result.figures.items():
        found = agreement(own)
        cells = [figure, str(found["points"]), countings(own)]
        if result.compared:
            cells += [
                counted(found["same"], found["canonical"]),
                counted(found["exact"], found["published"]),
                signed_percent(found["worst"]),
                counted(found["same_bytes"], found["bytes"]),
            ]
        rows.append([*cells, f"{result.seconds[figure]:.2f}"])
    if not result.compared:
        return _table(
            "| figure | points | counting | seconds of runs |", "|---|---:|---|---:|", rows
        )
    lines = _table(
        "| figure | points | counting | equal to canonical cycles | equal to published cycles | "
        "largest difference | bytes equal | seconds of runs |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
        rows,
    )
    return [
        *lines,
        "",
        "The largest difference is that of cycles, for figure 17 that of speedups. Seconds are "
        "those of one process; figures that share runs all count them.",
    ]


def _table(head: str, rule: str, rows: Iterable[Sequence[str]]) -> list[str]:
    return [head, rule, *(f"| {' | '.join(cells)} |" for cells in rows)]


def counted(part: float, whole: float) -> str:
    """A count out of others; a dash if there are none."""
    return f"{part} of {whole}" if whole else "-"


def _headline_table(result: Reproduction) -> list[str]:
    if not result.headlines:
        return []
    known = [(row, headline_cells(row)) for row in result.headlines]
    if not result.compared:
        rows = [[row["figure"], row["claim"], f"{cells[0]} {row['unit']}"] for row, cells in known]
        return ["", *_table("| figure | headline | ours |", "|---|---|---:|", rows)]
    lines = _table(
        "| figure | headline | unit | ours | printed | from published data | deviation | note |",
        "|---|---|---|---:|---:|---:|---:|---|",
        [[row["figure"], row["claim"], row["unit"], *cells, row["note"]] for row, cells in known],
    )
    return [
        "",
        *lines,
        "",
        "Deviations of percentages above 100 are relative to the whole: 0.7 % against 0.8 % longer "
        "deviates by 0.1 %.",
    ]
