"""What may be left out of compiled code: expressions that only read, and calls that only report."""

from __future__ import annotations

import libcst as cst

from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.rewriting.tensors import looks_like_tensor
from dynalyze.fix.sites import Site, walk

_PROGRESS = ("tqdm.", "rich.progress.", "progressbar.", "alive_progress.", "transformers.utils.logging.tqdm")
_REPORTING = ("wandb.", "mlflow.", "tensorboardX.", "torch.utils.tensorboard.", "comet_ml.", "neptune.", "clearml.",
              "aim.", "matplotlib.", "visdom.")  # fmt: skip
_LOGGING = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log", "warning_once", "info_once",
            "warning_advice", "success", "trace")  # fmt: skip
_LOGGERS = ("logger", "log", "logging", "_logger", "LOGGER", "LOG", "_LOGGER")
_OF_LOGGERS = ("logging.", "loguru.", "structlog.", "absl.logging.", "transformers.utils.logging.",
               "diffusers.utils.logging.", "accelerate.logging.", "datasets.utils.logging.", "rich.")  # fmt: skip
_NOTHING_LOST = ("gc.collect", "breakpoint", "pdb.set_trace", "time.sleep", "torch.cuda.synchronize",
                 "torch.cuda.empty_cache", "torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range_pop",
                 "torch.cuda.nvtx.mark", "torch.cuda.reset_peak_memory_stats")  # fmt: skip
"""What a program's results do not hang on."""

# Known by their names alone, of whatever they are called on, unless that is known to be of the user's own code.
_READING = frozenset({
    "item", "tolist", "size", "dim", "numel", "mean", "sum", "max", "min", "std", "var", "norm", "any", "all", "abs",
    "shape", "detach", "cpu", "numpy", "float", "int", "bool", "str", "len", "repr", "format", "round", "type", "tuple",
    "list", "dict", "set", "join", "getattr", "hasattr", "isinstance", "sorted", "enumerate", "range", "zip", "items",
    "keys", "values", "named_parameters", "parameters", "named_buffers", "named_modules", "modules", "state_dict",
    "upper", "lower", "strip", "replace", "split", "startswith", "endswith", "isEnabledFor", "isnan", "isinf",
    "isfinite", "id", "hash", "total_seconds", "isoformat", "strftime", "elapsed_time", "bytes", "encode", "decode",
    "hexdigest", "digest", "is_floating_point", "element_size", "data_ptr", "stride", "callable", "vars", "divmod",
    "pow", "ord", "chr", "hex", "reversed",
})  # fmt: skip
_READING_FUNCTIONS = (
    "math.", "time.", "datetime.", "numpy.", "os.getpid", "posix.getpid", "os.environ", "os.getenv", "os.path.",
    "sys.getsizeof", "inspect.", "traceback.format", "platform.", "socket.gethostname", "psutil.", "resource.",
    "uuid.", "torch.",
)  # fmt: skip
_CHANGING = frozenset({
    "backward", "manual_seed", "seed", "bernoulli", "multinomial", "normal", "rand", "randn", "randint", "randperm",
    "rand_like", "randn_like", "randint_like", "dropout", "register_hook", "retain_grad", "set_default_dtype",
    "set_num_threads", "set_grad_enabled", "set_rng_state", "sleep", "empty_cache", "poisson", "fork_rng",
    "graph_break", "feature_dropout", "alpha_dropout", "rrelu", "gumbel_softmax", "dropout1d", "dropout2d", "dropout3d",
    "put", "copyto", "place", "putmask", "shuffle", "tzset", "save", "savez", "savetxt", "set_printoptions", "compile",
    "fill_diagonal", "grad", "step", "sample", "rsample", "load_state_dict", "add_hook",
})  # fmt: skip
_NOT_READING = ("torch.nn.Module", "torch.nn.modules", "numpy.random.", "torch._ops.", "torch.ops.", "torch.optim.")
_USED_UP = ("generator", "zip", "map", "filter", "enumerate", "reversed", "chain", "islice", "DataLoader", "count")
"""Types of what can be read only once, beside those that are named as iterators."""
_BUILT_IN = ("builtins.", "str.", "list.", "dict.", "tuple.", "set.", "float.", "int.", "bytes.", "TensorBase.",
             "Tensor.", "torch.", "numpy.", "ndarray.", "_hashlib.", "hashlib.", "math.", "time.", "datetime.",
             "logging.", "collections.", "OrderedDict.")  # fmt: skip


def only_reads(site: Site, node: cst.CSTNode) -> bool:
    """Whether an expression changes nothing, as far as is known: no assignment, no call that may have effects, no
    random number.
    """
    for each in walk(node):
        if isinstance(each, cst.NamedExpr | cst.Await | cst.Yield):
            return False
        if isinstance(each, cst.Name | cst.Attribute) and _is_used_up(site, each):
            return False
        if isinstance(each, cst.Call) and not _only_reads(site, each):
            return False
    return True


def _only_reads(site: Site, call: cst.Call) -> bool:
    name, known = called(call), function_name(site, call)
    if not name or name in _CHANGING or (name.endswith("_") and not name.endswith("__")):
        return False
    if (value := site.value(call.func)) is not None and value.kind == "nn.Module":
        return False
    if known:
        if known.startswith("torch.distributed."):
            return name in ("get_rank", "get_world_size", "is_initialized", "is_available")
        if known.startswith(_READING_FUNCTIONS):
            return not known.startswith(_NOT_READING) and not name.startswith(("set_", "register_"))
        return name in _READING and (known.startswith(_BUILT_IN) or "." not in known)
    if isinstance(call.func, cst.Attribute) and looks_like_tensor(site, call.func.value):
        return True
    return name in _READING or site.code(call.func).startswith(("time.", "math."))


def _is_used_up(site: Site, node: cst.CSTNode) -> bool:
    value = site.value(node)
    return value is not None and (value.kind in _USED_UP or value.kind.endswith("iterator"))


def function_name(site: Site, call: cst.Call) -> str:
    """The called function, by module and qualified name; "" if unknown."""
    value = site.value(call.func)
    return value.name if value is not None and value.kind in ("function", "class") else ""


def effects_of(site: Site, call: cst.Call) -> tuple[str, ...] | None:
    """The kinds of side effects of a call that only reports something, or is about memory and debugging; None for any
    other call. Its arguments are not looked at.
    """
    name, known, text = called(call), function_name(site, call), site.code(call.func)
    if text == "print" and known in ("", "builtins.print"):
        return ("printed",)
    if text in ("sys.stdout.write", "sys.stderr.write", "sys.stdout.flush", "sys.stderr.flush"):
        return ("printed",)
    if known.startswith((*_PROGRESS, "rich.")):
        return ("printed",)
    if text in ("warnings.warn", "warnings.warn_explicit") or known in ("_warnings.warn", "warnings.warn"):
        return ("warned",)
    if known.startswith(_REPORTING):
        return ("logged", "printed", "opened", "connected to", "ran")
    if known in _NOTHING_LOST or text in _NOTHING_LOST or known.endswith((".set_trace", "builtins.breakpoint")):
        return ()
    if name in _LOGGING and _of_logger(call, known):
        return ("logged", "printed")
    return None


def _of_logger(call: cst.Call, known: str) -> bool:
    """Whether the method belongs to a logger: a user's own class may keep state."""
    if known:
        return known.startswith(_OF_LOGGERS)
    if not isinstance(call.func, cst.Attribute):
        return False
    of = call.func.value
    last = of.attr.value if isinstance(of, cst.Attribute) else of.value if isinstance(of, cst.Name) else ""
    return last in _LOGGERS
