# model.py
import stepsim as st


def gated(rows: int = 64) -> st.Program:
    with st.Program("gated", compute_bw=1024) as program:
        x = st.linear_load(st.spec(rows, 64), tile=(16, 64)).flatten(0, 1)
        gate, up = x.map(st.fn.silu), x.map(st.fn.gelu)
        st.linear_store(st.zip(gate, up).map(st.fn.mul), "out")
    return program
