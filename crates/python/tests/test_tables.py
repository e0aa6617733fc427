# SPDX-License-Identifier: GPL-2.0-only
"""Tables say what the results say, and are taken without copying."""

import gc
import json
import resource
from typing import Any

import pandas
import polars
import pyarrow
from conftest import FIRST_LOOK, RECORDING

import steelyard


def rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.table(table).to_pylist()
    return found


def test_three_lines_make_a_table_of_pandas() -> None:
    result = steelyard.compare(FIRST_LOOK)
    table = pandas.DataFrame.from_arrow(result)
    assert table.groupby("policy")["domain"].nunique().tolist() == [8] * 6


def test_every_figure_is_that_of_the_results() -> None:
    result = steelyard.compare(FIRST_LOOK, seeds=2)
    runs = json.loads(result.to_json())["comparisons"][0]["runs"]
    # What is a list in the results has tables of its own; single waits are told by length alone.
    kept = [(run, domain) for run in runs for domain in run["domains"]]
    found = rows(result.domains)
    assert len(found) == len(kept) == len(result.domains)
    for row, (run, domain) in zip(found, kept):
        assert (row["policy"], row["seed"], row["domain"]) == (run["policy"], run["seed"], domain["name"])
        for name in ["weight", "cap_percent", "share_percent", "entitlement_percent", "waited_ns", "migrations"]:
            assert row[name] == domain[name]
        waits = domain["waits"]
        assert row["waits"] == waits["count"]
        assert row["wait_p99_ns"] == (waits["p99_ns"] if waits["count"] else None)
        assert row["worst_wait_ns"] == (waits["worst"]["length_ns"] if waits["worst"] else None)
    vcpus = [vcpu for _, domain in kept for vcpu in domain["vcpus"]]
    assert [row["gotten_ns"] for row in rows(result.vcpus)] == [vcpu["gotten_ns"] for vcpu in vcpus]
    tasks = [value for _, domain in kept for task in domain["tasks"] for value in task["values"]]
    assert [(row["measure"], row["unit"], row["more_is_better"], row["value"]) for row in rows(result.tasks)] == [
        (value["name"], value["unit"], value["more_is_better"], value["value"]) for value in tasks
    ]
    for row, run in zip(rows(result.runs), runs):
        assert row["fairness"] == run["fairness"] and row["switches"] == run["scheduling_events"]["switches"]


def test_parameters_are_columns() -> None:
    changed = {"credit2.ratelimit_ns": 5_000_000}
    found = rows(steelyard.compare(FIRST_LOOK, ["credit2+reset-boost", "fair"], set=changed).runs)
    credit2, fair = found
    assert credit2["credit2.ratelimit_ns"] == 5_000_000 and fair["credit2.ratelimit_ns"] is None
    governor = [name for name in credit2 if name.startswith("reset-boost.")]
    assert governor and all(credit2[name] is not None and fair[name] is None for name in governor)
    # Each is one that `parameters` knows, and has its default there unless it was changed.
    known = {(row["name"], row["vintage"]): row for row in rows(steelyard.parameters())}
    for row, vintage in [(credit2, "xen-4.20"), (fair, "eevdf")]:
        for name, value in row.items():
            if "." in name and value is not None and name not in changed:
                of_vintage = known.get((name, vintage)) or known[(name, None)]
                assert str(value) == of_vintage["default"], name


def test_a_recording_has_no_parameters() -> None:
    found = rows(steelyard.replay(RECORDING, ["fair"], own="fair").runs)
    recorded = next(row for row in found if row["policy"] == "recorded")
    assert all(value is None for name, value in recorded.items() if name.startswith("fair."))


def test_all_who_know_arrow_read_the_same() -> None:
    result = steelyard.compare(FIRST_LOOK)
    for table in [result.runs, result.domains, result.vcpus, result.tasks, steelyard.parameters()]:
        taken = pyarrow.table(table)
        taken.validate(full=True)
        assert taken.column_names == table.columns and taken.num_rows == len(table)
        assert polars.DataFrame(table).to_dicts() == taken.to_pylist()
        assert pandas.DataFrame.from_arrow(table).shape == taken.shape


def test_nothing_is_copied_and_all_of_it_outlives_the_result() -> None:
    table = steelyard.compare(FIRST_LOOK).domains

    def addresses(taken: pyarrow.Table) -> list[int]:
        chunks = [taken.column(name).chunk(0) for name in taken.column_names]
        return [buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer]

    one, other = pyarrow.table(table), pyarrow.table(table)
    assert addresses(one) == addresses(other)
    before = one.to_pylist()
    del table, other
    gc.collect()
    assert one.to_pylist() == before


def test_what_was_taken_is_given_back() -> None:
    table = steelyard.compare(FIRST_LOOK).domains

    def take(times: int) -> int:
        for _ in range(times):
            table.__arrow_c_stream__()
            pyarrow.table(table)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    warm = take(200)
    # Structures of a schema and an array of 90 columns take 20 KB.
    assert take(3000) - warm < 20_000


def test_an_empty_table_has_its_columns() -> None:
    quiet = {"name": "quiet", "length": "1 ms", "domain": [{"name": "idle"}]}
    found = pyarrow.table(steelyard.compare(quiet, ["fair"]).tasks)
    assert found.num_rows == 0 and "value" in found.column_names
    found.validate(full=True)


def test_a_search_and_an_experiment_have_tables() -> None:
    tuning = steelyard.tune(FIRST_LOOK, minimise=["web: wait p99"], settings=4, set={"length": "1 s"})
    settings = rows(tuning)
    assert len(settings) >= 4 and settings[0]["web: wait p99, median, ns"] > 0
    assert "4 settings tried" in str(tuning) or "settings tried" in str(tuning)
    reproduction = steelyard.reproduce("app-slice", seeds=1)
    claims, figures = rows(reproduction), rows(reproduction.figures)
    assert all(claim["experiment"] == "app-slice" for claim in claims)
    assert reproduction.as_expected == all(claim["as_expected"] for claim in claims)
    assert all(row["least"] <= row["median"] <= row["greatest"] for row in figures if row["median"] is not None)
