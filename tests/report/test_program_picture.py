"""Pictures of programs: nothing is left out, nothing overlaps, frames hold what is theirs."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

import stepsim as st
from stepsim.drawing import Layout, end_of, placed_labels, text_width
from stepsim.report import write_picture
from stepsim.report.clustered import Frame, clustered
from stepsim.report.program_picture import picture_of, program_page, program_svg
from stepsim.results import outline_of
from stepsim.simulation import wired

SVG = "{http://www.w3.org/2000/svg}"


def block() -> st.Program:
    with st.Program("block <&>", compute_bw=1024) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64), label="tokens").flatten(0, 1)
        h = st.nn.rms_norm(x, label="norm")
        for i in range(4):
            h.map(st.fn.silu, label=f"act.{i}").consume()
        st.linear_store(st.map(st.fn.add, x, h, label="residual"), "y")
    return program


def test_boxes_edges_and_frames() -> None:
    outline = outline_of(wired(block()))
    root = ElementTree.fromstring(program_svg(outline, "block <&>"))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "tokens#0" in texts
    assert "act.* \N{MULTIPLICATION SIGN} 4" in texts
    assert any(text.startswith("map add \N{MIDDLE DOT} test_program_picture.py:") for text in texts)
    assert "[4] of 16x64 bf16 \N{MULTIPLICATION SIGN} 4" in texts
    frames = [one for one in root.iter(f"{SVG}rect") if one.get("class") == "frame"]
    assert len(frames) == 1
    assert "norm" in texts


def test_boxes_do_not_overlap_and_frames_hold_their_own() -> None:
    picture = picture_of(outline_of(wired(block())))
    places = [
        (x - box.size[0] / 2, y - box.size[1] / 2, x + box.size[0] / 2, y + box.size[1] / 2)
        for (x, y), box in zip(picture.layout.centers, picture.boxes, strict=True)
    ]
    for i, a in enumerate(places):
        for b in places[i + 1 :]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    ((title, frame),) = picture.frames
    assert title == "norm"
    inside = [
        frame.left <= left and right <= frame.left + frame.width
        and frame.top <= top and bottom <= frame.top + frame.height
        for left, top, right, bottom in places
    ]  # fmt: skip
    assert [box.lines[0].startswith("norm.") or i for i, box in enumerate(picture.boxes)]
    assert sum(inside) == sum("norm" in box.about for box in picture.boxes)


def crossed(layout: Layout, frames: tuple[Frame, ...], texts: list[str]) -> list[tuple[Frame, str]]:
    """Frames and the texts of edges that lie across one of their sides."""
    found = []
    ends = [(*end_of(path), text) for path, text in zip(layout.paths, texts, strict=True) if text]
    for x, y, text in placed_labels(ends):
        left, right = x - text_width(text) / 2, x + text_width(text) / 2
        for frame in frames:
            beside = right <= frame.left or frame.left + frame.width <= left
            apart = beside or y + 5.5 <= frame.top or frame.top + frame.height <= y - 5.5
            inside = frame.left <= left and right <= frame.left + frame.width
            if not apart and not inside:
                found.append((frame, text))
    return found


def test_no_text_lies_across_the_side_of_a_frame() -> None:
    picture = picture_of(outline_of(wired(block())))
    frames = tuple(frame for _, frame in picture.frames)
    assert crossed(picture.layout, frames, list(picture.texts)) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_text_lies_across_a_frame_of_random_graphs(seed: int) -> None:
    draw = random.Random(seed)
    nodes = draw.randrange(4, 25)
    edges = [(a, b) for b in range(1, nodes) for a in {draw.randrange(b), draw.randrange(b)}]
    texts = ["x" * draw.randrange(40) for _ in edges]
    split = draw.randrange(2, nodes)
    layout, frames = clustered(
        [(draw.uniform(20, 90), 30.0) for _ in range(nodes)], edges,
        [range(split // 2), range(split // 2, split)],
        texts=[text_width(text) for text in texts], across=30, down=150,
    )  # fmt: skip
    assert len(frames) == 2
    assert crossed(layout, frames, texts) == []


def test_a_cluster_on_a_cycle_has_no_frame() -> None:
    sizes = [(10.0, 10.0)] * 3
    _, frames = clustered(sizes, [(0, 1), (1, 2)], [[0, 1]], texts=[0, 0], across=5, down=5)
    assert [one.cluster for one in frames] == [0]
    _, frames = clustered(sizes, [(0, 1), (1, 2)], [[0, 2]], texts=[0, 0], across=5, down=5)
    assert frames == ()


def test_a_page_has_its_switch_and_no_markup_of_users(tmp_path: Path) -> None:
    outline = outline_of(wired(block()))
    text = program_page(outline, "block <&>")
    assert "block &lt;&amp;&gt;" in text
    assert "<&>" not in text
    assert 'id="theme"' in text
    write_picture(tmp_path / "p.html", outline, "block")
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")
