"""Plugins that break their contract, one act each: what a careless author could write, or a hostile one.

tests/contract/distribution.py installs a copy of this folder as a distribution of its own, `narrows-hostile`. So its
modules import the public names of narrows only, and nothing of each other. A plugin acts where the request says its act
(header `x-act`); without that every one of them is silent, which is the positive control of each test.
"""

from __future__ import annotations
