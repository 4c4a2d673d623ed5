"""Reading a release: from sources to an extract, and what a review says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.vllm.gpu.kernels import STEPS
from podfit.vllm.release import newest_read
from scripts.facts import details, memory_path, release
from scripts.facts.config_classes import Classes
from scripts.facts.review import review
from scripts.facts.table import extract_text, extracts

SOURCES = {
    "__init__.py": '__version__ = "0.99.0"\n',
    "utils/__init__.py": "import torch\n",
    "utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser\n",
    "platforms/__init__.py": "import torch\nif torch.cuda.is_available() or 1 / 0:\n    pass\n",
    "entrypoints/__init__.py": "",
    "entrypoints/common/__init__.py": "",
    "entrypoints/common/cli_args.py": (
        "import torch, vllm.platforms\n"
        "print('a log line')\n"
        "Dtype = torch.dtype | int\n"
        "class Layer(torch.nn.Module, extra=1):\n    pass\n"
        "@torch.compile\ndef port():\n    return 8000\n"
        "def make_arg_parser(parser):\n"
        "    parser.add_argument('--port', type=int, default=port())\n"
        "    parser.add_argument('--quiet', action='store_true')\n"
        "    return parser\n"
    ),
    "envs.py": "environment_variables: dict = {'VLLM_B': lambda: 1, 'VLLM_A': lambda: 2}\n",
    "v1/metrics/loggers.py": "NAMES = ['vllm:num_requests_running', 'not a metric']\n",
    "v1/kv_cache_interface.py": (
        "LIMIT = 16 * 1024\nclass Spec:\n    size: int = 2\n    def page(self):\n        return 1\n"
    ),
    "model_executor/layers/quantization/fp8.py": (
        "class Fp8:\n"
        "    def get_name(self):\n        return 'fp8'\n"
        "    def get_min_capability(self):\n        return 75\n"
    ),
    "engine/arg_utils.py": (
        "class EngineArgs:\n"
        "    def get_batch_defaults(cls, world_size):\n"
        "        if device_memory >= 70:\n"
        "            default_max_num_seqs = {UsageContext.LLM_CLASS: 1, UsageContext.OPENAI_API_SERVER: 1024}\n"
        "        else:\n"
        "            default_max_num_seqs = {UsageContext.OPENAI_API_SERVER: 256}\n"
    ),
}


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_parser_is_built_without_the_libraries_that_vllm_imports(folder: Path) -> None:
    """Types, bases and decorators of torch are stand-ins, and so is a module that fails without it."""
    rows, stand_ins = release.options(folder)

    assert rows == {
        "port": {"flags": ["--port"], "type": "int", "default": 8000},
        "quiet": {"flags": ["--quiet"], "nargs": 0, "default": False, "action": "_StoreTrueAction"},
    }
    assert stand_ins == ["stand-in for vllm.platforms: ZeroDivisionError: division by zero"]


def test_a_parser_that_fails_is_an_error(folder: Path) -> None:
    (folder / "vllm" / "entrypoints" / "common" / "cli_args.py").write_text("raise RuntimeError('another layout')\n")

    with pytest.raises(SystemExit, match="RuntimeError: another layout"):
        release.options(folder)


def test_the_details_are_read(folder: Path) -> None:
    assert details.read(folder / "vllm") == {
        "minimum_capability": {"fp8": 75},
        "metrics": ["vllm:num_requests_running"],
        "variables": ["VLLM_A", "VLLM_B"],
        "defaults_by_device": {
            "device_memory >= 70": {"max_num_seqs": "1024"},
            "not (device_memory >= 70)": {"max_num_seqs": "256"},
        },
        "constants": {"v1/kv_cache_interface.py LIMIT": "16 * 1024", "v1/kv_cache_interface.py Spec.size": "2"},
    }


def test_a_function_of_the_memory_path_is_compared_by_its_code(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    file = other / "v1" / "kv_cache_interface.py"
    file.parent.mkdir(parents=True)
    text = SOURCES["v1/kv_cache_interface.py"]
    file.write_text(
        text.replace("    def page(self):\n", '    def page(self):\n        """Another text."""\n        # why\n')
    )
    names = {name: one for name, one in memory_path.functions(folder / "vllm").items() if "kv_cache" in name}
    assert memory_path.functions(other) == names

    file.write_text(text.replace("return 1", "return 2"))
    changed = memory_path.difference(folder / "vllm", other)
    assert "-    return 1\n+    return 2" in changed["v1/kv_cache_interface.py Spec.page"]
    assert "v1/kv_cache_interface.py Spec" not in changed


@pytest.mark.parametrize(
    "module",
    [
        "config/parallel.py", "config/scheduler.py", "config/speculative.py", "v1/worker/gpu/model_states/pool.py",
        "model_executor/models/ours.py", "models/ours/nvidia/attention.py", "v1/attention/backends/mla/ours.py",
    ],
)  # fmt: skip
def test_the_memory_path_has_configs_models_attention_and_both_model_runners(tmp_path: Path, module: str) -> None:
    file = tmp_path / "vllm" / module
    file.parent.mkdir(parents=True)
    file.write_text("class Ours:\n    def get_kv_cache_spec_of_config(self):\n        return 1\n")

    assert list(memory_path.functions(tmp_path / "vllm")) == [f"{module} Ours.get_kv_cache_spec_of_config"]


def test_the_memory_path_has_the_variables_that_podfit_reads(tmp_path: Path) -> None:
    values = "{'VLLM_NO_SUCH_VARIABLE': lambda: 1, 'VLLM_ATTENTION_BACKEND': lambda: 0}"
    (tmp_path / "envs.py").write_text(f"environment_variables: dict = {values}\n")

    assert memory_path.functions(tmp_path) == {"envs.py VLLM_ATTENTION_BACKEND": "lambda: 0"}


@pytest.mark.parametrize(
    ("function", "cited"),
    [
        ("v1/core/kv_cache_utils.py unify_kv_cache_spec_page_size", True),
        ("v1/worker/gpu/cudagraph_utils.py CudaGraphManager.profile_cudagraph_memory", True),
        ("v1/core/kv_cache_utils.py no_such_function", False),
        ("config/model.py ModelConfig.__post_init__", False),  # every class has one
        ("config/cache.py CacheConfig", False),
    ],
)
def test_a_function_that_the_ledgers_cite_is_marked(function: str, cited: bool) -> None:
    assert memory_path.is_cited(function) is cited
    mark = ", which webhook/podfit/vllm/memory cites" if cited else ""
    assert f"- [ ] `{function}` changed{mark}\n" in review(extract(), extract(), {function: "…"}, [])


def test_the_newest_extract_was_read() -> None:
    """If this fails, tick what the checklist names, and write the release into facts/read.json."""
    assert newest_read()[:2] == max(extracts())[:2]


def test_fields_that_the_constructor_does_not_take_are_no_keys(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "compilation.py").write_text(
        """
@config
class CompilationConfig:
    mode: int = 0
    sizes: list[int] = field(default_factory=list)
    compilation_time: float = field(default=0.0, init=False)
    world_size: int = Field(init=False)
    _ops: ClassVar[list[str]] = []
"""
    )
    assert set(Classes(tmp_path).fields("CompilationConfig")) == {"mode", "sizes"}


def extract(**changes: Any) -> dict[str, Any]:
    """An extract of a made-up release."""
    empty: dict[str, Any] = {
        "release": "0.98.0", "underscores": True, "options": {"port": {"flags": ["--port"], "type": "int"}},
        "names": {}, "configs": {}, "bounds": {}, "environment": {}, "architectures": [], "previously_supported": [],
        "model_types": [], "minimum_capability": {}, "defaults_by_device": {}, "constants": {},
        "metrics": [], "variables": [],
    }  # fmt: skip
    return {**empty, **changes}


def test_a_review_says_what_is_new_gone_and_to_be_read() -> None:
    new = extract(
        release="0.99.0",
        options={"host": {"flags": ["--host"], "type": "address"}, "max_num_seqs": {"type": "int", "action": "_Once"}},
        names={"quantization": ["fp2"]},
        minimum_capability={"fp2": 120},
        architectures=["NewForCausalLM"],
    )

    lines = review(extract(), new, {"v1/worker/gpu_worker.py GPUWorker.init_device": "…"}, []).splitlines()

    assert "- gone: `port`" in " ".join(line.partition(" (")[0] for line in lines)
    assert '- new: `host`: `{"flags":["--host"],"type":"address"}`' in lines
    assert "- new: `NewForCausalLM`" in lines
    assert [line for line in lines if line.startswith("- [ ]")] == [
        "- [ ] `host`: no option before has the type `address`: webhook/podfit/vllm/args/values.py",
        "- [ ] `max_num_seqs`: no option before has the action `_Once`: webhook/podfit/vllm/args/grammar.py",
        "- [ ] quantization methods: least compute capability differ: webhook/podfit/vllm/gpu/kernels.py",
        "- [ ] quantization method `fp2`: webhook/podfit/vllm/model/schemes.py, "
        "webhook/podfit/vllm/memory/quantisation.py",
        "- [ ] `v1/worker/gpu_worker.py GPUWorker.init_device` changed",
    ]


def test_a_change_that_many_options_share_is_one_line() -> None:
    def options(action: str) -> dict[str, Any]:
        return {f"o{number}": {"type": "int", "action": action} for number in range(20)}

    text = review(extract(options=options("A")), extract(options=options("B")), {}, [])

    assert text.count("- changed: ") == 1
    assert '- changed: action: `"A"` → `"B"`: 20 options such as `o0`' in text


def test_the_table_of_capabilities_is_what_the_newest_release_says() -> None:
    read = extracts()[newest_read()]["minimum_capability"]
    assert {method: steps[-1].least for method, steps in STEPS.items() if method in read} == {
        method: least for method, least in read.items() if method in STEPS
    }


def test_an_extract_is_written_as_it_is_read() -> None:
    found = extracts()[newest_read()]

    assert json.loads(extract_text(found)) == found
