"""The built-in kinds of Narrows, one folder per hook, one module per kind.

They travel the same road as a stranger's: entry points of group `narrows`, and only the public names of `narrows`.
"""

from __future__ import annotations
