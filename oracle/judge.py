"""Runs vLLM's own parser, configuration stage and KV-cache code on command lines: one release and GPU per process.

    python -m oracle.judge FOLDER RELEASE GPU    # cases as JSON lines on stdin, answers on stdout

Cases: oracle/cases.py; answers are compared in oracle/compare.py. The process needs torch and Transformers, not podfit.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from oracle import kv_cache, probes, stand_ins
from podfit.cli.support.read_parser import first_module


class Judge:
    """vLLM's code of one release."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        arguments = first_module(
            "vllm.entrypoints.common.cli_args",  # since 0.33
            "vllm.entrypoints.launchers.cli_args",  # since 0.29
            "vllm.entrypoints.openai.cli_args",
        )
        self.validate = getattr(arguments, "validate_parsed_serve_args", lambda _: None)
        utils = first_module("vllm.utils.argparse_utils", "vllm.utils")  # the second before 0.11.1
        self.parser = arguments.make_arg_parser(utils.FlexibleArgumentParser(prog="vllm serve"))
        if all(
            action.dest != "model_tag" for action in self.parser._actions
        ):  # before 0.9, entrypoints/cli/serve.py adds them
            self.parser.add_argument("model_tag", nargs="?")
            self.parser.add_argument("--config")
        self.engine = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
        self.context = importlib.import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
        self.envs: Any = importlib.import_module("vllm.envs")
        registry: Any = importlib.import_module("vllm.model_executor.models.registry")
        registry._run_in_subprocess = lambda function: function()  # the stand-ins are in this process alone

    def answer(self, case: dict[str, Any]) -> dict[str, Any]:
        """What vLLM makes of a case, with the variables of a process of its own: up to 0.10 it sets VLLM_USE_V1."""
        os.environ.clear()
        os.environ.update({**self.environment, **case.get("environment", {})})
        said = io.StringIO()
        stage = "parse"
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                args = copy.deepcopy(self.parser.parse_args(case["argv"]))  # vLLM writes into the parser's defaults
                values = scalars(vars(args))
                stage = "validate"
                args.model = getattr(args, "model_tag", None) or args.model
                self.validate(args)
                if case["stage"] == "parse":
                    return {"accepted": True, "values": values}
                stage = "config"
                config = self.engine.from_cli_args(args).create_engine_config(usage_context=self.context)
                for variable in case.get("environment", {}):  # vLLM's envs.py converts and checks each when it is read
                    getattr(self.envs, variable, None)
                if "VLLM_LOGGING_LEVEL" in case.get("environment", {}):  # read while vLLM is imported
                    importlib.reload(importlib.import_module("vllm.logger"))
                look_up_loader(config)
                found = {"accepted": True, "resolved": resolved(config)}
                if case.get("probe"):
                    stage = "probe"
                    probes.run(case["probe"], config)
                if case["stage"] == "kv" and v1():
                    stage = "kv"
                    found["kv"] = kv_cache.answer(config, case["kinds"], case["kv_cache_memory_bytes"])
            return found
        except SystemExit:
            lines = said.getvalue().strip().splitlines()
            error = lines[-1] if lines else ""
            return {"accepted": False, "stage": stage, "error": error, "text": "\n".join(lines)[-MOST_CHARACTERS:]}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            own = stage in ("kv", "probe") or isinstance(error, OWN) or any(word in text for word in OWN_WORDS)
            return {"accepted": False, "stage": stage, "own": own, "error": text}


def look_up_loader(config: Any) -> None:
    """Looks the loader's name up, as the worker does before it loads the model. Raises ValueError."""
    if str(config.load_config.load_format) not in ("auto", "LoadFormat.AUTO"):
        loaders: Any = first_module("vllm.model_executor.model_loader.loader", "vllm.model_executor.model_loader")
        loaders.get_model_loader(config.load_config)


def v1() -> bool:
    """Whether this start uses the V1 engine, whose KV cache is compared; the variable is gone since 0.11.1."""
    envs = importlib.import_module("vllm.envs")
    return bool(getattr(envs, "VLLM_USE_V1", True))


MOST_CHARACTERS = 20_000
"""Of what vLLM's parser prints about an error."""
OWN = (ImportError, AttributeError, NameError, NotADirectoryError)
OWN_WORDS = ("failed to be inspected", "does not appear to have a file named", "stand-in for", "HF_HUB_OFFLINE",
             "Can't load", "Could not load", "Triton", "tokenizer", "Failed to import Ray",
             "Repo id must be")  # fmt: skip
"""Failures that come of what is not installed here: the oracle's own, and no answer of vLLM's."""


def scalars(values: dict[str, Any]) -> dict[str, Any]:
    """The values that JSON has."""
    return {
        name: value for name, value in values.items() if value is None or isinstance(value, bool | int | float | str)
    }


def resolved(config: Any) -> dict[str, Any]:
    """The values that vLLM will use, by the names of podfit's `engine.resolved`."""
    model, cache, scheduler = config.model_config, config.cache_config, config.scheduler_config
    return {
        "max_model_len": model.max_model_len,
        "dtype": str(model.dtype).removeprefix("torch."),
        "enforce_eager": model.enforce_eager,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "gpu_memory_utilization": cache.gpu_memory_utilization,
        "enable_prefix_caching": bool(cache.enable_prefix_caching),
    }


def main(argv: list[str]) -> None:
    """Answers each line."""
    folder, release, gpu = argv
    stand_ins.install(Path(folder), release, stand_ins.Gpu(**json.loads(gpu)))
    judge = Judge()
    print(json.dumps({"ready": release}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps({"id": case["id"], **judge.answer(case)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
