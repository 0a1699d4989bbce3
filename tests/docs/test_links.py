"""Every link between the pages: the file exists, and so does the heading."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, ROOT, page

LINKING = (*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md")
LINKS = [(path, target) for path in LINKING for target in page(path).links()]


@pytest.mark.parametrize(("path", "target"), LINKS, ids=[f"{path.relative_to(ROOT)}-{to}" for path, to in LINKS])
def test_a_link_leads_somewhere(path: object, target: str) -> None:
    source = next(one for one in LINKING if one == path)
    file, _, anchor = target.partition("#")
    place = (source.parent / file).resolve() if file else source
    assert place.is_relative_to(ROOT)
    assert place.exists(), f"{target} is not there"
    if anchor:
        assert anchor in page(place).anchors(), f"{place.name} has no heading for #{anchor}"


def test_every_page_is_linked_from_the_index() -> None:
    """Directly, or from a page that is."""
    reached, left = set[object](), [ROOT / "docs" / "index.md"]
    while left:
        path = left.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        left += [
            (path.parent / target.partition("#")[0]).resolve() for target in page(path).links() if target[0] != "#"
        ]
    assert {path for path in PAGES if path.name != "README.md"} <= reached
