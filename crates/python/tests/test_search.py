# SPDX-License-Identifier: GPL-2.0-only
"""Searches on processes try the same and keep the same bytes however many there are, and lose nothing when one dies."""

import json
from pathlib import Path
from typing import Any

import optuna
import pandas
import pytest
from conftest import FIRST_LOOK, Found, killing, processes, record, search, study, suggest, wait_ms

import steelyard


def test_a_search_says_what_comparisons_say(tmp_path: Path, found: Found) -> None:
    tried, files = found
    assert [number for number, _, _ in tried] == list(range(16)) and len(files) == 16 + 1
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    table = pandas.read_parquet(tmp_path)
    for number, params, value in tried:
        rows = table[table["trial"] == number].reset_index(drop=True)
        [text] = rows["set"].unique()
        changes = {
            "length": "20 s",
            "domain.web.weight": params["weight"],
            "credit2.ratelimit_ns": params["ratelimit_ns"],
        }
        assert json.loads(text) == changes
        alone = pandas.DataFrame.from_arrow(steelyard.compare(FIRST_LOOK, ["credit2"], set=changes))
        pandas.testing.assert_frame_equal(rows[list(alone)], alone, check_dtype=False)
        assert alone.set_index("domain")["wait_p99_ns"]["web"] / 1e6 == value


def test_more_processes_try_the_same(tmp_path: Path, found: Found) -> None:
    assert search(tmp_path, on=3) == found


def test_nothing_is_lost_with_a_process(tmp_path: Path, found: Found) -> None:
    killed: list[int] = []
    assert search(tmp_path, 2, killing(processes, killed)) == found and killed


def test_it_goes_on_where_it_was(tmp_path: Path, found: Found) -> None:
    def stop(what: str, done: int, total: "int | None") -> None:
        if done >= 6:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        search(tmp_path, 1, stop)
    kept = {path.name: path.stat().st_ino for path in tmp_path.glob("*.parquet")}
    assert 6 <= len(kept) < 16
    # One that was done before others that come before it.
    (tmp_path / "000004.parquet").unlink()
    del kept["000004.parquet"]
    assert search(tmp_path, 3) == found
    assert {name: (tmp_path / name).stat().st_ino for name in kept} == kept, "what is there is not written again"


def test_more_trials_go_on_from_fewer(tmp_path: Path, found: Found) -> None:
    told: list[tuple[str, int, int | None]] = []
    search(tmp_path, 1, lambda *told_of: told.append(told_of), trials=6)
    assert told == [("Searching", done, 6) for done in range(7)]
    assert search(tmp_path, 2) == found


def test_what_waits_in_a_study_is_tried_first(tmp_path: Path) -> None:
    studied = study()
    studied.enqueue_trial({"weight": 100, "ratelimit_ns": 7})
    steelyard.search(FIRST_LOOK, studied, suggest, wait_ms, tmp_path, ["credit2"], trials=2, on=1)
    assert studied.trials[0].params == {"weight": 100, "ratelimit_ns": 7}


def test_several_values_are_told(tmp_path: Path) -> None:
    studied = optuna.create_study(directions=["minimize", "maximize"], sampler=optuna.samplers.RandomSampler(seed=1))

    def choose(trial: optuna.Trial) -> dict[str, Any]:
        policy = trial.suggest_categorical("policy", ["fair@eevdf", "credit2@xen-4.20"])
        return {"length": "1 s", "policy": [{"policy": policy}]}

    def waits(table: Any) -> tuple[float, float]:
        return wait_ms(table), float(table.num_rows)

    steelyard.search(FIRST_LOOK, studied, choose, waits, tmp_path, trials=4, on=1)
    assert len(studied.best_trials) >= 1
    chosen = pandas.read_parquet(tmp_path).groupby("trial")["policy"].unique()
    assert [list(policies) for policies in chosen] == [[trial.params["policy"]] for trial in studied.trials]


def test_a_table_without_rows_is_judged_too(tmp_path: Path) -> None:
    host = {"name": "idle", "length": "1 s", "host": {}, "domain": [{"name": "one", "vcpus": 1}]}
    for _ in range(2):
        studied = study()
        steelyard.search(
            host,
            studied,
            lambda trial: {"domain.one.weight": trial.suggest_int("weight", 1, 1000)},
            lambda table: float(table.num_rows),
            tmp_path,
            ["fair"],
            trials=2,
            table="tasks",
            on=1,
        )
        assert [trial.value for trial in studied.trials] == [0, 0]
    assert pandas.read_parquet(tmp_path)["set"].dtype == "str"


def test_another_search_is_not_mixed_in(tmp_path: Path) -> None:
    def again(studied: optuna.Study, policies: list[str], **more: Any) -> None:
        steelyard.search(FIRST_LOOK, studied, suggest, wait_ms, tmp_path, policies, trials=1, on=1, **more)

    again(study(), ["credit2"])
    with pytest.raises(ValueError, match="in which trial 0 was not"):
        again(study(seed=2), ["credit2"])
    others: list[tuple[list[str], dict[str, Any]]] = [
        (["fair"], {}),
        (["credit2"], {"ahead": 9}),
        (["credit2"], {"table": "runs"}),
    ]
    for policies, more in others:
        with pytest.raises(ValueError, match="another search, or one of another version"):
            again(study(), policies, **more)
    studied = study()
    again(studied, ["credit2"])
    with pytest.raises(ValueError, match="study: it has trials already"):
        again(studied, ["credit2"])
    with pytest.raises(ValueError, match="another sweep"):
        steelyard.sweep(FIRST_LOOK, [{}], tmp_path, on=1)


def test_errors_are_told(tmp_path: Path) -> None:
    def one(directory: str, suggest: Any = suggest, judge: Any = wait_ms, **more: Any) -> None:
        asked = {"trials": 1, "on": 1, **more}
        steelyard.search(FIRST_LOOK, study(), suggest, judge, tmp_path / directory, ["credit2"], **asked)

    with pytest.raises(steelyard.InputError, match="did you mean `web`"):
        one("set", suggest=lambda trial: {"domain.wbe.weight": 1})
    for value, why in [(float("nan"), "nan"), (None, "No values"), ((1.0, 2.0), "number of the values")]:
        with pytest.raises(ValueError, match=f"trial 0: .*{why}"):
            one("value", judge=lambda table, value=value: value)
    with pytest.raises(TypeError, match="a client of Dask"):
        one("on", on="slurm")
    with pytest.raises(ValueError, match="none of"):
        one("table", table="pcpus")
    with pytest.raises(ValueError, match="ahead"):
        one("ahead", ahead=0)


def test_a_recording_of_a_trial_is_of_the_input(tmp_path: Path) -> None:
    one, other = tmp_path / "one.perf.txt", tmp_path / "other.perf.txt"
    record(one, "5.006000")
    record(other, "5.007000")
    scenario = tmp_path / "host.toml"
    scenario.write_text(steelyard.Scenario(one).text)
    [domain] = steelyard.Scenario(scenario).domains

    def replay(recording: Path) -> None:
        changes = {f"domain.{domain}.task.0.workload.replay.recording": recording.name}
        directory = tmp_path / recording.stem
        steelyard.search(scenario, study(), lambda _: changes, lambda _: 0.0, directory, ["fair"], trials=1, on=1)

    replay(one)
    with pytest.raises(ValueError, match="trial 0: a recording that the input does not replay"):
        replay(other)
