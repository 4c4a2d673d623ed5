"""`podfit fix` changes the lines that it must, and no other."""
# ruff: noqa: E501 - a text and its replacement are on one line each

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube import manifest
from podfit.kube.patch import Edit, apply, json_patch
from podfit.kube.path import FieldPath
from podfit.report.rewrite import diff, rewrite
from podfit.vllm.facts import Facts


def edited(text: str, path: str, value: Any = None, op: Any = "set") -> str:
    return rewrite(text, [(0, [Edit(FieldPath.parse(path), value, op)])])


@pytest.mark.parametrize(
    ("before", "path", "value", "op", "after"),
    [
        pytest.param("a: 1 # one\n# end\n", "b", "8Gi", "set", "a: 1 # one\nb: 8Gi\n# end\n", id="a key, before comments"),
        pytest.param("a: 1", "b", 2, "set", "a: 1\nb: 2", id="no line break at the end"),
        pytest.param("a: 1\r\nc: 3\r\n", "b", {"x": 1}, "set", "a: 1\r\nc: 3\r\nb:\r\n  x: 1\r\n", id="CRLF"),
        pytest.param("a: '1' # quoted\n", "a", "2", "set", "a: '2' # quoted\n", id="quotes stay"),
        pytest.param('a: "x"\n', "a", "y z", "set", 'a: "y z"\n', id="double quotes stay"),
        pytest.param("a: x\n", "a", "8080", "set", "a: '8080'\n", id="a text that looks like a number"),
        pytest.param("a:\n", "a", {"b": [1]}, "set", "a:\n  b:\n    - 1\n", id="an empty value becomes an object"),
        pytest.param("a: null\n", "a.b", 1, "set", "a:\n  b: 1\n", id="null becomes an object"),
        pytest.param("a: {}\n", "a.b", "c", "set", "a: {b: c}\n", id="an empty flow object"),
        pytest.param("a: {x: 1} # flow\n", "a.b", 2, "set", "a: {x: 1, b: 2} # flow\n", id="a flow object"),
        pytest.param("a: |\n  x \\\n    -b\n  y\nc: 1\n", "a", (" \\\n  -b", ""), "swap", "a: |\n  x\n  y\nc: 1\n", id="lines of a block scalar"),
        pytest.param("a:\n- |-  # why\n    x -b\n    y\n- z\n", "a[0]", ("-b", "-c"), "swap", "a:\n- |-  # why\n    x -c\n    y\n- z\n", id="a block scalar in a list"),
        pytest.param("a: >-\n  x\n  -b\nc: 1\n", "a", (" -b", ""), "swap", "a: |-\n  x\nc: 1\n", id="a folded one becomes literal"),
        pytest.param("a: |\r\n  x -b\r\n  y\r\n", "a", (" -b", ""), "swap", "a: |\r\n  x\r\n  y\r\n", id="a block scalar with CRLF"),
        pytest.param("a: |\n  x\n", "a", "y", "set", "a: |-\n  y\n", id="a block scalar without its last line break"),
        pytest.param("a: |\n  x\n", "a", " y\n", "set", 'a: " y\\n"\n', id="a block scalar that would begin with a blank"),
        pytest.param('a: "x -b" # c\n', "a", (" -b", ""), "swap", 'a: "x" # c\n', id="part of a quoted text"),
        pytest.param("a: [x, v, z]\n", "a", (["x", "v"], ["w"]), "swap", "a: [w, z]\n", id="a run of a flow list"),
        pytest.param("a:\n- x # 1\n- v # 2\n- z # 3\n", "a", (["v"], []), "swap", "a:\n- x # 1\n- z # 3\n", id="a run of a list, comments kept"),
        pytest.param("a: [x, y]\n", "a", "z", "append", "a: [x, y, z]\n", id="a flow list"),
        pytest.param("a: [\n  x,\n  y,\n]\n", "a", "z", "append", "a: [\n  x,\n  y,\n  z,\n]\n", id="a flow list over lines"),
        pytest.param("a:\n- x\n- y\nb: 1\n", "a", "z", "append", "a:\n- x\n- y\n- z\nb: 1\n", id="dashes below the key"),
        pytest.param("a:\n  - n: x\n", "a", {"b": "y", "m": 1}, "append", "a:\n  - n: x\n  - b: 'y'\n    m: 1\n", id="dashes indented"),
        pytest.param("a:\n-   n: x\n", "a", {"b": "1e3", "m": 1}, "append", "a:\n-   n: x\n-   b: '1e3'\n    m: 1\n", id="wide dashes"),
        pytest.param("a:\n    b: 1\n", "a.c", {"d": {"e": 1}}, "set", "a:\n    b: 1\n    c:\n        d:\n            e: 1\n", id="four spaces"),
        pytest.param("a:\n- x: |\n    one\n    two\n\n- y\n", "a[0].z", 1, "set", "a:\n- x: |\n    one\n    two\n  z: 1\n\n- y\n", id="after a block of text"),
        pytest.param("a:\n  s: |+\n    one\n\nb: 1\n", "a.z", 1, "set", "a:\n  s: |+\n    one\n\n  z: 1\nb: 1\n", id="after a block that keeps its blank lines"),
        pytest.param("a: 1\nb: 2 # two\nc: 3\n", "b", None, "remove", "a: 1\nc: 3\n", id="a key goes with its line"),
        pytest.param("- a: 1\n  b: 2\n", "[0].a", None, "remove", "- b: 2\n", id="the first key of an item goes"),
        pytest.param("a: [x, y, z]\n", "a[1]", None, "remove", "a: [x, z]\n", id="an item of a flow list goes"),
        pytest.param("a: [x, y]\n", "a[1]", None, "remove", "a: [x]\n", id="the last item of a flow list goes"),
        pytest.param("a:\n- x\n- y\n", "a[0]", None, "remove", "a:\n- y\n", id="an item goes"),
        pytest.param("a:\n  b: 1\n", "a.b", None, "remove", "a:\n  {}\n", id="the only key goes"),
        pytest.param("a:\n  b: 1 # stays\n  c: 2\n", "a", {"b": 1, "c": 3}, "set", "a:\n  b: 1 # stays\n  c: 3\n", id="an object is compared"),
        pytest.param("x: &x {b: 1}\na: *x\n", "a.c", 2, "set", "x: &x {b: 1}\na:\n  b: 1\n  c: 2\n", id="an alias is written out"),
        pytest.param("x: &x\n  b: {c: 1}\na:\n  <<: *x\n  d: 1\n", "a.b.e", 2, "set", "x: &x\n  b: {c: 1}\na:\n  <<: *x\n  d: 1\n  b:\n    c: 1\n    e: 2\n", id="a merge key's value is written out"),
        pytest.param("a: 1\na: 2\n", "a", 3, "set", "a: 1\na: 3\n", id="of equal keys the last"),
    ],
)  # fmt: skip
def test_only_what_is_asked_for_changes(before: str, path: str, value: Any, op: Any, after: str) -> None:
    assert edited(before, path, value, op) == after


def test_an_anchor_that_others_share_is_not_changed() -> None:
    with pytest.raises(ValueError, match="anchor"):
        edited("x: &x {b: 1}\na: *x\n", "x.c", 2)


def test_both_users_of_an_anchor_may_change_together() -> None:
    text = "x: &x {b: 1}\na: *x\n"
    edits = [Edit(FieldPath((name, "c")), 2) for name in "xa"]

    assert rewrite(text, [(0, edits)]) == "x: &x {b: 1, c: 2}\na: *x\n"


def test_only_the_document_that_is_meant_changes() -> None:
    text = "# head\n---\na:   1\n---\na:   1\n"

    assert rewrite(text, [(1, [Edit(FieldPath(("b",)), 2)])]) == "# head\n---\na:   1\n---\na:   1\nb: 2\n"


def test_json_keeps_its_form() -> None:
    text = json.dumps({"a": {"b": [1, 2]}, "c": "x"}, indent="\t")

    after = edited(text, "a.d", {"e": [1]})

    assert json.loads(after) == {"a": {"b": [1, 2], "d": {"e": [1]}}, "c": "x"}
    assert set(text.splitlines()) - set(after.splitlines()) == {"\t\t]"}  # the comma after it


def test_what_is_no_yaml_is_an_error() -> None:
    with pytest.raises(ValueError, match="list to append"):
        edited("a: {b: 1}\n", "a", 1, "append")


def test_a_diff_names_the_file_and_a_missing_line_break() -> None:
    shown = diff("a: 1", "a: 2", "pod.yaml")

    assert shown.startswith("--- a/pod.yaml\n+++ b/pod.yaml\n")
    assert "-a: 1\n\\ No newline at end of file\n+a: 2\n" in shown


def test_only_a_line_feed_ends_a_line_of_a_diff() -> None:
    shown = diff('a: "b\u2028c"\nd: 1\n', 'a: "b\u2028c"\nd: 2\n', "pod.yaml")

    assert [line[0] for line in shown.split("\n")[2:-1]] == ["@", " ", "-", "+"]


_names = st.sampled_from(["a", "b", "image", "x-y", "true"])
_scalars = st.one_of(
    st.integers(-9, 99), st.booleans(), st.sampled_from(["", "8Gi", "a b", "yes", "1", "l1\nl2", "#", "-"])
)
_values: Any = st.recursive(
    _scalars, lambda inner: st.one_of(st.dictionaries(_names, inner, max_size=3), st.lists(inner, max_size=3)), max_leaves=8
)  # fmt: skip
_styles = st.fixed_dictionaries(
    {"default_flow_style": st.sampled_from([None, True, False]), "indent": st.sampled_from([2, 4]),
     "default_style": st.sampled_from([None, '"', "'"])}
)  # fmt: skip


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


@given(st.dictionaries(_names, _values, min_size=1, max_size=4), _styles, _values, st.data())
def test_the_text_means_what_the_edit_means(obj: Any, style: Any, value: Any, data: st.DataObject) -> None:
    text = yaml.safe_dump(obj, sort_keys=False, **style)
    obj = manifest.load(text)
    path = data.draw(st.sampled_from(_places(obj)[1:]))
    op: Any = data.draw(st.sampled_from(["set", "remove", "append", "below"]))
    edit = Edit(FieldPath((*path, "new")), value) if op == "below" else Edit(FieldPath(path), value, op)
    try:
        patch = json_patch(deepcopy(obj), [edit])
    except ValueError:
        return  # something else is in the way

    after = rewrite(text, [(0, [edit])])

    assert manifest.load(after) == apply(obj, patch)
    lost = [line for line in text.splitlines() if line not in after.splitlines()]
    if op == "below" and len(text.splitlines()) > 3 and style["default_flow_style"] is False and patch:
        assert len(lost) <= 2


EXAMPLES = sorted((Path(__file__).parents[1] / "rules").glob("*/*bad*.yaml"))


def _removed(before: str, after: str) -> set[int]:
    """The numbers of the lines of the old text that the new one lacks."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {
        number
        for tag, start, end, _, _ in matcher.get_opcodes()
        if tag in ("replace", "delete")
        for number in range(start + 1, end + 1)
    }


def _edited_lines(document: manifest.Document, edits: Sequence[Edit]) -> set[int]:
    """The lines of the edited values, and of the nearest field above one that is added; of a list's item, the list's."""
    lines: set[int] = set()
    for edit in edits:
        parts = edit.path.parts
        path = FieldPath(parts[:-1]) if isinstance(parts[-1], int) else edit.path
        for place in (path, *_below(path, path.get(document.object))):
            mark = document.mark_of(place)
            lines |= {*range(mark.line, mark.end_line + 1)}
    return lines


def _below(path: FieldPath, value: object) -> Iterator[FieldPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield path / name
        yield from _below(path / name, inner)


@settings(deadline=None)
@given(st.sampled_from(EXAMPLES), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 12)), max_size=6))
def test_repairs_keep_comments_and_the_lines_of_other_fields(path: Path, comments: list[tuple[int, int]]) -> None:
    lines = path.read_text().split("\n")
    for number, (place, indent) in enumerate(comments):
        lines.insert(place % len(lines), f"{' ' * indent}# comment {number}")
    before = "\n".join(lines)
    source = manifest.read(before, path.name)
    assume(source.documents and not source.errors)
    repairs = [(document, repair(document.object, builtin(), Facts()).edits) for document in source.documents]
    rooted = [
        (document.index, [edit._replace(path=document.root.join(*edit.path.parts)) for edit in edits])
        for document, edits in repairs
    ]

    after = rewrite(before, rooted)

    assert [comment for comment in re.findall(r"# comment \d+", before) if comment not in after] == []
    assert _removed(before, after) <= {line for repaired in repairs for line in _edited_lines(*repaired)}
