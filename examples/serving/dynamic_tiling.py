"""What dynamic tiling buys a service, from requests to curves of goodput and latency over the rate.

``python examples/serving/dynamic_tiling.py --out curves`` serves requests with lengths as in the
Azure trace with both models, in static and dynamic tiles, with coarse and dynamic attention, at
several rates. ``--trace AzureLLMInferenceTrace_conv.csv`` serves those of the trace itself. What is
in the folder already is not served again. The curves are drawn, and the table of
docs/serving-tutorial.md is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

import stepsim.sweep as sw
from stepsim.report import CurvePanel, DrawnCurve, draw_curves

FOLDER = Path(__file__).parent
SPECIFICATIONS = ("mixtral.yaml", "qwen.yaml")
METRICS = ["goodput", "ttft_p99_ms", "tpot_p99_ms"]
MAPPING = ["tile", "strategy"]
COLUMNS = [
    "rate", *MAPPING, "goodput", "good_share", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms",
    "estimate_bias_low", "estimate_bias_high",
]  # fmt: skip


def specification(file: Path, trace: Path | None, requests: int | None) -> dict[str, Any]:
    """A specification, with requests of a trace in place of the drawn ones."""
    found: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    service = found["service"]
    count = requests or service["source"]["count"]
    service["source"]["count"] = count
    if trace is not None:
        del service["source"]
        service |= {"trace": str(trace), "requests": count}
    return found


def draw(folder: Path, picture: Path, title: str) -> None:
    """The curves of a sweep, one for each mapping."""
    found = sw.curves(folder, "rate", METRICS, by=MAPPING)
    panels = [
        CurvePanel(
            found.title(metric),
            [
                DrawnCurve(
                    one.label,
                    [point.x for point in one.points],
                    [point.y for point in one.points],
                    [point.low for point in one.points],
                    [point.high for point in one.points],
                )
                for one in lines
            ],
        )
        for metric, lines in found.metrics.items()
    ]
    draw_curves(panels, f"{found.x} [{found.x_unit}]", picture, title)


def table(folder: Path) -> str:
    """The design points of a sweep, in order of their rates, as rows of a table in Markdown."""
    names = (
        "requests/s", "tile", "attention", "goodput", "share within limits", "p99 TTFT, s",
        "mean TPOT, ms", "p99 TPOT, ms", "error of steps, %",
    )  # fmt: skip
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in sw.read_runs(folder, COLUMNS).to_pylist():
        low, high = (row[f"estimate_bias_{end}"] for end in ("low", "high"))
        error = "exact" if low is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
        cells = (
            f"{row['rate']:g}", row["tile"], row["strategy"], f"{row['goodput']:.3f}",
            f"{row['good_share']:.3f}", f"{row['ttft_p99_ms'] / 1000:.2f}",
            f"{row['tpot_mean_ms']:.1f}", f"{row['tpot_p99_ms']:.1f}", error,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Serve, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--trace", type=Path, help="requests of this trace in place of drawn ones")
    parser.add_argument(
        "--requests", type=int, help="number of requests; that of the files if absent"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args(arguments)
    for name in SPECIFICATIONS:
        spec = specification(FOLDER / name, given.trace, given.requests)
        folder = given.out / spec["name"]
        there = (folder / "sweep.json").exists()
        sw.run_sweep(spec, folder, jobs=given.jobs, resume=there)
        draw(folder, given.out / f"{spec['name']}.svg", spec["service"]["model"])
        sys.stdout.write(f"{table(folder)}\n")


if __name__ == "__main__":
    main()
