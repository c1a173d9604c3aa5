"""Random networks of stepping kernels and random graphs of kernels to fuse, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from random import Random

from stepsim.design.passes.fusion.groups import FusionEdge, FusionGraph
from stepsim.reproduce.streamtensor.stepping_runs import NetworkRun, run_network
from stepsim.sizing import Fifo, FifoNetwork, SteppingKernel

__all__ = ["fusion_graphs", "least_alone", "least_uniform", "rate_networks", "same_rate_networks"]

MOST_LATENCY = 20
BITS = (8, 32, 128)


def _links(random: Random, kernels: int) -> list[tuple[int, int]]:
    """A graph in which every kernel but the first has an input from an earlier one, or more."""
    links = set()
    for consumer in range(1, kernels):
        for _ in range(random.choice((1, 1, 2, 2, 3))):
            links.add((random.randrange(max(0, consumer - 4), consumer), consumer))
    return sorted(links)


def same_rate_networks(
    seed: int, count: int, *, most_interval: int, tokens: int, most_kernels: int = 9
) -> Iterator[FifoNetwork]:
    """Kernels that all make the same number of steps, one token each."""
    random = Random(seed)
    for _ in range(count):
        kernels = random.randint(3, most_kernels)
        yield FifoNetwork(
            tuple(
                SteppingKernel(
                    tokens, random.randint(1, most_interval), random.randint(1, MOST_LATENCY)
                )
                for _ in range(kernels)
            ),
            tuple(Fifo(*link, bits=random.choice(BITS)) for link in _links(random, kernels)),
        )


def rate_networks(seed: int, count: int) -> Iterator[FifoNetwork]:
    """Kernels of different numbers of steps: reductions, expansions, and bypasses around them."""
    random = Random(seed)
    for _ in range(count):
        kernels = random.randint(3, 8)
        steps = [random.choice((4, 8, 16, 32)) for _ in range(kernels)]
        fifos = []
        for producer, consumer in _links(random, kernels):
            tokens = gcd(steps[producer], steps[consumer]) // random.choice((1, 1, 2, 4))
            fifos.append(
                Fifo(
                    producer,
                    consumer,
                    steps[producer] // tokens,
                    steps[consumer] // tokens,
                    random.choice(BITS),
                )
            )
        yield FifoNetwork(
            tuple(
                SteppingKernel(each, random.randint(1, 4), random.randint(1, MOST_LATENCY))
                for each in steps
            ),
            tuple(fifos),
        )


def weak_components(graph: FusionGraph) -> int:
    """Parts of the graph that no edge joins."""
    labels = list(range(graph.kernels))
    for producer, consumer in graph.links:
        old, new = labels[consumer], labels[producer]
        labels = [new if label == old else label for label in labels]
    return len(set(labels))


def fusion_graphs(seed: int, count: int, most_kernels: int) -> Iterator[tuple[FusionGraph, int]]:
    """Graphs of kernels, some with several sources, and a budget each."""
    random = Random(seed)
    for _ in range(count):
        kernels = random.randint(2, most_kernels)
        edges = []
        for consumer in range(1, kernels):
            if random.random() < 0.2:
                continue
            for producer in sorted({random.randrange(consumer) for _ in range(2)}):
                size = 1024 * (1 + producer % 5)
                cost = random.choice((0, 0, 1, 2, 4)) * 512
                edges.append(FusionEdge(producer, consumer, cost, size, producer))
        graph = FusionGraph(kernels, tuple(edges))
        yield graph, random.randint(0, sum(edge.cost for edge in edges) + 1)


def ends(run: NetworkRun) -> bool:
    """Whether a run ends, however late."""
    return not run.deadlock


def least_uniform(network: FifoNetwork, good: Callable[[NetworkRun], bool] = ends) -> int:
    """The least common depth with which a run is good."""
    fifos = len(network.fifos)
    every = range(1, max(network.tokens) + 1)
    return next(depth for depth in every if good(run_network(network, [depth] * fifos)))


def least_alone(network: FifoNetwork, fifo: int, good: Callable[[NetworkRun], bool] = ends) -> int:
    """The least depth of one FIFO, with the others without bound, with which a run is good."""
    others: list[int | None] = [None] * len(network.fifos)
    return next(
        depth
        for depth in range(1, network.tokens[fifo] + 1)
        if good(run_network(network, [*others[:fifo], depth, *others[fifo + 1 :]]))
    )
