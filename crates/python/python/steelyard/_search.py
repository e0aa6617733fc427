# SPDX-License-Identifier: GPL-2.0-only
"""Searches: comparisons of one input by points that Optuna suggests, each from what others have given.

Trials are told in the order of their numbers, and each is asked for when a certain other has been told: what is
suggested depends on nobody's speed. What is told is read from the files of the directory, whoever wrote them, so that
to go on is nothing special.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._directory import another, as_json, begin, write
from steelyard._steelyard import Scenario
from steelyard._workers import Comparisons, Waiting, runner, teller

if TYPE_CHECKING:
    import optuna


def search(
    input: "str | os.PathLike[str] | dict[str, Any] | Scenario",
    study: "optuna.Study",
    suggest: "Callable[[optuna.Trial], Mapping[str, Any]]",
    judge: "Callable[[Any], float | Sequence[float]]",
    directory: "str | os.PathLike[str]",
    policies: "Sequence[str] | None" = None,
    *,
    trials: int,
    ahead: int = 8,
    seeds: "int | None" = None,
    table: str = "domains",
    on: Any = None,
    progress: "bool | Callable[[str, int, int | None], object]" = False,
) -> Path:
    """Compares an input once for each trial of a study of Optuna, and keeps the results as files of Parquet.

    Files are written as trials are done. A search that was interrupted goes on from what is in its directory: a new
    study is told what is there. The same search gives the same trials and files, to the byte, wherever it runs and
    however many workers it has; if workers are lost, nothing is, and nothing is counted twice. Needs optuna and
    pyarrow.

    Args:
        input: A path, a dict or a Scenario. Workers on other machines find a path there too.
        study: Without trials but those that wait in it (`enqueue_trial`), and with a seed, if it is to be the same
            again: `optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))`.
        suggest: From a trial, what `set` of `compare` takes.
        judge: From the table of a trial (of pyarrow), its value, or a value for each direction of the study.
        directory: Where the results are; made if it is not there. `pandas.read_parquet` reads it: `trial` is the
            number of the trial, and `set` what was suggested, as JSON.
        policies: Instead of those of the input.
        trials: So many, with those that are there.
        ahead: So many trials are asked for and not told yet: trial n is suggested from what those up to n - `ahead` gave.
            More workers have nothing to do; with another number it is another search.
        seeds: Runs of each policy in each trial, instead of what the input says.
        table: Which table of a comparison is judged and kept: domains, runs, vcpus or tasks.
        on: How many processes here, without it one per CPU; a client of Dask (`distributed.Client`); or "ray".
        progress: True for a bar of tqdm, or a function that is told what is done, how much of it, and of how much.

    Returns:
        The directory.

    Raises:
        InputError: What was given cannot be used.
        ValueError: The directory holds another search, or the study has trials, or a trial's value is none.
    """
    import pyarrow
    from optuna.trial import TrialState
    from pyarrow import parquet

    if ahead < 1:
        raise ValueError("ahead: at least one trial runs")
    if any(trial.state != TrialState.WAITING for trial in study.get_trials(deepcopy=False)):
        raise ValueError("study: it has trials already; a new one is told what is in the directory")
    run = Comparisons(input, policies, seeds, table, "trial")
    directory = begin(directory, "search", run, (), ahead=ahead)
    read = Scenario(run.input)
    asked: list[tuple[optuna.Trial, str, Path]] = []
    waiting: Waiting = deque()
    with teller(progress) as tell, closing(runner(on)(run, waiting)) as results:
        for told in range(trials):
            tell("Searching", told, trials)
            while len(asked) < min(trials, told + ahead):
                trial = study.ask()
                changes = dict(suggest(trial))
                # The directory is known by the input's recordings alone.
                if "recording" in repr(changes) and not set(read.files(changes)) <= set(read.files()):
                    raise ValueError(f"trial {trial.number}: a recording that the input does not replay: {changes}")
                file = directory / f"{trial.number:06}.parquet"
                asked.append((trial, as_json(changes), file))
                if not file.exists():
                    waiting.append((trial.number, [(trial.number, changes)]))
            trial, suggested, file = asked[told]
            while not file.exists():
                number, result = next(results)
                _, changed, of_result = asked[number]
                column = pyarrow.array([changed] * len(result), pyarrow.string())
                write(result.append_column("set", column), of_result)
            # Not by `read_table`, for which names of directories may be columns.
            given = parquet.ParquetFile(file).read()
            if set(given.column("set").to_pylist()) - {suggested}:
                raise another(directory, "search", f"in which trial {told} was not {suggested}")
            try:
                study.tell(trial, judge(given), TrialState.COMPLETE)
            except ValueError as error:
                raise ValueError(f"trial {told}: {error}") from error
        tell("Searching", trials, trials)
    return directory
