# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps: many comparisons of one input, by a design that is known before."""

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from steelyard._directory import begin, write
from steelyard._steelyard import Scenario
from steelyard._workers import Comparisons, Point, runner, teller


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

    if piece < 1:
        raise ValueError("piece: there is at least one point in it")
    run = Comparisons(input, policies, seeds, table, "point")
    directory = begin(directory, "sweep", run, design, piece=piece, design=[dict(point) for point in design])
    columns = _columns(pyarrow, design)
    points = list(enumerate(design))
    pieces = {number: points[start : start + piece] for number, start in enumerate(range(0, len(points), piece))}
    width = len(str(len(pieces)))
    files = {number: directory / f"{number:0{width}}.parquet" for number in pieces}
    waiting = deque((number, points) for number, points in pieces.items() if not files[number].exists())
    done = len(points) - sum(len(points) for _, points in waiting)
    with teller(progress) as tell:
        tell("Sweeping", done, len(points))
        with closing(runner(on)(run, waiting)) as results:
            for number, result in results:
                of_points = result.column("point")
                for name, values in columns.items():
                    if name not in result.column_names:
                        result = result.append_column(name, values.take(of_points))
                write(result, files[number])
                done += len(pieces[number])
                tell("Sweeping", done, len(points))
    return directory


def _columns(pyarrow: Any, design: Sequence[Point]) -> dict[str, Any]:
    """What the design sets, a column for each key: of one type for all points, whatever piece they are in."""
    names = dict.fromkeys(name for point in design for name in point)

    def column(values: list[Any]) -> Any:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.array([None if value is None else str(value) for value in values])

    return {name: column([point.get(name) for point in design]) for name in names}
