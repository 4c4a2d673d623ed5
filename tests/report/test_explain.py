"""`podfit explain MANIFEST`: the ledgers as waterfalls in a terminal, as a page and as a picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from podfit.cli import main
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.manifest import read
from podfit.report import explained
from podfit.report.explained import Explained, html, json, markdown, svg, text
from podfit.vllm.facts import Facts
from podfit.vllm.memory.lines import LINES

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
OFFLOADED = Path(__file__).parents[2] / "examples" / "llama-70b-with-32gi.yaml"
LONG = Path(__file__).parents[2] / "examples" / "llama-8b-with-131072-tokens.yaml"
Explain = Callable[..., str]


def shown(source: str) -> Explained:
    """The first container of a manifest, explained."""
    (document,) = read(source.encode(), "x.yaml").documents
    report = lint(document.object, builtin(), Facts(), where="check")
    return explained.explain(report, report.results[0])


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Explain:
    """Standard output of a run that must succeed."""

    def run(*argv: str) -> str:
        assert main(["explain", *argv]) == 0
        return capsys.readouterr().out

    return run


def test_a_waterfall_adds_up() -> None:
    chart = shown(LONG.read_text()).charts[0]
    bars = {bar.name: bar for bar in chart.bars}

    assert bars["activations"].start == bars["weights"].size
    assert bars["KV cache"].start == pytest.approx(bars["non-torch"].start + bars["non-torch"].size, abs=2)
    assert bars["left to others"].start + bars["left to others"].size == bars["total"].size
    assert bars["one request"].kind == "missing"
    assert chart.scale == bars["one request"].start + bars["one request"].size


def test_what_is_denied_does_not_begin_with_what_fits(explain: Explain) -> None:
    one = shown(OFFLOADED.read_text())

    assert one.state == "denied"
    out = explain(str(OFFLOADED))
    assert out.index("DENIED: vLLM would not start (offload-exceeds-limit)") < out.index("GPU memory fits: 35.4 GiB")
    page = explain(str(OFFLOADED), "--format", "html")
    assert '<p class="verdict denied">DENIED: vLLM would not start (offload-exceeds-limit)</p>' in page


def test_graphs_outside_the_budget_come_out_of_what_it_leaves() -> None:
    bars = {bar.name: bar for bar in shown(OFFLOADED.read_text()).charts[0].bars}
    parts = ("weights", "activations", "non-torch", "KV cache", "CUDA graphs", "left to others")

    assert sum(bars[name].size for name in parts) == bars["total"].size
    assert [bars[name].start for name in parts] == sorted(bars[name].start for name in parts)
    assert bars["left to others"].note == "39.4 GiB − 35.4 GiB budget − 1.7 GiB CUDA graphs"


def test_a_formula_of_another_release_is_told_as_such(explain: Explain) -> None:
    shown = " ".join(explain(str(OFFLOADED), "-v").split())
    assert "formula of vLLM 0.19.0; file as in 0.33: v1/worker/gpu_worker.py" in shown


def test_several_changes_are_told_as_alternatives() -> None:
    one = shown(LONG.read_text())
    several = next(judged.finding for judged in one.findings if len(judged.finding.suggestions) > 1)

    out = text.render(one, 160, verbose=True)
    assert f"    any one of these fits:\n    - {several.suggestions[0]}\n    - {several.suggestions[1]}\n" in out
    assert f"any one of these fits:<ul><li><code>{several.suggestions[0]}</code></li>" in html.render([one])


def test_an_error_of_podfit_is_not_told_as_no_vllm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("podfit.rules.reading.read", fails)

    assert main(["explain", str(LONG)]) == 3
    err = capsys.readouterr().err
    assert "internal error in engine: RuntimeError: oops" in err
    assert "runs vLLM" not in err


def test_the_terminal_shows_what_does_not_fit_and_what_would(explain: Explain) -> None:
    out = explain(str(LONG), "-v")

    assert out.startswith('Deployment chat/llama-8b-long, container "vllm"\n')
    assert "\nDENIED: vLLM would not start (kv-cache-too-small)\nGPU memory does not fit: 20.3 GiB budget − 15" in out
    assert re.search(r"  weights +15 GiB  █{20,}\n", out)
    assert re.search(r"  one request +16 GiB +▒{20,}\n", out)
    assert "  1. --max-model-len 23552\n" in out
    assert "  accelerator               NVIDIA L4  (node label nvidia.com/gpu.product: NVIDIA-L4)\n" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(path: Path, width: int) -> None:
    one = shown(path.read_text())
    for line in (text.render(one, width) + text.render(one, width, verbose=True)).split("\n"):
        assert len(line) <= width, line


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_without_v_it_is_one_screen(path: Path) -> None:
    assert len(text.render(shown(path.read_text())).splitlines()) <= 36 + len(LINES)


@pytest.mark.parametrize("argv", [[str(LONG)], ["shm-missing"], []])
def test_markdown_is_of_a_manifest_and_of_rules(argv: list[str], explain: Explain) -> None:
    out = explain(*argv, "--format", "markdown")

    assert out.startswith("#")
    assert "| --- |" in out


def test_plain_terminals_get_ascii() -> None:
    out = text.render(shown(LONG.read_text()), 80, ascii_only=True)
    assert out.isascii()
    assert re.search(r"weights +15 GiB  #{10,}", out)


class Page(HTMLParser):
    """What a page loads, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing may come from elsewhere."""
        self.tags.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "srcset", "onclick", "onload"}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closed in order."""
        assert self.open.pop() == tag


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_a_page_needs_nothing_else(path: Path, explain: Explain) -> None:
    out = explain(str(path), "--format", "html")
    page = Page()
    page.feed(out)

    assert not page.open
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert "@import" not in out
    assert "url(" not in out
    assert "prefers-color-scheme: dark" in out
    assert page.tags >= {"caption", "th", "h1", "main"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.name))
def test_a_picture_is_one_file_with_words_for_those_who_do_not_see_it(path: Path, explain: Explain) -> None:
    root = ElementTree.fromstring(explain(str(path), "--format", "svg"))  # noqa: S314  our own
    space = "{http://www.w3.org/2000/svg}"

    title, desc = root.find(f"{space}title"), root.find(f"{space}desc")
    assert root.get("role") == "img"
    assert title is not None
    assert "container" in str(title.text)
    assert desc is not None
    assert len(str(desc.text)) > 40
    width = float(str(root.get("width")))
    for rect in root.iter(f"{space}rect"):
        assert float(rect.get("x", 0)) + float(str(rect.get("width"))) <= width
    assert "url(" not in ElementTree.tostring(root, encoding="unicode")


def test_hostile_names_stay_text_and_keys_are_stars() -> None:
    key = "sk-" + "abcdefghij0123456789"
    source = LONG.read_text().replace("name: llama-8b-long", "name: '<script>\"&\\u001b[31m'", 1)
    source = source.replace("args: [", f"args: [--api-key, {key}, ", 1)
    one = shown(source)

    for out in (
        html.render([one]),
        svg.render([one]),
        text.render(one),
        text.render(one, verbose=True),
        json.render([one]),
        markdown.render([one]),
    ):
        assert "\x1b" not in out
        assert key not in out
    assert "<script>" not in html.render([one]) + svg.render([one])
    assert "--api-key" in text.render(one, verbose=True)


@pytest.mark.parametrize(
    ("argv", "said", "code"),
    [
        (("kv-cache-to-small",), "did you mean kv-cache-too-small", 2),
        (("shm-missing", "--format", "html"), "--format html is for a manifest", 2),
        (("nowhere.yaml",), "no such file", 3),
    ],
)
def test_what_can_not_be_explained_says_what_to_do(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str, code: int
) -> None:
    assert main(["explain", *argv]) == code
    assert said in capsys.readouterr().err


def test_a_file_without_vllm_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")
    assert main(["explain", str(tmp_path / "x.yaml")]) == 2
    assert "no container in it runs vLLM" in capsys.readouterr().err
