"""A short name that several GPU models have: `h100` may be SXM5 or PCIe."""

from __future__ import annotations

import pytest
import yaml

from podfit.cli import main
from podfit.vllm.gpu import by_name, commonest, distinct

COMMAND = ("--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096")


@pytest.mark.parametrize("planned", [("Qwen/Qwen3-8B", "--context", "4096"), COMMAND], ids=["model", "command"])
@pytest.mark.parametrize(
    ("name", "label", "others"),
    [
        ("h100", "NVIDIA-H100-80GB-HBM3", ["NVIDIA-H100-PCIe"]),
        ("h200", "NVIDIA-H200", ["NVIDIA-H200-NVL"]),
        ("a100", "NVIDIA-A100-SXM4-80GB", ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-80GB-PCIe"]),
        ("l4", "NVIDIA-L4", []),
        ("NVIDIA-H100-PCIe", "NVIDIA-H100-PCIe", []),
    ],
)
def test_a_manifest_gets_the_label_of_the_commonest_and_a_comment_with_the_others(
    capsys: pytest.CaptureFixture[str], planned: tuple[str, ...], name: str, label: str, others: list[str]
) -> None:
    options, rest = (planned, ()) if planned[0] != "--" else ((), planned)
    assert main(["plan", *options, "--gpu", name, "-o", "yaml", *rest]) == 0
    out = capsys.readouterr().out

    deployment = list(yaml.safe_load_all(out))[-1]
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": label}
    comment = f"# the GPU that was named may also be another model: its label is {' or '.join(others)}\n"
    assert out.startswith(comment) is bool(others)


def test_a_model_that_the_commonest_can_not_hold_gets_another_ones_label(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "Qwen/Qwen2.5-7B-Instruct", "--context", "32768", "--gpu", "v100:1", "-o", "yaml"]) == 0
    out = capsys.readouterr().out

    assert "nvidia.com/gpu.product: Tesla-V100-SXM2-32GB" in out
    assert "its label is Tesla-V100-SXM2-16GB\n" in out


def test_the_table_tells_them_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "Qwen/Qwen3-8B", "--gpu", "h100"]) == 0
    out = capsys.readouterr().out

    assert "1 × H100 80GB PCIe " in out
    assert "1 × H100 80GB SXM5 " in out


def test_names_are_short_until_two_are_the_same() -> None:
    assert distinct(["NVIDIA H100 80GB SXM5", "NVIDIA L4"]) == {
        "NVIDIA H100 80GB SXM5": "H100 80GB",
        "NVIDIA L4": "L4",
    }
    assert distinct(["NVIDIA H100 80GB SXM5", "NVIDIA H100 80GB PCIe"]) == {
        "NVIDIA H100 80GB SXM5": "H100 80GB SXM5",
        "NVIDIA H100 80GB PCIe": "H100 80GB PCIe",
    }


def test_of_gpus_that_are_equally_common_the_smaller_one_is_meant() -> None:
    assert commonest(by_name("NVIDIA GeForce RTX 3080")).name == "GeForce RTX 3080 10GB"
