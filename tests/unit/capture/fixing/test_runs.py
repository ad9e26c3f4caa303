"""Calls that do not end are ended, and those that do are not."""

from __future__ import annotations

import signal
import threading

import pytest

from dynalyze.capture.fixing.runs import Endless, ended_after


def test_what_goes_round_for_ever_is_ended_though_it_catches_its_own_errors() -> None:
    before = signal.getsignal(signal.SIGALRM)

    def goes_round() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    with pytest.raises(Endless), ended_after(0.05):
        goes_round()
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_another_thread_is_left_alone() -> None:
    ended = []

    def work() -> None:
        with ended_after(1e-6):
            ended.append(sum(range(1000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended
