# SPDX-License-Identifier: GPL-2.0-only
"""What tests of the package have in common. `scripts/test-python` runs them, in the repository's directory."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FIRST_LOOK = str(ROOT / "scenarios/first-look.toml")
RECORDING = str(ROOT / "recordings/four-vms.perf.txt.zst")


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def command(*arguments: str) -> str:
    """What the command prints; `STEELYARD` is its path."""
    asked = [os.environ["STEELYARD"], *arguments]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
