"""`import dynalyze.auto` at the top of a program: it is watched where DYNALYZE_WATCH names a folder, see `watch`."""

from dynalyze.watch.child.start import begin

begin()
