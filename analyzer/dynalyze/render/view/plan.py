"""The section of a plan of compiling: the choice, the ways, and what the shapes come to."""

from __future__ import annotations

from dynalyze.render.text import plans as words
from dynalyze.render.view.measurements import Table
from dynalyze.report.plans import CompilePlan


class PlanView:
    """One plan. `lines` are to be pasted; the texts are those of the terminal."""

    def __init__(self, plan: CompilePlan) -> None:
        self.table = Table("Ways of compiling", *words.table(plan))
        self.lines = words.pasted(plan)
        self.notes = words.notes(plan)
        self.caches = words.CACHES
        shapes = plan.shapes
        self.shapes = None if shapes is None else Table("Sizes to pad to", *words.shape_table(shapes))
        self.shape_sentences = [] if shapes is None else words.shape_sentences(shapes)
        self.shape_lines = "" if shapes is None else words.shape_lines(shapes)
