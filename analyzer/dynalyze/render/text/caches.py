"""Sentences on two starts and their caches, for the terminal and the JSON."""

from __future__ import annotations

from dynalyze.report import Report
from dynalyze.report.caches import CacheComparison, CacheDifference, CacheUse, Move, Start, UsedCache, Way
from dynalyze.text.amounts import count_of, duration, lookups

CACHES: dict[UsedCache, str] = {
    "autograd": "AOTAutograd", "fx_graph": "FX graph", "kernels": "C++ kernels", "triton": "Triton kernels",
    "autotune": "autotuning", "pgo": "PGO profile",
}  # fmt: skip
WAYS: dict[Way, str] = {
    "again": "nothing changed",
    "home": "another HOME",
    "working_folder": "another working directory",
    "program": "the program in another folder",
    "cache_folder": "the cache folder elsewhere",
    "container": "all of it at once, as in a container",
    "artifacts": "save_cache_artifacts into an empty cache",
}
_SAVED_FOR_NOTHING = (
    "`torch.compiler.save_cache_artifacts` saves graphs, not C++ kernels: copy the folder of "
    "TORCHINDUCTOR_CACHE_DIR too, or instead."
)
_FOLDER_IN_KEY = (
    "The key of a C++ kernel contains the path of the cache folder: set TORCHINDUCTOR_CACHE_DIR to the same path there."
)
_MOST_IDS = 8
NOTHING_ASKED = "No cache was used: nothing was compiled with Inductor, or its caches are off."
NO_PROFILE = "not asked: TORCH_COMPILE_JOB_ID is not set"


def verdict(found: CacheComparison, *, shared: bool) -> str:
    after = found.after
    if found.before is None or after is None:
        return ""
    hits, misses, bypasses = looked_up(after)
    if not hits + misses + bypasses:
        return NOTHING_ASKED
    first = next(iter(found.differences), None)
    if shared:
        times = f"compiling took {duration(found.before.compile_seconds)}, then {duration(after.compile_seconds)}"
        if not misses and not bypasses:
            return f"A second start finds every graph in the caches: {count_of(hits, 'hit')}; {times}."
        past = [f"{count_of(bypasses, 'graph')} went past the caches"] if bypasses else []
        missed = [count_of(misses, "miss", "misses")] if misses else []
        return f"A second start compiles again: {', '.join(missed + past)}; {times}.{_because(first)}"
    if first is None:
        if misses:
            return (
                f"The keys are the same in both starts, and {count_of(misses, 'look-up')} of the second missed: it did "
                "not have the cache folder of the first."
            )
        return "The keys are the same in both starts: the caches of the first serve the second."
    parts = count_of(len(found.differences), "component")
    return f"The caches of the first start do not serve the second: {parts} of the keys differ.{_because(first)}"


def _because(first: CacheDifference | None) -> str:
    return f" First of all: {first.says}" if first is not None else ""


def ended(message: str) -> str:
    """The verdict if there is nothing to compare."""
    return f"The first start did not finish: {message}"


def notes(before: Report, after: Report) -> list[str]:
    found = []
    for name, label in (("torch", "torch"), ("python", "Python"), ("machine", "the machine")):
        one, other = before.environment.get(name), after.environment.get(name)
        if one and other and one != other:
            found.append(f"Not the same in both starts: {label}, {one} and {other}.")
    for report, which in ((before, "first"), (after, "second")):
        if report.caches is None:
            found.append(
                f"The report of the {which} start has no cache keys: record it again, with torch 2.8 or later."
            )
    return found


def advice(move: Move) -> str:
    """What to set, or to take along, so that a filled cache serves there too."""
    if move.survives or move.start is None:
        return ""
    kernels = sum(use.made or 0 for use in move.start.uses if use.cache == "kernels")
    if kernels and not move.differences:
        return _SAVED_FOR_NOTHING if move.way == "artifacts" else _FOLDER_IN_KEY
    if move.differences:
        return f"Make the same in both places: {move.differences[0].says}"
    return ""


def looked_up(start: Start) -> tuple[int, int, int]:
    """Hits, misses and bypasses of graphs."""
    graphs = [use for use in start.uses if use.cache in ("autograd", "fx_graph")]
    hits, misses, bypasses = (sum(getattr(use, name) or 0 for use in graphs) for name in ("hits", "misses", "bypasses"))
    return hits, misses, bypasses


def compiling(start: Start) -> str:
    """`3.7 s of 12.0 s`; a log does not say how long its program ran."""
    return f"{start.compile_seconds:.1f} s" + (f" of {start.seconds:.1f} s" if start.seconds else "")


def uses_table(found: CacheComparison) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: what each cache did in each start; no rows if no cache is known."""
    starts = [start for start in (found.before, found.after) if start is not None]
    names = list(dict.fromkeys(use.cache for start in starts for use in start.uses))
    rows = []
    for name in names:
        cells = ("".join(use_words(use) for use in start.uses if use.cache == name) for start in starts)
        rows.append([CACHES[name], *(cell or "not asked" for cell in cells)])
    if names and "pgo" not in names:
        rows.append([CACHES["pgo"], NO_PROFILE, *[NO_PROFILE for _ in starts[1:]]])
    if names:
        rows.append(["compiling", *map(compiling, starts)])
    return ["", "first start", "second start"][: len(starts) + 1], rows


def values_of(each: CacheDifference) -> tuple[str, str] | None:
    """Both values of a component; None if the sentence or the line says it all."""
    if each.kind in ("constant", "graph", "names", "new") or (each.location and each.kind != "kernel"):
        return None
    return each.before or "none", each.after or "none"


def concerned(each: CacheDifference) -> str:
    """Which keys of which compilations a difference is in."""
    keys = ", ".join(dict.fromkeys(f"{name} key" for name in each.caches))
    ids = ", ".join(each.compile_ids[:_MOST_IDS])
    return f"{keys} of {ids} {each.function}".rstrip() if ids else ""


def use_words(use: CacheUse) -> str:
    """`2 hits, 1 miss; 3.7 s compiling; 12 s saved`."""
    said = [lookups(use.hits, use.misses, use.bypasses)]
    if use.made is not None and use.hits is None:
        said.append(f"{use.made:,} made" if use.made else "none made")
    if use.seconds:
        said.append(f"{duration(use.seconds)} compiling")
    if use.saved_seconds:
        said.append(f"{duration(use.saved_seconds)} saved")
    return "; ".join(filter(None, said)) or "not asked"


def move_words(move: Move) -> str:
    if move.start is None or move.survives is None:
        return f"not known: {move.reason}" if move.reason else "not tried"
    made = [
        f"{count_of(use.made, CACHES[use.cache][:-1], CACHES[use.cache])} built"
        for use in move.start.uses
        if use.cache in ("kernels", "triton") and use.made
    ]
    said = ", ".join(filter(None, [lookups(*looked_up(move.start)), *made]))
    return f"{said or 'nothing asked'}; {move.start.compile_seconds:.1f} s compiling"


def vllm_verdict(found: list[CacheDifference]) -> str:
    """What differs in the names of two of vLLM's cache folders."""
    if not found:
        return "vLLM names both folders after the same factors."
    return f"vLLM compiles again: {count_of(len(found), 'factor')} of its key differ. First of all: {found[0].says}"
