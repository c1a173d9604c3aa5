"""Guard against regressions of speed: ``make bench-check`` and ``make bench-baseline``.

With valgrind the instructions of every measure are counted, for machine code of a fixed processor:
they do not depend on the machine or its load. Without valgrind, CPU times are divided by that of a
calibration kernel in the same process, which holds for one model of processor only. Either is
compared with bench/baseline.json, which ``--baseline`` writes anew.

Exit codes: 0 nothing is slower, 1 something is slower or could not be measured, 3 the baseline says
nothing about this machine or these versions, so that nothing was measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.callgrind import can_count, counted, counts_of, fixed_environment
from bench.page import processor_model
from stepsim.atomic import replacing

__all__ = ["BASELINE", "LIMITS", "NOT_COMPARABLE", "PACKAGES", "NotComparable", "compare", "main"]

BASELINE: Final = Path(__file__).parent / "baseline.json"

LIMITS: Final = {"instructions": 1.05, "ratios": 1.08}
"""How many times the baseline a measure may be. Counts repeat within 1 %, ratios within 4 %."""

NOT_COMPARABLE: Final = 3
"""Exit code where the baseline has nothing to compare with."""

PACKAGES: Final = ("numba", "llvmlite", "numpy", "pyarrow", "sympy")
"""Packages whose code is measured as well."""

_UNITS: Final = {"instructions": "instructions", "ratios": "times calibration"}
"""Of the numbers, as the heading of their column."""

_SECONDS: Final = 1.0  # of CPU for each ratio
_RENEW: Final = "make bench-baseline"
_FAR_BELOW: Final = 0.9  # times the baseline; what is lost again later would pass unseen


def compare(found: Mapping[str, float], stored: Mapping[str, float], limit: float) -> list[str]:
    """What is wrong: measures above the limit, and those that only one side has."""
    problems = [
        f"{name}: baseline {_number(stored[name])}, found {_number(found[name])}, "
        f"{found[name] / stored[name]:.3f} times as much; at most {limit} is allowed"
        for name in found
        if name in stored and found[name] > limit * stored[name]
    ]
    problems += [
        f"{name}: measured, but not in the baseline" for name in found if name not in stored
    ]
    problems += [
        f"{name}: in the baseline, but not measured" for name in stored if name not in found
    ]
    return problems


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:.4g}"


def _versions() -> dict[str, str]:
    """What measures depend on besides stepsim: two builds of one Python differ by some percent."""
    about = {
        "python": platform.python_version(),
        "build": " ".join(platform.python_build()),
        "compiler": platform.python_compiler(),
        "libc": " ".join(platform.libc_ver()),
    }
    return about | {name: version(name) for name in PACKAGES}


def _selected(parts: Sequence[str]) -> list[str]:
    """Names of the measures that contain one of these texts; all of them without any.

    Raises
    ------
    SystemExit : no measure contains one of the texts.
    """
    from bench.measures import MEASURES

    names = [measure.name for measure in MEASURES]
    for part in parts:
        if not any(part in name for name in names):
            listing = "\n  ".join(names)
            raise SystemExit(f"no measure has {part!r} in its name; the measures are\n  {listing}")
    return [name for name in names if not parts or any(part in name for part in parts)]


def _measure(kind: str, names: Sequence[str]) -> dict[str, float]:
    """These measures, in a process of their own with the fixed environment."""
    command = [sys.executable, "-m", "bench.check", "--part"]
    if kind == "instructions":
        # The engine must be compiled for the fixed processor before valgrind slows that down.
        subprocess.run([*command, "compile"], env=fixed_environment(), check=True)
        return dict(counts_of([*command, "count", *names]))
    done = subprocess.run(
        [*command, "time", *names], capture_output=True, text=True, env=fixed_environment()
    )
    if done.returncode:
        raise SystemExit(f"the measuring process failed:\n{done.stderr[-2000:]}")
    return {str(name): float(value) for name, value in json.loads(done.stdout).items()}


def _part(part: str, names: Sequence[str]) -> None:
    """What a child process does."""
    from bench.measures import MEASURES
    from stepsim.simulation import ensure_compiled, warm_up

    if part == "compile":
        ensure_compiled()
        warm_up()
        return
    ratios = {}
    if part == "time":
        from bench import calibration

        kernels = {language: make() for language, make in calibration.CALIBRATIONS.items()}
    for measure in (measure for measure in MEASURES if measure.name in names):
        work = measure.make()
        work()
        gc.collect()
        gc.disable()  # a collection may fall into one measure or the next
        if part == "count":
            with counted(measure.name):
                work()
        else:
            ratios[measure.name] = calibration.ratios(work, kernels[measure.language], _SECONDS)
        gc.enable()
    if part == "time":
        print(json.dumps(ratios))


def _read() -> dict[str, Any]:
    if not BASELINE.is_file():
        raise SystemExit(f"{BASELINE} is not there: {_RENEW}")
    return dict(json.loads(BASELINE.read_text(encoding="utf-8")))


class NotComparable(Exception):
    """The baseline says nothing about this machine or these versions."""


def _stored(kind: str) -> Mapping[str, float]:
    """The baseline of one kind, if it is comparable with what this machine finds.

    Raises
    ------
    NotComparable : it has none for this processor, or was made with other versions.
    """
    baseline = _read()[kind]
    if kind == "ratios":
        here = processor_model()
        if here not in baseline:
            raise NotComparable(
                f"it has ratios of {', '.join(baseline)}, none of {here}. Install valgrind, or on "
                f"a state that is known to be good: {_RENEW}"
            )
        baseline = baseline[here]
    there, found = baseline["versions"], _versions()
    if there != found:
        other = ", ".join(
            f"{name} {there.get(name)} there, {found.get(name)} here"
            for name in there | found
            if there.get(name) != found.get(name)
        )
        raise NotComparable(
            f"its {kind} were made with other versions ({other}). Install what requirements.lock "
            f"lists, or on a state that is known to be good: {_RENEW}"
        )
    return dict(baseline["measures"])


def _check(kind: str, names: Sequence[str]) -> int:
    try:
        stored = _stored(kind)
    except NotComparable as error:
        print(f"{BASELINE.name} is not comparable, nothing was measured: {error}", file=sys.stderr)
        return NOT_COMPARABLE
    found = _measure(kind, names)
    _print_row("measure", _UNITS[kind], "ratio to baseline")
    for name, value in found.items():
        of = f"{value / stored[name]:.3f}" if name in stored else "new"
        _print_row(name, _number(value), of)
    if len(names) < len(_selected(())):
        stored = {name: value for name, value in stored.items() if name in names}
    below = [n for n in found if n in stored and found[n] < _FAR_BELOW * stored[n]]
    if below:
        print(f"note: {', '.join(below)}: far below {BASELINE.name}; {_RENEW} keeps the gain")
    problems = compare(found, stored, LIMITS[kind])
    if problems:
        listing = "\n  ".join(problems)
        print(
            f"slower than {BASELINE.name} ({kind}):\n  {listing}\n"
            "See docs/speed-regressions.md for how to find the cause. "
            f"If that is intended: {_RENEW}",
            file=sys.stderr,
        )
        return 1
    print(f"{len(found)} measures are within {LIMITS[kind]} of {BASELINE.name} ({kind})")
    return 0


def _print_row(name: str, value: str, remark: str) -> None:
    print(f"{name:<40} {value:>21} {remark:>18}")


def _renew() -> int:
    """Everything where instructions can be counted, elsewhere the ratios of this processor alone.

    Ratios of other processors do not outlive a change that is worth counting anew.
    """
    names = _selected(())
    ratios = {name: round(value, 4) for name, value in _measure("ratios", names).items()}
    here = {processor_model(): {"versions": _versions(), "measures": ratios}}
    if can_count():
        counts = {"versions": _versions(), "measures": _measure("instructions", names)}
        baseline = {"instructions": counts, "ratios": here}
    else:
        baseline = _read()
        baseline["ratios"] |= here
    with replacing(BASELINE) as (path,):
        path.write_text(json.dumps(baseline, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {BASELINE}")
    return 0


def _repeat(kind: str, names: Sequence[str], turns: int, busy: int) -> int:
    """How far repetitions of the measures are apart, with so many busy processes beside them."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        found = []
        for _ in range(turns):
            found.append(_measure(kind, names))
            print(f"{len(found)} of {turns}", file=sys.stderr)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    _print_row("measure", f"least {_UNITS[kind]}", "greatest is above")
    for name in found[0]:
        values = [measured[name] for measured in found]
        spread = 100 * (max(values) / min(values) - 1)
        _print_row(name, _number(min(values)), f"{spread:.3f} %")
    passed = sum(not compare(measured, found[0], LIMITS[kind]) for measured in found)
    print(f"{passed} of {turns} are within {LIMITS[kind]} of the first ({kind}, {busy} busy loops)")
    return 0 if passed == turns else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.check", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only measures that have this text in their name"
    )
    parser.add_argument("--baseline", action="store_true", help="write the baseline anew")
    parser.add_argument("--by", choices=LIMITS, help="measure so; instructions where possible")
    parser.add_argument("--repeat", type=int, metavar="N", help="compare N repetitions instead")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy loops meanwhile")
    parser.add_argument("--part", choices=("compile", "count", "time"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        _part(given.part, given.names)
        return 0
    if given.baseline:
        if given.names:
            parser.error("--baseline writes all measures, it goes without NAME")
        return _renew()
    if given.busy and not given.repeat:
        parser.error("--busy goes with --repeat")
    kind = given.by or ("instructions" if can_count() else "ratios")
    names = _selected(given.names)
    if given.repeat:
        return _repeat(kind, names, given.repeat, given.busy)
    return _check(kind, names)


if __name__ == "__main__":
    raise SystemExit(main())
