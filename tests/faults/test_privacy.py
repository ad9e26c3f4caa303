"""Faults of privacy: what is planted, in which output, and that it does not come out; and what has to stay readable.

The real program runs a few times, over programs in which everything is planted at once; each row looks at one plant.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
from program import dynalyze, in_process
from shared_runs import made_once

FILES = {
    "--json": "r.json", "--html": "r.html", "--sarif": "r.sarif", "--junit": "r.xml", "--markdown": "r.md",
    "--chrome-trace": "t.json", "--graphml": "g.graphml", "--bug-report": "bug.md",
}  # fmt: skip
_EMBEDDED = re.compile(r'(<script id="report-json"[^>]*>)([^<]+)')
_TAG = re.compile(r"</?(?:span|mark|b|code|sub|wbr)\b[^>]*>")


class Written(NamedTuple):
    """All that one command wrote, by the name of the output."""

    texts: dict[str, str]

    def readable(self) -> dict[str, str]:
        return {name: _readable(text) for name, text in self.texts.items()}

    def holding(self, pattern: str) -> list[str]:
        found = re.compile(pattern, re.IGNORECASE)
        return [name for name, text in self.readable().items() if found.search(text)]


def _readable(text: str) -> str:
    """What a reader gets out of it: also what is packed into the page, cut up by colours or written as entities."""
    opened = _EMBEDDED.sub(lambda found: gzip.decompress(base64.b64decode(found[2])).decode(), text)
    plain = html.unescape(_TAG.sub("", opened))
    return "\n".join((opened, plain, unquote(plain)))


def run(
    folder: Path, command: str, *words: str, env: dict[str, str] | None = None, files: bool = True, here: bool = False
) -> Written:
    """Run a command with every output that it has; the program's arguments stand behind `--`."""
    own, dashes, rest = (list(words), [], []) if "--" not in words else _cut(list(words))
    asked = [each for option in FILES.items() for each in option] if files else ["--json", "r.json"]
    ended = (in_process if here else dynalyze)(command, *own, *asked, *dashes, *rest, cwd=folder, env=env)
    names = FILES.values() if files else ["r.json"]
    assert (folder / "r.json").exists(), ended.stderr[-2000:]
    texts = {name: (folder / name).read_text(encoding="utf-8", errors="replace") for name in names}
    return Written({**texts, "terminal": ended.stdout})


def _cut(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    at = words.index("--")
    return words[:at], ["--"], words[at + 1 :]


# ---- secrets, with no option at all ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Secret:
    """One secret that a program has: `said` is what its exception says, or its arguments, or a line of its code."""

    id: str
    value: str
    said: str = ""
    arguments: tuple[str, ...] = ()
    line: str = ""
    variable: str = ""


_HEXADECIMAL = "0123456789abcdef0123456789abcdef01234594"
SECRETS = [
    Secret("option-pwd", "zqs-pwd-71x", arguments=("--pwd", "zqs-pwd-71x")),
    Secret("option-camel", "zqs-camel-72x", arguments=("--hfToken=zqs-camel-72x",)),
    Secret("option-kebab", "zqs-kebab-73x", arguments=("--api-key", "zqs-kebab-73x")),
    Secret("option-header", "zqs-header-74x", arguments=("-H", "Authorization: Bearer zqs-header-74x")),
    Secret("option-url", "zqs-argurl-75x", arguments=("--url", "https://host/x?token=zqs-argurl-75x&a=b")),
    Secret("option-json", "zqs-argjson-76x", arguments=("--config", '{"password": "zqs-argjson-76x"}')),
    Secret("variable-like", "zqs-upper-77x", arguments=("DB_PASSWORD=zqs-upper-77x",)),
    Secret("quoted-argument", "zqs-quoted-78x", arguments=("--secret", "zqs-quoted-78x"), said="bad zqs-quoted-78x!"),
    Secret("said-bearer", "zqs-bearer-79x", said="Authorization: Bearer zqs-bearer-79x"),
    Secret("said-basic", "enFzOmJhc2ljLTgweA==", said="{'Authorization': 'Basic enFzOmJhc2ljLTgweA=='}"),
    Secret("said-redis", "zqs-redis-81x", said="redis://:zqs-redis-81x@host:6379/0"),
    Secret("said-token-url", "zqstokenurl82x", said="fatal: https://zqstokenurl82x@host/x.git"),
    Secret("said-at-in-password", "zqs-at@-83x", said="postgres://me:zqs-at@-83x@host/db"),
    Secret("said-sas", "zqsSig84x%2Fab", said="https://a.blob.core.windows.net/c?sv=1&sig=zqsSig84x%2Fab&se=2"),
    Secret("said-azure", "zqsAzure85x/ab+c==", said="AccountName=a;AccountKey=zqsAzure85x/ab+c==;EndpointSuffix=x"),
    Secret("said-repr", "zqs-repr-86x", said="run(['curl', '--password', 'zqs-repr-86x'])"),
    Secret("said-ghs", "ghs_zqzqzqzqzqzqzqzqzq87", said="401 for ghs_zqzqzqzqzqzqzqzqzq87"),
    Secret("said-nvapi", "nvapi-zqzq_zqzqzqzq-zqzqzq88", said="401 for nvapi-zqzq_zqzqzqzq-zqzqzq88"),
    Secret("said-gsk", "gsk_zqzqzqzqzqzqzqzqzq89", said="401 for gsk_zqzqzqzqzqzqzqzqzq89"),
    Secret("said-npm", "npm_zqzqzqzqzqzqzqzqzq90", said="401 for npm_zqzqzqzqzqzqzqzqzq90"),
    Secret("said-stripe", "sk_live_zqzqzqzqzqzqzqzq91", said="401 for sk_live_zqzqzqzqzqzqzqzq91"),
    Secret("said-aws", "AKIAZQZQZQZQZQZQZQ92", said="401 for AKIAZQZQZQZQZQZQZQ92"),
    Secret("said-webhook", "T0ZQ/B0ZQ/zqzq93", said="https://hooks.slack.com/services/T0ZQ/B0ZQ/zqzq93"),
    Secret("said-wandb", _HEXADECIMAL, said=f"wandb login {_HEXADECIMAL}"),
    Secret("said-pem", "MIIEzqzq95", said="-----BEGIN RSA PRIVATE KEY-----\nMIIEzqzq95\n-----END RSA PRIVATE KEY-----"),
    Secret("environment", "zqs-environment-96x", variable="MY_SERVICE_TOKEN", said="refused: zqs-environment-96x"),
    Secret("line-of-code", "zqs-literal-97x", line='login(token="zqs-literal-97x")'),
    Secret("line-with-key", "hf_zqzqzqzqzqzqzqzqzq98", line='print("hf_zqzqzqzqzqzqzqzqzq98")'),
    Secret("guard", "zqs-guard-99x", line='y = y + len(self.api_key) * (self.api_key == "zqs-guard-99x")'),
]  # fmt: skip
# What is in the same texts and is no secret: it has to come out as it is.
STAYS = [
    "tokens=128", "--max-tokens", "4096", "--tokenizer", "gpt2-zq", "pad_token='[PAD]'",
    "2.13.0+git0123456789abcdef0123", "invalid token: unexpected", "shape [2, 8]", "git@github.com:zq/x.git",
]  # fmt: skip
_KEPT = (
    "tokens=128 pad_token='[PAD]' 2.13.0+git0123456789abcdef0123 invalid token: unexpected end, "
    "shape [2, 8] git@github.com:zq/x.git"
)
LEAKY = """\
import sys
import torch
from torch import nn

def login(token):
    print("in")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.api_key = "zqs-guard-99x"

    def forward(self, x):
        y = x.sin()
        {lines}
        return y

torch.compile(Net(), backend="eager")(torch.ones(2))
raise ValueError({said!r})
"""


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Written:
    def made(folder: Path) -> Written:
        lines = "\n        ".join(each.line for each in SECRETS if each.line)
        said = "; ".join([*(each.said for each in SECRETS if each.said), _KEPT])
        (folder / "model.py").write_text(LEAKY.format(lines=lines, said=said))
        arguments = [argument for each in SECRETS for argument in each.arguments]
        env = {each.variable: each.value for each in SECRETS if each.variable}
        kept = ("--max-tokens", "4096", "--tokenizer", "gpt2-zq")
        return run(folder, "explain", "model.py", "--no-bench", "--", *arguments, *kept, env=env)

    return made_once(tmp_path_factory, "faults-secrets", made)


def test_no_secret_is_in_any_output_and_what_is_none_stays(leaky: Written) -> None:
    shown = {name: text.lower() for name, text in leaky.readable().items()}
    assert [(each.id, name) for each in SECRETS for name, text in shown.items() if each.value.lower() in text] == []
    report = json.loads(leaky.texts["r.json"])
    told = " ".join([report["outcome"]["message"], *report["target"]["arguments"]])
    assert [text for text in STAYS if text not in told] == []


def test_the_run_with_the_secrets_tells_all_else(leaky: Written) -> None:
    report = json.loads(leaky.texts["r.json"])
    assert report["outcome"]["status"] == "failed"
    assert len(report["graph_breaks"]) >= 2
    assert report["outcome"]["message"].count("***") >= 15


# ---- --redact --------------------------------------------------------------------------------------------------

USER = "zquser"
NAMED = {
    "cache-folder": "/tmp/torchinductor_{0}/ab/c.py", "job": "/data/job_{0}_1/x.bin", "file-url": "file:///home/{0}/x",
    "percent-encoded": "x%2Fhome%2F{0}%2Fy", "windows": "C:\\Users\\{0}\\x", "windows-repr": "C:\\\\Users\\\\{0}\\\\x",
    "tilde": "~{0}/x", "capitals": "/DATA/{1}/x", "e-mail": "{0}@corp.example.com",
    "e-mail-part": "a.{0}@corp.example.com",
    "digits": "/scratch/{0}01/x",
    "dotted": "/scratch/{0}.bak/x", "assignment": "user={0}", "word": "made by {0}.",
    "quoted": "owner '{0}'", "escaped": "a\\n{0} b", "class": "{2}Net", "ssh": "ssh://{0}@host.example/x",
}  # fmt: skip
NAMED_PROGRAM = """\
import torch

def {0}_step(x, path):
    print("{0}@corp.example.com")  # by {0}
    return torch.softmax(x, -1) + len(path)

step = torch.compile({0}_step, backend="eager")
for path in ("/scratch/{0}/one", "/scratch/{0}/two", "three"):
    step(torch.ones(3), path)
raise ValueError({1!r})
"""


class AtHome(NamedTuple):
    folder: Path
    env: dict[str, str]
    whole: Written
    redacted: Written


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> AtHome:
    def made(folder: Path) -> AtHome:
        temporary = folder / f"job_{USER}_7"
        home = folder / USER.upper()
        env = {"USER": USER, "LOGNAME": USER, "HOME": str(home), "TMPDIR": str(temporary)}
        said = " ; ".join(each.format(USER, USER.upper(), USER.capitalize()) for each in NAMED.values())
        both = []
        for number, options in enumerate([(), ("--redact",)]):
            place = folder / f"{number}" / f"{USER}_work"
            for each in (place, temporary, home):
                each.mkdir(parents=True, exist_ok=True)
            (place / f"model_{USER}.py").write_text(NAMED_PROGRAM.format(USER, said))
            words = (f"model_{USER}.py", "--no-bench", *options, "--", "--out", f"/data/{USER}/out")
            both.append(run(place, "explain", *words, env=env))
        return AtHome(folder, env, *both)

    return made_once(tmp_path_factory, "faults-names", made)


def test_a_redacted_run_names_the_user_in_no_output(at_home: AtHome) -> None:
    assert {*at_home.whole.holding(USER), "t.json"} == {*FILES.values(), "terminal"}
    assert at_home.redacted.holding(f".{{0,60}}{USER}.{{0,20}}") == []


def test_a_name_is_told_in_each_form_before_it_is_redacted(at_home: AtHome) -> None:
    """Else that it is not there afterwards would say nothing."""
    said = json.loads(at_home.whole.texts["r.json"])["outcome"]["message"]
    assert [form for form in NAMED.values() if form.format(USER, USER.upper(), USER.capitalize()) not in said] == []


@pytest.mark.parametrize("command", ["report", "diff"])
def test_other_commands_redact_too(at_home: AtHome, tmp_path: Path, command: str) -> None:
    (tmp_path / f"{USER}.json").write_text(at_home.whole.texts["r.json"])
    words = {"report": (f"{USER}.json",), "diff": (f"{USER}.json", f"{USER}.json")}[command]
    (tmp_path / "out").mkdir()
    env = at_home.env | {"TMPDIR": str(tmp_path), "CXX": f"/opt/{USER}/g++"}
    if command == "report":
        written = run(tmp_path, command, *words, "--redact", env=env)
    else:
        written = run(tmp_path, command, *words, "--redact", env=env, files=False)
    assert written.holding(USER) == []


@pytest.mark.slow
def test_a_sweep_redacts_its_rows_and_the_names_of_its_files(at_home: AtHome, tmp_path: Path) -> None:
    (tmp_path / f"{USER}.py").write_text(NAMED_PROGRAM.format(USER, "none"))
    (tmp_path / "broken.py").write_text(f"raise OSError('/data/{USER}/x token=zqs-sweep-1x')\n")
    Path(at_home.env["TMPDIR"]).mkdir(exist_ok=True)
    words = (f"{USER}.py", "broken.py", "--redact", "--out", "made")
    written = run(tmp_path, "sweep", *words, env=at_home.env, files=False)
    below = [path for path in (tmp_path / "made").rglob("*") if path.is_file()]
    texts = {str(path.relative_to(tmp_path)): path.read_text(errors="replace") for path in below}
    for words_of_it in (USER, "zqs-sweep-1x"):
        assert Written({**texts, **written.texts}).holding(words_of_it) == []
    assert [name for name in texts if USER in name] == []
    rows = json.loads(written.texts["r.json"])["items"]
    assert all((tmp_path / "made" / row["page"]).is_file() for row in rows), "the links of the index hold"


ORDINARY = ["root", "test", "user", "torch", "model", "max", "a", "graph", "linear", "x"]


@pytest.mark.parametrize("user", ORDINARY)
def test_a_user_called_like_a_word_of_the_report_leaves_it_readable(at_home: AtHome, tmp_path: Path, user: str) -> None:
    whole = at_home.whole.texts["r.json"].replace(USER, "kim").replace(USER.upper(), "KIM")
    (tmp_path / "saved.json").write_text(whole)
    env = {"USER": user, "LOGNAME": user, "HOME": f"/home/{user}"}
    written = run(tmp_path, "report", "saved.json", "--redact", env=env, here=True)
    before, after = json.loads(whole), json.loads(written.texts["r.json"])
    for name in ("graph_breaks", "recompiles", "findings", "settings", "environment"):
        assert _without_paths(after[name]) == _without_paths(before[name]), name


def _without_paths(value: object) -> object:
    """The places in libraries stay too; a folder of the run may be called like the user."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in ("fingerprint", "variables")}
        return {key: _without_paths(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    if isinstance(value, str) and value.startswith("/") and "site-packages" not in value:
        return value.rpartition("/")[2]
    return value


# ---- --no-source -----------------------------------------------------------------------------------------------


def test_no_source_of_a_run_with_everything_planted(at_home: AtHome, tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(at_home.whole.texts["r.json"])
    written = run(tmp_path, "report", "saved.json", "--no-source", here=True)
    assert written.holding(r"corp\.example|/scratch/|# by|len\(path\)|torchinductor_z") == []
    assert json.loads(written.texts["r.json"])["graph_breaks"]
