from stepsim.trace_io.detection import detect_trace_format as detect_trace_format
from stepsim.trace_io.formats import (
    Content as Content,
    Format as Format,
    ImportJob as ImportJob,
    trace_formats as trace_formats,
)
from stepsim.trace_io.importing import (
    ImportProgress as ImportProgress,
    ImportSummary as ImportSummary,
    import_trace as import_trace,
    load_requests as load_requests,
    summarize_routing as summarize_routing,
)
from stepsim.trace_io.requests.kv import read_kv_lengths as read_kv_lengths
from stepsim.trace_io.requests.replaying import DecodeStep as DecodeStep, replay as replay
from stepsim.trace_io.requests.synthetic_kv import synthetic_kv_lengths as synthetic_kv_lengths
from stepsim.trace_io.requests.trace import (
    RequestTrace as RequestTrace,
    read_requests as read_requests,
)
from stepsim.trace_io.requests.windows import (
    Window as Window,
    nearest_windows as nearest_windows,
    select_windows as select_windows,
    window_at as window_at,
)
from stepsim.trace_io.routing.reading import (
    read_routing as read_routing,
    read_routing_batches as read_routing_batches,
)
from stepsim.trace_io.routing.stats import (
    LayerLoad as LayerLoad,
    routing_statistics as routing_statistics,
)
from stepsim.trace_io.routing.summary import RoutingSummary as RoutingSummary
from stepsim.trace_io.routing.synthetic import synthetic_routing as synthetic_routing
from stepsim.trace_io.routing.table import (
    RoutingTable as RoutingTable,
    write_routing as write_routing,
)
from stepsim.trace_io.routing.validate import Place as Place
from stepsim.trace_io.schema import (
    REQUESTS_SCHEMA_VERSION as REQUESTS_SCHEMA_VERSION,
    SCHEMA_VERSION as SCHEMA_VERSION,
    requests_schema as requests_schema,
    routing_schema as routing_schema,
)

# isort: split
# for other rooms
from stepsim.trace_io.detection import is_routing_table as is_routing_table
from stepsim.trace_io.options import TRACE_OPTIONS as TRACE_OPTIONS, check_options as check_options
from stepsim.trace_io.requests.kv import KvFile as KvFile, open_kv_lengths as open_kv_lengths
from stepsim.trace_io.requests.replaying import (
    replay_rows as replay_rows,
    replay_schema as replay_schema,
)
from stepsim.trace_io.requests.windows import disjoint as disjoint, window_stdevs as window_stdevs
from stepsim.trace_io.routing.origin import read_origin as read_origin
from stepsim.trace_io.routing.parts import RoutingPart as RoutingPart, check_window as check_window
from stepsim.trace_io.routing.reading import routing_parts as routing_parts
from stepsim.trace_io.routing.summary import RoutingCounter as RoutingCounter
from stepsim.trace_io.routing.synthetic import MOST_ENTRIES as MOST_ENTRIES
from stepsim.trace_io.sources.records import records as records
from stepsim.trace_io.writer import ParquetStream as ParquetStream
