from __future__ import annotations

from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

PLACEHOLDER = regex(
    r"<[^<>\s][^<>]{0,80}>"
    r"|(?<![A-Za-z0-9])(?:REPLACE|CHANGE|INSERT|FILL)(?:[_-]?(?:ME|THIS|WITH|IN)[A-Z0-9_-]*)(?![a-z])"
    r"|(?<![A-Za-z0-9])REPLACE(?:[_-][A-Z0-9]+)*(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9_])__[A-Z][A-Z0-9_]*__(?![A-Za-z0-9_])"
    r"|(?<![A-Za-z0-9])[A-Z0-9]+(?:[_-][A-Z0-9]+)*[_-]HERE(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])YOUR(?:[_-][A-Z0-9]+)+(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])your[_-](?:registry|repo|repository|org|organization|image|model|tag|token|username|account)"
    r"(?![A-Za-z0-9])"
)
"""Placeholders in examples that a user must replace."""
_PARTS = ("<", "__", "REPLACE", "CHANGE", "INSERT", "FILL", "HERE", "YOUR", "your")
"""Every placeholder contains one of these; to look for them is faster."""
MAX_SEARCHED_CHARACTERS = 512
"""Characters of a value that are searched; the name of an image or of a model is shorter."""
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Variables whose value is not printed: it may be a token. The hub answers 401 to one that it does not know, also for
a public model."""
READ_PREFIXES = ("VLLM_", "NCCL_", "CUDA_", "HF_", "HUGGING_FACE_")
"""Prefixes of the variables that vLLM and its libraries read."""


class PlaceholderValue(Rule):
    """An image, a model or a variable still has the placeholder of an example.

    `<your-registry>/vllm:TAG_HERE` is not an image's name or is not in the registry:

        Failed to apply default image tag "<your-registry>/vllm:v1": couldn't parse image reference

    A model `REPLACE_ME` is not on the hub, and with the token `<your-token>` the hub answers 401 even for a public
    model. A template's own signs, `${NAME}` or `{{ .Values.name }}`, are not placeholders in this sense.
    """

    plane = "config"
    event = "the image can't be pulled, or vLLM exits: the model or the token is not valid"
    of_vllm = False
    never_denies = "a tool may replace the placeholder before the Pod starts"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: a tool may replace it later. A placeholder may be a part of an image or of a model, but has to be the
        whole value of a variable."""
        image = engine.field("image")
        model = engine.args.model or engine.args.written.get("model") or engine.args.written.get("model_tag")
        if isinstance(image, str) and (placeholder := _placeholder(image)):
            text = image[:MAX_SEARCHED_CHARACTERS]
            yield _finding(engine.at("image"), f"image {text!r} has the placeholder {placeholder!r}")
        if isinstance(model, str) and (placeholder := _placeholder(model)):
            text = model[:MAX_SEARCHED_CHARACTERS]
            yield _finding(engine.argument("model"), f"model {text!r} has the placeholder {placeholder!r}")
        for index, name, value in engine.variables:
            if not name.startswith(READ_PREFIXES) or not isinstance(value, str):
                continue
            if match := PLACEHOLDER.fullmatch(value.strip()[:MAX_SEARCHED_CHARACTERS]):
                value_text = "" if name in TOKENS else f" {match[0]!r}"
                yield _finding(engine.at("env", index, "value"), f"{name} has the value of an example{value_text}")


def _placeholder(text: str) -> str | None:
    """The first placeholder in the text's first `MAX_SEARCHED_CHARACTERS`; None if there is none."""
    if not any(part in text for part in _PARTS):
        return None
    match = PLACEHOLDER.search(text[:MAX_SEARCHED_CHARACTERS])
    return match[0] if match else None


def _finding(path: FieldPath, message: str) -> Finding:
    """The likely finding of a placeholder at `path`."""
    return Finding(
        path,
        message,
        certainty="likely",
        suggestions=("the real value in its place",),
    )
