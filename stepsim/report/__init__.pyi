from stepsim.report.curves import (
    CurvePanel as CurvePanel,
    DrawnCurve as DrawnCurve,
    draw_curves as draw_curves,
)
from stepsim.report.designs import (
    DesignLook as DesignLook,
    DesignPoint as DesignPoint,
    draw_designs as draw_designs,
)
from stepsim.report.html import SweepTables as SweepTables, write_page as write_page
from stepsim.report.html.reading import RunTables as RunTables, read_run as read_run
from stepsim.report.network_picture import (
    draw_network as draw_network,
    draw_placement as draw_placement,
)
from stepsim.report.perfetto import TimelineFile as TimelineFile, write_perfetto as write_perfetto
from stepsim.report.serving.document import service_document as service_document
from stepsim.report.serving.picture import draw_services as draw_services
from stepsim.report.serving.timeline import (
    ServiceTimelineFile as ServiceTimelineFile,
    write_service_perfetto as write_service_perfetto,
)
from stepsim.report.tilings import TilingPoint as TilingPoint, draw_tilings as draw_tilings
from stepsim.report.traces import draw_requests as draw_requests, draw_routing as draw_routing

# isort: split
# for other rooms
from stepsim.report.busiest import (
    BusyUnit as BusyUnit,
    busiest_resource as busiest_resource,
    busiest_units as busiest_units,
)
from stepsim.report.comparison import (
    change_text as change_text,
    markdown_table as markdown_table,
    number_text as number_text,
    stall_rows as stall_rows,
    text_table as text_table,
)
from stepsim.report.html import (
    require_plotly as require_plotly,
    run_document as run_document,
    sweep_document as sweep_document,
)
from stepsim.report.perfetto import checked_span as checked_span, fifos_of as fifos_of
from stepsim.report.program_picture import write_picture as write_picture
from stepsim.report.run_file import write_run as write_run
from stepsim.report.saving import (
    check_picture as check_picture,
    render as render,
    require_matplotlib as require_matplotlib,
)
from stepsim.report.style import OPEN as OPEN
from stepsim.report.tables import (
    comparison_table as comparison_table,
    run_table as run_table,
    units_table as units_table,
)
from stepsim.report.terminal_table import TerminalTable as TerminalTable
from stepsim.report.trace_file import require_perfetto as require_perfetto
