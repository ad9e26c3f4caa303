"""Reports for the tests of the outputs for CI: judged, with a policy, and with hostile texts everywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from dynalyze.facts.fingerprints import add_fingerprints
from dynalyze.report import Advice, Capture, Finding, GraphBreak, Impact, Location, Outcome, Report, Severity, Target
from dynalyze.report.audit import PolicyCheck, PolicyVerdict, Waiver
from dynalyze.rules.rule import judge
from sample_reports import benched_report, clean_report, empty_report, hostile_report, measured_report, rich_report

FOLDER = "/home/ada/work/ranker"


def judged(report: Report) -> Report:
    """As `showable` leaves it: with findings and their fingerprints."""
    report.folder = FOLDER
    report.findings = judge(report)
    add_fingerprints(report)
    return report


def samples() -> list[Report]:
    made = [empty_report(), clean_report(), rich_report(), measured_report(), benched_report()]
    made += [empty_report("timed_out", "Ended after 600 s."), empty_report("nothing_compiled", "")]
    return [*map(judged, made), judged_by_policy(), hostile_report()]


def judged_by_policy() -> Report:
    """The rich report: one finding waived, one waiver expired, one finding new, the others in the baseline."""
    report = judged(rich_report())
    breaks = [finding for finding in report.findings if finding.rule == "graph-break"]
    other = next(finding for finding in report.findings if finding.rule == "compile-failed")
    report.policy = PolicyVerdict(
        passed=False,
        summary="FAIL: 6 graph breaks, the policy allows 0.",
        advice="Mend them, or ignore them with a reason.",
        checks=[
            PolicyCheck("graph-breaks", "failed", True, "0", "6", evidence=["b1", "b4"]),
            PolicyCheck("speedup", "failed", True, "1.2x", "1.1x (1.0 to 1.2)"),
            PolicyCheck("memory", "unknown", False, reason="Memory was not measured."),
            PolicyCheck("accuracy", "unknown", True, reason="The answers were not compared."),
            PolicyCheck("recompiles", "passed", True, "4", "2"),
        ],
        waivers=[
            Waiver("graph-break", "Logged until the release", findings=[breaks[0].fingerprint], used=1),
            Waiver(
                "graph-break", "Was fine once", expires="2026-01-01", expired=True, findings=[breaks[1].fingerprint]
            ),
        ],
        baseline="baseline.json",
        known=len(report.findings) - 2,
        new=[breaks[1].fingerprint, other.fingerprint],
    )
    return report


texts = st.text(max_size=60) | st.sampled_from(
    [
        "<script>alert(1)</script>", "![x](https://evil.example/i.png)", "@ada please #12 www.evil.example", "a|b`c``d",
        "]]>", "\x00\x0b\x1b[31m", "\ud800", "[text](javascript:alert(1))", "</details>", "-->", "\u202e", "\n# x\n- y",
        "https://evil.example", "{0} {placeholder}", "&lt;b&gt;", "'\"", "~~~", "```\nfence",
    ]
)  # fmt: skip
_files = texts | st.sampled_from([f"{FOLDER}/a b/ü.py", "~/x.py", "/opt/lib/site-packages/torch/x.py", "<frozen>", ""])
_locations = st.builds(
    Location, _files, st.integers(-1, 9), st.none() | st.integers(0, 9), texts, st.none() | texts,
    st.none() | st.integers(0, 9),
)  # fmt: skip
_severities: st.SearchStrategy[Severity] = st.sampled_from(["error", "warning", "info"])
_impacts = st.builds(Impact, st.none() | st.just(1.5), st.none() | st.just(0.5), st.just(0.8), texts)
_findings = st.builds(
    Finding, texts | st.sampled_from(["graph-break", "recompile"]), _severities, texts, st.none() | _locations,
    st.lists(texts | st.sampled_from(["b1", "b2"]), max_size=3), texts,
    st.none() | _impacts, st.none() | st.builds(Advice, texts, texts),
)  # fmt: skip
_breaks = st.builds(
    GraphBreak, st.sampled_from(["b1", "b2"]), st.none() | texts, texts, st.just("split"), _locations,
    st.lists(_locations, max_size=3),
)  # fmt: skip
_checks = st.builds(
    PolicyCheck, texts, st.sampled_from(["passed", "failed", "unknown", "waived"]), st.booleans(), texts, texts, texts,
    st.lists(texts, max_size=2),
)  # fmt: skip
_policies = st.builds(
    PolicyVerdict, st.booleans(), texts, texts, texts, st.lists(_checks, max_size=3),
    st.lists(st.builds(Waiver, texts, texts), max_size=2), texts,
)  # fmt: skip


@st.composite
def hostile_reports(draw: st.DrawFn) -> Report:
    """Any text in any place, as a log of somebody else may hold it."""
    return Report(
        dynalyze="0.1.0",
        created=draw(texts | st.just("2026-11-20T22:00:00Z")),
        command=draw(st.lists(texts, max_size=3)),
        environment={"torch": draw(texts)},
        target=Target("script", draw(texts)),
        outcome=Outcome(
            draw(st.sampled_from(["complete", "failed"])), draw(texts), draw(st.none() | st.integers(-9, 9))
        ),
        graph_breaks=draw(st.lists(_breaks, max_size=2)),
        findings=draw(st.lists(_findings, max_size=4)),
        policy=draw(st.none() | _policies),
        capture=Capture(notes=draw(st.lists(texts, max_size=2)), listener_errors=draw(st.lists(texts, max_size=2))),
        folder=draw(st.sampled_from([FOLDER, "", "~/work", "/"])),
    )
