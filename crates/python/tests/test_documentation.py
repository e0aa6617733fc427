# SPDX-License-Identifier: GPL-2.0-only
"""What is written of the package: it works, and nothing is without it."""

import inspect
import re

import nbclient
import nbformat
import pytest
from conftest import ROOT

import steelyard

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def test_everything_has_a_docstring() -> None:
    for name in steelyard.__all__:
        thing = getattr(steelyard, name)
        if isinstance(thing, str):
            continue
        assert inspect.getdoc(thing), name
        if not inspect.isclass(thing) or issubclass(thing, Exception):
            continue
        for member, value in vars(thing).items():
            if not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_arguments_are_described() -> None:
    for name in ["compare", "replay", "tune", "reproduce", "search", "sweep"]:
        function = getattr(steelyard, name)
        arguments = (inspect.getdoc(function) or "").split("Args:\n")[1].split("\n\n")[0]
        described = re.findall(r"^    (\w+): ", arguments, re.MULTILINE)
        assert described == list(inspect.signature(function).parameters), name


def test_the_page_works() -> None:
    text = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 3
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.stem))
def test_notebooks_work(path: object) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without what it printed"
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 4
