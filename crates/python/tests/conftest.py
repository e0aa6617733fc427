# SPDX-License-Identifier: GPL-2.0-only
"""What tests of the package have in common. `scripts/test-python` runs them, in the repository's directory."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steelyard

ROOT = Path(__file__).resolve().parents[3]
FIRST_LOOK = str(ROOT / "scenarios/first-look.toml")
RECORDING = str(ROOT / "recordings/four-vms.perf.txt.zst")
DESIGN = steelyard.grid(
    {
        "length": ["50 s"],
        "domain.web.weight": [128, 256, 512],
        "credit2.ratelimit_ns": [0, 1_000_000, 5_000_000],
        "seeds": [1, 2],
    }
)
Progress = Callable[[str, int, "int | None"], object]


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def command(*arguments: str) -> str:
    """What the command prints; `STEELYARD` is its path."""
    asked = [os.environ["STEELYARD"], *arguments]
    return subprocess.run(asked, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def sweep(directory: Path, on: Any, progress: "bool | Progress" = False, piece: int = 2) -> dict[str, bytes]:
    """The files of it."""
    steelyard.sweep(FIRST_LOOK, DESIGN, directory, ["credit2"], on=on, progress=progress, piece=piece)
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="session")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sweep(tmp_path_factory.mktemp("one"), on=1)


def killing(pids: Callable[[], list[int]], killed: list[int]) -> Progress:
    """Kills a worker when the first piece is done."""

    def tell(what: str, done: int, total: "int | None") -> None:
        if done and not killed:
            killed.append(pids()[0])
            os.kill(killed[0], signal.SIGKILL)

    return tell
