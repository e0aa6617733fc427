# SPDX-License-Identifier: GPL-2.0-only
"""What may be given, and what is said of what may not."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import FIRST_LOOK, RECORDING

import steelyard


def test_a_scenario_is_the_same_as_path_text_dict_and_object() -> None:
    scenario = steelyard.Scenario(FIRST_LOOK)
    assert (scenario.name, scenario.length_ns, scenario.seeds) == ("first-look", 10_000_000_000, 1)
    assert "web" in scenario.domains and "fair@eevdf" in scenario.policies and not scenario.recorded
    text = Path(FIRST_LOOK).read_text()
    assert scenario.text == text
    again: list[Any] = [
        scenario,
        steelyard.Scenario.parse(text, "first-look.toml"),
        scenario.to_dict(),
        steelyard.Scenario(scenario.to_dict()),
    ]
    wanted = steelyard.compare(FIRST_LOOK).to_json()
    for other in again:
        found = steelyard.compare(other).to_json()
        assert found.replace('"source":"dict"', '"source":"first-look.toml"') == wanted


def test_an_error_names_its_place_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('name = "x"\n[[domain]]\nname = "web"\nweigth = 512\n')
    with pytest.raises(steelyard.InputError) as raised:
        steelyard.compare(path)
    error = raised.value
    assert (error.file, error.line, error.column) == (str(path), 4, 1)
    assert "did you mean `weight`?" in error.message and "weigth = 512" in str(error)
    assert error.help is not None and "`weight`" in error.help


def test_an_error_names_its_place_in_a_dict() -> None:
    wrong = steelyard.Scenario(FIRST_LOOK).to_dict()
    wrong["domain"][1]["vcpus"] = 0
    with pytest.raises(steelyard.InputError) as raised:
        steelyard.Scenario(wrong)
    assert raised.value.file == "dict" and "vcpus = 0" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "file", "says"),
    [
        ({"policies": ["fiar"]}, "policies", "did you mean `fair`?"),
        ({"set": {"credit2.ratelimitns": 1}}, "set", "ratelimit"),
        ({"set": {"domain.wbe.weight": 1}}, "set", "did you mean `web`?"),
        ({"seeds": 0}, "seeds", "0"),
        ({"own": "fair"}, "first-look", "no recording"),
    ],
)
def test_an_error_names_the_argument(arguments: dict[str, Any], file: str, says: str) -> None:
    with pytest.raises(steelyard.InputError) as raised:
        steelyard.compare(FIRST_LOOK, **arguments)
    assert raised.value.file == file
    assert says in str(raised.value)


def test_goals_are_explained() -> None:
    with pytest.raises(steelyard.InputError, match="wbe"):
        steelyard.tune(FIRST_LOOK, minimise=["wbe: wait p99"])
    with pytest.raises(steelyard.InputError, match="did you mean `weight`"):
        steelyard.tune(FIRST_LOOK, minimise=["web: wait p99"], vary=["wieght"])
    with pytest.raises(ValueError, match="nothing is wanted"):
        steelyard.tune(FIRST_LOOK)


def test_only_recordings_are_replayed() -> None:
    assert steelyard.Scenario(RECORDING).recorded
    with pytest.raises(steelyard.InputError, match="no recording"):
        steelyard.replay(FIRST_LOOK)


def test_what_is_no_input_is_refused() -> None:
    with pytest.raises(TypeError, match="a path, a dict or a Scenario"):
        steelyard.compare(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no setting of a scenario"):
        steelyard.compare({"name": object()})
    with pytest.raises(steelyard.InputError, match="cannot be read"):
        steelyard.compare("nowhere.toml")
    with pytest.raises(steelyard.InputError):
        steelyard.reproduce("mcredit")


def test_none_in_a_dict_is_left_out() -> None:
    scenario = steelyard.Scenario(FIRST_LOOK).to_dict()
    scenario["domain"][1]["slice"] = None
    assert steelyard.Scenario(scenario).domains == steelyard.Scenario(FIRST_LOOK).domains


def test_an_error_can_be_sent_to_another_process() -> None:
    with pytest.raises(steelyard.InputError) as raised:
        steelyard.compare(FIRST_LOOK, ["fiar"])
    error = pickle.loads(pickle.dumps(raised.value))
    assert str(error) == str(raised.value) and vars(error) == vars(raised.value)


def test_a_scenario_can_be_sent_to_another_process() -> None:
    scenario = steelyard.Scenario(FIRST_LOOK)
    for sent in [scenario, steelyard.Scenario(scenario.to_dict())]:
        got = pickle.loads(pickle.dumps(sent))
        assert steelyard.compare(got).to_json() == steelyard.compare(sent).to_json()
