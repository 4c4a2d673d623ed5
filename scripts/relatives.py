"""Fine-tunes and quantised copies whose model cards name the model they were made of, or whose own copies have its
sizes (Ornith): its architecture is theirs.

They resolve by id, and only inform: a card says nothing of a vocabulary that grew by some tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

FINE_TUNES: Mapping[str, str] = {
    "meta-llama/Llama-2-7b-hf":
        "FreedomIntelligence/AceGPT-7B elyza/ELYZA-japanese-Llama-2-7b-instruct instructlab/granite-7b-lab "
        "ibm-granite/granite-7b-instruct ibm-granite/granite-7b-base",
    "meta-llama/Llama-2-13b-hf":
        "Gryphe/MythoMax-L2-13b jondurbin/airoboros-l2-13b-2.2.1 NousResearch/Nous-Hermes-Llama2-13b",
    "meta-llama/Meta-Llama-3-8B":
        "DiscoResearch/Llama3-German-8B VAGOsolutions/Llama-3-SauerkrautLM-8b-Instruct elyza/Llama-3-ELYZA-JP-8B "
        "beomi/Llama-3-Open-Ko-8B cognitivecomputations/dolphin-2.9-llama3-8b defog/llama-3-sqlcoder-8b "
        "PatronusAI/Llama-3-Patronus-Lynx-8B-Instruct AI-Sweden-Models/Llama-3-8B-instruct "
        "meta-llama/Llama-3-8b-chat-hf Orenguteng/Llama-3-8B-Lexi-Uncensored "
        "gradientai/Llama-3-8B-Instruct-Gradient-1048k",
    "meta-llama/Meta-Llama-3-70B-Instruct": "meta-llama/Llama-3-70b-chat-hf",
    "meta-llama/Llama-3.1-8B":
        "allenai/Llama-3.1-Tulu-3-8B allenai/Llama-3.1-Tulu-3-8B-SFT allenai/Llama-3.1-Tulu-3-8B-DPO "
        "allenai/Llama-3.1-Tulu-3.1-8B tokyotech-llm/Llama-3.1-Swallow-8B-Instruct-v0.3 "
        "cognitivecomputations/Dolphin3.0-Llama3.1-8B dphn/Dolphin3.0-Llama3.1-8B "
        "aisingapore/Llama-SEA-LION-v3-8B-IT Salesforce/Llama-xLAM-2-8b-fc-r "
        "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2 kakaocorp/kanana-1.5-8b-instruct-2505 "
        "nvidia/Llama-3.1-Nemotron-8B-UltraLong-1M-Instruct fdtn-ai/Foundation-Sec-8B "
        "fdtn-ai/Foundation-Sec-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct":
        "allenai/Llama-3.1-Tulu-3-70B mattshumer/Reflection-Llama-3.1-70B aisingapore/Llama-SEA-LION-v3-70B-IT "
        "tokyotech-llm/Llama-3.1-Swallow-70B-Instruct-v0.3",
    "meta-llama/Llama-3.3-70B-Instruct":
        "tokyotech-llm/Llama-3.3-Swallow-70B-Instruct-v0.4 Salesforce/Llama-xLAM-2-70b-fc-r",
    "codellama/CodeLlama-7b-hf": "defog/sqlcoder-7b-2",
    "codellama/CodeLlama-34b-hf":
        "WizardLMTeam/WizardCoder-Python-34B-V1.0 WizardLM/WizardCoder-Python-34B-V1.0 Phind/Phind-CodeLlama-34B-v2 "
        "Phind/Phind-CodeLlama-34B-v1",
    "mistralai/Mistral-7B-v0.1":
        "openchat/openchat-3.5-0106 openchat/openchat-3.5-1210 openchat/openchat_3.5 "
        "berkeley-nest/Starling-LM-7B-alpha Nexusflow/Starling-LM-7B-beta Intel/neural-chat-7b-v3-1 "
        "Intel/neural-chat-7b-v3-3 Open-Orca/Mistral-7B-OpenOrca mlabonne/NeuralBeagle14-7B "
        "ehartford/dolphin-2.1-mistral-7b Undi95/Toppy-M-7B cognitivecomputations/dolphin-2.8-mistral-7b-v02 "
        "occiglot/occiglot-7b-eu5-instruct occiglot/occiglot-7b-eu5 prometheus-eval/prometheus-7b-v2.0 "
        "Salesforce/SFR-Embedding-Mistral speakleash/Bielik-7B-Instruct-v0.1 speakleash/Bielik-7B-v0.1 "
        "NousResearch/Yarn-Mistral-7b-128k Salesforce/xLAM-7b-r",
    "mistralai/Mixtral-8x7B-v0.1":
        "cognitivecomputations/dolphin-2.5-mixtral-8x7b cognitivecomputations/dolphin-2.6-mixtral-8x7b "
        "cognitivecomputations/dolphin-2.7-mixtral-8x7b prometheus-eval/prometheus-8x7b-v2.0",
    "mistralai/Mistral-Small-24B-Instruct-2501":
        "sarvamai/sarvam-m cognitivecomputations/Dolphin3.0-Mistral-24B "
        "cognitivecomputations/Dolphin3.0-R1-Mistral-24B",
    "deepseek-ai/deepseek-coder-6.7b-base":
        "ise-uiuc/Magicoder-S-DS-6.7B m-a-p/OpenCodeInterpreter-DS-6.7B gorilla-llm/gorilla-openfunctions-v2",
    "deepseek-ai/deepseek-llm-7b-chat": "deepseek-ai/DeepSeek-Prover-V2-7B deepseek-ai/DeepSeek-Prover-V1.5-RL",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "agentica-org/DeepScaleR-1.5B-Preview",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "agentica-org/DeepCoder-14B-Preview",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": "Skywork/Skywork-OR1-32B Skywork/Skywork-OR1-32B-Preview",
    "Qwen/Qwen2-7B-Instruct": "arcee-ai/Arcee-Spark SeaLLMs/SeaLLMs-v3-7B-Chat Alibaba-NLP/gte-Qwen2-7B-instruct",
    "Qwen/Qwen2-1.5B-Instruct": "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
    "Qwen/Qwen2.5-1.5B-Instruct": "katanemo/Arch-Router-1.5B katanemo/Arch-Function-1.5B",
    "Qwen/Qwen2.5-3B-Instruct": "katanemo/Arch-Function-3B",
    "Qwen/Qwen2.5-7B-Instruct":
        "open-thoughts/OpenThinker-7B open-thoughts/OpenThinker2-7B open-thoughts/OpenThinker3-7B "
        "katanemo/Arch-Function-7B bespokelabs/Bespoke-Stratos-7B",
    "Qwen/Qwen2.5-32B-Instruct":
        "NovaSky-AI/Sky-T1-32B-Preview simplescaling/s1-32B simplescaling/s1.1-32B open-thoughts/OpenThinker-32B "
        "open-thoughts/OpenThinker2-32B bespokelabs/Bespoke-Stratos-32B",
    "Qwen/QwQ-32B": "PrimeIntellect/INTELLECT-2",
    "Qwen/Qwen2.5-VL-7B-Instruct":
        "reducto/RolmOCR numind/NuMarkdown-8B-Thinking numind/NuExtract-2.0-8B allenai/olmOCR-7B-0825",
    "Qwen/Qwen2.5-VL-3B-Instruct": "nanonets/Nanonets-OCR-s",
    "Qwen/Qwen2-VL-72B-Instruct": "Qwen/QVQ-72B-Preview",
    "Qwen/Qwen2-VL-2B-Instruct": "MrLight/dse-qwen2-2b-mrl-v1",
    "Qwen/Qwen3-0.6B": "osmosis-ai/Osmosis-Structure-0.6B Qwen/Qwen3Guard-Gen-0.6B",
    "Qwen/Qwen3-4B": "Menlo/Jan-nano Menlo/Jan-nano-128k Qwen/Qwen3Guard-Gen-4B",
    "Qwen/Qwen3-4B-Thinking-2507": "janhq/Jan-v1-4B",
    "Qwen/Qwen3-8B": "Qwen/Qwen3Guard-Gen-8B",
    "Qwen/Qwen3.5-9B": "ornith-ai/Ornith-1.0-9B ornith-ai/Ornith-1.5-9B",
    "google/gemma-2-2b-it": "google/shieldgemma-2b",
    "google/gemma-2-9b-it":
        "google/shieldgemma-9b aisingapore/Gemma-SEA-LION-v3-9B-IT princeton-nlp/gemma-2-9b-it-SimPO",
    "google/gemma-2-27b-it": "google/shieldgemma-27b",
    "openai/gpt-oss-20b": "openai/gpt-oss-safeguard-20b",
    "openai/gpt-oss-120b": "openai/gpt-oss-safeguard-120b",
    "zai-org/GLM-4.5-Air": "PrimeIntellect/INTELLECT-3",
    "zai-org/GLM-4.5V": "zai-org/GLM-4.6V",
    "EleutherAI/pythia-12b": "databricks/dolly-v2-12b OpenAssistant/oasst-sft-4-pythia-12b-epoch-3.5",
    "mosaicml/mpt-7b": "mosaicml/mpt-7b-instruct mosaicml/mpt-7b-chat",
    "BAAI/bge-m3": "Snowflake/snowflake-arctic-embed-l-v2.0",
    "BAAI/bge-large-en-v1.5": "intfloat/e5-large-v2 thenlper/gte-large intfloat/e5-large",
    "BAAI/bge-base-en-v1.5": "intfloat/e5-base-v2 thenlper/gte-base",
    "sentence-transformers/all-MiniLM-L6-v2": "cross-encoder/ms-marco-MiniLM-L-6-v2",
    "stabilityai/stablelm-2-zephyr-1_6b": "stabilityai/stablelm-2-1_6b-chat stabilityai/stablelm-2-1_6b",
    "stabilityai/stable-code-3b": "stabilityai/stable-code-instruct-3b",
    "ibm-granite/granite-8b-code-instruct-4k": "ibm-granite/granite-8b-code-instruct",
    "ibm-granite/granite-3.1-8b-instruct": "ibm-granite/granite-guardian-3.1-8b",
    "LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct": "LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct",
    "bigcode/starcoder": "WizardLM/WizardCoder-15B-V1.0 bigcode/starcoderbase HuggingFaceH4/starchat-beta",
}  # fmt: skip
"""The model → what was fine-tuned from it."""
COPIES: Mapping[tuple[str, str], str] = {
    ("Qwen/Qwen2-72B-Instruct", "awq"): "Qwen/Qwen2-72B-Instruct-AWQ",
    ("Qwen/Qwen2-72B-Instruct", "gptq"): "Qwen/Qwen2-72B-Instruct-GPTQ-Int4",
    ("Qwen/Qwen3-Next-80B-A3B-Thinking", "fp8"): "Qwen/Qwen3-Next-80B-A3B-Thinking-FP8",
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "fp8"): "RedHatAI/Qwen3-Next-80B-A3B-FP8",
    ("Qwen/Qwen3.6-27B", "awq"): "Qwen/Qwen3.6-27B-AWQ",
    ("Qwen/Qwen3-14B", "fp8"): "RedHatAI/Qwen3-14B-FP8-dynamic",
    ("Qwen/Qwen3-8B", "bnb"): "unsloth/Qwen3-8B-unsloth-bnb-4bit unsloth/Qwen3-8B-bnb-4bit",
    ("Qwen/Qwen3-235B-A22B", "nvfp4"): "nvidia/Qwen3-235B-A22B-FP4",
    ("Qwen/Qwen3-30B-A3B", "nvfp4"): "nvidia/Qwen3-30B-A3B-FP4",
    ("Qwen/Qwen3-32B", "nvfp4"): "nvidia/Qwen3-32B-FP4",
    ("Qwen/Qwen3-14B", "nvfp4"): "nvidia/Qwen3-14B-FP4",
    ("Qwen/Qwen3-235B-A22B-Instruct-2507", "awq"): "QuantTrio/Qwen3-235B-A22B-Instruct-2507-AWQ",
    ("Qwen/Qwen3-30B-A3B-Instruct-2507", "awq"): "cpatonn/Qwen3-30B-A3B-Instruct-2507-AWQ-4bit",
    ("deepseek-ai/DeepSeek-R1", "awq"): "cognitivecomputations/DeepSeek-R1-AWQ QuixiAI/DeepSeek-R1-AWQ",
    ("deepseek-ai/DeepSeek-R1-0528", "awq"):
        "cognitivecomputations/DeepSeek-R1-0528-AWQ QuixiAI/DeepSeek-R1-0528-AWQ",
    ("deepseek-ai/DeepSeek-V3", "awq"): "cognitivecomputations/DeepSeek-V3-AWQ QuixiAI/DeepSeek-V3-AWQ",
    ("deepseek-ai/DeepSeek-V3-0324", "awq"): "cognitivecomputations/DeepSeek-V3-0324-AWQ",
    ("deepseek-ai/DeepSeek-R1", "nvfp4"): "nvidia/DeepSeek-R1-FP4 nvidia/DeepSeek-R1-FP4-v2 nvidia/DeepSeek-R1-NVFP4",
    ("deepseek-ai/DeepSeek-R1-0528", "nvfp4"):
        "nvidia/DeepSeek-R1-0528-FP4 nvidia/DeepSeek-R1-0528-FP4-v2 nvidia/DeepSeek-R1-0528-NVFP4",
    ("deepseek-ai/DeepSeek-V3-0324", "nvfp4"): "nvidia/DeepSeek-V3-0324-FP4",
    ("deepseek-ai/DeepSeek-R1", "mxfp4"): "amd/DeepSeek-R1-MXFP4-Preview",
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "awq"):
        "casperhansen/deepseek-r1-distill-qwen-32b-awq Valdemardi/DeepSeek-R1-Distill-Qwen-32B-AWQ "
        "inarikami/DeepSeek-R1-Distill-Qwen-32B-AWQ",
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "bnb"): "unsloth/DeepSeek-R1-Distill-Qwen-32B-bnb-4bit",
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "w8a8"):
        "RedHatAI/DeepSeek-R1-Distill-Qwen-7B-quantized.w8a8 neuralmagic/DeepSeek-R1-Distill-Qwen-7B-quantized.w8a8",
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "awq"):
        "casperhansen/deepseek-r1-distill-llama-70b-awq Valdemardi/DeepSeek-R1-Distill-Llama-70B-AWQ",
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "awq"): "casperhansen/deepseek-r1-distill-llama-8b-awq",
    ("deepseek-ai/deepseek-coder-33b-instruct", "awq"): "TheBloke/deepseek-coder-33B-instruct-AWQ",
    ("moonshotai/Kimi-K2-Instruct", "w4a16"): "RedHatAI/Kimi-K2-Instruct-quantized.w4a16",
    ("zai-org/GLM-4.5V", "fp8"): "zai-org/GLM-4.5V-FP8 zai-org/GLM-4.6V-FP8",
    ("meta-llama/Llama-2-7b-chat-hf", "awq"): "TheBloke/Llama-2-7B-Chat-AWQ",
    ("meta-llama/Llama-2-13b-chat-hf", "awq"): "TheBloke/Llama-2-13B-chat-AWQ",
    ("meta-llama/Llama-2-70b-chat-hf", "awq"): "TheBloke/Llama-2-70B-Chat-AWQ",
    ("codellama/CodeLlama-34b-Instruct-hf", "awq"): "TheBloke/CodeLlama-34B-Instruct-AWQ",
    ("HuggingFaceH4/zephyr-7b-beta", "awq"): "TheBloke/zephyr-7B-beta-AWQ",
    ("01-ai/Yi-34B-Chat", "awq"): "TheBloke/Yi-34B-Chat-AWQ",
    ("mistralai/Mistral-7B-Instruct-v0.3", "awq"): "solidrust/Mistral-7B-Instruct-v0.3-AWQ",
    ("mistralai/Mistral-Small-24B-Instruct-2501", "awq"): "stelterlab/Mistral-Small-24B-Instruct-2501-AWQ",
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "w4a16"):
        "OPEA/Mistral-Small-3.1-24B-Instruct-2503-int4-AutoRound-awq-sym",
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "fp8"): "amd/Mixtral-8x7B-Instruct-v0.1-FP8-KV",
    ("meta-llama/Meta-Llama-3-8B-Instruct", "fp8"):
        "neuralmagic/Meta-Llama-3-8B-Instruct-FP8 RedHatAI/Meta-Llama-3-8B-Instruct-FP8 "
        "neuralmagic/Meta-Llama-3-8B-Instruct-FP8-KV",
    ("meta-llama/Meta-Llama-3-8B-Instruct", "awq"):
        "TechxGenus/Meta-Llama-3-8B-Instruct-AWQ casperhansen/llama-3-8b-instruct-awq "
        "solidrust/Meta-Llama-3-8B-Instruct-AWQ",
    ("meta-llama/Meta-Llama-3-8B-Instruct", "gptq"):
        "astronomer/Llama-3-8B-Instruct-GPTQ-4-Bit TechxGenus/Meta-Llama-3-8B-Instruct-GPTQ",
    ("meta-llama/Meta-Llama-3-70B-Instruct", "awq"):
        "study-hjt/Meta-Llama-3-70B-Instruct-AWQ casperhansen/llama-3-70b-instruct-awq "
        "TechxGenus/Meta-Llama-3-70B-Instruct-AWQ",
    ("meta-llama/Meta-Llama-3-70B-Instruct", "gptq"): "TechxGenus/Meta-Llama-3-70B-Instruct-GPTQ",
    ("meta-llama/Llama-3.1-8B-Instruct", "fp8"): "amd/Llama-3.1-8B-Instruct-FP8-KV",
    ("meta-llama/Llama-3.1-70B-Instruct", "fp8"): "amd/Llama-3.1-70B-Instruct-FP8-KV",
    ("meta-llama/Llama-3.1-405B-Instruct", "fp8"):
        "amd/Llama-3.1-405B-Instruct-FP8-KV nvidia/Llama-3.1-405B-Instruct-FP8",
    ("meta-llama/Llama-3.1-405B-Instruct", "nvfp4"): "nvidia/Llama-3.1-405B-Instruct-FP4",
    ("meta-llama/Llama-3.1-8B-Instruct", "nvfp4"):
        "nvidia/Llama-3.1-8B-Instruct-FP4 nvidia/Llama-3.1-8B-Instruct-NVFP4",
    ("meta-llama/Llama-3.3-70B-Instruct", "fp8"): "amd/Llama-3.3-70B-Instruct-FP8-KV",
    ("meta-llama/Llama-3.3-70B-Instruct", "nvfp4"):
        "nvidia/Llama-3.3-70B-Instruct-FP4 nvidia/Llama-3.3-70B-Instruct-NVFP4",
    ("meta-llama/Llama-3.3-70B-Instruct", "mxfp4"): "amd/Llama-3.3-70B-Instruct-MXFP4-Preview",
    ("meta-llama/Llama-3.3-70B-Instruct", "awq"):
        "ibnzterrell/Meta-Llama-3.3-70B-Instruct-AWQ-INT4 kosbu/Llama-3.3-70B-Instruct-AWQ "
        "lambdalabs/Llama-3.3-70B-Instruct-AWQ-4bit",
    ("meta-llama/Llama-3.3-70B-Instruct", "gptq"): "shuyuej/Llama-3.3-70B-Instruct-GPTQ",
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "fp8"): "nvidia/Llama-4-Scout-17B-16E-Instruct-FP8",
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "nvfp4"): "nvidia/Llama-4-Scout-17B-16E-Instruct-FP4",
    ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "fp8"):
        "nvidia/Llama-4-Maverick-17B-128E-Instruct-FP8 RedHatAI/Llama-4-Maverick-17B-128E-Instruct-FP8",
    ("google/gemma-3-27b-it", "gptq"): "ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g",
    ("google/gemma-3-27b-it", "awq"): "gaunernst/gemma-3-27b-it-int4-awq gaunernst/gemma-3-27b-it-qat-autoawq",
    ("google/gemma-3-27b-it", "fp8"): "leon-se/gemma-3-27b-it-FP8-Dynamic",
    ("google/gemma-3-12b-it", "gptq"): "ISTA-DASLab/gemma-3-12b-it-GPTQ-4b-128g",
    ("google/gemma-3-12b-it", "fp8"): "leon-se/gemma-3-12b-it-FP8-Dynamic",
}  # fmt: skip
"""(the model, the scheme as `webhook.vllm.model.name.SCHEMES` names it) → its quantised copies."""


def lines() -> dict[str, list[str | None]]:
    """Lower-case id → [the id as its owner writes it, the model it was made of, its scheme]."""
    found: dict[str, list[str | None]] = {}
    for base, names in FINE_TUNES.items():
        found.update({name.lower(): [name, base, None] for name in names.split()})
    for (base, scheme), names in COPIES.items():
        found.update({name.lower(): [name, base, scheme] for name in names.split()})
    return found
