"""What graph breaks cost, written by hand."""

from __future__ import annotations

from dynalyze.break_cost.records import BreakPrice, CallPart, GuardGroup, GuardPrice, Prices, SettingPrice
from dynalyze.report import Location
from dynalyze.report.measurements import Interval

Broken = tuple[Location, str, str]
"""The place of a graph break, its type and its id."""


SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
PRINTS = "torch._dynamo.config.reorderable_logging_functions.add(print)"


def prices(first: Broken, second: Broken) -> Prices:
    """A call of 3.1 ms: three graphs, and two breaks between them of which the first takes most."""
    parts = [
        CallPart("guards", 0.2, first[0], compile_id="0/0"),
        CallPart("entry", 0.1, first[0], compile_id="0/0"),
        CallPart("graph", 0.6, first[0], compile_id="0/0"),
        CallPart("break", 1.3, first[0], first[2]),
        CallPart("resume", 0.1, first[0], first[2], "1/0"),
        CallPart("graph", 0.3, first[0], compile_id="1/0"),
        CallPart("break", 0.2, second[0], second[2]),
        CallPart("graph", 0.2, second[0], compile_id="2/0"),
        CallPart("outside", 0.1),
    ]
    return Prices(
        Interval(3.1, 3.0, 3.2),
        640,
        parts,
        [
            BreakPrice(first[0], first[1], Interval(1.4, 1.3, 1.5), 1.3, 0.1, 1.4 / 3.1, first[2], 1.7, SCALARS),
            BreakPrice(second[0], second[1], Interval(0.2, 0.19, 0.21), 0.2, 0.0, 0.2 / 3.1, second[2], 2.9, PRINTS),
        ],
        [GuardPrice("0/0", first[0], 200.0, 2029, [GuardGroup("self.configs", 2001, 0.9, 180.0)])],
        {"0/0": 1.0, "1/0": 1.0, "2/0": 1.0},
        settings=[
            SettingPrice(SCALARS, 1, [], Interval(2.0, 1.9, 2.1), 3.1, Interval(1.1, 1.0, 1.2), 3),
            SettingPrice(PRINTS, 2, [second[0]], problem="the graph still breaks here with it"),
        ],
    )


def hostile_prices(text: str) -> Prices:
    place = Location(text, 3, 1, text, text)
    found = prices((place, text, text), (place, text, text))
    found.guards = [GuardPrice(text, place, 5.0, 3, [GuardGroup(text, 2, 0.5, 2.5, advice=text)])]
    found.runs = {text: 1.0}
    found.settings = [SettingPrice(text, 1, [place], problem=text)]
    return found
