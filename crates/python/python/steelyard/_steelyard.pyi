# SPDX-License-Identifier: GPL-2.0-only
# What `crates/python/src` makes, with its types. Its docstrings are at the same names there.
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, final

_Input: TypeAlias = str | PathLike[str] | dict[str, Any] | Scenario
_Changes: TypeAlias = Mapping[str, Any] | Sequence[str]
_Progress: TypeAlias = bool | Callable[[str, int, int | None], object]

__all__ = [
    "Comparison",
    "Reproduction",
    "Scenario",
    "Table",
    "Tuning",
    "__version__",
    "compare",
    "experiments",
    "parameters",
    "replay",
    "reproduce",
    "tune",
]

__version__: str

@final
class Scenario:
    def __new__(cls, input: _Input) -> Scenario: ...
    @staticmethod
    def parse(text: str, name: str = "text") -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str | None: ...
    @property
    def length_ns(self) -> int: ...
    @property
    def seeds(self) -> int: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def domains(self) -> list[str]: ...
    @property
    def recorded(self) -> bool: ...
    @property
    def text(self) -> str: ...
    def files(self, set: _Changes | None = None) -> list[Path]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Table:
    @property
    def columns(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

@final
class Comparison:
    @property
    def domains(self) -> Table: ...
    @property
    def runs(self) -> Table: ...
    @property
    def vcpus(self) -> Table: ...
    @property
    def tasks(self) -> Table: ...
    @property
    def assumed(self) -> list[str]: ...
    @property
    def replay_error(self) -> str | None: ...
    def to_json(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Tuning:
    @property
    def settings(self) -> Table: ...
    @property
    def plan(self) -> str | None: ...
    def to_json(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Reproduction:
    @property
    def claims(self) -> Table: ...
    @property
    def figures(self) -> Table: ...
    @property
    def as_expected(self) -> bool: ...
    def to_json(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def compare(
    input: _Input,
    policies: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    set: _Changes | None = None,
    own: str | None = None,
    host: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> Comparison: ...
def replay(
    recording: _Input,
    policies: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    set: _Changes | None = None,
    own: str | None = None,
    host: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> Comparison: ...
def tune(
    input: _Input,
    *,
    minimise: Sequence[str] | None = None,
    maximise: Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    vary: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    settings: int = 500,
    seeds: int | None = None,
    set: _Changes | None = None,
    own: str | None = None,
    host: str | PathLike[str] | None = None,
    state: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> Tuning: ...
def reproduce(
    name: str,
    *,
    seeds: int = 10,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> Reproduction: ...
def experiments() -> list[str]: ...
def parameters() -> Table: ...
