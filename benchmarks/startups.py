"""Real start-ups: a file of JSON lines, and what podfit says of each.

A line has `id`, `source`, `model`, `gpu`, `gpu_count`, `gpu_total_gib`, `vllm_version`. `args` {dest: value, "other":
{…}} or `argv` is the command. `outcome` is "starts", or how it failed; `observed` {what the log printed}. `strict` is
false if the case is not certain enough to be scored; `held_out` is true if no constant may be fitted to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podfit.cli.support.batch import answer
from podfit.evaluation.policy import builtin
from podfit.kube.quantity import GI, MI
from podfit.vllm.release import Release, parse

Case = Mapping[str, Any]
NO_ROOM = ("oom_weights", "no_kv_blocks", "kv_too_small_for_max_model_len")
"""Failures for want of weights' or KV room: certain from sizes alone."""
AT_THE_EDGE = ("oom_profile_or_graphs", "free_memory_below_budget")
OTHER_ARGUMENTS = 0.02
"""A request whose memory differs by more than this share was made with other arguments than the reported ones."""
EDGE = 0.01
"""Share of the GPU: runs with equal arguments differ by as much, so that no certain minimum decides less."""
GENERATIONS = (
    ("V0", Release(0, 8)), ("0.8–0.10", Release(0, 11)), ("0.11–0.16", Release(0, 17)), ("0.17–0.19", Release(0, 20)),
    ("0.20–0.27", Release(0, 28)), ("0.28–", Release(9, 0)),
)  # fmt: skip
"""Name → the first release after it."""


def read(path: Path) -> list[Case]:
    """The cases of a file; raises OSError if it can't be read and ValueError if a line is not a JSON object."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            case = json.loads(line)
            if not isinstance(case, dict):
                raise ValueError(f"{path}:{number}: not an object")
            cases.append(case)
    return cases


def argv(case: Case) -> list[str]:
    """The command line; where only arguments were recorded, the words that mean them."""
    if case.get("argv"):
        return list(case["argv"])
    release = parse(case.get("vllm_version") or "") or Release(99, 0)
    given = {key: value for key, value in case["args"].items() if key != "other"}
    given |= case["args"].get("other") or {}
    words = ["vllm", "serve", case["model"]]
    for dest, value in given.items():
        flag = "--" + ("kv_cache_memory_bytes" if dest == "kv_cache_memory" else dest).replace("_", "-")
        if value is None or dest.endswith("_default"):
            continue
        if value is True:
            words.append(flag)
        elif value is False:
            paired = dest in ("enable_prefix_caching", "enable_chunked_prefill") and release >= Release(0, 9)
            words += ["--no-" + flag[2:]] if paired else []
        else:
            words += [flag, value if isinstance(value, str) else json.dumps(value)]
    return words


@dataclass(frozen=True)
class Row:
    """One case and its prediction. Bytes; None if the log did not print it."""

    case: Case
    verdict: str
    gpu: Mapping[str, Any] | None

    @property
    def id(self) -> str:
        """The case's."""
        return str(self.case["id"])

    @property
    def starts(self) -> bool:
        """It ran."""
        return bool(self.case["outcome"] == "starts")

    @property
    def held_out(self) -> bool:
        """No constant may be fitted to it."""
        return bool(self.case.get("held_out"))

    @property
    def no_room(self) -> bool:
        """It failed for want of weights' or KV room."""
        return self.case["outcome"] in NO_ROOM

    @property
    def source(self) -> str:
        """Who published it: the repository, or the site and its first part."""
        text = str(self.case["source"])
        if found := re.match(r"([\w.-]+/[\w.-]+)[:#\s]", text + " "):
            return found[1]
        return re.split(r"[#?\s]", text)[0][:60]

    @property
    def generation(self) -> str:
        """The releases that account for memory alike."""
        release = parse(self.case.get("vllm_version") or "")
        return "unknown" if release is None else next(name for name, end in GENERATIONS if release < end)

    @property
    def card(self) -> str:
        """The GPU, without its maker."""
        return str(self.case.get("gpu") or "unknown").removeprefix("NVIDIA ").removeprefix("GeForce ")

    @property
    def family(self) -> str:
        """The first word of the model's name."""
        last = str(self.case["model"]).rpartition("/")[2].lower()
        return re.match(r"[a-z]*", last)[0] or last  # type: ignore[index]

    def printed(self, *names: str) -> float | None:
        """The first of these that the log printed, in bytes."""
        found = next((self.case["observed"][name] for name in names if self.case["observed"].get(name)), None)
        return None if found is None or found <= 0 else float(found) * GI

    @property
    def weights(self) -> float | None:
        """ "Model loading took N GiB"."""
        return self.printed("weights_gib_per_gpu")

    @property
    def kv_cache(self) -> float | None:
        """ "Available KV cache memory: N GiB"."""
        return self.printed("kv_cache_gib_per_gpu", "kv_available_gib")

    @property
    def tokens(self) -> float | None:
        """ "GPU KV cache size: N tokens", or blocks × block size."""
        observed = self.case["observed"]
        found = observed.get("kv_cache_tokens")
        if not found and observed.get("num_gpu_blocks"):
            found = observed["num_gpu_blocks"] * (self.case["args"].get("block_size") or 16)
        return float(found) if found else None

    @property
    def needed(self) -> float | None:
        """ "N GiB KV cache is needed" for one request."""
        return self.printed("kv_needed_gib")

    @property
    def shortage(self) -> float | None:
        """What one request lacked: of the bytes needed, or of the tokens that the log printed."""
        if self.needed and self.kv_cache:
            return self.needed - self.kv_cache
        length = self.gpu and self.gpu.get("max_model_len")
        if self.gpu is None or not length or not self.tokens or self.tokens >= length:
            return None
        return float((length - self.tokens) * (self.gpu["kv_cache_bytes_per_token"] or 0))

    @property
    def undecidable(self) -> str | None:
        """Why the report of a failure does not explain it; None if it does, and for cases that are denied or start."""
        if not self.no_room or self.verdict == "does-not-fit":
            return None
        if not self.case.get("vllm_version"):
            return "vLLM's release is not known, and not every release fails"
        own = self.gpu and self.gpu.get("kv_cache_bytes_per_request")
        if self.needed and own and abs(own / self.needed - 1) > OTHER_ARGUMENTS:
            return f"one request needed {self.needed / GI:.2f} GiB, with the reported arguments {own / GI:.2f} GiB"
        if self.gpu and self.shortage is not None and self.shortage < EDGE * self.gpu["total"]["likely"]:
            share = 100 * self.shortage / self.gpu["total"]["likely"]
            return f"{self.shortage / MI:.0f} MiB were missing, {share:.1f} % of the GPU"
        return None

    @property
    def released(self) -> bool:
        """The release is known and there is a ledger: numbers can be compared."""
        return self.gpu is not None and bool(self.case.get("vllm_version"))


def predict(cases: Iterable[Case]) -> Iterator[Row]:
    """podfit's plan of each case that it can read."""
    policy = builtin()
    for case in cases:
        total = case.get("gpu_total_gib")
        found = answer(
            {
                "id": case["id"],
                "argv": argv(case),
                "gpu": f"{case.get('gpu') or 'unknown'}:{case.get('gpu_count') or 1}",
                "gpu_memory_bytes": int(total * GI) if total else None,
                "vllm_version": case.get("vllm_version"),
                "model_config": case.get("model_config"),
                "weights_bytes": case.get("weights_bytes"),
            },
            policy,
        )
        yield Row(case, str(found.get("verdict", "unsure")), found.get("gpu"))
