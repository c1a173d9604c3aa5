"""The table of known errors in ``limits.md``, from the validation pages; run me to draw it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from drawn import redrawn

DOCS = Path(__file__).parent
PAGE = DOCS / "limits.md"


def _rows(page: str, cells: int = 0) -> list[list[str]]:
    """The cells of the rows of all tables, or of those with a number of cells."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not cells or len(row) == cells]


def _row(page: str, *begins: str) -> list[str]:
    """The cells of the one row of a table that begins with these cells."""
    (found,) = [row for row in _rows(page) if row[: len(begins)] == list(begins)]
    return found


def _hardware(model: str) -> tuple[str, str]:
    """Mean and largest error of cycles of a model against the HDL."""
    text = (DOCS / "validation.md").read_text(encoding="utf-8")
    found = re.findall(
        rf"^\* {re.escape(model)} against HDL cycles, .* error ([\d.]+ %), largest (\S+ %)", text,
        re.MULTILINE,
    )  # fmt: skip
    (both,) = found
    return both


def _errors() -> Iterator[tuple[str, str, str, str, str]]:
    """What is compared, with what, mean error, largest error, and the page."""
    for name, model in (
        ("a layer at the level of tiles", "ours, tile level as published"),
        ("the same, with DRAM", "ours, tile level with DRAM"),
        ("the same, at the hardware level", "ours, hardware level"),
    ):
        yield name, "cycles of the HDL, 10 tilings", *_hardware(model), "validation"
    for figures in ("9", "10", "12", "14", "15", "21"):
        (row,) = [one for one in _rows("validation.md", 6) if one[0] == figures]
        whom = f"published cycles, {row[3].split()[-1]} points"
        yield f"runs of figure {figures}", whom, "", row[4], "validation"
    whole = _row("validation.md", "17", "Mixtral end-to-end speedup over memory-matched static")
    other = _row("validation.md", "17", "Qwen end-to-end speedup over memory-matched static")
    for model, row in (("Mixtral", whole), ("Qwen", other)):
        off = 100 * (float(row[3]) / float(row[5]) - 1)
        yield (
            f"figure 17, speedup of {model} end to end", "the published figure", f"{off:+.1f} %",
            "", "validation",
        )  # fmt: skip
    blind = [row[-1].split(", ")[1] for row in _rows("streamtensor-validation.md", 5)
             if ":" in row[0] and "prompt" not in row[0]]  # fmt: skip
    mean = sum(abs(float(one.removesuffix(" %"))) for one in blind) / len(blind)
    most = max(blind, key=lambda one: abs(float(one.removesuffix(" %"))))
    yield (
        "TTFT of GPT-2 medium on an FPGA", f"StreamTensor on a U55C, {len(blind)} requests",
        f"{mean:.1f} %", most, "streamtensor-validation",
    )  # fmt: skip
    for kind in ("without routing", "with routing"):
        row = _row("stepdb.md", kind)
        most = row[6] if row[6] != "-" else "1 cycle" if int(row[4]) == 0 else "2 cycles"
        yield (
            f"programs of StepDB {kind}", f"the public simulator of STeP, {row[1]} runs", "", most,
            "stepdb",
        )  # fmt: skip
    for device in ("RTXPRO6000", "RTX4090"):
        for metric in ("TTFT, ms", "TPOT, ms", "E2EL, ms"):
            row = _row("serving-validation.md", device, metric)
            yield (
                f"{metric.partition(',')[0]} of a service", f"vLLM on {device}", row[4],
                f"{row[6]} of a request at the 90th percentile", "serving-validation",
            )  # fmt: skip
    for model in ("flow, memory_cycles = 100", "link, memory_cycles = 100", "npe"):
        row = _row("noc-validation.md", model)
        yield (
            f"transfers on a chip, `{model.partition(',')[0]}`",
            f"{row[1]} traces of a Wormhole chip", row[2], row[5], "noc-validation",
        )  # fmt: skip
    low, full = _row("noc-validation.md", "**up to 0.6**"), _row("noc-validation.md", "0.85 to 1")
    for load, row in (("up to 60 % of saturation", low), ("from 85 % on", full)):
        yield (
            f"latency of packets, {load}", "the router of BookSim2", row[2], row[5],
            "noc-validation",
        )  # fmt: skip


def table() -> str:
    """All errors that are known, a row each."""
    lines = [
        "| simulated | compared with | mean error | largest error | page |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {what} | {whom} | {mean} | {most} | []({page}.md) |"
        for what, whom, mean, most, page in _errors()
    ]
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """The page with the table of today."""
    return redrawn(page, "limits", table())


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
