"""`dynalyze rules`: the offline catalogue of findings, recipes and PyTorch's graph-break ids."""

from __future__ import annotations

import difflib
import shutil

import click

from dynalyze.cli.files import print_summary
from dynalyze.text.errors import UsageError


@click.command()
@click.argument("rule_id", required=False, metavar="[ID]")
def rules(rule_id: str | None) -> None:
    """Show every finding and every recipe, or explain one ID.

    ID is a finding (graph-break), a recipe of the cookbook (print), or an id of PyTorch's (GB0059). Works offline
    and without torch.
    """
    from dynalyze.rules import catalogue

    width = min(shutil.get_terminal_size((catalogue.WIDTH, 24)).columns, catalogue.WIDTH)
    text = catalogue.overview(width) if rule_id is None else catalogue.entry(rule_id, width)
    if text is None:
        near = difflib.get_close_matches(str(rule_id), catalogue.known_ids(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; dynalyze rules lists them"
        raise UsageError(f"no rule called {rule_id}{hint}")
    print_summary(text)
