"""What stays as it is: a snapshot of all that is promised, and how its changes are announced.

``tests/data/promises.json`` has what the last release offers. What was added since is free to
change until the next one. What was taken away or changed must be named in the changelog. The
snapshot is renewed for a release by ``python -m tests.promises --renew``; without the option that
command lists what has changed.
"""
