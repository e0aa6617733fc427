# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons on workers: processes here, Dask or Ray.

A piece is so many points of one input. It is run as a whole, any number of times if workers are lost, and its result is
given once.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Any

from steelyard._steelyard import Scenario, compare

TABLES = ("domains", "runs", "vcpus", "tasks")
MOST_LOST = 3
"""So often workers may be lost before another piece is done."""

Point = Mapping[str, Any]
Piece = list[tuple[int, Point]]
Run = Callable[[Piece], Any]
Waiting = deque[tuple[int, Piece]]
"""Pieces, with their numbers, that no worker has yet."""
Results = Generator[tuple[int, Any], None, None]


class Comparisons:
    """What workers do with a piece. It is sent to them."""

    def __init__(
        self,
        input: "str | os.PathLike[str] | dict[str, Any] | Scenario",
        policies: "Sequence[str] | None",
        seeds: "int | None",
        table: str,
        number: str,
    ) -> None:
        """`number` is the name of the column that says of which point a row is."""
        if table not in TABLES:
            raise ValueError(f"table: {table!r} is none of {', '.join(TABLES)}")
        self.input = input if isinstance(input, (dict, Scenario)) else os.path.abspath(input)
        self.policies = None if policies is None else list(policies)
        self.seeds = seeds
        self.table = table
        self.number = number

    def __call__(self, piece: Piece) -> Any:
        import pyarrow

        tables = []
        for number, changes in piece:
            result = compare(self.input, self.policies, seeds=self.seeds, set=dict(changes), threads=1)
            rows = pyarrow.table(getattr(result, self.table))
            numbers = pyarrow.array([number] * len(rows), pyarrow.uint64())
            tables.append(rows.add_column(0, self.number, numbers))
        # In one chunk, which is sent several times as fast.
        return pyarrow.concat_tables(tables).combine_chunks()


@contextmanager
def teller(progress: "bool | Callable[[str, int, int | None], object]") -> Iterator[Callable[[str, int, int], object]]:
    """What is told how far work is: a bar of tqdm, a function, or nobody."""
    if progress is True:
        from steelyard._progress import Bar

        bar = Bar()
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield progress or (lambda *told: None)


def runner(on: Any) -> Callable[[Run, Waiting], Results]:
    """What runs pieces there, in any order. Whoever takes its results may add pieces before asking for the next."""
    if on is None or isinstance(on, int):
        return lambda run, waiting: _on_processes(run, waiting, on)
    if on == "ray":
        return _on_ray
    if hasattr(on, "submit") and hasattr(on, "scheduler"):
        return lambda run, waiting: _on_dask(run, waiting, on)
    raise TypeError('on: a number of processes, a client of Dask, or "ray"')


def _on_processes(run: Run, waiting: Waiting, workers: "int | None") -> Results:
    lost = 0
    while waiting:
        # Not by fork: others of this process's threads may hold locks.
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        running: dict[Future[Any], tuple[int, Piece]] = {}
        done: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while waiting or running:
                while waiting:
                    future = pool.submit(run, waiting[0][1])
                    running[future] = waiting.popleft()
                    future.add_done_callback(done.put)
                future = done.get()
                result = future.result()
                number, _ = running.pop(future)
                lost = 0
                yield number, result
        except BrokenProcessPool:
            lost += 1
            if lost > MOST_LOST:
                raise
            waiting.extendleft(reversed(running.values()))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_dask(run: Run, waiting: Waiting, client: Any) -> Results:
    from distributed import as_completed

    running: dict[Any, int] = {}
    done = as_completed(loop=client.loop)
    try:
        while waiting or running:
            while waiting:
                number, points = waiting.popleft()
                # Not `pure`: what was computed for another sweep may be gone.
                future = client.submit(run, points, pure=False, retries=MOST_LOST)
                running[future] = number
                done.add(future)
            future = next(done)
            result = future.result()
            yield running.pop(future), result
    finally:
        client.cancel(list(running))


def _on_ray(run: Run, waiting: Waiting) -> Results:
    import ray

    if not ray.is_initialized():
        ray.init()
    task = ray.remote(max_retries=MOST_LOST)(_call)
    shared = ray.put(run)
    # No more than keeps all busy: asking which is done takes time for each that is asked about.
    most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    running: dict[Any, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < most:
                number, points = waiting.popleft()
                running[task.remote(shared, points)] = number
            done, _ = ray.wait(list(running))
            for reference in done:
                result = ray.get(reference)
                yield running.pop(reference), result
    finally:
        for reference in running:
            ray.cancel(reference)


def _call(run: Run, points: Piece) -> Any:
    return run(points)
