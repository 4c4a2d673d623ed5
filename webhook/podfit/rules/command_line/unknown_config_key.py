from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.base.near import nearest
from podfit.rules._flags import certainty, from_json, life, named, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.args import settings

RENAMED = {
    "level": ("mode",),
    "pass_config.enable_fusion": ("fuse_norm_quant", "fuse_act_quant"),
    "pass_config.enable_attn_fusion": ("fuse_attn_quant",),
    "pass_config.enable_sequence_parallelism": ("enable_sp",),
    "pass_config.enable_async_tp": ("fuse_gemm_comms",),
    "pass_config.enable_fi_allreduce_fusion": ("fuse_allreduce_rms",),
    "pass_config.enable_noop": ("eliminate_noops",),
}
"""Keys of `--compilation-config` whose new name is not like the old one (vLLM 0.12 config/compilation.py)."""


KEYS_SHOWN = 5
"""Keys of one argument that are findings of their own."""


class UnknownConfigKey(Rule):
    """A JSON argument has a key that this release does not know.

    `--speculative-config`, `--compilation-config` and others fill a class of vLLM's. Since v0.16 they all reject what
    that class has no field for (vLLM 0.16 config/utils.py, `extra="forbid"`), `--compilation-config` since v0.13:

        Unexpected keyword argument [type=unexpected_keyword_argument, input_value=…

    Before, pydantic passed over such a key, and the setting had no effect. Keys come and go between releases as flags
    do: `use_cudagraph` and `full_cuda_graph` went in v0.11.1, `kv_rank` and `kv_parallel_size` in v0.32.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    by_release = True
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: the fields are read off each release's sources."""
        for dest, value in engine.once(from_json):
            keys = list(settings.unknown_keys(dest, value, engine.release))
            if len(keys) > KEYS_SHOWN:
                yield _many_keys(engine, dest, keys)
                continue
            for refusal in keys:
                last = refusal.place.rpartition(".")[2]
                renamed = [new for new in RENAMED.get(refusal.place, ()) if new in refusal.allowed]
                near = renamed or nearest(last, refusal.allowed, cutoff=0.7)
                yield Finding(
                    path=engine.argument(dest),
                    certainty=certainty(engine),
                    unknown_name=refusal.first is None,
                    uncertain=uncertain(engine),
                    message=f"--{dest.replace('_', '-')} has a key {refusal.place!r} that "
                    f"{named(engine)} does not know{life(refusal, engine.release)}"
                    + (f"; did you mean {' or '.join(map(repr, near))}?" if near else ""),
                    details=("vLLM ends with a validation error before it loads anything",),
                    suggestions=tuple(f"{new!r} instead of {last!r}" for new in near),
                )


def _many_keys(engine: Engine, dest: str, keys: Sequence[settings.Refusal]) -> Finding:
    """One finding about many unknown keys of one argument."""
    named_first = ", ".join(repr(refusal.place) for refusal in keys[:KEYS_SHOWN])
    return Finding(
        path=engine.argument(dest),
        certainty=certainty(engine),
        unknown_name=all(refusal.first is None for refusal in keys),
        uncertain=uncertain(engine),
        message=f"--{dest.replace('_', '-')} has {len(keys):,} keys that {named(engine)} does not know: {named_first} "
        f"and {len(keys) - KEYS_SHOWN:,} more",
        details=("vLLM ends with a validation error before it loads anything",),
    )
