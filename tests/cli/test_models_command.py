"""`podfit models`: what is shown of a model, and how one is taught."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.vllm.model import given

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,
    "max_position_embeddings": 512, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
TENSORS = {
    "model.embed_tokens.weight": ("BF16", [256, 64]), "lm_head.weight": ("BF16", [256, 64]),
    **{f"model.layers.{layer}.self_attn.{name}_proj.weight": ("BF16", shape) for layer in (0, 1)
       for name, shape in (("q", [64, 64]), ("k", [32, 64]), ("v", [32, 64]), ("o", [64, 64]))},
    **{f"model.layers.{layer}.mlp.{name}_proj.weight": ("BF16", shape) for layer in (0, 1)
       for name, shape in (("gate", [128, 64]), ("up", [128, 64]), ("down", [64, 128]))},
}  # fmt: skip
PARAMETERS = 106_496
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="run")
def _run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs `podfit …` with a Hugging Face cache of its own and without huggingface_hub."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def header(tensors: Mapping[str, tuple[str, list[int]]]) -> dict[str, Any]:
    at, found = 0, {}
    for name, (dtype, shape) in tensors.items():
        size = shape[0] * shape[1] * 2
        found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return found


def checkpoint(folder: Path, config: Mapping[str, Any] = CONFIG) -> Path:
    """A checkpoint whose safetensors files are headers without data."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text("{}")
    names = sorted(TENSORS)
    for number, part in enumerate((names[:5], names[5:])):
        text = json.dumps(header({name: TENSORS[name] for name in part})).encode()
        (folder / f"model-{number}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    return folder


def test_show_tells_what_is_known_and_from_where(run: Run) -> None:
    code, out, _ = run("models", "show", "Qwen/Qwen3-8B")

    assert code == 0
    for words in ("config.json", "may deny      yes", "36 × 4,096", "8.19 billion", "144 KiB a token", "40,960 tokens"):
        assert words in out


def test_show_as_json_holds_the_same(run: Run) -> None:
    _, out, _ = run("models", "show", "--format", "json", "Qwen/Qwen3-8B", "/models/Qwen3-8B")
    exact, path = json.loads(out)

    assert (exact["may_deny"], exact["num_hidden_layers"], exact["kv_cache_bytes_per_token"]) == (True, 36, 147456)
    assert (path["may_deny"], path["source"]) == (False, "path: its last part names Qwen/Qwen3-8B")


def test_an_unknown_name_is_exit_2_with_what_it_may_mean(run: Run) -> None:
    code, out, err = run("models", "show", "Qwen/Qwen3-8")

    assert (code, out) == (2, "")
    assert err.startswith("error: unknown model 'Qwen/Qwen3-8'. Did you mean Qwen/Qwen3-")
    assert "Fix: teach it with podfit models add" in run("models", "show", "acme/entirely-new")[2]


def test_add_writes_a_config_map_that_teaches_the_model(run: Run, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "ours")
    code, out, err = run(
        "models", "add", str(folder), "--name", "acme/ours", "--name", "/models/ours", "--namespace", "ml"
    )
    obj = yaml.safe_load(out)
    found, errors = given.of_config_map(obj)

    assert code == 0
    assert obj["metadata"]["name"] == "podfit-model-acme-ours"
    assert obj["metadata"]["namespace"] == "ml"
    assert not errors
    assert set(found) == {"acme/ours", "/models/ours"}
    assert found["acme/ours"].counted.parameters == PARAMETERS
    assert found["acme/ours"].counted.weights_bytes == 2 * PARAMETERS
    assert "acme/ours" in err


def test_a_manifest_beside_the_config_map_is_judged_by_it(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("models", "add", str(checkpoint(tmp_path / "ours")), "--name", "acme/ours")
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.20.0", "args": ["acme/ours"]}]},
    }  # fmt: skip
    (tmp_path / "taught.yaml").write_text(out)
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    _, told, _ = run(
        "check", "--gpu", "l4", "--format", "json", str(tmp_path / "pod.yaml"), str(tmp_path / "taught.yaml")
    )
    (result,) = json.loads(told)["results"]

    assert result["plan"]["model"] == {
        "id": "acme/ours", "source": "ConfigMap podfit-model-acme-ours: config.json", "may_deny": True,
        "parameters": PARAMETERS, "weights_bytes": 2 * PARAMETERS,
    }  # fmt: skip


def test_add_into_a_folder_writes_the_file_that_models_reads(run: Run, tmp_path: Path) -> None:
    into = tmp_path / "facts"
    _, out, _ = run(
        "models", "add", str(checkpoint(tmp_path / "acme--ours")), "--name", "acme/ours", "--into", str(into)
    )
    code, shown, _ = run("models", "show", "--models", str(into), "acme/ours")

    assert out.strip() == str(into / "acme--ours.json")
    assert code == 0
    assert "may deny      yes" in shown
    assert str(into) in shown


def test_an_id_is_read_from_the_hugging_face_cache(run: Run, tmp_path: Path) -> None:
    repository = tmp_path / "home" / "hub" / "models--acme--ours"
    checkpoint(repository / "snapshots" / "0f1e")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0f1e")
    code, out, _ = run("models", "add", "acme/ours")

    assert code == 0
    assert yaml.safe_load(out)["metadata"]["annotations"] == {given.MODEL_ANNOTATION: "acme/ours"}


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("acme/ours", 2, "acme/ours: not a folder, and not in the Hugging Face cache; to ask the hub: pip install"),
        ("./nowhere", 2, "./nowhere: no such folder, and no id such as meta-llama/Llama-3.1-8B-Instruct"),
        ("ours", 2, "ours: no such folder"),
    ],
)
def test_what_is_not_here_is_one_clear_line(run: Run, name: str, code: int, said: str) -> None:
    with_code, out, err = run("models", "add", name)

    assert (with_code, out) == (code, "")
    assert err.startswith(f"error: {said}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", b"{", "config.json: not JSON"),
        ("model-0.safetensors", b"\xff" * 16, "model-0.safetensors: not a safetensors file: its header would have"),
        ("model-0.safetensors", struct.pack("<Q", 2) + b"[]", "not a safetensors file: its header is not a JSON"),
        ("model-0.safetensors", struct.pack("<Q", 9) + b"nonsense!", "model-0.safetensors: not a safetensors file"),
    ],
)
def test_a_broken_file_is_named(run: Run, tmp_path: Path, file: str, content: bytes, said: str) -> None:
    folder = checkpoint(tmp_path / "ours")
    (folder / file).write_bytes(content)
    code, _, err = run("models", "add", str(folder))

    assert code == 3
    assert said in err


def test_gguf_files_are_told_apart(run: Run, tmp_path: Path) -> None:
    (tmp_path / "model.Q4_K_M.gguf").write_bytes(b"GGUF")

    assert "GGUF files carry no config.json" in run("models", "add", str(tmp_path))[2]


def test_the_hub_is_asked_where_it_may_be(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {name: SimpleNamespace(**one) for name, one in header(TENSORS).items()}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    hub = SimpleNamespace(
        hf_hub_download=lambda *_, **__: str(config),
        get_safetensors_metadata=lambda *_, **__: SimpleNamespace(
            files_metadata={"m": SimpleNamespace(tensors=tensors)}
        ),
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    code, out, _ = run("models", "add", "acme/ours")

    assert code == 0
    assert given.of_config_map(yaml.safe_load(out))[0]["acme/ours"].counted.parameters == PARAMETERS


def test_a_hub_that_does_not_answer_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError("We couldn't connect to the hub\nand more")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=refuse))

    assert run("models", "add", "acme/ours") == (3, "", "error: acme/ours: We couldn't connect to the hub\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["QWEN3", "coder-30b", "fp8"], ["Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8"]),
        (["qwen3-coder-next", "unsloth"], ["Qwen/Qwen3-Coder-Next", "unsloth/Qwen3-Coder-Next-FP8"]),  # an alias
    ],
)
def test_search_finds_models_whose_names_have_all_words(run: Run, words: list[str], found: list[str]) -> None:
    code, out, _ = run("models", "search", *words, "--format", "json")

    assert code == 0
    assert json.loads(out) == found


def test_search_tells_of_nothing_found(run: Run) -> None:
    assert run("models", "search", "Qwen/Qwen3-8BB") == (
        0, "", "note: no known model has Qwen/Qwen3-8BB in its name. Did you mean Qwen/Qwen3-8B or "
        "Qwen/Qwen3-4B or Qwen/Qwen3-8B-Base?\n",
    )  # fmt: skip


@pytest.mark.parametrize(("word", "first"), [("qwen3", "Qwen/Qwen3-0.6B"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B")])
def test_search_begins_with_the_best_match(run: Run, word: str, first: str) -> None:
    found = json.loads(run("models", "search", word, "--format", "json")[1])

    assert found[0].startswith(first)
    names = [one.rpartition("/")[2].lower().startswith(word.lower()) for one in found]
    assert names == sorted(names, reverse=True) or "/" in word
