# SPDX-License-Identifier: GPL-2.0-only
"""A directory of results: files of Parquet that are written as pieces are done, each once, named by its number.

What is in it depends on nobody's speed. A file says what was asked, and who asks the same goes on from what is there.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from steelyard._steelyard import Scenario, __version__
from steelyard._workers import Comparisons, Point

DESIGN = "_design.json"


def begin(
    directory: "str | os.PathLike[str]",
    kind: str,
    comparisons: Comparisons,
    points: Sequence[Point],
    **more: Any,
) -> Path:
    """The directory, made if it is not there.

    Args:
        kind: A sweep or a search.
        points: Those that are known now: recordings that they replay are of the input.
        more: What else makes it the same.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    asked = {
        "format": f"steelyard-{kind}",
        "steelyard": __version__,
        "input": _fingerprint(comparisons.input, points),
        "policies": comparisons.policies,
        "seeds": comparisons.seeds,
        "table": comparisons.table,
        **more,
    }
    text = as_json(asked, indent=1) + "\n"
    path = directory / DESIGN
    if path.exists():
        if path.read_text() != text:
            raise another(directory, kind, "or one of another version")
    elif any(directory.iterdir()):
        raise ValueError(f"{directory} holds something that is no {kind}: name another directory")
    else:
        _replace(path, lambda file: file.write_text(text))
    return directory


def another(directory: Path, kind: str, why: str) -> ValueError:
    return ValueError(f"{directory} holds another {kind}, {why}: name another directory")


def as_json(value: Any, indent: "int | None" = None) -> str:
    # What JSON does not know is a number of numpy.
    return json.dumps(value, indent=indent, default=lambda number: number.item())


def write(table: Any, path: Path) -> None:
    from pyarrow import parquet

    _replace(path, lambda part: parquet.write_table(table, part))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """A file is there as a whole or not at all; names that begin with a dot are no results."""
    part = path.with_name(f".{path.name}.part")
    write(part)
    os.replace(part, path)


def _fingerprint(input: Any, points: Sequence[Point]) -> str:
    """Of all that the input says, and of every recording that is replayed at some point."""
    read = Scenario(input)
    files = dict.fromkeys(read.files())
    for point in points:
        # At other points the same is replayed.
        if "recording" in repr(point):
            files.update(dict.fromkeys(read.files(dict(point))))
    content = hashlib.sha256(read.text.encode())
    for path in filter(Path.is_file, files):
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                content.update(part)
    return content.hexdigest()
