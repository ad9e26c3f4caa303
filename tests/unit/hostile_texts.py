"""Texts that try to distort a terminal or a comment, and what an output must hold if none of them did."""

from __future__ import annotations

from hypothesis import strategies as st

from sample_reports import HOSTILE

FORGED = "✗ 9. forged"
"""A line that nobody but us may begin."""

LINE_ENDS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")

EXPLICIT = [
    HOSTILE,
    *(f"x{end}{FORGED}" for end in LINE_ENDS),
    "\x1b[31mred\x1b[0m \x1b[2J\x1b[H\x1b[1A\x1b[2K",  # colours, an emptied screen, the line above
    "\x1b]0;title\x07 \x1b]8;;https://evil.test\x1b\\link\x1b]8;;\x1b\\ \x1b]52;c;ZXZpbA==\x07",  # OSC
    "\x9b31mred \x9d0;title\x9c \x90q\x9c \x8e\x8f",  # the same as single C1 characters
    "\x00nul\x07bell\x08\x08\x08back\x7fdel\x0eshift\x0f",
    "\u202eesrever\u202c \u2066isolate\u2069 \u200e\u200f\u061c \u202a\u202b\u202d\u2067\u2068",
    "zero\u200bwidth\u200c\u200d\u2060\ufeff\u00ad \u034f\u115f\u1160\u3164\uffa0\u180e",
    "carried\ufe00\ufe01\U000e0100\U000e01ef and tagged\U000e0041\U000e007f",
    "undecodable\udce9\udcff lone\ud800",
    "\u00a0\u2003\u3000wide\u00a0blanks \ufffa\ufffb \U0001d173",
    "[bold]markup[/bold] [/] :smile: [link=https://evil.test]x[/link]",
    "{0} {name} %s %(x)s ${x} `tick` ```",
]

_NASTY = st.sampled_from(sorted({each for text in EXPLICIT for each in text}))
TEXTS = st.text(_NASTY | st.characters(), max_size=40)
"""Any text, with what is known to do harm drawn often."""

HIDDEN = {each for text in EXPLICIT for each in text if not each.isprintable()} - {"\n"} | set(
    "\u034f\u115f\u1160\u3164\uffa0\ufe00\ufe01\U000e0100\U000e01ef"
)


def harmful(text: str) -> set[str]:
    """The characters in an output that show nothing of their own; a newline is ours to write."""
    return {each for each in text if (not each.isprintable() or each in HIDDEN) and each != "\n"}
