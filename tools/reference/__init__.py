"""The parts of docs/reference that are made from the code, so that neither can say something else than the other.

`python -m tools.reference` writes them; `--check` only says which pages are stale. Each page is prose of ours with marked
places in it, and each place is filled by one part below: hooks, kinds, configuration keys, codes, metrics, spans,
commands, public names. A thing without a description in the code is refused: there would be nothing to say about it.
"""

from __future__ import annotations
