"""A finished service once more: with the recorded times of its steps, or with changes."""

from __future__ import annotations

from dataclasses import replace

from stepsim.errors import ServingError
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service.outcome import ServeResult
from stepsim.serving.service.record import StepRows
from stepsim.serving.service.serve import prepare_service
from stepsim.serving.service.spec import ServeSpec
from stepsim.serving.service.tables import steps_of
from stepsim.serving.steps.interface import StepTime


def spec_of(result: ServeResult) -> ServeSpec:
    """The specification of a service, to serve again.

    Raises
    ------
    ServingError : parts of it were objects of Python, which only the user's program can make.
    """
    objects = result.summary["objects"]
    if objects:
        raise ServingError(
            f"the service was made with objects of Python for {', '.join(objects)}; serve it again "
            "from your program, and compare the folders"
        )
    given = {name: one for name, one in result.summary["settings"].items() if one is not None}
    return ServeSpec.of(given)


def served_again(result: ServeResult) -> ServeResult:
    """The same results, with the steps that computed each request; no step is simulated.

    Raises
    ------
    ServingError : as in `spec_of`, or the requests have changed since.
    """
    service = prepare_service(spec_of(result))
    if service.settings()["requests_digest"] != result.summary["requests_digest"]:
        raise ServingError(
            f"{service.requests.source}: the requests have changed since they were served; put "
            "them back, or serve again"
        )
    models = (
        _Recorded(steps_of(result.steps, replica))
        for replica in range(service.spec.choices.engines)
    )
    again = replace(service, steps=lambda: next(models)).run()
    return ServeResult(again.requests, result.steps, result.summary)


class _Recorded:
    """Steps that take as long as they did."""

    def __init__(self, rows: StepRows) -> None:
        self._rows = rows

    def time(self, step: int, batch: Batch) -> StepTime:
        """The recorded time of a step."""
        return self._rows.time(step)
