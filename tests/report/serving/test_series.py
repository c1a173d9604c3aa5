"""Curves of services: nothing is lost, and thinning changes no pixel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepsim.report.serving.series import engines_of, later_tokens, with_spans
from stepsim.report.serving.thinned import by_column, by_rank, total
from stepsim.serving import ServeResult


def _pixels(x: np.ndarray, y: np.ndarray, columns: int) -> list[tuple[float, ...]]:
    """First, least, largest and last value of each column of a line from 0 to 1."""
    found = []
    place = np.minimum((x * columns).astype(int), columns - 1)
    for column in range(columns):
        own = y[place == column]
        found.append((own[0], own.min(), own.max(), own[-1]) if len(own) else ())
    return found


def test_a_thinned_line_draws_the_same_pixels() -> None:
    generator = np.random.default_rng(5)
    for count, columns in ((10, 4), (5000, 40), (5000, 7), (401, 100)):
        x = np.sort(generator.random(count))
        y = np.cumsum(generator.integers(-3, 4, count))
        kept = by_column(x, y, columns, 0.0, 1.0)
        assert len(kept) <= max(4 * columns, count if count <= 4 * columns else 0)
        assert _pixels(x[kept], y[kept], columns) == _pixels(x, y, columns)


def test_a_distribution_keeps_its_ends_and_its_tail() -> None:
    assert by_rank(2000).tolist() == list(range(2000))
    ranks = by_rank(1_000_000)
    assert len(ranks) <= 2000
    assert (ranks[0], ranks[-1]) == (0, 999_999)
    assert np.diff(ranks).max() <= 1000
    assert np.diff(ranks[ranks > 990_000]).max() <= 11


def test_lines_add_up_at_every_time() -> None:
    lines = [
        (np.array([0, 4, 9]), np.array([2, 0, 5])),
        (np.array([1, 4, 6]), np.array([1, 7, 0])),
    ]
    at, values = total(lines)
    assert at.tolist() == [0, 1, 4, 6, 9]
    assert values.tolist() == [2, 3, 7, 0, 5]


def test_running_and_waiting_are_the_requests_of_the_engine(service: ServeResult) -> None:
    engines = engines_of(service)
    table = service.requests
    for number, engine in enumerate(engines):
        own = table.filter(pc.equal(table["replica"], number))
        arrivals, ends = own["arrival_ns"].to_numpy(), own["finish_ns"].to_numpy()
        at, running = engine.line(engine.running, 0)
        other, waiting = engine.line(engine.waiting, 0)
        assert at.tolist() == other.tolist()
        there = (arrivals[:, None] <= at).sum(axis=0) - (ends[:, None] <= at).sum(axis=0)
        assert (running + waiting).tolist() == there.tolist()
        assert (at[-1], running[-1]) == (ends.max(), 0)


def test_every_token_is_of_a_step(service: ServeResult) -> None:
    engines = engines_of(service)
    decode = sum(int(one.decode.sum()) for one in engines if one.decode is not None)
    assert decode == sum(len(times) for _, times in later_tokens(service))
    assert decode == pc.sum(service.requests["output_tokens"]).as_py() - service.requests.num_rows
    new = sum(int(one.new.sum()) for one in engines)
    names = ("prompt_tokens", "recomputed_tokens", "cached_tokens")
    prompts, again, cached = (pc.sum(service.requests[name]).as_py() for name in names)
    # A step that computes lost tokens again may yield the next one as well.
    assert prompts - cached <= new - decode <= prompts - cached + again
    edges = np.linspace(engines[0].start[0] - 5, max(one.end[-1] for one in engines), 38)
    for one in engines:
        inside = one.spread(one.new, edges)
        before = one.new[one.end <= edges[0]].sum()
        assert inside.min() >= 0
        np.testing.assert_allclose(inside.sum(), one.new.sum() - before, rtol=0.05)


def test_tokens_at_other_times_than_steps_end_are_not_sorted_by_kind(
    several: ServeResult,
) -> None:
    shifted = pc.add(several.requests["first_token_ns"], pa.scalar(1))
    place = several.requests.schema.get_field_index("first_token_ns")
    other = replace(several, requests=several.requests.set_column(place, "first_token_ns", shifted))
    assert all(one.decode is None for one in engines_of(other))


def test_spans_are_found_by_another_schedule(preempting: ServeResult) -> None:
    assert preempting.requests["computed_steps"].null_count
    known, missing = with_spans(preempting)
    assert missing == ""
    assert not known.requests["computed_steps"].null_count
    objects = {**preempting.summary, "objects": ["steps"]}
    assert "objects of Python" in with_spans(replace(preempting, summary=objects))[1]
