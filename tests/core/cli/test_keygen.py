"""`narrows keygen`."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from narrows.config import load
from narrows.registry import Registry
from tests.core.cli.commands import ECHO, narrows
from tests.support.config import write_config


def test_json_is_a_key_of_256_bits_and_its_hash() -> None:
    ran = narrows("keygen", "--json")
    made = ran.json()
    assert (ran.code, ran.stderr) == (0, "")
    assert set(made) == {"key", "sha256"}
    prefix, _, secret = made["key"].partition("_")
    assert prefix == "nrw"
    assert len(base64.urlsafe_b64decode(secret + "=")) == 32
    assert made["sha256"] == hashlib.sha256(made["key"].encode()).hexdigest()


def test_two_are_never_the_same() -> None:
    assert narrows("keygen", "--json").json()["key"] != narrows("keygen", "--json").json()["key"]


def test_text_shows_the_key_once_and_a_block_to_paste(tmp_path: Path) -> None:
    ran = narrows("keygen")
    key, _, block = ran.stdout.partition("\n")
    assert ran.code == 0
    assert key.startswith("nrw_")
    assert (ran.stdout + ran.stderr).count(key) == 1
    assert "not shown again" in ran.stderr
    loaded = load([write_config(tmp_path, ECHO + block.replace("NAME", "ci"))], Registry(), {})
    assert loaded.settings.keys["ci"].sha256 == hashlib.sha256(key.encode()).hexdigest()
