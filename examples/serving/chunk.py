"""A workload for sweeps: steps in which one request brings a chunk of its prompt.

Sweeps feed a routing, and cached tokens, to a workload. The new tokens of requests are a matter of
parameters here: the rows of the routing that no request decodes are those of the chunk.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from stepsim.workloads import ROUTING, Built, Data, Model, Param, Step, Workload


class Rest(Built):
    """The program of a step, whose new tokens follow from the number of rows."""

    def __init__(self, built, batch):
        super().__init__(built.program)
        self.built, self.batch = built, batch

    def bindings(self, data):
        return self.built.bindings(self.batch(data))


@dataclass(frozen=True, kw_only=True)
class Chunk(Workload):
    """A step in which some requests decode, and one brings all other tokens of its prompt."""

    inputs: ClassVar = (ROUTING,)

    model: Annotated[Model, Param("the model")]
    decoding: Annotated[int, Param("requests that decode", unit="requests")] = 16
    cached: Annotated[int, Param("cached tokens of each of them", unit="tokens")] = 1200
    tile: Annotated[int | None, Param("rows per tile, by default dynamic", "rows")] = None

    @classmethod
    def routing_shape(cls, given):
        experts = Model.parse(given["model"]).experts
        return experts.count, experts.active

    @classmethod
    def shaping(cls):
        return ()

    def batch(self, data):
        new = [data.rows - self.decoding] + [1] * self.decoding
        lengths = [0] + [self.cached] * self.decoding
        return Data.of(routing=data.routing, kv_lengths=lengths, new_tokens=new)

    def build(self, data):
        self.checked(data)
        step = Step.of(model=self.model, tile=self.tile or "dynamic")
        return Rest(step.build(self.batch(data)), self.batch)
