from stepsim.reproduce.figure import countings as countings
from stepsim.reproduce.figures import FIGURES as FIGURES, points_of as points_of
from stepsim.reproduce.figures.archived import archived_points as archived_points
from stepsim.reproduce.inputs import Inputs as Inputs
from stepsim.reproduce.noc.validation_page import write_noc_validation as write_noc_validation
from stepsim.reproduce.pages.files import make_folder as make_folder
from stepsim.reproduce.pages.report import (
    headline_cells as headline_cells,
    signed_percent as signed_percent,
)
from stepsim.reproduce.pages.validation import write_validation as write_validation
from stepsim.reproduce.points import Point as Point, Run as Run
from stepsim.reproduce.pool import workers as workers
from stepsim.reproduce.reproduction import reproduce as reproduce
from stepsim.reproduce.result import Reproduction as Reproduction
from stepsim.reproduce.runs import machine_of as machine_of, source_of as source_of
from stepsim.reproduce.serving.validation_page import (
    write_serving_validation as write_serving_validation,
)
from stepsim.reproduce.streamtensor.published_rows import published_rows as published_rows
from stepsim.reproduce.streamtensor.sizing_methods import fifo_table as fifo_table
from stepsim.reproduce.streamtensor.validation_page import (
    write_streamtensor_validation as write_streamtensor_validation,
)
