"""Pictures of the command line for the documentation: what `demo`, `explain` and `decisions` really print.

    python -m tools.screens            writes docs/images/*.svg
    python -m tools.screens --check    says which of them is no longer what is printed

Ids, times, ports, paths and digests are replaced, so that the pictures change only when what is shown does.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

import anyio
import httpx
from rich.console import Console
from rich.text import Text

from narrows import Gateway, transport
from narrows.cli.demo import FILE, FIRST, MORE, Scene

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
COLUMNS: Final = 152
DEMO: Final = (files("narrows.cli") / FILE).read_text("utf-8")
LEDGER: Final = '\n[auth]\nmode = "open"\n\n[sinks.ledger]\nkind = "sql"\nurl = "sqlite:///narrows.db"\n'
LAST: Final = "Every request is told here:"

# rich's own format, without the fonts that it loads from a foreign server.
SVG: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def demo() -> Iterator[tuple[str, str]]:
    """The introduction, and a line for each of the first three requests."""
    command = [sys.executable, "-m", "narrows", "demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
        try:
            printed = iter(process.stdout or ())
            lines = [next(printed)]
            while lines[-1].strip() != LAST:
                lines.append(next(printed))
            url = lines[0].split()[3]
            for scene in FIRST:
                _ask(scene, url)
                lines.append(next(printed))  # before the next: it tells the calls so far
        finally:
            process.terminate()
    yield "narrows demo", "".join(lines)


def explain() -> Iterator[tuple[str, str]]:
    """A request that is moved by a rule, and one that is refused."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_text(DEMO, "utf-8")
        for route in ("chat", "vault"):
            yield _run(f"narrows explain {FILE} --route {route} --header x-region=eu", folder)


def decisions() -> Iterator[tuple[str, str]]:
    """The demo's six requests, read from a ledger, and one of them in full."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "narrows.toml").write_text(DEMO + LEDGER.replace("narrows.db", f"{folder}/narrows.db"), "utf-8")
        ids = anyio.run(_decided, Path(folder, "narrows.toml"))
        yield _run("narrows decisions narrows.toml", folder)
        yield _run(f"narrows decisions narrows.toml {ids[len(FIRST)]}", folder)


SCREENS: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "demo": demo,
    "explain": explain,
    "decisions": decisions,
}


def rendered(name: str) -> str:
    """The picture, as SVG."""
    screen = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor",
        markup=False, highlight=False, emoji=False,
    )  # fmt: skip
    parts = [(command, masked(output)) for command, output in SCREENS[name]()]
    seen: dict[str, str] = {}
    for command, output in parts:
        screen.print(Text.assemble(("$ ", "dim"), (_ids(command, seen), "bold")))
        screen.print(Text.from_ansi(_ids(output, seen)))
    return screen.export_svg(title=f"narrows {name}", unique_id=f"narrows-{name}", code_format=SVG)


def masked(text: str) -> str:
    """Without what differs from run to run. The width of everything in a table stays."""
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:8000", text)
    text = re.sub(r"(Its configuration: )\S*[\\/]", r"\1…/narrows/cli/", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", lambda at: "2026-11-30 12:00:00.000"[: len(at[0])], text)
    text = re.sub(r"(\d+) ms", lambda took: f"{'1'.rjust(len(took[1]))} ms", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "5d1e9c70" * 8, text)


def shown(svg: str) -> str:
    """What a picture says, without its spaces and lines."""
    words = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    return re.sub(r"[\s─]+", "", html.unescape(words))


def stale(names: Sequence[str] = tuple(SCREENS)) -> list[str]:
    """The pictures that are not what is printed now."""
    files_of = {name: IMAGES / f"{name}.svg" for name in names}
    return [
        name for name, file in files_of.items()
        if not file.is_file() or shown(file.read_text("utf-8")) != shown(rendered(name))
    ]  # fmt: skip


def _ids(text: str, seen: dict[str, str]) -> str:
    """Each decision's id by its number, as long as it was."""

    def numbered(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"dec_{'1a22f0c4' * 4}"[: len(found[0]) - 1] + str(len(seen) + 1))

    return re.sub(r"dec_[0-9a-z]+", numbered, text)


def _environment() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM")}
    return {**clean, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "PYTHONIOENCODING": "utf-8"}


def _run(command: str, folder: str) -> tuple[str, str]:
    """A command that ends: as it is written, and what it printed."""
    arguments = [sys.executable, "-m", *command.split()]
    ran = subprocess.run(arguments, cwd=folder, env=_environment(), capture_output=True, check=False, text=True)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"`{command}` ended with {ran.returncode}: {ran.stderr}")
    return command, ran.stdout.replace(folder, "")


def _ask(scene: Scene, url: str) -> None:
    headers = {"content-type": "application/json", **_said(scene)}
    request = urllib.request.Request(f"{url}/v1/chat/completions", _body(scene), headers)  # noqa: S310 - the demo's
    try:
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - on loopback
    except urllib.error.HTTPError as refused:
        refused.close()


async def _decided(file: Path) -> list[str]:
    """Every scene, asked in process. The ids of their decisions."""
    ids = []
    gateway = Gateway.from_file(file)
    async with gateway, httpx.AsyncClient(transport=transport(gateway), base_url="http://narrows") as client:
        for scene in (*FIRST, *MORE):
            headers = {"content-type": "application/json", **_said(scene)}
            answer = await client.post("/v1/chat/completions", content=_body(scene), headers=headers)
            ids.append(str(answer.headers["x-narrows-decision"]))
    return ids


def _said(scene: Scene) -> dict[str, str]:
    return {"x-region": scene.region} if scene.region is not None else {}


def _body(scene: Scene) -> bytes:
    return json.dumps({"model": scene.route, "messages": [{"role": "user", "content": "Hello"}]}).encode()


def main(arguments: Sequence[str]) -> int:
    """Write the pictures, or check them. 1 where one is stale."""
    if "--check" in arguments:
        old = stale()
        for name in old:
            print(
                f"docs/images/{name}.svg is not what `narrows {name}` prints. Write it again: python -m tools.screens"
            )
        return 1 if old else 0
    IMAGES.mkdir(exist_ok=True)
    for name in SCREENS:
        (IMAGES / f"{name}.svg").write_text(rendered(name), "utf-8")
        print(f"docs/images/{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
