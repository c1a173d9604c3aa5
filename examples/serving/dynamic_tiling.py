"""What dynamic tiling buys a service, from requests to curves of goodput and latency over the rate.

``python examples/serving/dynamic_tiling.py --out curves`` serves requests with lengths as in the
Azure trace with both models, in static and dynamic tiles, with coarse and dynamic attention, at
several rates. ``--trace AzureLLMInferenceTrace_conv.csv`` serves those of the trace itself. What is
in the folder already is not served again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

import stepsim.sweep as sw
from stepsim.report import CurvePanel, DrawnCurve, draw_curves

FOLDER = Path(__file__).parent
SPECIFICATIONS = ("mixtral.yaml", "qwen.yaml")
METRICS = ["goodput", "ttft_p99_ms", "tpot_p99_ms"]
MAPPING = ["tile", "strategy"]


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


if __name__ == "__main__":
    main()
