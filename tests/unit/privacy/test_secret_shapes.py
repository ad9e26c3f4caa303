"""The table of shapes against the patterns of gitleaks, which somebody else keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.privacy.masking import MASK, Masking

UPSTREAM = json.loads((Path(__file__).parents[2] / "data" / "secrets" / "gitleaks.json").read_text())["patterns"]


def masked(text: str, *, code: bool = False) -> str:
    return Masking([text]).masked(text, code=code)


@pytest.mark.parametrize("rule", UPSTREAM)
@settings(max_examples=4, deadline=None, database=None, derandomize=True)
@given(st.data())
def test_every_token_that_gitleaks_tells_by_its_shape_is_masked(rule: str, data: st.DataObject) -> None:
    token = data.draw(st.from_regex(re.compile(UPSTREAM[rule], re.ASCII), fullmatch=True)).strip(
        " \n\r\t\f\v'\"`<>=:(,)\\"
    )
    token = "".join(each for each in token if each.isprintable())
    shown = masked(f"no access with {token} at all")
    assert MASK in shown
    pieces = [piece for piece in re.split(re.escape(MASK), shown) if piece in token]
    assert max(map(len, pieces), default=0) < 16, f"{token!r} -> {shown!r}"


PLANTED = [
    "--pwd {}", "password: {}", "--hfToken={}", "Authorization: Bearer {}", "{{'Authorization': 'Bearer {}'}}",
    "https://host/x?token={}&a=b", "https://x.blob.core.windows.net/c?sv=2020&sig={}&se=1", '{{"password": "{}"}}',
    "login(token='{}')", "redis://:{}@host:6379/0", "https://{}@host/x", "https://user:{}@host/x", "HF-TOKEN: {}",
    "DB_PASSWORD={}", "x-api-key: {}", "['--api-key', '{}']", "L['self'].api_key == '{}'",
    "password=ConstantVariable(str: '{}')", "set_password('{}')", "Cookie: session={}; path=/", "Pwd={};Database=x",
    "os.environ['HF_TOKEN'] = '{}'", '{{\\"password\\": \\"{}\\"}}', "https%3A%2F%2Fme%3A{}%40host",
    "AccountName=x;AccountKey={};EndpointSuffix=core", "aws_secret_access_key = {}", "self.token: str = '{}'",
    "db_pass='{}'", "clientSecret: {}", "postgresql+psycopg2://me:{}@host/db",
]  # fmt: skip


@pytest.mark.parametrize("form", PLANTED)
@pytest.mark.parametrize("secret", ["zq7ue-hunter2X9", "aB3dE5fG7hJ9kL1m"])
def test_what_stands_under_the_name_of_a_secret_is_masked(form: str, secret: str) -> None:
    text = form.format(secret)
    assert secret not in masked(text), text
    assert "***" in masked(text)


def test_tokens_of_ours_to_come_are_masked_by_their_prefix() -> None:
    """Of lengths that no detector has yet, and cut short by a message."""
    for prefix in ("ghs_", "hf_", "npm_", "gsk_", "nvapi-", "sk-proj-", "sk-ant-", "glpat-", "dckr_pat_", "dop_v1_"):
        assert masked(f"401 for {prefix}zqzqzqzqzqzqzqzqzq77") == f"401 for {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "tokens=128", "max_tokens=5", "--tokenizer gpt2", "L['self'].key == 'value'", "key=value", "pad_token='pad'",
        "eos_token='</s>'", "torch 2.13.0a0+git0123456789abcdef0123456789abcdef01234567", "float32[2, 8]",
        "4b1d456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "token = tokens[0]", "for token in tokens:",
        "fxgraph fckmzzv3hqkg3xq7nqkh2ug6q4klswdvp2ojvhb7mzzf5zq7", "hf_hub_download_something_long_name",
        "cache_key='abcdefgh12345678'", "invalid token: unexpected end of input", "git@github.com:x/y.git",
        "http://localhost:8080/@x", "author=Ada", "custom_pass=None", "key: query @ key.transpose(0, 1)", "x = a @ b",
        "parser.add_argument('--token', type=str, default=None)", "llama-v1.0-instruct-chat-large",
        "[--token TOKEN] [--password PASSWORD]", "token_type_ids=[0, 1]", "sk-learn-contrib-something", "ssh://git@h/x",
        "usage: --password-file /etc/passwords", "dims=('batch', 'token', 'head')", "self.fm2_feature_map_block",
        "L['tokens'] == 'a long enough prompt 1234'", "num_key_value_heads=8", "self.token_embedding(ids)",
        "AutoTokenizer.from_pretrained('meta-llama/Llama-3.1-8B')", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert masked(text) == text
    assert masked(text, code=True) == text


def test_a_name_that_is_passed_on_is_a_secret_in_a_message_and_none_in_code() -> None:
    assert masked("login(password=password, token=token)", code=True) == "login(password=password, token=token)"
    assert masked("no login with password=hunter2") == f"no login with password={MASK}"
