# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: many comparisons of one input, on processes here, on Dask or on Ray.

A sweep is cut into pieces of so many points, whoever runs them. A piece is run as a whole, any number of times if
workers are lost, and becomes one file, once, named by its number: what is in a directory depends on nobody's speed.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from steelyard._steelyard import Scenario, __version__, compare

DESIGN = "_design.json"
TABLES = ("domains", "runs", "vcpus", "tasks")
MOST_LOST = 3
"""So often workers may be lost before another piece is done."""

Point = Mapping[str, Any]
Piece = list[tuple[int, Point]]
Run = Callable[[Piece], Any]


def grid(choices: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of these values, the last key changing fastest: a design for `sweep`.

    Args:
        choices: Values for each key that `set` of `compare` takes.
    """
    values = [list(values) for values in choices.values()]
    return [dict(zip(choices, chosen)) for chosen in itertools.product(*values)]


def sweep(
    input: "str | os.PathLike[str] | dict[str, Any] | Scenario",
    design: Sequence[Point],
    directory: "str | os.PathLike[str]",
    policies: "Sequence[str] | None" = None,
    *,
    seeds: "int | None" = None,
    table: str = "domains",
    piece: int = 16,
    on: Any = None,
    progress: "bool | Callable[[str, int, int | None], object]" = False,
) -> Path:
    """Compares an input once for each point of a design, and keeps the results as files of Parquet.

    Files are written as pieces are done. A sweep that was interrupted goes on from what is in its directory. The
    same sweep gives the same files, to the byte, wherever it runs and however many workers it has; if workers are
    lost, nothing is, and nothing is counted twice. Needs pyarrow.

    Args:
        input: A path, a dict or a Scenario. Workers on other machines find a path there too.
        design: For each point what `set` of `compare` takes, as a dict; `grid` makes one.
        directory: Where the results are; made if it is not there. `pandas.read_parquet` reads it: `point` is the
            number of the point, and what the design sets is in columns of that name.
        policies: Instead of those of the input.
        seeds: Runs of each policy at each point, instead of what the input says.
        table: Which table of a comparison is kept: domains, runs, vcpus or tasks.
        piece: Points that are run together and kept in one file.
        on: How many processes here, without it one per CPU; a client of Dask (`distributed.Client`); or "ray".
        progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much.

    Returns:
        The directory.

    Raises:
        InputError: What was given cannot be used.
        ValueError: The directory holds another sweep.
    """
    import pyarrow
    from pyarrow import parquet

    if table not in TABLES:
        raise ValueError(f"table: {table!r} is none of {', '.join(TABLES)}")
    if piece < 1:
        raise ValueError("piece: there is at least one point in it")
    scenario = input if isinstance(input, (dict, Scenario)) else os.path.abspath(input)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    asked = {
        "format": "steelyard-sweep",
        "steelyard": __version__,
        "input": _fingerprint(scenario, design),
        "policies": None if policies is None else list(policies),
        "seeds": seeds,
        "table": table,
        "piece": piece,
        "design": [dict(point) for point in design],
    }
    _begin(directory, json.dumps(asked, indent=1, default=_plain) + "\n")
    columns = _columns(pyarrow, design)
    points = list(enumerate(design))
    pieces = {number: points[start : start + piece] for number, start in enumerate(range(0, len(points), piece))}
    width = len(str(len(pieces)))
    files = {number: directory / f"{number:0{width}}.parquet" for number in pieces}
    left = {number: points for number, points in pieces.items() if not files[number].exists()}
    tell, close = _teller(progress)
    done = len(points) - sum(map(len, left.values()))
    run = _Comparisons(scenario, policies, seeds, table)
    try:
        tell("Sweeping", done, len(points))
        with closing(_runner(on)(run, left)) as results:
            for number, result in results:
                of_points = result.column("point")
                for name, values in columns.items():
                    if name not in result.column_names:
                        result = result.append_column(name, values.take(of_points))
                _write(parquet, result, files[number])
                done += len(pieces[number])
                tell("Sweeping", done, len(points))
    finally:
        close()
    return directory


class _Comparisons:
    """What workers do with a piece. It is sent to them."""

    def __init__(
        self, scenario: Any, policies: "Sequence[str] | None", seeds: "int | None", table: str
    ) -> None:
        self.scenario = scenario
        self.policies = None if policies is None else list(policies)
        self.seeds = seeds
        self.table = table

    def __call__(self, piece: Piece) -> Any:
        import pyarrow

        tables = []
        for number, changes in piece:
            result = compare(self.scenario, self.policies, seeds=self.seeds, set=dict(changes), threads=1)
            rows = pyarrow.table(getattr(result, self.table))
            numbers = pyarrow.array([number] * len(rows), pyarrow.uint64())
            tables.append(rows.add_column(0, "point", numbers))
        # In one chunk, which is sent several times as fast.
        return pyarrow.concat_tables(tables).combine_chunks()


def _fingerprint(scenario: Any, design: Sequence[Point]) -> str:
    """Of all that the input says, and of every recording that is replayed at some point."""
    read = Scenario(scenario)
    files = dict.fromkeys(read.files())
    for point in design:
        # At other points the same is replayed.
        if "recording" in repr(point):
            files.update(dict.fromkeys(read.files(dict(point))))
    content = hashlib.sha256(read.text.encode())
    for path in filter(Path.is_file, files):
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                content.update(part)
    return content.hexdigest()


def _plain(value: Any) -> Any:
    """Of a number of numpy."""
    return value.item()


def _begin(directory: Path, design: str) -> None:
    path = directory / DESIGN
    if path.exists():
        if path.read_text() != design:
            raise ValueError(f"{directory} holds another sweep, or one of another version: name another directory")
    elif any(directory.iterdir()):
        raise ValueError(f"{directory} holds something that is no sweep: name another directory")
    else:
        _replace(path, lambda file: file.write_text(design))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """A file is there as a whole or not at all; names that begin with a dot are no results."""
    part = path.with_name(f".{path.name}.part")
    write(part)
    os.replace(part, path)


def _write(parquet: Any, table: Any, path: Path) -> None:
    _replace(path, lambda part: parquet.write_table(table, part))


def _columns(pyarrow: Any, design: Sequence[Point]) -> dict[str, Any]:
    """What the design sets, a column for each key: of one type for all points, whatever piece they are in."""
    names = dict.fromkeys(name for point in design for name in point)

    def column(values: list[Any]) -> Any:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.array([None if value is None else str(value) for value in values])

    return {name: column([point.get(name) for point in design]) for name in names}


def _teller(progress: Any) -> tuple[Callable[[str, int, int], object], Callable[[], object]]:
    if progress is True:
        from steelyard._progress import Bar

        bar = Bar()
        return bar, bar.close
    nothing = lambda *told: None  # noqa: E731
    return progress or nothing, nothing


Results = Generator[tuple[int, Any], None, None]


def _runner(on: Any) -> Callable[[Run, dict[int, Piece]], Results]:
    if on is None or isinstance(on, int):
        return lambda run, left: _on_processes(run, left, on)
    if on == "ray":
        return _on_ray
    if hasattr(on, "submit") and hasattr(on, "scheduler"):
        return lambda run, left: _on_dask(run, left, on)
    raise TypeError('on: a number of processes, a client of Dask, or "ray"')


def _on_processes(run: Run, left: dict[int, Piece], workers: "int | None") -> Results:
    left = dict(left)
    lost = 0
    while left:
        # Not by fork: others of this process's threads may hold locks.
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(run, points): number for number, points in left.items()}
            for future in as_completed(futures):
                result = future.result()
                number = futures.pop(future)
                del left[number]
                lost = 0
                yield number, result
        except BrokenProcessPool:
            lost += 1
            if lost > MOST_LOST:
                raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_dask(run: Run, left: dict[int, Piece], client: Any) -> Results:
    from distributed import as_completed as as_done

    # Not `pure`: what was computed for another sweep may be gone.
    futures = {client.submit(run, points, pure=False, retries=MOST_LOST): number for number, points in left.items()}
    try:
        for future in as_done(list(futures)):
            result = future.result()
            yield futures.pop(future), result
    finally:
        client.cancel(list(futures))


def _on_ray(run: Run, left: dict[int, Piece]) -> Results:
    import ray

    if not ray.is_initialized():
        ray.init()
    task = ray.remote(max_retries=MOST_LOST)(_call)
    shared = ray.put(run)
    waiting = iter(left.items())
    # No more than keeps all busy: asking which is done takes time for each that is asked about.
    most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    running: dict[Any, int] = {}
    try:
        while True:
            for number, points in itertools.islice(waiting, most - len(running)):
                running[task.remote(shared, points)] = number
            if not running:
                return
            done, _ = ray.wait(list(running))
            for reference in done:
                result = ray.get(reference)
                yield running.pop(reference), result
    finally:
        for reference in running:
            ray.cancel(reference)


def _call(run: Run, points: Piece) -> Any:
    return run(points)
