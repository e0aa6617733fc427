# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps and searches on Dask and Ray give the bytes that processes give, and lose nothing when workers die."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import distributed
import psutil
import pytest
import ray
from conftest import FIRST_LOOK, Found, killing, search, sweep

import steelyard


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


def workers_of_ray() -> list[int]:
    # Workers are called after what they do.
    started = psutil.Process().children(recursive=True)
    return [process.pid for process in started if process.cmdline()[:1] == ["ray::_call"]]


def test_dask_gives_the_same_bytes(tmp_path: Path, wanted: dict[str, bytes], dask: distributed.Client) -> None:
    assert sweep(tmp_path, on=dask) == wanted


def test_ray_gives_the_same_bytes(tmp_path: Path, wanted: dict[str, bytes], on_ray: str) -> None:
    assert sweep(tmp_path, on=on_ray) == wanted


def test_nothing_is_lost_with_a_worker_of_dask(
    tmp_path: Path, wanted: dict[str, bytes], dask: distributed.Client
) -> None:
    killed: list[int] = []
    pids = list(dask.run(os.getpid).values())
    assert sweep(tmp_path, dask, killing(lambda: pids, killed)) == wanted and killed


def test_nothing_is_lost_with_a_worker_of_ray(tmp_path: Path, wanted: dict[str, bytes], on_ray: str) -> None:
    killed: list[int] = []
    assert sweep(tmp_path, on_ray, killing(workers_of_ray, killed)) == wanted and killed


def test_a_search_loses_nothing_with_a_worker_of_dask(tmp_path: Path, found: Found, dask: distributed.Client) -> None:
    killed: list[int] = []
    pids = list(dask.run(os.getpid).values())
    assert search(tmp_path, dask, killing(lambda: pids, killed)) == found and killed


def test_a_search_loses_nothing_with_a_worker_of_ray(tmp_path: Path, found: Found, on_ray: str) -> None:
    killed: list[int] = []
    assert search(tmp_path, on_ray, killing(workers_of_ray, killed)) == found and killed


def test_errors_of_workers_are_told(tmp_path: Path, dask: distributed.Client) -> None:
    with pytest.raises(steelyard.InputError, match="did you mean `web`"):
        steelyard.sweep(FIRST_LOOK, [{"domain.wbe.weight": 1}], tmp_path, on=dask)
