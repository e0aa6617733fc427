# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps on processes give the same bytes however many there are, and lose nothing when one dies."""

from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet
import pytest
from conftest import DESIGN, FIRST_LOOK, killing, processes, record, sweep

import steelyard


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


def test_nothing_is_lost_with_a_process(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    killed: list[int] = []
    assert sweep(tmp_path, 2, killing(processes, killed)) == wanted and killed


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


def test_a_recording_that_changed_is_another_input(tmp_path: Path) -> None:
    one, other = tmp_path / "one.perf.txt", tmp_path / "other.perf.txt"
    record(one, "5.006000")
    record(other, "5.007000")
    scenario = tmp_path / "host.toml"
    scenario.write_text(steelyard.Scenario(one).text)
    assert steelyard.Scenario(scenario).files() == [one, scenario]
    replays = steelyard.Scenario(scenario).to_dict()["domain"]
    key = f"domain.{replays[0]['name']}.task.0.workload.replay.recording"

    def sweep(directory: str, design: list[dict[str, Any]]) -> None:
        steelyard.sweep(scenario, design, tmp_path / directory, ["fair"], on=1)

    alone: list[dict[str, Any]] = [{}]
    both: list[dict[str, Any]] = [{}, {key: other.name}]
    for _ in range(2):
        sweep("alone", alone)
        sweep("both", both)
    record(other, "5.008000")
    sweep("alone", alone)
    with pytest.raises(ValueError, match="another sweep"):
        sweep("both", both)
    record(one, "5.008000")
    with pytest.raises(ValueError, match="another sweep"):
        sweep("alone", alone)


def test_errors_are_told(tmp_path: Path) -> None:
    with pytest.raises(steelyard.InputError, match="did you mean `web`"):
        steelyard.sweep(FIRST_LOOK, [{"domain.wbe.weight": 1}], tmp_path / "x", on=1)
    with pytest.raises(TypeError, match="a client of Dask"):
        steelyard.sweep(FIRST_LOOK, DESIGN, tmp_path / "y", on="slurm")
    with pytest.raises(ValueError, match="none of"):
        steelyard.sweep(FIRST_LOOK, DESIGN, tmp_path / "y", table="pcpus")


def test_columns_have_one_type_in_all_pieces(tmp_path: Path) -> None:
    design: list[dict[str, Any]] = [{"length": "1 s"}, {"length": "1 s", "domain.web.weight": 512}]
    steelyard.sweep(FIRST_LOOK, design, tmp_path, ["fair"], on=1, piece=1)
    schemas = {pyarrow.parquet.read_schema(path) for path in tmp_path.glob("*.parquet")}
    assert len(schemas) == 1
    assert pandas.read_parquet(tmp_path).groupby("point")["domain.web.weight"].nunique().tolist() == [0, 1]
