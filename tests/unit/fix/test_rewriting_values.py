"""Reads, checks, masks and sizes, on source text."""

from __future__ import annotations

import pytest
import rewriting_cases
from rewriting_cases import BRANCH, ITEM, SHAPE, changed

from dynalyze.fix.sites import Value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x / x.max().item()", "y = x / x.max().detach()"),
        ("y = float(x.detach().cpu().numpy().max())", "y = x.max().detach()"),
        ("y = x[0, 0].item()", "y = x[0, 0].detach().clone()"),
        ("y = int(n) + x", "y = n.long() + x"),
        ("y = x * len(torch.nonzero(vector))", "y = x * (vector != 0).sum().detach()"),
    ],
)
def test_values_are_left_in_their_tensor(line: str, expected: str) -> None:
    assert changed(ITEM, f"{line}  # here\nreturn y")["keep-in-tensor"] == f"{expected}\nreturn y"


@pytest.mark.parametrize(
    "body",
    [
        "y = 1 / n.item()  # here\nreturn y",  # Python raises for 0.
        "k = n.item()  # here\nreturn 3 // k",
        "y = torch.arange(n.item())  # here\nreturn y",
        "y = x[: n.item()]  # here\nreturn y",
        "y = f'{n.item()}'  # here\nreturn y",
    ],
)
def test_values_that_only_python_can_have_are_still_read(body: str) -> None:
    assert "keep-in-tensor" not in changed(ITEM, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "if (x < 0).any():  # here\n    raise ValueError('negative')\nreturn x",
            "if torch.compiler.is_compiling():\n"
            "    torch._assert_async(torch.logical_not((x < 0).any()), 'negative')\n"
            "elif (x < 0).any():\n    raise ValueError('negative')\nreturn x",
        ),
        (
            "assert counts.max().item() <= size  # here\nreturn x",
            "if torch.compiler.is_compiling():\n"
            "    torch._assert_async((counts.max() <= size), 'counts.max().item() <= size')\n"
            "else:\n    assert counts.max().item() <= size\nreturn x",
        ),
        (
            "if n > 3:  # here\n    raise ValueError('large')\nelse:\n    x = x * 2\nreturn x",
            "if torch.compiler.is_compiling():\n    torch._assert_async(torch.logical_not((n > 3)), 'large')\n"
            "elif n > 3:\n    raise ValueError('large')\nx = x * 2\nreturn x",
        ),
        (
            "torch._check_tensor_all(mask)  # here\nreturn x",
            "if torch.compiler.is_compiling():\n    torch._assert_async(mask.all(), 'a check failed')\n"
            "else:\n    torch._check_tensor_all(mask)\nreturn x",
        ),
    ],
)
def test_checks_become_assertions_of_the_graph_in_compiled_code(body: str, expected: str) -> None:
    assert changed(ITEM, body)["assert-async"] == expected


def test_a_check_with_a_part_of_python_is_no_other_check() -> None:
    assert changed(BRANCH, "assert flag and (x > 0).all()  # here\nreturn x") == {}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x[mask].sum()", "y = x.masked_fill(~mask, 0).sum()"),
        ("y = x[x > 0].mean()", "y = x.masked_fill(~(x > 0), 0).sum() / (x > 0).sum()"),
        ("y = x[rows].mean(0)", "y = x.masked_fill(~rows[..., None], 0).sum(0) / rows.sum()"),
        ("y = mask[rows].any()", "y = (mask & rows[..., None]).any()"),
        ("y = half[mask].numel() == size", "y = mask.sum() == size"),
        ("check(x[rows].numel() == y.numel())", "check(rows[..., None].expand_as(x).sum() == y.numel())"),
        ("y = x[mask].shape[0] * 2", "y = mask.sum() * 2"),
        ("x[torch.where(x > y)] = 0.0", "x[x > y] = 0.0"),
        ("x[rows] = y[rows]", "x.copy_(torch.where(rows[..., None], y, x))"),
        ("x[mask] = y[mask] * 2 + n", "x.copy_(torch.where(mask, (y * 2 + n), x))"),
        ("y = x / x[mask].mean()", "y = x / (x.masked_fill(~mask, 0).sum() / mask.sum())"),
        (
            "x[rows] = self.f(y[rows]) * vector[rows].unsqueeze(-1)",
            "x.copy_(torch.where(rows[..., None], self.f(y.masked_fill(~rows[..., None], 0)) * "
            "vector.masked_fill(~rows, 0).unsqueeze(-1), x))",
        ),
        ("if mask.any():\n    x[mask] = 0.0", "x[mask] = 0.0"),
        ("if rows.sum().item() > 0:\n    x[rows] += vector", "x[rows] += vector"),
        ("x[rows] += vector", "x.copy_(torch.where(rows[..., None], x + vector, x))"),
        (
            "if x.sum() > 0:\n    y[y.sum(dim=1).eq(0)] = 1.0",
            "y.copy_(torch.where((x.sum() > 0).reshape(()) & y.sum(dim=1).eq(0)[..., None], (1.0), y))",
        ),
    ],
)
def test_masks_leave_out_in_the_place_of_choosing(line: str, expected: str) -> None:
    first, *rest = line.splitlines()
    found = changed(SHAPE, "\n".join([f"{first}  # here", *rest, "return y"])).values()
    assert next(iter(found)) == f"{expected}\nreturn y"


@pytest.mark.parametrize(
    "line",
    [
        "y = half[mask].mean()",  # The sum may overflow.
        "y = x[mask].max()",  # Raises where nothing is chosen.
        "x[mask] = y[rows]",
        "x[mask] = y",
        "x[mask] = y[mask].cumsum(0)",
        "x[mask] = 1 / y[mask]",
        "x[rows] = torch.sqrt(y[rows])",
        "x[rows] = unknown(y[rows])",
    ],
)
def test_masks_that_say_something_else_are_left_alone(line: str) -> None:
    assert changed(SHAPE, f"{line}  # here\nreturn y") == {}


def test_what_a_mask_chooses_and_only_sums_are_made_of_need_not_be_chosen() -> None:
    found = changed(SHAPE, "valid = x[mask]  # here\nreturn valid.sum() / valid.numel()")
    assert found == {"masked-variable": "return x.masked_fill(~mask, 0).sum() / mask.sum()"}
    assert changed(SHAPE, "valid = x[mask]  # here\nreturn valid.sum(), valid") == {}
    assert changed(SHAPE, "valid = x[mask]  # here\nx = x + 1\nreturn valid.sum()") == {}
    assert changed(SHAPE, "valid = x[mask]  # here\nx.add_(1)\nreturn valid.sum()") == {}


@pytest.mark.parametrize(
    "guarded",
    [
        "if mask.any():  # here\n    x[mask] = y[mask].max()",  # Raises where nothing is chosen.
        "if mask.any():  # here\n    x[rows] = 0.0",
        "if mask.any():  # here\n    x[mask] = 0.0\n    y = y + 1",
        "if mask.all():  # here\n    x[mask] = 0.0",
    ],
)
def test_a_guard_of_more_than_a_mask_stays(guarded: str) -> None:
    assert "unguarded-mask" not in changed(SHAPE, f"{guarded}\nreturn x")


def test_rows_where_something_holds_are_a_mask() -> None:
    found = changed(SHAPE, "at = torch.nonzero(vector > 2).squeeze(-1)  # here\nreturn x.index_fill(0, at, 0.0)")
    assert found == {"rows-as-mask": "at = vector > 2\nreturn x.masked_fill(at[..., None], 0.0)"}
    used_otherwise = "at, = torch.where(rows)  # here\ny = x.index_fill(0, at, 0.0)\nreturn y, at"
    assert changed(SHAPE, used_otherwise) == {}
    added = changed(SHAPE, "at, = torch.where(rows)  # here\ny.index_add_(0, at, self.f(x[at]) * vector[at, None])")
    wanted = (
        "at = rows\ny.add_((self.f(x.masked_fill(~at[..., None], 0)) * vector.masked_fill(~at, 0)[:, None])"
        ".masked_fill(~at[..., None], 0))"
    )
    assert added == {"rows-as-mask": wanted}
    guarded = "at = torch.where(rows)[0]  # here\nif len(at) > 0:\n    y.index_add_(0, at, self.f(x[at]))\nreturn y"
    wanted = "at = rows\ny.add_((self.f(x.masked_fill(~at[..., None], 0))).masked_fill(~at[..., None], 0))\nreturn y"
    assert changed(SHAPE, guarded) == {"rows-as-mask": wanted}


def test_rows_that_a_mask_chooses_and_puts_back_are_all_computed() -> None:
    body = "t = self.f(x[~rows])  # here\n{}t = self.f(t)\nx[~rows] += t.to(x.dtype)\nreturn x"
    wanted = (
        "t = self.f(x.masked_fill(rows[..., None], 0))\nt = self.f(t)\n"
        "x.copy_(torch.where((~rows)[..., None], x + (t.to(x.dtype)), x))\nreturn x"
    )
    assert changed(SHAPE, body.format("")) == {"rows-under-mask": wanted}
    assert changed(SHAPE, body.format("rows = rows & rows\n")) == {}
    assert changed(SHAPE, body.format("rows.fill_(True)\n")) == {}
    assert changed(SHAPE, body.format("seen(t)\n")) == {}
    assert changed(SHAPE, body.format("size = t.shape[0]\n")) == {}
    assert changed(SHAPE, body.format("t = torch.sqrt(t)\n")) == {}
    assert changed(SHAPE, body.format("t = torch.nn.functional.dropout(t)\n")) == {}
    scattered = "x = x.masked_scatter({}.unsqueeze(-1), self.f(x[rows]))  # here\nreturn x"
    chosen = "x = torch.where(rows[..., None], self.f(x.masked_fill(~rows[..., None], 0)), x)\nreturn x"
    assert changed(SHAPE, scattered.format("rows")) == {"rows-under-mask": chosen}
    assert changed(SHAPE, scattered.format("~rows")) == {}
    assert changed(SHAPE, "x = x.masked_scatter(rows, self.f(x[rows]))  # here\nreturn x") == {}
    two = "x[rows], y[rows] = self.f(x[rows])  # here\nreturn x"
    pair = "x_rows, y_rows = self.f(x.masked_fill(~rows[..., None], 0))\n"
    copied = "".join(f"{name}.copy_(torch.where(rows[..., None], {name}_rows, {name}))\n" for name in "xy")
    assert changed(SHAPE, two) == {"rows-under-mask": f"{pair}{copied}return x"}


def test_rows_from_elsewhere_go_to_their_places_in_compiled_code() -> None:
    given = "t = wide[mask, :] + y  # here\nwide[mask, :] = t\nreturn wide"
    head = (
        "if torch.compiler.is_compiling() and y.shape[0] != 1 and y.shape[1:] == wide.shape[2:]:\n"
        "    torch._assert_async(mask.sum() == y.shape[0], 'as many rows as the mask chooses')\n"
    )
    spread = "torch.zeros_like(wide, dtype=y.dtype).masked_scatter(mask[..., None], y)"
    kept = "else:\n    t = wide[mask, :] + y\n    wide[mask, :] = t\nreturn wide"
    put = "    wide.copy_(torch.where(mask[..., None], t, wide))\n"
    made = f"    t = wide.masked_fill(~mask[..., None], 0) + {spread}\n"
    assert changed(SHAPE, given) == {"rows-under-mask": head + made + put + kept}
    updated = changed(SHAPE, "wide[mask] += y  # here\nreturn wide")["rows-under-mask"]
    assert (
        f"    wide.copy_(torch.where(mask[..., None], wide + ({spread}), wide))\nelse:\n    wide[mask] += y" in updated
    )
    assert changed(SHAPE, given.replace("\nwide", "\nflag = 1\nwide")) == {}


EXPERTS = """
hit = torch.greater(sent.sum(dim=(-1, -2)), 0).nonzero()  # here
for e in hit:
    slot, row = torch.where(sent[e].squeeze(0))
    z = self.experts[f"expert_{e[0]}"](x[row]) * weights[row, slot, None]
    y.index_add_(0, row, z.to(x.dtype))
return y
"""
ALL_EXPERTS = """
hit = torch.greater(sent.sum(dim=(-1, -2)), 0)
for e in range(hit.shape[0]):
    sent_ = (sent[e] != 0) & hit[e]
    rows = sent_.any(0)
    z = self.experts[f"expert_{e}"](x.masked_fill(~rows[..., None], 0)) * torch.where(sent_.transpose(0, 1), \
weights.narrow(1, 0, sent_.shape[0]), 0).sum(1)[:, None]
    y.add_(z.to(x.dtype).masked_fill(~rows[..., None], 0))
return y
"""


def test_experts_compute_with_all_rows() -> None:
    found = changed(SHAPE, EXPERTS)
    assert found == {"experts-under-mask": ALL_EXPERTS.strip("\n")}
    # Of a mask that has a row more than there are experts.
    weights = EXPERTS.replace('self.experts[f"expert_{e[0]}"](x[row])', "self.f(x[row], wide[e])")
    weights = weights.replace("    slot", "    e = e[0]\n    slot").replace(".squeeze(0)", "")
    bounded = changed(SHAPE, weights)["experts-that-are-there"]
    assert "    experts = min(hit.shape[0], wide.shape[0])\n" in bounded
    assert "    torch._assert_async(~hit[experts:].any(), " in bounded and "    for e in range(experts):" in bounded
    assert "else:\n    for e in hit.nonzero():\n        e = e[0]\n" in bounded
    counted = EXPERTS.replace("  # here", "").replace("e[0]", "e").replace("for e in hit", "for e in range(size)")
    found = changed(SHAPE, counted.replace("sent[e].squeeze(0))", "sent[e])  # here"))
    assert "for e in range(size):" in found["experts-under-mask"]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("* weights[row, slot, None]", "+ weights[row, slot, None]"),
        ("z.to(x.dtype)", "z.relu()"),  # Of a row that is sent in two slots, each is one.
        ("y.index_add_(0, row, z.to(x.dtype))", "y[row] += z"),
        ("return y", "return y, z"),
        ("return y", "return y, hit"),
        ("return y", "return y, e"),
        ("    slot, row", "    seen(e)\n    slot, row"),
        ("    slot, row", "    self.count[e] += 1\n    slot, row"),
        ("y.index_add_", "size = row.numel()\n    y.index_add_"),
        ("y.index_add_", "z = torch.log(z)\n    y.index_add_"),
    ],
)
def test_experts_that_do_more_keep_their_rows(was: str, becomes: str) -> None:
    assert changed(SHAPE, EXPERTS.replace(was, becomes)) == {}


@pytest.mark.parametrize(
    ("body", "name", "expected"),
    [
        (
            "y = vector[: n.item()].sum()  # here", "masked-slice",
            "y = vector.masked_fill(~(torch.arange(vector.shape[0], device=vector.device) < "
            "torch.where(n < 0, n + vector.shape[0], n)), 0).sum()",
        ),
        ("y = x * scales[n]  # here", "index-of-tensor", "y = x * torch.stack(scales)[n.reshape(1)].squeeze(0)"),
        (
            "y = x * gains[n]  # here", "index-of-tensor",
            "y = x * torch.tensor(gains, dtype=torch.float64, device=n.device)[n.reshape(1)].squeeze(0)",
        ),
        ("a, *rest = sorted(vector)  # here", "tensor-sort",
         "a, *rest = list(vector.sort(stable=True).values.unbind())"),
        ("for row, k in zip(x, counts.tolist()):  # here\n    y = row[:k]", "elements-of-tensor",
         "for row, k in zip(x, counts):\n    y = row[:k]"),
        ("y = torch.unique(x).numel()  # here", "distinct-count",
         "y = ((x.flatten().sort().values.diff() != 0).sum() + min(x.numel(), 1))"),
    ],
)  # fmt: skip
def test_sizes_and_orders_are_said_with_tensors(body: str, name: str, expected: str) -> None:
    assert changed(ITEM, body)[name] == expected


def test_a_number_in_a_tensor_of_numbers_is_known() -> None:
    made = "sizes = torch.IntTensor([self.width, 4])\n"
    assert changed(ITEM, f"{made}y = self.f(x, sizes[0])  # here")["known-number"] == f"{made}y = self.f(x, self.width)"
    assert "known-number" not in changed(ITEM, f"{made}sizes[0] = 3\ny = self.f(x, sizes[0])  # here")
    assert "known-number" not in changed(ITEM, f"{made}sizes.add_(1)\ny = self.f(x, sizes[0])  # here")
    rebound = f"{made}self.width = 9\ny = self.f(x, sizes[0])  # here"
    assert "known-number" not in changed(ITEM, rebound)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("np.lcm(size, 6)", "math.lcm(size, 6)"),
        ("int(np.ceil(x.shape[0] / 4)) * 4", "int(math.ceil(x.shape[0] / 4)) * 4"),
        ("x.view(-1, np.prod(x.shape[1:]))", "x.view(-1, math.prod(x.shape[1:]))"),
        ("np.ceil(size / 4)", None),  # numpy's is a float.
        ("np.lcm(counts, 6)", None),
        ("int(np.round(limit, 2))", None),
    ],
)
def test_numpy_on_numbers_is_left_to_python(was: str, becomes: str | None) -> None:
    known = {**rewriting_cases.KNOWN, "np": Value("module", "numpy"), "x.shape": Value("Size")}
    found = changed(ITEM, f"y = {was}  # here", known)
    assert ("python-for-numpy" in found) is (becomes is not None)
    assert becomes is None or found["python-for-numpy"].endswith(f"y = {becomes}")


def test_a_list_of_modules_is_no_tensor_and_a_lone_number_none_either() -> None:
    assert changed(ITEM, "y = gains[n]  # here\nreturn y") == {}
    assert changed(ITEM, "y = sorted(x)  # here\nreturn y") == {}  # Rows cannot be compared.


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("f(x, causal=maybe is not None and size > 1)", "True if maybe is not None and size > 1 else False"),
        ("f(x, causal=flag)", "True if flag else False"),
        ("f(x, not size == 1)", "True if not size == 1 else False"),
        ("f(x, x > 1)", None),  # A tensor.
        ("f(x, maybe or flag)", None),  # Not always a bool.
        ("f(x, size)", None),
    ],
)
def test_a_flag_that_hangs_on_a_size_is_decided_first(was: str, becomes: str | None) -> None:
    found = changed("TypeError when making fake tensor call", f"y = {was}  # here\nreturn y")
    assert ("symbolic-flag" in found) is (becomes is not None)
    assert becomes is None or becomes in found["symbolic-flag"]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("self.encode(x, mask=mask)", "self.encode(x, mask=mask, is_causal=False)"),
        ("self.encode(x, mask)", "self.encode(x, mask, is_causal=False)"),
        ("self.encode(x)", None),
        ("self.encode(x, mask=mask, is_causal=True)", None),
        ("self.encode(x, **mask)", None),
        ("self.f(x, mask=mask)", None),
    ],
)
def test_torchs_encoder_is_told_that_the_mask_may_be_any(was: str, becomes: str | None) -> None:
    encoder = Value("nn.Module", "torch.nn.modules.transformer.TransformerEncoder")
    found = changed(ITEM, f"y = {was}  # here\nreturn y", {**rewriting_cases.KNOWN, "self.encode": encoder})
    assert ("any-mask" in found) is (becomes is not None)
    assert becomes is None or becomes in found["any-mask"]


SEGMENTS = """
parts = [
    torch.split(t, lengths.tolist(), dim=2) for t in (q, k, v)  # here
]
made = [attend(self, a, b, c, attention_mask=None, scale=a.shape[-1], is_causal=False)[0] for a, b, c in zip(*parts)]
y = torch.cat(made, dim=1)
return y
"""


def test_segments_are_attended_to_at_once_under_a_mask() -> None:
    found = changed("Data dependent operator", SEGMENTS)["segments-under-mask"]
    assert found.splitlines() == [
        "segment_ends = lengths.cumsum(0)",
        "torch._assert_async((segment_ends[-1] == q.shape[2]) & (lengths >= 0).all(), 'the lengths do not add up')",
        "segment = torch.searchsorted(segment_ends, torch.arange(q.shape[2], device=q.device), right=True)",
        "segment_mask = torch.where(segment[:, None] == segment, 0.0, float('-inf'))[None, None].to(q.dtype)",
        "y = attend(self, q, k, v, attention_mask=segment_mask, scale=q.shape[-1], is_causal=False)[0]",
        "return y",
    ]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("is_causal=False", "is_causal=True"), ("is_causal=False", "causal=False"), ("mask=None", "mask=m"),
        ("zip(*parts)", "zip(*others)"), ("(q, k, v)", "(q, k)"), ("(q, k, v)", "tensors"), ("return y", "return made"),
        ("dim=2)", "dim=d)"), ("cat(made", "cat(parts"), ("lengths.tolist()", "lengths"),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_attention_within_segments_stays(was: str, becomes: str) -> None:
    assert was in SEGMENTS
    assert "segments-under-mask" not in changed("Data dependent operator", SEGMENTS.replace(was, becomes))


@pytest.mark.parametrize(
    ("given", "asked", "becomes"),
    [
        ("attention_mask=maybe, ", "maybe is None", "attention_mask=segment_mask, scale=q.shape[-1], is_causal=False)"),
        ("**more, ", 'more.get("attention_mask") is None', '**{**more, "attention_mask": segment_mask}, '),
    ],
)
def test_a_mask_that_is_none_only_now_is_asked_for_in_compiled_code(given: str, asked: str, becomes: str) -> None:
    found = changed("Data dependent operator", SEGMENTS.replace("attention_mask=None, ", given))
    assert "segments-under-mask" not in found
    code = found["segments-in-compiled-code"]
    assert f"if torch.compiler.is_compiling() and {asked}:" in code and becomes in code
    assert "else:\n    parts = [" in code


SEGMENTS_IN_TURN = """
parts = [torch.split(t, lengths.tolist(), dim=2) for t in (q, k, v)]  # here
made, weights = [], []
for a, b, c in zip(*parts):
    one, weight = attend(self, a, b, c, attention_mask=None, is_causal=False)
    made.append(one)
    weights.append(weight)
y = torch.cat(made, dim=1)
return y, weights
"""


def test_segments_that_a_loop_attends_to_are_attended_to_at_once_in_compiled_code() -> None:
    found = changed("Data dependent operator", SEGMENTS_IN_TURN)
    assert "segments-under-mask" not in found
    lines = found["segments-in-compiled-code"].splitlines()
    compiled, as_it_was = lines[: lines.index("else:")], lines[lines.index("else:") + 1 : -1]
    assert compiled[0] == "if torch.compiler.is_compiling():" and compiled[-3:] == [
        "    one, weight = attend(self, q, k, v, attention_mask=segment_mask, is_causal=False)",
        "    weights = [weight]",
        "    y = one",
    ]
    assert [each.removeprefix("    ") for each in as_it_was] == SEGMENTS_IN_TURN.replace(
        "  # here", ""
    ).strip().splitlines()[:-1]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("    weights.append(weight)\n", "    weights.append(weight)\n    print(one)\n"),
        ("weights.append(weight)", "weights.append(lengths)"), ("made, weights = [], []", "made, weights = [], [y]"),
        ("    made.append(one)\n", ""), ("return y, weights", "return y, made"), ("cat(made", "cat(parts"),
        ("y = torch.cat", "    y = torch.cat"),
    ],
)  # fmt: skip
def test_what_a_loop_over_segments_does_beside_attention_stays(was: str, becomes: str) -> None:
    assert was in SEGMENTS_IN_TURN
    found = changed("Data dependent operator", SEGMENTS_IN_TURN.replace(was, becomes))
    assert not any(name.startswith("segments") for name in found)
