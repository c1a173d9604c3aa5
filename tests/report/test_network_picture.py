"""Pictures of networks: every link once, the redder the fuller, in files that are complete."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import stepsim as st
from stepsim.errors import OutputError

_SVG = "{http://www.w3.org/2000/svg}"
_LISTED = {"name": "l", "topology": "links", "cols": 4, "links": "0-1 1-2 2>3 3>0", "flits": {}}


@pytest.mark.parametrize(
    ("network", "links"),
    [("torus", 4 * 64), ("ring", 2 * 8), ("switch", 2 * 8), (st.machine.Network(**_LISTED), 6)],
    ids=["torus", "ring", "switch", "links"],
)
def test_every_link_is_drawn_in_the_color_of_its_load(
    tmp_path: Path, network: str | st.machine.Network, links: int
) -> None:
    run = st.noc.simulate({"source": [0, 1], "destination": [3, 3], "flits": [1000, 1000]}, network)
    st.report.draw_network(run, tmp_path / "n.svg")
    root = ElementTree.fromstring((tmp_path / "n.svg").read_text())
    found = {line[0].text: line.get("stroke") for line in root.findall(f"{_SVG}line")}
    assert len(found) == links
    colors = {color for text, color in found.items() if ": 0.0%" in str(text)}
    assert colors == {"#dddddd"}
    (hottest,) = [
        color for text, color in found.items() if str(text).startswith(f"{run.busiest_link}:")
    ]
    assert hottest not in (None, "#dddddd")
    assert f"busiest link {run.busiest_link}" in " ".join(root.itertext())


@pytest.mark.parametrize(
    ("network", "names"),
    [
        ({"rows": 2, "cols": 2}, ["0,0", "0,1", "1,0", "1,1"]),
        ({"rows": 1, "cols": 2}, ["0", "1"]),
    ],
)
def test_places_have_the_names_that_links_have(
    tmp_path: Path, network: dict[str, int], names: list[str]
) -> None:
    one = {"source": [0], "destination": [1], "flits": [1]}
    st.report.draw_network(
        st.noc.simulate(one, st.noc.load_network("mesh", network)), tmp_path / "n.svg"
    )
    root = ElementTree.fromstring((tmp_path / "n.svg").read_text())
    texts = [text for text in root.findall(f"{_SVG}text") if text.get("text-anchor") == "middle"]
    assert [text.text for text in texts] == names


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    one = {"source": [0], "destination": [1], "flits": [1]}
    with pytest.raises(OutputError, match=r"the suffix is \.png, expected \.svg"):
        st.report.draw_network(st.noc.simulate(one), tmp_path / "n.png")
    large = st.noc.load_network("mesh", {"rows": 65, "cols": 64})
    with pytest.raises(OutputError, match="a network of 4,160 places is not drawn"):
        st.report.draw_network(st.noc.simulate(one, large), tmp_path / "n.svg")
