"""Recompiles put together by what the user has to change: one series is one finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dynalyze.facts.guards import MISSING
from dynalyze.files.paths import library_of
from dynalyze.report import Compilation, FailedGuard, GraphBreak, LineKey, Location, Recompile, Report
from dynalyze.text.amounts import listed

_Key = tuple[object, ...]
_HELD = re.compile(r"(?P<name>self\.[^()]+|[^()]+\._buffers\['\w+'\])\.size\(\)\[\d+\]$")
_ENTRY = re.compile(r"\[\d+\]")
_LAST_ENTRY = re.compile(r"\[\d+\]$")
_PARTS = re.compile(r"\b_(?:parameters|modules|buffers)\b")
_MADE = ("identity", "limit")
_MOST_NAMED = 3


def spared_by_dynamic(found: Recompile) -> bool:
    """Whether `dynamic=True` may spare it: a size or a number changed. Sizes of parameters stay fixed, and other causes
    do not ask how torch.compile was called.
    """
    is_number = (found.expected or "").lstrip("-").replace(".", "", 1).isdecimal()
    of_size = found.cause in ("shape", "symbolic") and "._parameters[" not in (found.source or "")
    return of_size or (found.cause == "value" and is_number)


@dataclass
class Series:
    """Changes of one value: every recompile that they set off, in whichever function, in the report's order.

    `lead` is the first recompile of the first change: the outermost function, and the program's own expression
    where the later ones see what was computed from it. `values` are what the lead saw, the first one included.
    `modules` are what the program calls the modules that run one code, where each was compiled for the first time and
    they are made differently: then nothing changed between calls. `differ`: they have other values of the lead's.
    `asked` is the line that asks how large a size is that torch had made dynamic, so that each size has another answer;
    `one_value`: only that one size has this answer.
    `was_dynamic`: torch had made the size dynamic, and `forced_by` made it a constant again.
    `of_others` are recompiles that a line forced with another size, which changed in the same call; `fixed` are those
    sizes: marked dynamic, one of them would raise an error.
    `met` are inputs, each with a dimension, that came for the first time when the size met theirs and was fixed by it.
    `replaced` are tensors that the module holds and that had another size in this function, as a table made anew does.
    `first_call` is the line that called the function when the version was compiled that the lead came nearest to;
    `whole_call` the one that called the function of which this is a part, behind a graph break. `callers` are all lines
    from which versions of this code were compiled.
    `counted` are lists of Python's that have as many entries as the batch. `entries`: the same of several entries
    of a list changed, `batch[...].done`. `filled` are the containers that were empty in a call of the run, `of_texts`
    those with a text that changed.
    `broke` are graph breaks that came with it: no earlier version of the code met them. `apart` are those that left
    the caller in eager: without them the function would be a part of that one's graph.
    """

    lead: Recompile
    members: list[Recompile] = field(default_factory=list)
    changes: int = 0
    values: list[str] = field(default_factory=list)
    resumes: bool = False
    modules: list[str] = field(default_factory=list)
    differ: bool = False
    replaced: list[str] = field(default_factory=list)
    met: list[tuple[str, int]] = field(default_factory=list)
    asked: Location | None = None
    first_call: Location | None = None
    whole_call: Location | None = None
    callers: list[Location] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    entries: str = ""
    filled: frozenset[str] = frozenset()
    of_texts: frozenset[str] = frozenset()
    was_dynamic: bool = False
    of_others: set[str] = field(default_factory=set)
    fixed: set[str | None] = field(default_factory=set)
    broke: list[GraphBreak] = field(default_factory=list)
    apart: list[GraphBreak] = field(default_factory=list)
    one_value: bool = False

    @property
    def recompiles(self) -> list[Recompile]:
        """Those that compiled anew; reaching the limit is a member that did not."""
        return [member for member in self.members if member.cause != "limit"]

    @property
    def parts(self) -> int:
        """Compiled pieces of code concerned: two for a function with a graph break. Ranks of a job have the same."""
        frames = {(m.process, m.epoch, m.compile_id.rpartition("/")[0]) for m in self.members}
        return max(Counter((process, epoch) for process, epoch, _ in frames).values(), default=0)

    @property
    def forced_by(self) -> Location | None:
        """The line that made the size a constant, or asked about it, in the function that is told first."""
        own = (each for each in self.members if _is_in(each, self.lead.location) and each.id not in self.of_others)
        # The call of what is compiled, behind a decorator of torch's, or its `def`: no line within is known.
        none = {self.lead.location.at, *([self.first_call.at] if self.first_call is not None else [])}
        return next(
            (each.forced_by for each in own if each.forced_by is not None and each.forced_by.at not in none), None
        )

    @property
    def read_at(self) -> Location | None:
        """The line that read the value, where a user can look: in the package of the function itself, or in none. What
        a graph break left behind is looked for at the break.
        """
        line, own = self.lead.read_at, library_of(self.lead.location.file)
        known = line is not None and library_of(line.file) in ("", own) and self.lead.result_of is None
        return line if known else None

    @property
    def package(self) -> str:
        """The installed package whose code it is, called by a package; "" where the program makes the call."""
        package, call = library_of(self.lead.location.file), self.first_call
        calls_itself = self.resumes if call is None else library_of(call.file) != ""
        return package if calls_itself and package != "torch" else ""

    @property
    def place(self) -> Location:
        """Where to look first: the line that decided it or read the value, where torch tells and it is none of torch's,
        else the function.
        """
        lines = (each for each in (self.forced_by, self.read_at) if each is not None)
        return next((each for each in lines if library_of(each.file) != "torch"), self.lead.location)


@dataclass
class Limited:
    """Functions that reached the recompile limit, with all the series that brought them there."""

    series: list[Series]

    @property
    def members(self) -> list[Recompile]:
        return [member for one in self.series for member in one.members]

    @property
    def reached(self) -> list[Recompile]:
        return [member for member in self.members if member.cause == "limit"]

    @property
    def main(self) -> Series:
        """The series with most recompiles and refused calls of these functions; of as many, that of a table which is
        made anew, for other sizes follow from it, then that of the call that was refused. One that compiled nothing
        anew before that call did not lead there.
        """

        def weight(one: Series) -> tuple[bool, int, bool, int]:
            refused = len(one.members) - len(one.recompiles)
            return bool(one.recompiles), self.share_of(one), bool(one.replaced), refused

        return max(self.series, key=weight)

    def share_of(self, series: Series) -> int:
        """How many of the recompiles and refused calls of these functions are of one series."""
        places = {each.location.at for each in self.reached}
        return sum(each.location.at in places for each in series.members)


def gather(report: Report) -> tuple[list[Series], list[Limited]]:
    """The series of a report, and those that led to the limit."""
    found = _by_what_changed(report)
    _tell_forced(list(found.values()), report)
    calls: dict[_Key, Location] = {}
    callers: dict[_Key, list[Location]] = {}
    for compilation in report.compilations:
        if compilation.caller is not None:
            calls[compilation.key] = compilation.caller
            calls.setdefault(_code(compilation), compilation.caller)
            callers.setdefault(_code(compilation), []).append(compilation.caller)
    counts = [
        each for each in report.recompiles if each.cause == "container" and (each.source or "").startswith("len(")
    ]
    leads = [series.lead for series in found.values() if series.lead.cause in ("value", "limit")]
    read_in_code = Counter((_code(lead), _ENTRY.sub("[...]", lead.source or "")) for lead in leads)
    failed: list[Recompile | FailedGuard] = [
        *report.recompiles,
        *(one for each in report.recompiles for one in each.also),
    ]
    filled = frozenset(each.source or "" for each in failed if each.cause == "container" and each.expected == "empty")
    texts = (each.source or "" for each in failed if each.cause == "value" and (each.actual or "")[:1] in ("'", '"'))
    of_texts = frozenset(_LAST_ENTRY.sub("", each) for each in texts if _LAST_ENTRY.search(each))
    for series in found.values():
        lead, series.filled, series.of_texts = series.lead, filled, of_texts
        series.first_call = calls.get((lead.process, lead.epoch, lead.previous or "")) or calls.get(_code(lead))
        series.callers = list({each.at: each for each in callers.get(_code(lead), ())}.values())
        if lead.cause == "shape" and (lead.source or "").endswith(".size()[0]"):
            alike = [each for each in counts if (each.expected, each.actual) == (lead.expected, lead.actual)]
            series.counted = list(dict.fromkeys((each.source or "")[4:-1] for each in alike))
        of_entry = _ENTRY.sub("[...]", lead.source or "")
        series.entries = of_entry if read_in_code[_code(lead), of_entry] > 1 and of_entry != lead.source else ""
        series.met = list(dict.fromkeys(_met(series, report)))
        series.broke = [each for each in report.graph_breaks if _came_with(each, series)]
        series.whole_call = _call_of_whole(series, report)
        series.apart = _that_left_in_eager(series.whole_call, report)
        at = series.lead.location.at
        members = [each for one in found.values() if one.lead.location.at == at for each in one.members]
        asking = next((each for each in members if _asks_about(each, series.lead)), None)
        series.asked = asking.forced_by if asking is not None else None
        series.one_value = is_one_value(asking or series.lead)
        held = (name for each in members if _is_in(each, lead.location) for name in _held_tensors(each))
        series.replaced = list(dict.fromkeys([*held, *_not_taken_again(series.lead, members, report)]))
    return _apart_from_limits(_with_limits_joined(list(found.values())))


def _by_what_changed(report: Report) -> dict[_Key, Series]:
    """The recompiles of a report by the change that set them off, and by the module where only that is another."""
    resumed = {c.key for c in report.compilations if c.resumes}
    others = _of_other_modules(report)
    found: dict[_Key, Series] = {}
    changes: dict[_Key, list[Recompile]] = {}
    for each in report.recompiles:
        changes.setdefault((each.change,) if each.change else (each.id, each.process), []).append(each)
    # Also where only the code behind a graph break asks how the other module is made.
    made_otherwise = {key for key, change in changes.items() if any(map(_is_of_module, change))}
    by_module: dict[_Key, list[Recompile]] = {}
    for key, change in changes.items():
        of_module = key in made_otherwise and change[0].id in others and not _made_anew(change, others[change[0].id])
        by_module.setdefault(_code(change[0]) if of_module else key, []).extend(change)
    for key, change in by_module.items():
        lead = change[0]
        if key not in changes:
            found[lead.id,] = Series(lead, change, len(change), modules=others[lead.id])
            continue
        place = (lead.location.file, lead.location.line)
        key = (*place, lead.cause, lead.source or lead.guard, is_zero_or_one(lead))
        series = found.setdefault(key, Series(lead, resumes=lead.key in resumed))
        series.members += change
        series.changes += 1
        series.differ |= lead.id in others and lead.cause == "module_attribute"
        _add_values(series.values, lead)
    return found


def _tell_forced(found: list[Series], report: Report) -> None:
    """Tell each series which of its recompiles a line forced with a size that, in the same code, changed for an earlier
    series: several sizes may change in one call.
    """
    forced = {each: size for size in report.forced_sizes for each in size.recompiles}
    first: dict[_Key, Series] = {}
    for series in found:
        for member in series.members:
            for source in (member.source, *(each.source for each in member.also)):
                first.setdefault((_code(member), source), series)
            if (size := forced.get(member.id)) is None:
                continue
            same_size = not {series.lead.expected, series.lead.actual}.isdisjoint(size.values)
            # A number beside the sizes, as `top_k` in `if top_k:`, is none of them.
            is_own = size.dimension is not None or size.source == series.lead.source
            if same_size or (is_own and first.get((_code(member), size.source), series) is series):
                series.was_dynamic = True
            else:
                series.of_others.add(member.id)
                series.fixed.add(size.source)


def _is_in(found: Recompile, place: Location) -> bool:
    """Whether it is of the function at this place, or of a part of it behind a graph break."""
    return (found.location.file, found.location.function) == (place.file, place.function)


def _call_of_whole(series: Series, report: Report) -> Location | None:
    """The call of the function, also where the series is of what follows a break in it."""
    lead = series.lead.location
    for each in report.compilations if series.resumes else ():
        if not each.resumes and each.location.file == lead.file and each.name.rpartition(".")[2] == lead.function:
            return each.caller
    return series.first_call


def _that_left_in_eager(call: Location | None, report: Report) -> list[GraphBreak]:
    """The breaks because of which torch left the function around a call in eager, or the rest of it from there on."""
    if call is None:
        return []
    in_file = [each for each in report.compilations if each.location.file == call.file]
    around = max((each.location.line for each in in_file if each.location.line <= call.line), default=0)
    caller = call.function.rpartition(".")[2]
    tried = {
        (each.process, each.compile_id)
        for each in in_file
        # A generator or a lambda has no name that its function has.
        if each.location.line == around
        and (each.name.rpartition(".")[2] == caller or (caller.startswith("<") and caller != "<module>"))
    }
    breaks = []
    for found in report.graph_breaks:
        place = found.location
        behind = found.effect == "partly_eager" and place.file == call.file and place.line <= call.line
        left = [each.compile_id for each in found.left_in_eager]
        left += found.compile_ids if behind or found.effect == "eager" else []
        if any((found.process, compile_id) in tried for compile_id in left):
            breaks.append(found)
    return breaks


def split_off_by(place: Location, report: Report) -> list[GraphBreak]:
    """The breaks because of which torch compiles a function by itself that others call: they were met below it, as
    these were compiled.
    """
    begins: dict[str, dict[int, str]] = {}
    wholes = [each for each in report.compilations if not each.resumes]
    for each in wholes:
        begins.setdefault(each.location.file, {})[each.location.line] = each.location.function.rpartition(".")[2]

    def function_of(frame: Location) -> LineKey | None:
        named = frame.function.rpartition(".")[2]
        above = (line for line, name in begins.get(frame.file, {}).items() if line <= frame.line and name == named)
        return Location(frame.file, line).at if (line := max(above, default=0)) else None

    whole = {each.key: each.location.at for each in wholes}
    breaks = []
    for found in report.graph_breaks:
        around = list(map(function_of, found.stack))
        met_by = {whole.get((found.process, found.epoch, each)) for each in found.compile_ids} - {None, place.at}
        if any(place.at in around[around.index(root) + 1 :] for root in met_by if root in around):
            breaks.append(found)
    return breaks


def named_breaks(breaks: Sequence[GraphBreak]) -> str:
    """The breaks that have to end: "the break at train.py:8 (b1)", or several."""
    places = [f"{each.location.short} ({each.id})" for each in breaks]
    return f"the break{'' if len(places) == 1 else 's'} at {listed(places, _MOST_NAMED)}"


def _came_with(found: GraphBreak, series: Series) -> bool:
    """Whether a break was met for the first time in a recompile of the series."""
    first: dict[str, str] = {}
    for compile_id in found.compile_ids:
        first.setdefault(compile_id.partition("/")[0], compile_id)
    made = {each.key for each in series.members}
    return any((found.process, found.epoch, compile_id) in made for compile_id in first.values())


def _met(series: Series, report: Report) -> Iterator[tuple[str, int]]:
    """Inputs that no earlier version of the code had, with the dimensions as long as the size was fixed to: torch takes
    a size that it sees for the first time as fixed, also where it meets one that has become dynamic.
    """
    ids = {each.id for each in series.members}
    for size in report.forced_sizes:
        graphs = [each for each in report.graphs if each.process == size.process] if ids & {*size.recompiles} else []
        for place, graph in enumerate(graphs):
            if graph.compile_id not in size.compile_ids:
                continue
            code = graph.epoch, graph.compile_id.rpartition("/")[0]
            earlier = [each for each in graphs[:place] if (each.epoch, each.compile_id.rpartition("/")[0]) == code]
            known = {each.name for one in earlier for each in one.inputs}
            for given in graph.inputs if earlier else ():
                name = _caller_name(given.source, series.lead)
                new = given.kind == "input" and given.name not in known and name
                lengths = [str(length) for length in given.shape if new]
                yield from ((name, at) for at, length in enumerate(lengths) if length in size.values)


def _caller_name(source: str, lead: Recompile) -> str:
    """An input as the caller names it. A graph has `batch_ids` for `batch['ids']`; "" for what an object holds."""
    entry = re.match(r"\w+(?=\[')", lead.source or "")
    is_parameter = re.search(rf"\b{re.escape(source)}\b", lead.location.code or "") is not None
    if entry is not None and source.startswith(f"{entry[0]}_") and not is_parameter:
        return f"{entry[0]}['{source.removeprefix(f'{entry[0]}_')}']"
    return source if source.isidentifier() and not source.startswith("self_") else ""


# Arithmetic on one size that gives another number for another size: neither a modulo nor a division that rounds.
_ONE_VALUE = re.compile(r"[^%&|<>!=,]+ == -?[\d.]+")


def is_one_value(found: Recompile) -> bool:
    """Whether the code holds for one certain size alone, by what it computes of it: `x.size()[1] / 16 == 4`."""
    guard = found.guard.partition("  #")[0].strip()
    return found.cause == "symbolic" and "//" not in guard and _ONE_VALUE.fullmatch(guard) is not None


def _asks_about(found: Recompile, lead: Recompile) -> bool:
    """Whether another answer than one certain number set it off, to a question about the size that changed first."""
    size = lead.source if lead.cause == "shape" else None
    is_question = found.cause == "symbolic" and " == " in found.guard and not is_zero_or_one(found)
    return is_question and size is not None and size in found.guard.replace("L['", "").replace("']", "")


def _held_tensors(found: Recompile) -> list[str]:
    failed: list[Recompile | FailedGuard] = [found, *found.also]
    held = (_HELD.match(each.source or "") for each in failed if each.cause == "shape")
    return [each["name"] for each in held if each is not None and "._parameters[" not in each["name"]]


def _not_taken_again(lead: Recompile, members: Iterable[Recompile], report: Report) -> list[str]:
    """Tensors that the module did not have in its first call and that the last version took from it, where the one for
    another size does not: that call made them anew.
    """
    taken = {graph.key: {each.source for each in graph.inputs} for graph in report.graphs}
    after, before = (
        taken.get((lead.process, lead.epoch, name or ""), set()) for name in (lead.compile_id, lead.previous)
    )
    found_none = [each for each in members if each.cause == "module_attribute" and each.expected in ("None", MISSING)]
    names = {re.sub(r"\W+", "_", each.source or ""): each.source or "" for each in found_none}
    return [names[name] for name in names if lead.cause == "shape" and name in before - after]


def functions(members: Iterable[Recompile]) -> list[str]:
    """The names of the functions concerned, each once."""
    return list(dict.fromkeys(member.location.function or "a function" for member in members))


def seconds(members: Iterable[Recompile]) -> float | None:
    """What the recompiles took, where all of them were timed."""
    times = [member.seconds for member in members if member.cause != "limit"]
    known = [each for each in times if each is not None]
    return round(sum(known), 6) if known and len(known) == len(times) else None


def _code(found: Recompile | Compilation) -> _Key:
    """The code that was compiled: its versions share the number before the slash."""
    return found.process, found.epoch, found.compile_id.rpartition("/")[0]


def _of_other_modules(report: Report) -> dict[str, list[str]]:
    """Recompiles that are the first compile of another module with the same code, and what all of these are called."""
    modules: dict[_Key, dict[int, str]] = {}
    first: set[_Key] = set()
    for compilation in report.compilations:
        known = modules.setdefault(_code(compilation), {})
        if compilation.instance is not None and compilation.instance not in known:
            known[compilation.instance] = compilation.module
            first.add(compilation.key)
    return {
        each.id: list(modules[_code(each)].values())
        for each in report.recompiles
        if each.key in first and len(modules[_code(each)]) > 1
    }


def _is_of_module(found: Recompile) -> bool:
    """Whether how a module is made did not fit: its parameters and how they are quantised, its parts, its class; not a
    value that it holds.
    """
    if found.guard.startswith("___check_metadata_"):
        return True
    if found.cause == "shape" and not found.also and not (found.source or "").endswith("[0]"):
        return True  # Not of the batch: each is as wide as it is made for.
    failed: list[Recompile | FailedGuard] = [found, *found.also]
    return any(each.cause in _MADE or _PARTS.search(each.source or "") is not None for each in failed)


def _made_anew(change: list[Recompile], names: list[str]) -> bool:
    """Whether each call makes its module, which has buffers of another size and no name that is its own."""
    failed: list[Recompile | FailedGuard] = [*change, *(each for found in change for each in found.also)]
    return len({*names}) < len(names) and all("_buffers[" in (each.source or "") for each in failed)


def is_zero_or_one(lead: Recompile) -> bool:
    """Whether it is a dynamic size that was 0 or 1, of which torch always makes a constant."""
    plain_size = re.fullmatch(r"[^%*+/()]+\.size\(\)\[\d+\]", lead.source or "")
    return lead.cause == "symbolic" and plain_size is not None and lead.actual in ("0", "1")


def _add_values(values: list[str], lead: Recompile) -> None:
    """A value that came back is no new one, but the way there was one."""
    wanted = None if lead.cause == "symbolic" else lead.expected  # A condition is no value.
    # The version that the call comes nearest to need not be the newest: its value may have been long ago.
    if wanted is not None and wanted not in values:
        values.append(wanted)
    if lead.actual is not None and values[-1:] != [lead.actual]:
        values.append(lead.actual)


def _with_limits_joined(found: list[Series]) -> list[Series]:
    """Put a call that reached the limit to the series that its value belongs to."""
    joined = [one for one in found if one.lead.cause != "limit"]
    for one in [each for each in found if each.lead.cause == "limit"]:
        of_value = (one.lead.location, one.lead.source)
        home = next((each for each in joined if (each.lead.location, each.lead.source) == of_value), None)
        if home is None or one.lead.source is None:
            joined.append(one)
            continue
        home.members += one.members
        home.changes += one.changes
        _add_values(home.values, one.lead)
    return joined


def _apart_from_limits(found: list[Series]) -> tuple[list[Series], list[Limited]]:
    limits = {m.location.at for one in found for m in one.members if m.cause == "limit"}
    free: list[Series] = []
    groups: list[tuple[set[LineKey], list[Series]]] = []
    for one in found:
        places = {member.location.at for member in one.members} & limits
        if not places:
            free.append(one)
            continue
        touched = [group for group in groups if group[0] & places]
        groups = [group for group in groups if not group[0] & places]
        joined = [each for group in touched for each in group[1]]
        groups.append((places.union(*(group[0] for group in touched)), [*joined, one]))
    return free, [Limited(series) for _, series in groups]
