"""When requests arrive. Requests that follow others keep their order and their think time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range
from stepsim.errors import ArgError
from stepsim.serving.requests.requests import Requests
from stepsim.serving.seconds import NANOSECONDS
from stepsim.shown import shown
from stepsim.typed import typed_fields

_SEED = Range((1 << 32) - 1, "the seed of a generator", low=0)
_REQUESTS = Range((1 << 31) - 1, "requests at a time")
_LONGEST_S = (1 << 62) / NANOSECONDS
"""Times are kept in 63 bits of ns."""


class Arrivals(Protocol):
    """Says when requests arrive."""

    def arrive(self, requests: Requests) -> Requests:
        """The requests with new times of arrival.

        Raises
        ------
        ArgError : the times do not fit these requests.
        """
        ...


@typed_fields
@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """Requests arrive as recorded, all times multiplied by one factor.

    Attributes
    ----------
    rate : mean rate, in requests per second, between the first and the last arrival; None: that of
        the recording.
    speedup : how much faster than recorded; None: as fast. Only one of the two can be given.

    Raises
    ------
    ArgError : both are given, or one is not above 0.
    """

    rate: float | None = None
    speedup: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and self.speedup is not None:
            raise ArgError("arrivals: both rate and speedup are given; leave one of them out")
        for name in ("rate", "speedup"):
            if getattr(self, name) is not None:
                _positive(name, getattr(self, name))

    def arrive(self, requests: Requests) -> Requests:
        if not requests.timed:
            raise ArgError(
                f"{requests.source}: has no times of arrival; draw them at a rate, or let all "
                "requests arrive at once"
            )
        if self.rate is None and self.speedup is None:
            return requests
        roots = requests.after < 0
        times = requests.arrival_ns[roots]
        factor = 1.0 if self.speedup is None else 1.0 / self.speedup
        if self.rate is not None:
            span = int(times[-1] - times[0])
            if not span:
                raise ArgError(
                    f"{requests.source}: all requests arrive at one time, so there is no rate to "
                    "scale; draw the arrivals at the rate"
                )
            factor = (len(times) - 1) / self.rate * NANOSECONDS / span
        return _timed(requests, times * factor / NANOSECONDS)


@typed_fields
@dataclass(frozen=True, slots=True)
class DrawnArrivals:
    """Arrivals as ``vllm bench serve`` draws them, from the same generator.

    Gaps follow a gamma distribution of shape ``burstiness``: 1 is a Poisson process, less is more
    bursty, infinity is one request every ``1 / rate`` seconds. The first request comes one gap
    after the start, and all times are scaled so that the last of n requests comes at ``n / rate``.
    Gaps are drawn for a rate of 1 and then scaled, so one seed gives the same arrivals at any rate.

    Attributes
    ----------
    rate : requests per second.
    burstiness : shape of the gamma distribution, above 0; it may be infinite.
    seed : of numpy's ``RandomState``.

    Raises
    ------
    ArgError : a rate that is not above 0 and finite, a burstiness that is not above 0, or a seed
        out of range.
    """

    rate: float
    burstiness: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _positive("rate", self.rate)
        _check_drawn(self.burstiness, self.seed)

    def arrive(self, requests: Requests) -> Requests:
        count = int(np.count_nonzero(requests.after < 0))
        gaps = unit_gaps(count, self.burstiness, self.seed)
        return _timed(requests, send_offsets(gaps, np.full(count, self.rate), rescaled=True))


@typed_fields
@dataclass(frozen=True, slots=True)
class RampUpArrivals:
    """Arrivals at a rate that rises from one request to the next, as ``vllm bench serve`` draws
    them. They are not scaled to a mean rate.

    Attributes
    ----------
    first_rate, last_rate : requests per second of the first and the last gap, whole numbers.
    shape : how the rate rises over the requests.
    burstiness, seed : as in `DrawnArrivals`.

    Raises
    ------
    ArgError : a rate below 1, a last rate below the first, or as `DrawnArrivals`.
    """

    first_rate: int
    last_rate: int
    shape: Literal["linear", "exponential"] = "linear"
    burstiness: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        rates = Range(1 << 31, "requests per second")
        rates.checked("first_rate", self.first_rate)
        rates.checked("last_rate", self.last_rate)
        if self.last_rate < self.first_rate:
            raise ArgError(
                f"arrivals: last_rate is {self.last_rate}, expected at least the first_rate of "
                f"{self.first_rate}; swap them"
            )
        _check_drawn(self.burstiness, self.seed)

    def arrive(self, requests: Requests) -> Requests:
        count = int(np.count_nonzero(requests.after < 0))
        gaps = unit_gaps(count, self.burstiness, self.seed)
        return _timed(requests, send_offsets(gaps, self.rates(count), rescaled=False))

    def rates(self, count: int) -> NDArray[np.float64]:
        """The rate of the gap before each of ``count`` requests. [count]"""
        part = np.arange(count) / max(count - 1, 1)
        if self.shape == "linear":
            return self.first_rate + (self.last_rate - self.first_rate) * part
        return self.first_rate * np.power(self.last_rate / self.first_rate, part)


@dataclass(frozen=True, slots=True)
class ArrivalsAtOnce:
    """All requests are there when the service starts; those that follow others still wait."""

    def arrive(self, requests: Requests) -> Requests:
        return _timed(requests, np.zeros(int(np.count_nonzero(requests.after < 0))))


@typed_fields
@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A fixed number of users; each sends its next request when its last one is answered.

    Of n users, user u sends requests u, u + n, u + 2 n and so on. Of a source of sessions these are
    whole sessions.

    Attributes
    ----------
    users : how many there are.
    think_seconds : from the end of a request to the next one of the user.

    Raises
    ------
    ArgError : no user, or a think time that is below 0 or not finite.
    """

    users: int
    think_seconds: float = 0.0

    def __post_init__(self) -> None:
        _REQUESTS.checked("users", self.users)
        if not (math.isfinite(self.think_seconds) and 0 <= self.think_seconds <= _LONGEST_S):
            raise ArgError(
                f"arrivals: think_seconds is {shown(self.think_seconds)}, expected seconds from 0 "
                "on"
            )

    def arrive(self, requests: Requests) -> Requests:
        roots = np.flatnonzero(requests.after < 0)
        if self.users > len(roots):
            raise ArgError(
                f"arrivals: there are {self.users} users for {len(roots)} "
                f"{'requests' if len(roots) == len(requests) else 'sessions'} of "
                f"{requests.source}; expected at least one for each user"
            )
        after, think = requests.after.copy(), requests.think_ns.copy()
        after[roots[self.users :]] = _last_of(requests, roots)[: len(roots) - self.users]
        think[roots[self.users :]] = round(self.think_seconds * NANOSECONDS)
        zeros = np.zeros_like(requests.arrival_ns)
        return replace(requests, arrival_ns=zeros, after=after, think_ns=think)


def unit_gaps(count: int, burstiness: float, seed: int) -> NDArray[np.float64]:
    """Gaps of a mean of 1 / burstiness, or of 1 if it is infinite, as the benchmark draws them.
    [count]"""
    if math.isinf(burstiness):
        return np.ones(count)
    # The benchmark draws from numpy's global generator, which is one of these.
    return np.random.RandomState(seed).standard_gamma(burstiness, count) / burstiness


def send_offsets(
    gaps: NDArray[np.float64], rates: NDArray[np.float64], *, rescaled: bool
) -> NDArray[np.float64]:
    """When requests are sent, in s, from gaps of a mean of 1. [requests]

    ``rates`` are those of each gap, in 1/s. ``rescaled`` multiplies all times so that the last
    request is sent at the number of requests over the first rate.
    """
    times: NDArray[np.float64] = np.cumsum(gaps / rates)
    if rescaled and times[-1] != 0:
        times *= len(gaps) / rates[0] / times[-1]
    return times


def _check_drawn(burstiness: float, seed: int) -> None:
    if not burstiness > 0:
        raise ArgError(
            f"arrivals: burstiness is {shown(burstiness)}, expected a number above 0: 1 for "
            "Poisson, less for bursts, inf for equal gaps"
        )
    _SEED.checked("seed", seed)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        unit = "requests per second" if name == "rate" else "a factor"
        raise ArgError(
            f"arrivals: {name} is {shown(value)}, expected {unit} above 0 and finite; if all "
            "requests should arrive at once, say so instead"
        )


def _timed(requests: Requests, seconds: NDArray[np.float64]) -> Requests:
    """The requests with these times of those that follow none."""
    if seconds[-1] > _LONGEST_S:
        raise ArgError(
            f"arrivals: the last request would arrive after {seconds[-1]:.3g} s, expected at most "
            f"{_LONGEST_S:.3g}; raise the rate"
        )
    times = np.rint(seconds * NANOSECONDS).astype(np.int64)
    number = np.cumsum(requests.after < 0) - 1
    return replace(requests, arrival_ns=times[number[_roots(requests)]], timed=True)


def _roots(requests: Requests) -> NDArray[np.int64]:
    """The first request of the chain that each belongs to. [requests]"""
    root = np.arange(len(requests))
    for index in np.flatnonzero(requests.after >= 0).tolist():
        root[index] = root[requests.after[index]]
    return root


def _last_of(requests: Requests, roots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last request of the chain that each root begins. [roots]"""
    last = np.zeros(len(requests), dtype=np.int64)
    np.maximum.at(last, _roots(requests), np.arange(len(requests)))
    return last[roots]
