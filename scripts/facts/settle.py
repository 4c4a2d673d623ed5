"""What collected rows prove of each other: sizes by the parameter count, quantization by a sibling's config.json."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

from podfit.vllm.memory import shape, tower
from podfit.vllm.model import from_config
from podfit.vllm.model.name import size_of
from scripts.facts.reduce import NESTED

EXACT = 0.002
"""Norms and biases, which the formulas leave out, are less."""
OWN = ("own formula", "its own estimate", "of the unquantised architecture")
"""Notes on rows whose count was computed and not counted."""


STORED_LIKE: Mapping[str, str] = {
    **dict.fromkeys(
        ("deepseek-ai/DeepSeek-Prover-V2-671B", "deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1-Zero",
         "deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3.1-Base",
         "deepseek-ai/DeepSeek-V3.1-Terminus"),
        "deepseek-ai/DeepSeek-V3",
    ),
    **dict.fromkeys(
        ("deepseek-ai/DeepSeek-Math-V2", "deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V3.2-Exp-Base",
         "deepseek-ai/DeepSeek-V3.2-Speciale"),
        "deepseek-ai/DeepSeek-V3.2",
    ),
    **dict.fromkeys(
        ("deepseek-ai/DeepSeek-V4-Flash-0731", "deepseek-ai/DeepSeek-V4-Flash-Vision-Exp",
         "RedHatAI/DeepSeek-V4-Flash-0731"),
        "deepseek-ai/DeepSeek-V4-Flash",
    ),
    "deepseek-ai/DeepSeek-V4-Pro-0813": "deepseek-ai/DeepSeek-V4-Pro",
    **dict.fromkeys(("moonshotai/Kimi-K2-Base", "moonshotai/Kimi-K2-Instruct-0905"), "moonshotai/Kimi-K2-Instruct"),
    "moonshotai/Kimi-K2-Thinking": "moonshotai/Kimi-K2.5",
    **dict.fromkeys(
        ("MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.1", "RedHatAI/MiniMax-M2.5"), "MiniMaxAI/MiniMax-M2.5"
    ),
    "XiaomiMiMo/MiMo-V2-Flash-Base": "XiaomiMiMo/MiMo-V2-Flash",
    **dict.fromkeys(("RedHatAI/gpt-oss-20b", "unsloth/gpt-oss-20b"), "openai/gpt-oss-20b"),
    "RedHatAI/gpt-oss-120b": "openai/gpt-oss-120b",
    **dict.fromkeys(
        ("mistralai/Ministral-3-3B-Instruct-2512", "mistralai/Ministral-3-8B-Instruct-2512",
         "mistralai/Ministral-3-14B-Instruct-2512"),
        "mistralai/Devstral-Small-2-24B-Instruct-2512",
    ),
}  # fmt: skip
"""Rows of a table that lacks `quantization_config` → the sibling whose config.json has it.

The model cards of Kimi-K2-Thinking and Ministral 3 say INT4 and FP8. The others have this proof: the hub's counts
are those of the sibling, or exceed the architecture by one scale for each 128 × 128 block. (DeepSeek-R1-0528 has
684,531,386,000 as DeepSeek-V3 has; Kimi-K2-Base 62,498,608 more than 1,026,408,232,448.)"""
IN_16_BITS = frozenset({"Qwen/Qwen3.5-122B-A10B", "Qwen/Qwen2-VL-2B-Instruct", "openbmb/MiniCPM-V-4.6"})
"""Rows whose config.json is a quantized copy's. The hub counts as many elements as the architecture has, and none for
scales or packed words; the quantized checkpoint has an id of its own (…-FP8, …-AWQ)."""
SAYS_SCHEME = re.compile(
    r"fp8|fp4|int[48]|w\d+a\d+|awq|gptq|gguf|bnb|4-?bit|8-?bit|bf16|unquantized|quantized|marlin", re.I
)


def stored(config: dict[str, Any], row: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The config with the `quantization_config` of the sibling that the row is stored like."""
    if row["id"] in IN_16_BITS:
        return without_quantisation(config)
    sibling = by_id.get(STORED_LIKE.get(row["id"], ""))
    if sibling is None or _quantised(config):
        return config
    return {**config, "quantization_config": _quantised(sibling["config"])}


def without_quantisation(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the checkpoint before it was quantized."""
    return {
        key: without_quantisation(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "quantization_config"
    }


def doubt(config: Mapping[str, Any], row: Mapping[str, Any], natives: set[tuple[object, ...]]) -> str | None:
    """Why a row that says nothing of quantization may be quantized all the same: its siblings are stored so."""
    if row["confidence"] == "file" or _quantised(config) or SAYS_SCHEME.search(row["id"]):
        return None
    released = re.search(r"-(2\d[01]\d)$", row["id"])
    if released and int(released[1]) < FIRST_QUANTISED.get(row["id"].partition("/")[0], 0):
        return None
    return UNTOLD if kin(row) in natives and not has_counted_bytes(row) else None


UNTOLD = "its siblings are stored quantised, and the table does not say"
"""The doubt about a row's storage. All others are about its sizes."""
DERIVED = "x parameters"
"""Notes on rows whose bytes were computed from the parameters."""


def has_counted_bytes(row: Mapping[str, Any]) -> bool:
    """Whether the row's bytes were counted, and not computed from its parameters."""
    return bool(row["weights_bytes"]) and not any(DERIVED in note for note in row.get("notes") or ())


def proves(row: Mapping[str, Any], config: Mapping[str, Any], doubt: str, *, indexed: bool) -> bool:
    """Whether the row's own numbers settle a doubt about the model that it was made of. The parameter count proves the
    sizes. Only the checkpoint's index (`indexed`), its byte size or its own config.json proves how it is stored:
    mistralai/Mistral-Medium-3.5-128B has the count of its sizes, and is stored in FP8."""
    if row["confidence"] == "file":
        return True
    return indexed or has_counted_bytes(row) if doubt.endswith(UNTOLD) else has_exact_sizes(row, config)


FIRST_QUANTISED = {"mistralai": 2512}
"""Owner → the release (year and month, as its ids end) since which it stores models quantized."""


FAR_OFF = (0.6, 1.7)
"""What a row's formulas may be of the size that its name says, or of the model that it is a copy of."""


def shape_doubt(row: Mapping[str, Any], config: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Why the sizes of a quantized row of a table can't be right: its name or the model that it is a copy of says
    another size. Packed words are not parameters, so no count shows it."""
    if row["confidence"] == "file" or not is_quantised(config):
        return None
    model = from_config(row["id"], config, complete=False)
    found = shape.of(model)
    if found is None or not found.known:
        return None
    own = counted(row)
    if own and FAR_OFF[0] < found.elements / own < FAR_OFF[1]:
        return None
    named = size_of(row["id"])
    sizes = [named.value.parameters] if named else []
    copied = original(row["id"], rows)
    if copied is not None and not sizes:
        sizes = [rows[copied]["parameters"]]
    off = [size for size in sizes if size and not FAR_OFF[0] < found.elements / size < FAR_OFF[1]]
    return f"its sizes give {found.elements / 1e9:.1f} billion parameters, not {off[0] / 1e9:.1f}" if off else None


def original(name: str, rows: Container[str]) -> str | None:
    """The model of the same owner whose id, with a quantization scheme after it, is `name`."""
    owner, _, last = name.partition("/")
    words = last.split("-")
    ids = (f"{owner}/{'-'.join(words[:end])}" for end in range(len(words) - 1, 1, -1))
    return next((one for one in ids if one in rows and SAYS_SCHEME.search(name[len(one) :])), None)


def kin(row: Mapping[str, Any]) -> tuple[object, ...]:
    """What siblings share: owner and family."""
    return (row["id"].partition("/")[0], row["config"].get("model_type"))


def natively_quantised(rows: Iterable[Mapping[str, Any]]) -> set[tuple[object, ...]]:
    """Kins of which the config.json of a model that does not say so in its id is quantized."""
    return {
        kin(row)
        for row in rows
        if row["confidence"] == "file"
        and _quantised(row["config"])
        and not SAYS_SCHEME.search(row["id"])
        and row["id"] not in IN_16_BITS
    }


Schemes = Mapping[tuple[str, str], list[Mapping[str, Any]]]
"""(owner, last word of an id: "fp8", "awq") → the quantization_config of each of its models whose file was read."""
_FROM_ID = "from the id"


def published_schemes(rows: Iterable[Mapping[str, Any]]) -> Schemes:
    """What owners write into the config.json of models whose ids end in the same word."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["confidence"] == "file" and (scheme := _quantised(row["config"])):
            found.setdefault(_named_like(row["id"]), []).append(scheme)
    return found


def _named_like(name: str) -> tuple[str, str]:
    owner, _, last = name.lower().partition("/")
    return owner, last.rpartition("-")[2]


def is_scheme_guessed(row: Mapping[str, Any], published: Schemes) -> bool:
    """Whether the row's quantization_config was made from the words of its id, unconfirmed. So no file of the same
    owner, with the same word, has the same keys with the same values (Qwen's …-FP8 and …-AWQ)."""
    config = _quantised(row["config"])
    if config is None or _FROM_ID not in f"{row.get('notes') or ''} {config.get('_scheme')}":
        return False
    alike = published.get(_named_like(row["id"]), [])
    return not alike or any(one.get(key) != value for one in alike for key, value in config.items())


DISPUTED_LENGTHS = frozenset({"MiniMaxAI/MiniMax-M3"})
"""Models, and so their copies, whose sources state different lengths: 1,048,576 and 524,288 tokens of MiniMax-M3."""
SCALES = "llmfit"
"""A table that writes max_position_embeddings times the rope factor, for gemma-3 and the `llama3` type too."""


def scaled_lengths(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Ids whose length may be several times that of config.json (google/medgemma-27b-text-it: 1,048,576 for 131,072).

    Sources dispute it, or only such a table gives it, and no model of the family has it from elsewhere."""
    disputed = set[str]()
    told: dict[str, tuple[str, object]] = {}
    elsewhere = set[tuple[str, object]]()
    for row in rows:
        if not DISPUTED_LENGTHS.isdisjoint((row["id"], row.get("base"))):
            disputed.add(row["id"])
        parts = [row["config"], *(value for value in row["config"].values() if isinstance(value, Mapping))]
        lengths = [
            (str(part.get("model_type")).partition("_")[0], part.get("max_position_embeddings")) for part in parts
        ]
        notes = [note for note in row.get("notes") or () if "max_position_embeddings" in note]
        if any(SCALES in one for one in (row["source"][0], *notes)):
            told[row["id"]] = lengths[0]
        else:
            elsewhere.update(lengths)
    return disputed | {name for name, length in told.items() if _doubled(length[1]) and length not in elsewhere}


def _doubled(length: object) -> bool:
    """A power of two: what is 200,000 or 1,010,000 was nothing times a factor."""
    return isinstance(length, int) and length & (length - 1) == 0


def is_quantised(config: Mapping[str, Any]) -> bool:
    """Whether the config says that its checkpoint is quantized."""
    return _quantised(config) is not None


def _quantised(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for one in (config, *(value for value in config.values() if isinstance(value, Mapping))):
        found = one.get("quantization_config")
        if isinstance(found, Mapping) and found:
            return found
    return None


def counted(row: Mapping[str, Any]) -> int | None:
    """The row's number of parameters, if its source counted them: a number computed from the shape proves nothing."""
    if any(word in note for note in row.get("notes") or () for word in OWN):
        return None
    parameters: int | None = row["parameters"]
    return parameters


def elements(config: Mapping[str, Any]) -> int | None:
    """Elements that the sizes give, with multi-token-prediction layers; None if the layers are not described."""
    model = from_config("row", config, complete=False)
    found = shape.of(model)
    return found.elements + tower.parameters(model) + found.extra if found is not None and found.known else None


def misses(config: Mapping[str, Any], parameters: int, *, complete: bool) -> float | None:
    """How far the formulas are off the count, relative; with multi-token-prediction layers or without, whichever the
    checkpoint holds. None where the layers are not described."""
    model = from_config("row", config, complete=complete)
    found = shape.of(model)
    if found is None or not found.known:
        return None
    plain = found.elements + tower.parameters(model)
    return min(abs(one - parameters) / parameters for one in (plain, plain + found.extra))


def proved(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether the count settles what is doubtful in the row's sizes. It says nothing of lengths: a remembered one
    stays doubtful; nor of quantized rows, whose words are packed."""
    if _quantised(config) or not has_exact_sizes(row, config):
        return False
    return from_config("row", config, complete=row["confidence"] == "file").max_position_embeddings is not None


def has_exact_sizes(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether the row's sizes give the number of parameters that was counted."""
    parameters = counted(row)
    if not parameters or row["confidence"] not in ("file", "table") or row.get("memory_keys"):
        return False
    off = misses(config, parameters, complete=row["confidence"] == "file")
    return off is not None and off <= EXACT


CONFIRMED = 0.02
"""How far the formulas may be off the count of a model that confirms them for its family: it may have a tower."""
BY_PUBLISHED_COUNTS = frozenset({"whisper", "hunyuan_v1_moe", "baichuan", "internlm", "nemotron"})
"""Model types without a counted row whose formulas are confirmed: Whisper and Hunyuan by published counts
(tests/vllm/memory/test_families.py, PUBLISHED). The others have plain attention and a plain MLP."""
UNCONFIRMED = "no counted model of its family confirms its sizes"


def families(config: Mapping[str, Any]) -> set[str]:
    """The architectures and model types of a config, of the whole model and of its parts."""
    parts = [config, *(value for key, value in config.items() if key in NESTED and isinstance(value, Mapping))]
    return {
        name
        for part in parts
        for name in (part.get("model_type"), *(part.get("architectures") or ()))
        if isinstance(name, str)
    }


def confirmed_families(rows: Iterable[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The families of which the formulas give the count of a model."""
    found = {*BY_PUBLISHED_COUNTS}
    for row in rows:
        parameters, config = counted(row), configs[row["id"]]
        off = misses(config, parameters, complete=row["confidence"] == "file") if parameters else None
        if off is not None and off <= CONFIRMED:
            found |= families(config)
    return found


def are_sizes_unconfirmed(
    row: Mapping[str, Any], config: Mapping[str, Any], confirmed: set[str], *, indexed: bool
) -> bool:
    """Whether nothing was counted of the row, and its layers may have parts that the formulas do not have."""
    return not (indexed or counted(row) or has_counted_bytes(row)) and confirmed.isdisjoint(families(config))


def is_storage_unknown(row: Mapping[str, Any], config: Mapping[str, Any], doubt: str | None, *, indexed: bool) -> bool:
    """Whether the row's weights may take from 4 to 16 bits each.

    It is doubtful, or was when it was collected. Neither the checkpoint's index (`indexed`) nor its byte size nor its
    own config.json was read. A count proves only the sizes."""
    doubtful = not row["trusted"] or (doubt or "").endswith(UNTOLD)
    read = row["confidence"] == "file" or indexed or has_counted_bytes(row)
    return doubtful and not read and not _quantised(config)


def are_kv_heads_unknown(row: Mapping[str, Any]) -> bool:
    """Whether a table gave the row as many key-value heads as heads, which may be a default."""
    return any(one.startswith("num_key_value_heads") for one in row["doubts"])


def with_ties(row: Mapping[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """The config with `tie_word_embeddings` as the count says, where the collector inferred it without the tower."""
    inferred = any(note.startswith("tie_word_embeddings inferred") for note in row.get("notes") or ())
    parameters = counted(row)
    if not inferred or not parameters:
        return config
    options = [tied(config, tie) for tie in (True, False)]
    off = [misses(one, parameters, complete=False) for one in options]
    if off[0] is None or off[1] is None or min(off[0], off[1]) > EXACT:
        return config
    return options[0] if off[0] < off[1] else options[1]


def tied(config: Mapping[str, Any], tie: bool) -> dict[str, Any]:
    """The config with `tie_word_embeddings` set."""
    nested = {key: {**value, "tie_word_embeddings": tie} for key, value in config.items() if key == "text_config"}
    return {**config, **nested, "tie_word_embeddings": tie}
