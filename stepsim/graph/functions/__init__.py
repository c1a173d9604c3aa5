"""Functions that higher-order operators apply to tiles. Users reach them as ``st.fn``.

All are imported together, as they are found by name in one table.
"""

from stepsim.graph.functions import (
    addresses as addresses,
    casts as casts,
    constants as constants,
    define as define,
    elementwise as elementwise,
    function as function,
    masks as masks,
    matrices as matrices,
    numbers as numbers,
    reductions as reductions,
    selectors as selectors,
)
