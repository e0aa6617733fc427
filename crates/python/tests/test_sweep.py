# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps give the same bytes wherever they run, and lose nothing when workers die."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributed
import pandas
import psutil
import pyarrow
import pyarrow.parquet
import pytest
import ray
from conftest import FIRST_LOOK

import steelyard

DESIGN = steelyard.grid(
    {
        "length": ["200 s"],
        "domain.web.weight": [128, 256, 512],
        "credit2.ratelimit_ns": [0, 1_000_000, 5_000_000],
        "seeds": [1, 2],
    }
)
Progress = Callable[[str, int, "int | None"], object]


def sweep(directory: Path, on: Any, progress: "bool | Progress" = False, piece: int = 2) -> dict[str, bytes]:
    """The files of it."""
    steelyard.sweep(FIRST_LOOK, DESIGN, directory, ["credit2"], on=on, progress=progress, piece=piece)
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sweep(tmp_path_factory.mktemp("one"), on=1)


@pytest.fixture(scope="module")
def dask() -> Iterator[distributed.Client]:
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def on_ray() -> Iterator[str]:
    ray.init(num_cpus=3, include_dashboard=False, logging_level=logging.ERROR)
    yield "ray"
    ray.shutdown()


def test_a_grid_has_every_combination_once() -> None:
    found = steelyard.grid({"a": [1, 2], "b": "xy"})
    assert found == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert len(DESIGN) == 18


def test_a_sweep_says_what_comparisons_say(tmp_path: Path) -> None:
    sweep(tmp_path, on=2, piece=5)
    table = pandas.read_parquet(tmp_path)
    assert sorted(table["point"].unique()) == list(range(18))
    for number, changes in enumerate(DESIGN):
        found = table[table["point"] == number].reset_index(drop=True)
        alone = pandas.DataFrame.from_arrow(steelyard.compare(FIRST_LOOK, ["credit2"], set=changes))
        pandas.testing.assert_frame_equal(found[list(alone)], alone, check_dtype=False)
        for name, value in changes.items():
            assert set(found[name]) == {value}


def test_more_processes_give_the_same_bytes(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    assert len(wanted) == 9 + 1
    assert sweep(tmp_path, on=3) == wanted


def test_dask_gives_the_same_bytes(tmp_path: Path, wanted: dict[str, bytes], dask: distributed.Client) -> None:
    assert sweep(tmp_path, on=dask) == wanted


def test_ray_gives_the_same_bytes(tmp_path: Path, wanted: dict[str, bytes], on_ray: str) -> None:
    assert sweep(tmp_path, on=on_ray) == wanted


def killing(pids: Callable[[], list[int]], killed: list[int]) -> Progress:
    """Kills a worker when the first piece is done."""

    def tell(what: str, done: int, total: "int | None") -> None:
        if done and not killed:
            killed.append(pids()[0])
            os.kill(killed[0], signal.SIGKILL)

    return tell


def test_nothing_is_lost_with_a_process(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    def pids() -> list[int]:
        return [process.pid for process in multiprocessing.active_children() if process.pid]

    killed: list[int] = []
    assert sweep(tmp_path, 2, killing(pids, killed)) == wanted and killed


def test_nothing_is_lost_with_a_worker_of_dask(
    tmp_path: Path, wanted: dict[str, bytes], dask: distributed.Client
) -> None:
    killed: list[int] = []
    pids = list(dask.run(os.getpid).values())
    assert sweep(tmp_path, dask, killing(lambda: pids, killed)) == wanted and killed


def test_nothing_is_lost_with_a_worker_of_ray(tmp_path: Path, wanted: dict[str, bytes], on_ray: str) -> None:
    def pids() -> list[int]:
        # Workers are called after what they do.
        started = psutil.Process().children(recursive=True)
        return [process.pid for process in started if process.cmdline()[:1] == ["ray::_call"]]

    killed: list[int] = []
    assert sweep(tmp_path, on_ray, killing(pids, killed)) == wanted and killed


def test_it_goes_on_where_it_was(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    def stop(what: str, done: int, total: "int | None") -> None:
        if done >= 6:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sweep(tmp_path, 1, stop)
    kept = {path.name: path.stat().st_ino for path in tmp_path.glob("*.parquet")}
    assert len(kept) == 3
    begun: list[int] = []
    assert sweep(tmp_path, 1, lambda what, done, total: begun.append(done)) == wanted
    assert begun[0] == 6, "what is there is not run again"
    assert {name: (tmp_path / name).stat().st_ino for name in kept} == kept, "nor written again"


def test_another_sweep_is_not_mixed_in(tmp_path: Path) -> None:
    steelyard.sweep(FIRST_LOOK, DESIGN[:1], tmp_path, ["credit2"], on=1)
    with pytest.raises(ValueError, match="another sweep"):
        steelyard.sweep(FIRST_LOOK, DESIGN[:1], tmp_path, ["fair"], on=1)
    changed = steelyard.Scenario(FIRST_LOOK).to_dict()
    changed["domain"][1]["weight"] = 300
    with pytest.raises(ValueError, match="another sweep"):
        steelyard.sweep(changed, DESIGN[:1], tmp_path, ["credit2"], on=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(ValueError, match="no sweep"):
        steelyard.sweep(FIRST_LOOK, DESIGN[:1], tmp_path / "other", ["credit2"], on=1)


def test_errors_of_workers_are_told(tmp_path: Path, dask: distributed.Client, on_ray: str) -> None:
    for number, on in enumerate([1, dask]):
        with pytest.raises(steelyard.InputError, match="did you mean `web`"):
            steelyard.sweep(FIRST_LOOK, [{"domain.wbe.weight": 1}], tmp_path / str(number), on=on)
    with pytest.raises(TypeError, match="a client of Dask"):
        steelyard.sweep(FIRST_LOOK, DESIGN, tmp_path / "x", on="slurm")
    with pytest.raises(ValueError, match="none of"):
        steelyard.sweep(FIRST_LOOK, DESIGN, tmp_path / "x", table="pcpus")


def test_columns_have_one_type_in_all_pieces(tmp_path: Path) -> None:
    design: list[dict[str, Any]] = [{"length": "1 s"}, {"length": "1 s", "domain.web.weight": 512}]
    steelyard.sweep(FIRST_LOOK, design, tmp_path, ["fair"], on=1, piece=1)
    schemas = {pyarrow.parquet.read_schema(path) for path in tmp_path.glob("*.parquet")}
    assert len(schemas) == 1
    assert pandas.read_parquet(tmp_path).groupby("point")["domain.web.weight"].nunique().tolist() == [0, 1]
