from stepsim.serving.answers.find import FoundRate as FoundRate, find_rate as find_rate
from stepsim.serving.answers.pairs import (
    ServiceComparison as ServiceComparison,
    compare_services as compare_services,
)
from stepsim.serving.answers.what_if import what_if_served as what_if_served
from stepsim.serving.answers.why import ServiceWhy as ServiceWhy, why_served as why_served
from stepsim.serving.service.outcome import ServeResult as ServeResult
from stepsim.serving.service.serve import serve as serve

# isort: split
# for other rooms
from stepsim.serving.answers.again import served_again as served_again
from stepsim.serving.clock import (
    Clock as Clock,
    JumpingClock as JumpingClock,
    TickingClock as TickingClock,
)
from stepsim.serving.metrics.benchmark import (
    BenchmarkMetrics as BenchmarkMetrics,
    Distribution as Distribution,
    benchmark_metrics as benchmark_metrics,
)
from stepsim.serving.metrics.slo import Slo as Slo, read_slo as read_slo
from stepsim.serving.metrics.times import RequestTimes as RequestTimes
from stepsim.serving.requests.arrivals import (
    Arrivals as Arrivals,
    ArrivalsAtOnce as ArrivalsAtOnce,
    ClosedLoop as ClosedLoop,
    DrawnArrivals as DrawnArrivals,
    RampUpArrivals as RampUpArrivals,
    RecordedArrivals as RecordedArrivals,
)
from stepsim.serving.requests.lengths import (
    FixedLengths as FixedLengths,
    LognormalLengths as LognormalLengths,
    RandomLengths as RandomLengths,
    ResampledLengths as ResampledLengths,
)
from stepsim.serving.requests.prefixes import (
    RecordedIds as RecordedIds,
    Segments as Segments,
    TokenIds as TokenIds,
)
from stepsim.serving.requests.requests import PrefixBlocks as PrefixBlocks, Requests as Requests
from stepsim.serving.requests.sessions import SessionFile as SessionFile
from stepsim.serving.requests.sources import (
    RequestSource as RequestSource,
    request_source as request_source,
    request_sources as request_sources,
)
from stepsim.serving.requests.token_files import TokenFile as TokenFile
from stepsim.serving.requests.traces import (
    TraceRequests as TraceRequests,
    requests_of as requests_of,
)
from stepsim.serving.scheduling.engine import (
    CompiledTime as CompiledTime,
    Decisions as Decisions,
    Engine as Engine,
)
from stepsim.serving.scheduling.interface import Batch as Batch, Scheduler as Scheduler
from stepsim.serving.scheduling.outcomes import Outcomes as Outcomes
from stepsim.serving.scheduling.schedulers import scheduler as scheduler, schedulers as schedulers
from stepsim.serving.scheduling.settings import (
    SchedulerRules as SchedulerRules,
    SchedulerSettings as SchedulerSettings,
)
from stepsim.serving.scheduling.stepwise import CompiledScheduler as CompiledScheduler
from stepsim.serving.service.folder import is_service as is_service
from stepsim.serving.service.serve import Service as Service, service_of as service_of
from stepsim.serving.service.spec import (
    ServeSpec as ServeSpec,
    located as located,
    mapping_fields as mapping_fields,
    read_spec as read_spec,
    serve_fields as serve_fields,
)
from stepsim.serving.steps.audited import (
    AuditedSteps as AuditedSteps,
    AuditReport as AuditReport,
)
from stepsim.serving.steps.exact import ExactSteps as ExactSteps
from stepsim.serving.steps.interface import StepModel as StepModel, StepTime as StepTime
from stepsim.serving.steps.linear import LinearSteps as LinearSteps
from stepsim.serving.steps.profile import Profile as Profile, read_profile as read_profile
from stepsim.serving.steps.routing import (
    Empirical as Empirical,
    Recording as Recording,
    RequestRouting as RequestRouting,
    Zipf as Zipf,
    read_recording as read_recording,
)
from stepsim.serving.steps.table import Link as Link, TableSteps as TableSteps
