"""The warm-up check: drives a target over the shapes that production sends, and says what compiles after warm-up.

One process makes every call in the order of the warm-up, then all of them again in another order, as requests come:
whatever compiles there was not warmed up. A second process with the caches of the first tells what a restart costs, a
third what dynamic=True would change.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dynalyze.audit.buckets import bucketed
from dynalyze.audit.warmup_child import Child, Order, Passes, Runner
from dynalyze.audit.warmup_facts import Warmed, compiled_anything, warm_after
from dynalyze.audit_records import DynamicTrial, SecondStart, ShapeRun, Warmup
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan, Work
from dynalyze.bench.shaping import between_works
from dynalyze.capture.bench.wire import AS_WRITTEN, Configuration, WorkerRequest
from dynalyze.capture.shapes import Dim
from dynalyze.capture.warmup_wire import BETWEEN, LOOK, SERVING, WARM_UP
from dynalyze.launch.packages import folder_of
from dynalyze.targets.spec import TargetSpec

_FEW_VERSIONS = 2
"""One for the first sizes and one for all others is what automatic dynamic shapes come to."""
_LEAST_SECONDS = 5.0
"""With less time than this no further process is started."""
