# SPDX-License-Identifier: GPL-2.0-only
"""What tests of the package have in common. `scripts/test-python` runs them, in the repository's directory."""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
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


Found = tuple[list[Any], dict[str, bytes]]
"""Trials of a search, and its files."""


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    return {
        "length": "20 s",
        "domain.web.weight": trial.suggest_int("weight", 64, 2048, log=True),
        "credit2.ratelimit_ns": trial.suggest_int("ratelimit_ns", 0, 5_000_000),
    }


def wait_ms(table: Any) -> float:
    return float(table.to_pandas().set_index("domain")["wait_p99_ns"]["web"] / 1e6)


def study(seed: int = 1) -> optuna.Study:
    # Few are drawn by chance: others come from what was told.
    return optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4))


def search(directory: Path, on: Any, progress: "bool | Progress" = False, trials: int = 16) -> Found:
    studied = study()
    steelyard.search(
        FIRST_LOOK, studied, suggest, wait_ms, directory, ["credit2"], trials=trials, ahead=6, on=on, progress=progress
    )
    tried = [(trial.number, trial.params, trial.value) for trial in studied.trials]
    return tried, {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return search(tmp_path_factory.mktemp("search"), on=1)


@pytest.fixture(scope="session")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sweep(tmp_path_factory.mktemp("one"), on=1)


def killing(pids: Callable[[], list[int]], killed: list[int]) -> Progress:
    """Kills a worker, as soon as there is one after the first piece, or trial, is done."""

    def tell(what: str, done: int, total: "int | None") -> None:
        if done and not killed:
            killed.extend(pids()[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    return tell


def processes() -> list[int]:
    return [process.pid for process in multiprocessing.active_children() if process.pid]


def record(path: Path, end: str) -> None:
    """What perf says of a vCPU that runs for 2 ms, sleeps for 3 ms, and runs again up to `end`."""
    vcpu = " CPU 0/KVM  100/101  [000] {}: sched:sched_switch: CPU 0/KVM:101 [120] S ==> swapper/0:0 [120]\n"
    idle = "   swapper    0/0    [000] {}: sched:sched_switch: swapper/0:0 [120] R ==> CPU 0/KVM:101 [120]\n"
    times = ("5.000000", "5.002000", "5.005000", end)
    path.write_text("".join(line.format(time) for line, time in zip((idle, vcpu) * 2, times)))
