"""`dynalyze doctor`: what this environment can and cannot compile."""

from __future__ import annotations

import click

from dynalyze.cli.files import check_outputs, print_summary, write_json
from dynalyze.cli.options import redact_option, seconds_option


@click.command()
@click.option("--python", metavar="PATH", help="Look at this interpreter's environment.")
@click.option("--json", "json_file", metavar="FILE", help="Write the diagnosis as JSON; - for standard output.")
@seconds_option("--timeout", "Give each step at most this long.", 180.0)
@redact_option
def doctor(python: str | None, json_file: str | None, timeout: float, redact: bool) -> int:
    """Check what this environment can compile, and what to install.

    Looks at torch, the C++ compiler, CUDA and Triton, caches, environment variables and packages, and compiles a small
    function. Exit status 1 where torch.compile cannot work at all.
    """
    from dynalyze import privacy
    from dynalyze.doctor.checks import diagnose, render
    from dynalyze.doctor.probe import facts_of
    from dynalyze.launch.streams import transient_progress
    from dynalyze.text.json_text import json_text

    check_outputs([("--json", json_file)])
    with transient_progress() as show:
        facts = facts_of(python, timeout, show)
    diagnosis = privacy.mask_secrets(diagnose(facts))
    if redact:
        diagnosis = privacy.redact(diagnosis)
    if not write_json(json_file, json_text(diagnosis)):
        print_summary(render(diagnosis))
    return 0 if diagnosis.works else 1
