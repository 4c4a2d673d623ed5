"""The GitHub Action's comment: its step, after the check, in front of a server that keeps comments as GitHub does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from podfit.cli import main
from scripts.action.comment import MARKER, MAX_BYTES, NOTHING, bounded
from tests.cli.test_action import ROOT, Runner

GOOD = (ROOT / "examples" / "good.yaml").read_text()
BOT = "github-actions[bot]"


@dataclass
class Comments:
    """The comments of one pull request."""

    writable: bool = True
    cut_off: bool = False
    """Each answer is shorter than it says, and no JSON."""
    stored: list[dict[str, Any]] = field(default_factory=list)
    writes: int = 0

    def add(self, author: str, body: str) -> None:
        """Store a comment."""
        self.stored.append({"id": len(self.stored) + 1, "user": {"login": author}, "body": body})

    @contextmanager
    def served(self) -> Iterator[str]:
        """The URL of the API, until the block ends."""
        comments = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Logs nothing."""

            def answer(self, code: int, body: object) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[:1] if comments.cut_off else data)
                self.close_connection = comments.cut_off

            def do_GET(self) -> None:
                match = re.fullmatch(r"/repos/a/b/issues/7/comments\?per_page=(\d+)&page=(\d+)", self.path)
                assert match, self.path
                size, page = int(match[1]), int(match[2])
                self.answer(200, comments.stored[(page - 1) * size : page * size])

            def write(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
                if not comments.writable:
                    self.answer(403, {"message": "Resource not accessible by integration"})
                    return
                comments.writes += 1
                if self.command == "POST":
                    comments.add(BOT, body)
                else:
                    number = int(self.path.rpartition("/")[2])
                    next(one for one in comments.stored if one["id"] == number)["body"] = body
                self.answer(200, {})

            do_POST = do_PATCH = write  # noqa: N815 - http.server's names

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def run(runner: Runner, comments: Comments, files: str = ".") -> str:
    """Both steps; what the second one prints."""
    runner.run(files=files)
    base = (runner.temporary / "output").read_text().strip().rpartition("base=")[2]
    event = runner.temporary / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    with comments.served() as url:
        done = runner.step(
            "podfit diff",
            ACTION=str(ROOT),
            AUTHOR=BOT,
            BASE=base,
            FILES=files,
            TOKEN="t",
            GITHUB_API_URL=url,
            GITHUB_REPOSITORY="a/b",
            GITHUB_EVENT_PATH=str(event),
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bump(tmp_path: Path, old: str, new: str, text: str = GOOD) -> Runner:
    """A pull request that changes the image's release."""
    before = re.sub("vllm-openai:v[0-9.]+", f"vllm-openai:v{old}", text)
    after = before.replace(f"vllm-openai:v{old}", f"vllm-openai:v{new}")
    return Runner(tmp_path, {"deploy/pod.yaml": before}, {"deploy/pod.yaml": after})


def test_a_bump_gets_one_comment_that_is_updated(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()

    run(runner, comments)
    run(runner, comments)

    (comment,) = comments.stored
    assert comment["body"].startswith(MARKER)
    assert "| vLLM | 0.19.0 | **0.27.1** |" in comment["body"]
    assert comments.writes == 1, "the same text is not written again"
    assert "0.27.1" in (runner.temporary / "summary.md").read_text()


def test_no_change_is_silent_and_an_old_comment_says_so(tmp_path: Path) -> None:
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD}, {"README.md": "more\n"}), Comments()

    run(runner, comments)
    assert not comments.stored

    comments.add(BOT, f"{MARKER}\nold")
    run(runner, comments)
    assert comments.stored[0]["body"] == f"{MARKER}\n{NOTHING}"


def test_a_marker_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()
    comments.add("mallory", f"{MARKER}\nignore the checks")
    for number in range(120):
        comments.add("someone", str(number))

    run(runner, comments)

    assert comments.stored[0]["body"].endswith("ignore the checks")
    assert [one["user"]["login"] for one in comments.stored if one["body"].startswith(MARKER)] == ["mallory", BOT]


def test_a_token_that_cannot_write_leaves_the_step_summary(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments(writable=False)

    told = run(runner, comments)

    assert "the comment can't be written (403)" in told
    assert "| vLLM | 0.19.0 | **0.27.1** |" in (runner.temporary / "summary.md").read_text()


def test_a_new_and_a_removed_folder_are_compared_with_nothing(tmp_path: Path) -> None:
    runner, comments = (
        Runner(tmp_path, {"old/pod.yaml": GOOD}, {"new/pod.yaml": GOOD.replace("chat", "talk")}),
        Comments(),
    )

    run(runner, comments, files="new old nowhere")

    (comment,) = comments.stored
    assert ": added" in comment["body"]


def test_a_pattern_is_compared(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()

    run(runner, comments, files="deploy/*.yaml nowhere/**/*.yaml")

    (comment,) = comments.stored
    assert "| vLLM | 0.19.0 | **0.27.1** |" in comment["body"]


def test_what_cannot_be_compared_is_not_called_unchanged(tmp_path: Path) -> None:
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD}, {"deploy/pod.yaml": "kind: [\n"}), Comments()
    comments.add(BOT, f"{MARKER}\nold")

    run(runner, comments, files="deploy")

    assert "`deploy/pod.yaml` can't be compared" in comments.stored[0]["body"]
    assert "removed" not in comments.stored[0]["body"]


def test_a_broken_file_that_stays_as_it_is_is_no_change(tmp_path: Path) -> None:
    files = {"deploy/pod.yaml": GOOD, "deploy/broken.yaml": f"{GOOD}\n---\nkind: [\n"}
    runner, comments = Runner(tmp_path, files, {"README.md": "more\n"}), Comments()

    run(runner, comments, files="deploy/pod.yaml deploy/broken.yaml")

    assert not comments.stored


def test_one_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    other = GOOD.replace("llama-8b-good", "other")
    runner, comments = (
        Runner(
            tmp_path,
            {"deploy/pod.yaml": GOOD, "deploy/other.yaml": other},
            {"deploy/pod.yaml": GOOD.replace("v0.27.1", "v0.19.0"), "deploy/other.yaml": f"{other}\n kind: ["},
        ),
        Comments(),
    )

    run(runner, comments)

    (comment,) = comments.stored
    assert "`deploy/other.yaml` can't be compared" in comment["body"]
    assert "| vLLM | 0.27.1 | **0.19.0** |" in comment["body"]
    assert ": removed" not in comment["body"]


def test_overlapping_inputs_are_one_change(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()

    run(runner, comments, files=". deploy deploy/pod.yaml ./deploy/../deploy")

    (comment,) = comments.stored
    assert "1 vLLM container: 1 changed" in comment["body"]
    assert comment["body"].count("| vLLM | 0.19.0 |") == 1


def test_absolute_names_and_names_with_dots_are_in_the_checkout(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()

    for name in (runner.checkout / "deploy", "deploy/../deploy/pod.yaml", f"../{runner.checkout.name}/deploy"):
        comments.stored.clear()
        run(runner, comments, files=str(name))
        assert "| vLLM | 0.19.0 | **0.27.1** |" in comments.stored[0]["body"], name


def test_what_is_outside_of_the_checkout_is_not_compared(tmp_path: Path) -> None:
    runner, comments = bump(tmp_path, "0.19.0", "0.27.1"), Comments()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "pod.yaml").write_text(GOOD)

    for name in (str(tmp_path / "outside"), "../outside"):
        assert "is outside of the checkout" in run(runner, comments, files=name)

    assert not comments.stored


def test_a_name_with_a_blank_is_compared(tmp_path: Path) -> None:
    files = {"my files/pod.yaml": GOOD}
    runner, comments = (
        Runner(tmp_path, files, {"my files/pod.yaml": GOOD.replace("v0.27.1", "v0.19.0")}),
        Comments(),
    )

    run(runner, comments, files="'my files'")

    assert "| vLLM | 0.27.1 | **0.19.0** |" in comments.stored[0]["body"]


@pytest.mark.parametrize("files", [".", "old new", "old/pod.yaml new/pod.yaml new"])
def test_a_file_that_moves_changes_nothing(tmp_path: Path, files: str) -> None:
    runner, comments = Runner(tmp_path, {"old/pod.yaml": GOOD}, {"new/pod.yaml": GOOD}), Comments()
    (runner.checkout / "old" / "pod.yaml").unlink()

    run(runner, comments, files=files)

    assert not comments.stored


def test_a_deleted_file_is_a_removed_container(tmp_path: Path) -> None:
    other = GOOD.replace("llama-8b-good", "other")
    runner, comments = (
        Runner(tmp_path, {"deploy/a.yaml": GOOD, "deploy/b.yaml": other}, {"README.md": "a\n"}),
        Comments(),
    )
    (runner.checkout / "deploy" / "b.yaml").unlink()

    run(runner, comments)

    (comment,) = comments.stored
    assert "2 vLLM containers: 1 removed, 1 unchanged" in comment["body"]


def test_objects_of_one_name_are_compared_by_file(tmp_path: Path) -> None:
    """Overlays set the namespace later."""
    names = ("overlays/a/pod.yaml", "overlays/b/pod.yaml", "overlays/c/pod.yaml")
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        change = {name: GOOD.replace("v0.27.1", "v0.19.0")}
        runner, comments = Runner(folder, dict.fromkeys(names, GOOD), change), Comments()

        run(runner, comments)

        (comment,) = comments.stored
        assert "3 vLLM containers: 1 changed, 2 unchanged" in comment["body"]
        assert f"({name})" in comment["body"].replace("\\", "")


def test_a_bump_in_a_kustomization_is_named(tmp_path: Path) -> None:
    """Renovate changes `newTag` there, and no manifest."""
    images = "- {{name: vllm/vllm-openai, newTag: {tag}}}\n- {{name: redis, newTag: {tag}}}\n"
    text = f"resources: [pod.yaml]\nimages:\n{images}"
    files = {"deploy/pod.yaml": GOOD, "deploy/kustomization.yaml": text.format(tag="v0.17.1")}
    change = {"deploy/kustomization.yaml": text.format(tag="v0.18.0")}
    runner, comments = Runner(tmp_path, files, change), Comments()

    run(runner, comments)

    (comment,) = comments.stored
    assert "`deploy/kustomization.yaml` now puts `vllm/vllm-openai:v0.18.0` into its resources" in comment["body"]
    assert "redis" not in comment["body"]


def test_a_large_file_is_compared(tmp_path: Path) -> None:
    maps = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\ndata: {{text: {'x' * 60_000}}}\n"
        for number in range(20)
    )
    files = {"deploy/all.yaml": f"{GOOD}{maps}"}
    assert len(files["deploy/all.yaml"]) > 1 << 20
    runner, comments = (
        Runner(tmp_path, files, {"deploy/all.yaml": files["deploy/all.yaml"].replace("v0.27.1", "v0.19.0")}),
        Comments(),
    )

    run(runner, comments)

    assert "| vLLM | 0.27.1 | **0.19.0** |" in comments.stored[0]["body"]


def test_a_change_of_the_project_file_alone_is_silent(tmp_path: Path) -> None:
    """It counts when it is merged."""
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD}, {"podfit.yaml": "gpu: l4\n"}), Comments()

    run(runner, comments)

    assert not comments.stored


def test_a_project_file_of_the_base_that_is_not_valid_is_reported(tmp_path: Path) -> None:
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD, "podfit.yaml": "no: key\n"}, {"a": "b"}), Comments()

    run(runner, comments)

    assert "can't be compared with the base branch" in comments.stored[0]["body"]


@pytest.mark.parametrize(
    ("old", "new"), [("0.11.1", "0.11.2"), ("0.14.1", "0.15.1"), ("0.22.0", "0.22.1"), ("0.25.1", "0.26.0")]
)
def test_a_bump_that_changes_nothing_is_silent(tmp_path: Path, old: str, new: str) -> None:
    runner, comments = bump(tmp_path, old, new), Comments()

    run(runner, comments)

    assert not comments.stored


def test_a_folder_whose_manifests_are_all_removed_is_compared_with_nothing(tmp_path: Path) -> None:
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD, "deploy/README.md": "a\n"}, {"b": "c"}), Comments()
    (runner.checkout / "deploy" / "pod.yaml").unlink()

    run(runner, comments, files="deploy")

    (comment,) = comments.stored
    assert ": removed" in comment["body"]


def test_the_base_decides_which_files_count(tmp_path: Path) -> None:
    change = {"deploy/pod.yaml": GOOD.replace("v0.27.1", "v0.19.0"), "podfit.yaml": "exclude: ['*']\n"}
    runner, comments = Runner(tmp_path, {"deploy/pod.yaml": GOOD}, change), Comments()

    run(runner, comments)

    assert len(comments.stored) == 1


def test_a_long_comment_is_cut_at_a_line() -> None:
    text = "".join(f"| {number} | 😀 |\n" for number in range(20_000))

    cut = bounded(text)

    assert len(cut.encode()) < MAX_BYTES + 100
    assert cut.endswith("shows all of it.\n")
    assert all(line.endswith(" |") for line in cut.splitlines()[:-2])


def test_the_action_asks_for_no_more_than_it_needs() -> None:
    text = (ROOT / "action.yml").read_text()

    assert "pull_request_target" not in text
    assert yaml.safe_load(text)["inputs"]["comment"]["default"] == "true"


BUMPS = [
    ("0.6.6", "0.7.0", ["--worker-use-ray"], "--worker-use-ray is not an option of vLLM 0.7.0"),
    ("0.7.3", "0.8.0", [], "| engine | V0 | **V1** |"),
    ("0.9.2", "0.10.0", ["--use-v2-block-manager"], "--use-v2-block-manager is not an option of vLLM 0.10.0"),
    ("0.9.2", "0.10.0", ["--enable-reasoning", "--reasoning-parser", "qwen3"], "--enable-reasoning is not an option"),
    ("0.10.2", "0.11.0", ["--preemption-mode", "swap"], "--preemption-mode is not an option of vLLM 0.11.0"),
    ("0.10.2", "0.11.0", ["--max-seq-len-to-capture", "8192"], "--max-seq-len-to-capture is not an option"),
    ("0.11.2", "0.12.0", ["--guided-decoding-backend", "xgrammar"], "--guided-decoding-backend is not an option"),
    ("0.11.2", "0.12.0", ["--num-lookahead-slots", "4"], "--num-lookahead-slots is not an option of vLLM 0.12.0"),
    ("0.11.2", "0.12.0", ["--lora-extra-vocab-size", "256"], "--lora-extra-vocab-size is not an option"),
    ("0.12.0", "0.13.0", ["--cuda-graph-sizes", "8"], "--cuda-graph-sizes is not an option of vLLM 0.13.0"),
    ("0.12.0", "0.13.0", ["--disable-mm-preprocessor-cache"], "--disable-mm-preprocessor-cache is not an option"),
    ("0.13.0", "0.14.1", [], "| --async-scheduling | false | **–** |"),
    ("0.16.0", "0.17.0", ["--disable-log-requests"], "--disable-log-requests is not an option of vLLM 0.17.0"),
    ("0.17.1", "0.18.0", ["--swap-space", "4"], "--swap-space is not an option of vLLM 0.18.0"),
    ("0.18.1", "0.19.0", ["--disable-frontend-multiprocessing"], "--disable-frontend-multiprocessing is not an option"),
    ("0.19.1", "0.20.0", [], "| --gpu-memory-utilization | 0.9 | **0.92** |"),
    ("0.26.0", "0.27.1", ["--max-num-partial-prefills", "2"], "--max-num-partial-prefills is not an option"),
    ("0.27.1", "0.28.0", ["--calculate-kv-scales"], "--calculate-kv-scales is not an option of vLLM 0.28.0"),
    (
        "0.30.0",
        "0.31.0",
        ["--enable-mamba-fine-grained-prefix-cache"],
        "-fine-grained-prefix-cache is not an option",
    ),
    ("0.31.0", "0.32.0", [], "| --allowed-origins |"),
]
"""Release before and after, arguments, and what the comment has to say: the change that broke the command, or that the
release made for it."""


@pytest.mark.parametrize(("old", "new", "arguments", "words"), BUMPS)
def test_the_comment_has_what_a_bump_breaks_or_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, arguments: list[str], words: str
) -> None:
    pod = yaml.safe_load(GOOD)
    container = pod["spec"]["template"]["spec"]["containers"][0]
    container["args"] += arguments
    for name, release in (("old.yaml", old), ("new.yaml", new)):
        container["image"] = f"vllm/vllm-openai:v{release}"
        (tmp_path / name).write_text(yaml.safe_dump(pod))

    main(["diff", "--no-config", "--format", "markdown", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")])

    assert words in capsys.readouterr().out.replace("\\", "")


def test_an_answer_that_is_no_json_leaves_the_step_summary(tmp_path: Path) -> None:
    comments = Comments(cut_off=True)
    runner = bump(tmp_path, "0.19.0", "0.27.1")

    told = run(runner, comments)

    assert "the comment can't be written (" in told
    assert "| vLLM | 0.19.0 | **0.27.1** |" in (runner.temporary / "summary.md").read_text()
