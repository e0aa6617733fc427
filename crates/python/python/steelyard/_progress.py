# SPDX-License-Identifier: GPL-2.0-only
"""Progress as a bar of tqdm, which is needed for nothing else."""

from tqdm.auto import tqdm


class Bar:
    """A bar for each thing that is done, one after another."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: tqdm | None = None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if self._bar is None or what != self._what:
            self.close()
            # Work is counted in events, of which there are billions.
            self._bar = tqdm(desc=what, total=total, unit_scale=True)
            self._what = what
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
