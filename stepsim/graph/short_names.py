"""Functions whose short names in ``st.fn`` are taken elsewhere, mostly by Python itself."""

from stepsim.graph.functions.constants import pow_
from stepsim.graph.functions.elementwise import abs_, max_, min_
from stepsim.graph.ops.flat_map.numbers import count_up

abs = abs_
counter = count_up
max = max_
min = min_
pow = pow_
