from stepsim.workloads.attention import Attention as Attention
from stepsim.workloads.built import Built as Built
from stepsim.workloads.decoder import Decoder as Decoder
from stepsim.workloads.inputs import (
    KV_LENGTHS as KV_LENGTHS,
    NEW_TOKENS as NEW_TOKENS,
    ROUTING as ROUTING,
    Data as Data,
)
from stepsim.workloads.loading import (
    find_workload as find_workload,
    workload_names as workload_names,
)
from stepsim.workloads.models import MODELS as MODELS, Model as Model, MoEShape as MoEShape
from stepsim.workloads.moe import Moe as Moe
from stepsim.workloads.parameters import Param as Param, ParameterError as ParameterError
from stepsim.workloads.step import Step as Step
from stepsim.workloads.swiglu import Swiglu as Swiglu
from stepsim.workloads.workload import Workload as Workload

# isort: split
# for other rooms
from stepsim.workloads.built import Counted as Counted
from stepsim.workloads.functions import of_function as of_function
from stepsim.workloads.inputs import Input as Input
from stepsim.workloads.loading import Source as Source
from stepsim.workloads.models.model import LatentHeads as LatentHeads
from stepsim.workloads.parallel.handover import handover as handover
from stepsim.workloads.parallel.split import Split as Split
from stepsim.workloads.parameters import (
    DYNAMIC as DYNAMIC,
    Field as Field,
    check_fields as check_fields,
    depth_parameter as depth_parameter,
    fields_of as fields_of,
    new_name as new_name,
)
from stepsim.workloads.plans import PLAN as PLAN, plan_file as plan_file
from stepsim.workloads.resolving import (
    CONFIGS as CONFIGS,
    Resolved as Resolved,
    depth_advice as depth_advice,
    parameter_problems as parameter_problems,
    resolve as resolve,
)
from stepsim.workloads.step.blocks import StepBlocks as StepBlocks
from stepsim.workloads.user_files import read_module as read_module, user_code as user_code
from stepsim.workloads.values import (
    plain_bytes as plain_bytes,
    plain_share as plain_share,
    split_target as split_target,
)
from stepsim.workloads.workload import data_of as data_of, machine_of as machine_of
