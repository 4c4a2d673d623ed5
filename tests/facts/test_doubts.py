"""Whose doubts a copy has, and which of its own numbers settle them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scripts.facts.models import models
from scripts.facts.settle import UNCONFIRMED, UNTOLD
from scripts.facts.table import write_entries

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
PARAMETERS = 202_048
"""2 × (64 × (64 + 32 + 32 + 64) + 3 × 64 × 128) + 2 × 1,000 × 64, and the norms' 320."""
FP8 = {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}}
OF_THE_BASE = "made of acme/chat, of which is doubtful: "
UNCHECKED = "no formula or no declared count to check it by"


def row(name: str, **changes: Any) -> dict[str, Any]:
    """An entry of a library's table."""
    source = {"source": ["a table"], "date": "2026-11"}
    return {"id": name, "config": CONFIG, "confidence": "table", "trusted": True, **source, **changes}


CONFIRMS = row("example/counted", parameters=PARAMETERS)
"""A model whose count confirms the formulas for its family."""


def built(folder: Path, *rows: Mapping[str, Any], indexed: str | None = None) -> dict[str, str | None]:
    """Id → what is doubtful of each row."""
    write_entries("models", [dict(one) for one in (*rows, CONFIRMS)], folder)
    index = {"id": indexed, "param_count": 404_096, "weight_bytes": 404_096, "dtype_params": {"F8_E4M3": 404_096}}
    write_entries("checkpoints", [index] if indexed else [], folder)
    for name in ("corrections", "gated", "relatives"):
        write_entries(name, [], folder)
    found = models(folder)["models"]
    assert all(one["trusted"] == ("doubts" not in one) for one in found.values())
    return {name: one.get("doubts") for name, one in found.items()}


BASE = row("acme/chat", trusted=False, doubts=[UNCHECKED])


@pytest.mark.parametrize(
    ("copy", "doubt"),
    [
        ({}, OF_THE_BASE + UNCHECKED),
        ({"parameters": 404_096}, OF_THE_BASE + UNCHECKED),  # off the sizes
        ({"parameters": PARAMETERS}, None),
        ({"parameters": PARAMETERS, "notes": ["parameters: own formula"]}, OF_THE_BASE + UNCHECKED),
        ({"confidence": "file"}, None),
        ({"config": CONFIG | FP8}, OF_THE_BASE + UNCHECKED),
        ({"config": CONFIG | FP8, "confidence": "file"}, None),
        ({"trusted": False, "doubts": ["its own"]}, "its own"),
    ],
)  # fmt: skip
def test_sizes_that_are_doubtful_of_the_base_are_of_the_copy_until_its_count_or_its_file_proves_them(
    tmp_path: Path, copy: dict[str, Any], doubt: str | None
) -> None:
    assert built(tmp_path, BASE, row("acme/chat-tuned", base="acme/chat", **copy))["acme/chat-tuned"] == doubt


def test_doubt_goes_on_to_the_copy_of_a_copy_and_by_an_alias(tmp_path: Path) -> None:
    found = built(
        tmp_path,
        row("acme/chat", trusted=False, doubts=[UNCHECKED], aliases=["acme/talk"]),
        row("acme/chat-tuned", base="acme/talk"),
        row("other/chat-tuned-again", base="acme/chat-tuned"),
    )

    assert found["acme/chat-tuned"] == f"made of acme/talk, of which is doubtful: {UNCHECKED}"
    assert found["other/chat-tuned-again"] is not None
    assert found["other/chat-tuned-again"].endswith(UNCHECKED)


NATIVE = row("acme/talk", config=CONFIG | FP8, confidence="file")
"""A sibling that is stored quantized, whose id does not say so."""


@pytest.mark.parametrize(
    ("changes", "indexed", "doubt"),
    [
        ({"parameters": PARAMETERS}, False, UNTOLD),  # a count does not show how they are stored
        ({"weights_bytes": 2 * PARAMETERS, "notes": ["weights_bytes = 2 x parameters"]}, False, UNTOLD),
        ({"weights_bytes": 2 * PARAMETERS}, False, None),
        ({"confidence": "file"}, False, None),
        ({}, True, None),
    ],
)
def test_how_a_model_is_stored_is_proved_by_its_index_its_bytes_or_its_own_file(
    tmp_path: Path, changes: dict[str, Any], indexed: bool, doubt: str | None
) -> None:
    name = "acme/chat"
    found = built(tmp_path, NATIVE, row(name, **changes), indexed=name if indexed else None)

    assert found[name] == doubt


@pytest.mark.parametrize(
    ("changes", "proved"), [({"parameters": PARAMETERS}, False), ({"weights_bytes": 2 * PARAMETERS}, True)]
)
def test_the_same_of_a_copy_by_another_owner(tmp_path: Path, changes: dict[str, Any], proved: bool) -> None:
    found = built(tmp_path, NATIVE, row("acme/chat"), row("other/chat-tuned", base="acme/chat", **changes))

    assert found["other/chat-tuned"] == (None if proved else OF_THE_BASE + UNTOLD)


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({"parameters": PARAMETERS}, True),  # a count proves the sizes, not the storage
        ({"parameters": PARAMETERS, "weights_bytes": 2 * PARAMETERS}, False),
        ({"parameters": PARAMETERS, "config": CONFIG | FP8}, False),
        ({"parameters": PARAMETERS, "confidence": "file"}, False),
        ({"parameters": PARAMETERS, "trusted": True, "doubts": []}, False),
    ],
)
def test_how_a_row_that_was_doubtful_is_stored_is_unknown_until_it_was_read(
    tmp_path: Path, changes: dict[str, Any], unknown: bool
) -> None:
    built(tmp_path, row("acme/chat", **{"trusted": False, "doubts": [UNCHECKED], **changes}))

    assert models(tmp_path)["models"]["acme/chat"].get("storage_unknown", False) is unknown


def test_key_value_heads_that_a_table_copied_from_the_heads_are_unknown(tmp_path: Path) -> None:
    doubt = "num_key_value_heads equals num_attention_heads in a table: may be a default"
    built(tmp_path, row("acme/chat", trusted=False, doubts=[doubt]))

    assert models(tmp_path)["models"]["acme/chat"]["kv_heads_unknown"] is True


def test_sizes_of_a_family_without_a_counted_model_are_doubtful(tmp_path: Path) -> None:
    new = CONFIG | {"architectures": ["NewForCausalLM"], "model_type": "new"}
    found = built(tmp_path, row("acme/new", config=new), row("acme/new-counted", config=new, parameters=404_096))

    assert found["acme/new"] == UNCONFIRMED
    assert found["acme/new-counted"] is None
    assert models(tmp_path)["models"]["acme/new"]["sizes_unconfirmed"] is True

    confirmed = built(tmp_path, row("acme/new", config=new), row("acme/n", config=new, parameters=PARAMETERS))
    assert confirmed["acme/new"] is None
