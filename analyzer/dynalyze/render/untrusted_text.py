"""Keeps what the program wrote out of our sentences: an agent reads these as ours, and the program may say anything."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from dynalyze.facts.registry import registry
from dynalyze.report import Report
from dynalyze.report.sensitivity import Holds, texts
from dynalyze.rules.recipe import recipes
from dynalyze.text.escape import clipped, one_line

_OF_THE_PROGRAM = (Holds.QUOTE, Holds.SOURCE, Holds.ERROR, Holds.NAME, Holds.PATH)
_LONGEST_TEXT, _LONGEST_QUOTE = 10_000, 160
# Code between backticks, and a string literal; an apostrophe inside of a word opens none.
_QUOTED = re.compile(r"`(?P<code>[^`]+)`|(?<!\w)(?P<literal>'[^']*'|\"[^\"]*\")")
# A name of torch, read or set: nothing that somebody else could have filled in.
_OF_TORCH = re.compile(
    r"torch(?:\.\w{1,40}){1,5}(?:\((?:\.\.\., \w{1,20}=(?:True|False))?\))?(?: = (?:True|False|\d{1,6}))?"
)
# A word or a number alone cannot tell anybody what to do.
_PLAIN = re.compile(r"[A-Za-z]?[a-z'-]{0,15}|[\d.,%+-]*")
_PART = re.compile(r"\w{3,}")
_AROUND = ".,;:()[]!?`'\""
_FEW = 3


class Fence:
    """The texts of one report, by which those of the program are known in a sentence."""

    def __init__(self, report: Report) -> None:
        # The long ones, which no sentence quotes, stay out.
        looked = msgspec.structs.replace(report, findings=[], sources=[], graphs=[], kernels=[], traced_files=[])
        of_program = dict.fromkeys(text[:_LONGEST_TEXT] for holds, text in texts(looked)[0] if holds in _OF_THE_PROGRAM)
        self._known = "\n".join(_shown(text) for text in of_program)
        for words in _words_of_torch():
            self._known = self._known.replace(words, "\n")

    def sentence(self, text: str, quotes: list[str], limit: int = 400) -> str:
        """A sentence of ours, in which ‹1› stands for the first of `quotes`; what is new is added to these."""
        text = _shown(text)[:_LONGEST_TEXT]
        if text in _titles():
            return text
        said, at = "", 0
        for found in _QUOTED.finditer(text):
            said += self._apart(text[at : found.start()], quotes)
            ours = found["code"] is not None and is_ours(found["code"])
            said += found[0] if ours else _instead(found["code"] or found[0], quotes)
            at = found.end()
        return clipped(said + self._apart(text[at:], quotes), limit)

    def message(self, text: str, quotes: list[str]) -> str:
        """A sentence as a report holds it: what a colon or `raised` introduces is somebody else's."""
        head, by, rest = next(
            (parts for mark in (" raised ", ": ") if (parts := text.partition(mark))[1]), (text, "", "")
        )
        return self.sentence(head, quotes) + (f"{by}{_instead(rest, quotes)}" if rest else "")

    def _apart(self, text: str, quotes: list[str]) -> str:
        """Runs of words that the program has too are taken out, unless they are few and plain."""
        words = text.split(" ")
        said: list[str] = []
        at = 0
        while at < len(words):
            end = at + 1
            while end <= len(words) and self._knows(_bare(words[at:end])):
                end += 1
            run = words[at : end - 1]
            if len(run) >= _FEW or not all(_is_plain(_bare([word])) for word in run):
                bare, whole = _bare(run), " ".join(run)
                said.append(whole.replace(bare, _instead(bare, quotes), 1))
                at += len(run)
            else:
                said.append(words[at])
                at += 1
        return " ".join(said)

    def _knows(self, words: str) -> bool:
        """Whether the program has these words, or of one alone a part that is no plain one."""
        parts = () if " " in words else (each for each in _PART.findall(words) if not _is_plain(each))
        return bool(words) and (
            words in self._known or (not _is_plain(words) and any(each in self._known for each in parts))
        )


def is_ours(code: str) -> bool:
    """Whether lines of code are of a recipe, or name and set what is torch's."""
    return code in _code_of_ours() or all(_OF_TORCH.fullmatch(line) for line in code.splitlines())


def _shown(text: str) -> str:
    return one_line(" ".join(text.split()))


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None or _OF_TORCH.fullmatch(word) is not None


def _instead(text: str, quotes: list[str]) -> str:
    text = clipped(_shown(text), _LONGEST_QUOTE)
    if text not in quotes:
        quotes.append(text)
    return f"‹{quotes.index(text) + 1}›"


def _bare(words: list[str]) -> str:
    return " ".join(words).strip(_AROUND)


@cache
def _code_of_ours() -> frozenset[str]:
    """What recipes name and set, wherever nothing is filled in."""
    codes = {each.config for each in recipes()}
    for recipe in recipes():
        codes.update(found["code"] for found in _QUOTED.finditer(recipe.action) if found["code"])
    return frozenset(code for code in codes if code and "{" not in code)


@cache
def _titles() -> frozenset[str]:
    return frozenset(each.title for each in recipes())


@cache
def _words_of_torch() -> tuple[str, ...]:
    """What PyTorch says of graph breaks whatever the program is: between what it fills in, the longest first."""
    said = (text for each in registry().entries.values() for text in (each.gb_type, each.explanation, *each.hints))
    parts = {" ".join(part.split()) for text in said for part in re.split(r"\{[^}]*\}|`", text)}
    return tuple(sorted((part for part in parts if part.count(" ") >= _FEW - 1), key=len, reverse=True))
