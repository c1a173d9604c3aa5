"""The public graph format (``graph.pb``): programs as Protocol Buffers messages.

``st.load_graph`` reads one, ``Program.to_graph`` writes one. The format is defined by tables:
`fields` has the fields of messages, `numbers` the numbers of operators, types and functions, and
`rows` how each operator is read and written.
"""

from stepsim.graph.graph_file.reader import load_graph as load_graph
