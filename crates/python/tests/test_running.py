# SPDX-License-Identifier: GPL-2.0-only
"""While it runs: progress, an end before the end, and other threads."""

import signal
import threading
from collections.abc import Iterator

import pytest
from conftest import FIRST_LOOK

import steelyard

LONG = {"length": "1000 s"}
ENDLESS = {"length": "12 h"}


def test_progress_grows_to_the_whole() -> None:
    told: list[tuple[str, int, int | None]] = []
    steelyard.compare(FIRST_LOOK, set={"length": "60 s"}, progress=lambda *now: told.append(now))
    assert told
    for what, done, total in told:
        assert what == "Simulating" and total is not None and 0 <= done <= total
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_progress_is_a_bar_of_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    steelyard.compare(FIRST_LOOK, set={"length": "60 s"}, progress=True)
    assert "Simulating" in capsys.readouterr().err


@pytest.fixture
def heard() -> Iterator[None]:
    """Who runs the tests in the background of a shell that has no job control has them ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("call", ["compare", "tune", "reproduce"])
def test_ctrl_c_ends_it(call: str) -> None:
    last = (0, 1)

    def interrupt(what: str, done: int, total: int | None) -> None:
        nonlocal last
        last = (done, total or 0)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        if call == "compare":
            steelyard.compare(FIRST_LOOK, seeds=50, set=LONG, progress=interrupt)
        elif call == "tune":
            # One run of it takes minutes.
            steelyard.tune(FIRST_LOOK, minimise=["web: wait p99"], settings=2, set=ENDLESS, progress=interrupt)
        else:
            steelyard.reproduce("load-weight", progress=interrupt)
    assert last[0] < last[1]


def test_an_error_in_progress_ends_it_and_is_raised() -> None:
    def fail(what: str, done: int, total: int | None) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError, match="Simulating"):
        steelyard.compare(FIRST_LOOK, seeds=50, set=LONG, progress=fail)
    with pytest.raises(LookupError, match="Simulating"):
        steelyard.reproduce("mcredit2", progress=fail)
    with pytest.raises(LookupError, match="Searching"):
        steelyard.tune(FIRST_LOOK, minimise=["web: wait p99"], settings=5000, set=LONG, progress=fail)


def test_other_threads_go_on_meanwhile() -> None:
    # It ends only if this thread can ask it to while it runs.
    ended = threading.Event()
    began = threading.Event()

    def ask() -> None:
        began.wait()
        ended.set()

    def tell(what: str, done: int, total: int | None) -> None:
        began.set()
        if ended.is_set():
            raise StopIteration

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(StopIteration):
        steelyard.compare(FIRST_LOOK, seeds=50, set=LONG, progress=tell)
    asking.join()


def test_many_threads_give_what_one_gives() -> None:
    wanted = steelyard.compare(FIRST_LOOK).to_json()
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(steelyard.compare(FIRST_LOOK).to_json())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 8
