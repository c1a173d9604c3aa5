from stepsim.lowering.addresses import (
    AddressMap as AddressMap,
    Place as Place,
    address_map as address_map,
    checked_places as checked_places,
)
from stepsim.lowering.builder import build_image as build_image
from stepsim.lowering.carriers import (
    CARRIERS as CARRIERS,
    MULTICAST as MULTICAST,
    RECEIVE as RECEIVE,
    RECEIVE_MESSAGE as RECEIVE_MESSAGE,
    SEND as SEND,
    SEND_MESSAGE as SEND_MESSAGE,
    Path as Path,
    Tree as Tree,
    with_carriers as with_carriers,
    with_messages as with_messages,
)
from stepsim.lowering.image import Image as Image
from stepsim.lowering.network import (
    Carriage as Carriage,
    ChannelSpec as ChannelSpec,
    ChipLinks as ChipLinks,
    Network as Network,
    TimingParams as TimingParams,
    UnitOrigin as UnitOrigin,
    UnitSpec as UnitSpec,
)
from stepsim.lowering.network_of_program import (
    default_depth as default_depth,
    lower as lower,
    network_of as network_of,
    timing_of as timing_of,
    unit_bandwidth as unit_bandwidth,
)
from stepsim.lowering.rebind import (
    ImageTemplate as ImageTemplate,
    with_integers as with_integers,
)
from stepsim.lowering.retimed import (
    compute_bandwidths as compute_bandwidths,
    dispatch_widths as dispatch_widths,
    with_bases as with_bases,
    with_compute as with_compute,
    with_dispatch as with_dispatch,
    with_first_channels as with_first_channels,
    with_timing as with_timing,
)
from stepsim.lowering.rings import depths_of as depths_of
from stepsim.lowering.versions import engine_plugins as engine_plugins, software as software
