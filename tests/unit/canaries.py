"""Reports with a canary in every text that may quote the program."""

from __future__ import annotations

from typing import Any

from dynalyze.report import Report
from dynalyze.report.sensitivity import Holds, changed
from records import filled_report

CANARY = "canary_9f3"


# What may quote the program, and what a message of ours does after its colon. A vocabulary keeps its own words only.
VOCABULARIES = {Holds.DTYPE, Holds.NUMBER, Holds.OPERATION, Holds.BACKEND, Holds.BREAK_TYPE, Holds.CUDAGRAPH}


OF_THE_PROGRAM = {Holds.QUOTE, Holds.SOURCE, Holds.ERROR, Holds.MESSAGE, *VOCABULARIES}


def names_in(document: Any, text: str) -> Any:
    """The text wherever a name may stand: in all but our own words, and in words that are known."""
    return changed(document, lambda holds, _: "key" if holds is Holds.WORD else text)


def canary_report() -> Report:
    """The canary in every text that may quote the program, as torch and a failing program would tell it."""

    def quoted(holds: Holds, text: str) -> str:
        if holds is Holds.MESSAGE:
            return f"Net failed, and ran in eager from there on: ValueError: {CANARY}"
        return CANARY if holds in OF_THE_PROGRAM else text

    report = changed(filled_report("plain"), quoted)
    report.outcome.status = "failed"
    return report
