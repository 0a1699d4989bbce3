"""docs/reference/configuration.md, "Several files": what it says of security's file and the platform's is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import ConfigError, Gateway
from tests.docs.pages import CONFIGURATION, page

SECTION = " ".join(page(CONFIGURATION).section("Several files").split())
FIRST = """
[attributes.data-region]
values = ["eu", "any"]
header = "x-region"

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"
accept = { eu = ["eu"], any = "*" }
always = true

[providers.local]
kind = "echo"

[targets.eu]
provider = "local"
model = "m"
region = "eu"

[routes.chat]
targets = ["eu"]

[server]
port = 8000

[keys.first]
"""


def refused(folder: Path, later: str) -> set[str]:
    """The codes of what is wrong with both files together."""
    first, second = folder / "policy.toml", folder / "routes.toml"
    first.write_text(FIRST, "utf-8")
    second.write_text(later, "utf-8")
    try:
        Gateway.from_file(first, second)
    except ConfigError as error:
        return {problem.code for problem in error.problems}
    return set()


@pytest.mark.parametrize(
    "later",
    [
        '[routes.more]\ntargets = ["eu"]',
        '[targets.more]\nprovider = "local"\nmodel = "n"\nregion = "eu"',
        "[keys.second]",
        '[server]\nhost = "127.0.0.1"',
        '[auth]\nmode = "keys"',
    ],
)
def test_a_later_file_may_add_tables(tmp_path: Path, later: str) -> None:
    assert refused(tmp_path, later) == set()


@pytest.mark.parametrize(
    "later",
    [
        '[constraints.residency]\nkind = "attribute_match"',
        "[routes.chat]\nmax_retries = 0",
        '[targets.eu]\ntier = "large"',
        "[server]\nport = 8001",
        '[auth]\nmode = "open"',
        '[auth]\nmode = "host"',
    ],
)
def test_a_later_file_may_not_touch_what_stands(tmp_path: Path, later: str) -> None:
    assert refused(tmp_path, later) == {"policy_redefined"}


def test_what_the_page_says_of_a_later_files_privileges_is_so(tmp_path: Path) -> None:
    """Either it is refused everywhere and the page may say so, or the page says that it is not."""
    grants = ("[keys.second]\n", "[tenants.second]\n", "[auth]\n")
    codes = [refused(tmp_path, f'{table}may_say = {{ data-region = ["any"] }}') for table in grants]
    assert ("can still grant `may_say`" in SECTION) == any(code == set() for code in codes)
