# isort: split
# for other rooms
from stepsim.drawing.layers import Layout as Layout, Point as Point, layered as layered
from stepsim.drawing.svg import (
    ARROW as ARROW,
    CHARACTER as CHARACTER,
    FONT as FONT,
    Box as Box,
    end_of as end_of,
    graph_elements as graph_elements,
    placed_labels as placed_labels,
    text_width as text_width,
)
