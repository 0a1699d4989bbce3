"""Runs the command line for tests: in this process (quick), or as `python -m narrows` (what users run)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from typer.testing import CliRunner

from narrows.cli.app import app

KEY = "nrw_canary-7Qp3Zt9LxV2mB8sWkR4yN6cH1dJ5fG0aUeTi"
"""A client's key that no output may ever hold."""

SHA256 = hashlib.sha256(KEY.encode()).hexdigest()

ECHO = """
[attributes.data-region]
values = ["eu", "us"]
header = "x-region"
missing = "unrestricted"

[constraints.residency]
kind = "attribute_match"
request_attribute = "data-region"
target_attribute = "region"

[providers.echo]
kind = "echo"

[targets.us-large]
provider = "echo"
model = "us-1"
region = "us"
price = { input = 1.0, output = 2.0 }

[targets.eu-main]
provider = "echo"
model = "eu-1"
region = "eu"

[routes.chat]
targets = ["us-large", "eu-main"]
constraints = ["residency"]

[routes.us-only]
targets = ["us-large"]
constraints = ["residency"]
"""
"""Two targets in two regions, and a route that has only the one in the US."""

KEYS = f"""
[tenants.payments]
attributes = {{ data-region = "eu" }}

[keys.ci]
sha256 = "{SHA256}"
tenant = "payments"
routes = ["chat"]

[keys.ops]
"""
"""To add to it: a caller whose tenant says eu, and one that may do everything."""


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.stdout)


def narrows(*arguments: object, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Ran:
    """Run a command in this process, 160 columns wide."""
    runner = CliRunner(env={"COLUMNS": "160", **(env or {})})
    result = runner.invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def process(*arguments: object, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Run `python -m narrows` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "narrows", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **(env or {})},
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
