# SPDX-License-Identifier: GPL-2.0-only
"""Compares, replays and tunes CPU schedulers for virtual machines.

The functions do what the command of the same name does, by the same code, and give the same results for the same
seeds. Results have tables that pandas, Polars and pyarrow take as they lie in memory::

    import pandas, steelyard
    result = steelyard.compare("scenarios/first-look.toml")
    table = pandas.DataFrame.from_arrow(result)

`docs/python.md` begins at the beginning.
"""

from steelyard._errors import InputError
from steelyard._search import search
from steelyard._steelyard import (
    Comparison,
    Reproduction,
    Scenario,
    Table,
    Tuning,
    __version__,
    compare,
    experiments,
    parameters,
    replay,
    reproduce,
    tune,
)
from steelyard._sweep import grid, sweep

__all__ = [
    "Comparison",
    "InputError",
    "Reproduction",
    "Scenario",
    "Table",
    "Tuning",
    "__version__",
    "compare",
    "experiments",
    "grid",
    "parameters",
    "replay",
    "reproduce",
    "search",
    "sweep",
    "tune",
]
