"""`narrows decisions`: what was decided, read from the ledger itself, whether a gateway runs or not. Nothing is written.

A provider's key is not needed to read: variables that the configuration names may be unset.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from narrows.cli.output import FINDING, document, fail, problems_of, refuse, say, tell, working
from narrows.errors import ConfigError
from narrows.ledger import Gap, LedgerUnavailable, Query, Reader
from narrows.ledger.reading import MOST

if TYPE_CHECKING:
    from narrows.config import Loaded

DEFAULT_FILE: Final = "narrows.toml"
MOST_SHOWN: Final = 10_000
_A_FILE: Final = "Name the SQLite file that the configuration's [sinks.NAME] url names."
_ID: Final = re.compile(r"dec_[0-9a-z]{0,64}")
_SINCE: Final = re.compile(r"([0-9]{1,6})([smhdw])")
_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def decisions(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]... [ID]", help=f"The configuration [default: {DEFAULT_FILE}]; the id of one decision."
        ),
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", metavar="FILE", help="The configuration; may be repeated.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="The SQLite file itself, without a configuration.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only later ones: 30m, 1h, 2d, 2026-11-30 or 2026-11-30T12:00 (UTC)."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=MOST_SHOWN, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print {data, gaps, next}, or the one decision.")] = False,
) -> None:
    """Show what was decided: the newest first, or one as a whole.

    Reads the ledger file, while the gateway runs or afterwards. Changes nothing.
    """
    keys = [word for word in words or () if _ID.fullmatch(word) and not Path(word).exists()]
    files = [*(Path(word) for word in words or () if word not in keys), *(config or ())]
    if len(keys) > 1:
        fail("several ids are given.", "Name one.")
    began = _time(since)
    reader = _of_file(ledger, files) if ledger is not None else _of_configuration(files, as_json=as_json)
    try:
        if keys:
            _show_one(reader, keys[0], as_json=as_json)
        else:
            _show_several(reader, Query(limit, since=began), as_json=as_json)
    except LedgerUnavailable as error:
        fail(f"the ledger cannot be read: {error}.", _A_FILE if ledger is not None else "")


def _show_one(reader: Reader, key: str, *, as_json: bool) -> None:
    found = reader.decision(key)
    if found is None:
        tell(f"narrows: there is no decision {key} in this ledger. `narrows decisions` lists what there is.")
        raise typer.Exit(FINDING)
    if as_json:
        document(dict(found))
    else:
        from narrows.cli.story import show_one

        show_one(found)


def _show_several(reader: Reader, query: Query, *, as_json: bool) -> None:
    with working("Reading the ledger", quiet=as_json):
        found, behind = _pages(reader, query)
        gaps = _gaps(reader, query.since, found[-1]["ts"] if behind is not None else None)
    if as_json:
        document({"data": [dict(row) for row in found], "gaps": [asdict(gap) for gap in gaps], "next": behind})
    elif not found and not gaps:
        say("no decisions" + (" since then" if query.since is not None else " are recorded yet"))
    else:
        from narrows.cli.story import show_several

        show_several(found, gaps)
        if behind is not None:
            tell(f"these are the last {len(found)}; --limit shows more, --since a time")


def _pages(reader: Reader, query: Query) -> tuple[list[Mapping[str, Any]], str | None]:
    """As many as are asked for, page by page, and where the rest begins."""
    found: list[Mapping[str, Any]] = []
    before: str | None = None
    while True:
        page = reader.decisions(Query(min(query.limit - len(found), MOST), before, query.since))
        found += page.data
        before = page.next
        if before is None or len(found) >= query.limit:
            return found, before


def _gaps(reader: Reader, since: float | None, oldest: float | None) -> tuple[Gap, ...]:
    """Those of the time that is shown."""
    return tuple(gap for gap in reader.gaps(since) if oldest is None or gap.until >= oldest)


def _time(since: str | None) -> float | None:
    """Seconds since 1970. Ends the command for what is no time."""
    if since is None:
        return None
    ago = _SINCE.fullmatch(since.strip())
    if ago is not None:
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        when = datetime.fromisoformat(since.strip())
    except ValueError:
        fail("--since is no time.", "Write 30m, 1h, 2d, or a date such as 2026-11-30 or 2026-11-30T12:00 (UTC).")
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


# ---- where they are read ---------------------------------------------------------------------------------------------


class _AnyVariable(dict[str, str]):
    """Every environment variable, set: what only a provider needs is no reason not to read."""

    def get(self, key: str, default: Any = None) -> Any:
        return "set"


def _of_configuration(files: Sequence[Path], *, as_json: bool) -> Reader:
    """The first sink of the configuration that can be read."""
    if not files:
        files = [Path(DEFAULT_FILE)]
        if not files[0].is_file():
            fail(
                f"there is no {DEFAULT_FILE} here.", "Name the configuration, or the ledger itself with --ledger FILE."
            )
    from narrows.config import load
    from narrows.registry import Registry

    try:
        loaded = load(files, Registry(), _AnyVariable())
    except ConfigError as error:
        refuse(problems_of(error), as_json=as_json)
    reader = next(_readers(loaded), None)
    if reader is None:
        fail(
            "this configuration keeps no ledger: its last decisions are in the memory of the running gateway.",
            'Read them there with GET /v1/decisions, or keep them in a file: [sinks.ledger] with kind = "sql".',
        )
    return reader


def _readers(loaded: Loaded) -> Iterator[Reader]:
    from narrows.constraints import Sink

    for entry in loaded.blocks:
        if isinstance(entry.block, Sink):
            reader = entry.block.reader()
            if reader is not None:
                yield reader


def _of_file(ledger: Path, files: Sequence[Path]) -> Reader:
    """A SQLite file, through the kind that writes them: core knows no SQL."""
    if files:
        fail("--ledger is read without a configuration.", "Leave the other files out.")
    if not ledger.is_file():
        fail(f"there is no file {ledger}.", _A_FILE)
    from narrows.constraints import Sink
    from narrows.registry import Registry

    try:
        kind = Registry().get("sinks", "sql")
        block = kind.load().model_validate({"url": f"sqlite:///{ledger.absolute()}"}) if kind is not None else None
    except ConfigError:
        block = None
    except ValueError:  # pydantic's; what it says repeats the URL
        fail(f"{ledger} has a name that no ledger can have.", "Name it without ? and #, then read it again.")
    reader = block.reader() if isinstance(block, Sink) else None
    if reader is None:
        fail("`narrows decisions --ledger` needs an extra:", "pip install 'narrows[ledger]'")
    return reader
