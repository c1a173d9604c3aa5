"""The public graph format (``graph.pb``): programs as Protocol Buffers messages.

``st.load_graph`` reads one, ``Program.to_graph`` writes one. The tables of this room say it all:
`fields` the fields of the messages, `numbers` what selects operators, types and functions, `rows`
how each operator is read and written.
"""

from stepsim.graph.graph_file.reader import load_graph

__all__ = ["load_graph"]
