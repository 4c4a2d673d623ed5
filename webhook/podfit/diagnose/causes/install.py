"""Causes in the image's software: packages, compilers, the driver's libraries, crashes of native code."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_COMPILER = r"nvcc|ninja|gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cc1plus|ptxas|hipcc|cicc|x86_64-linux-gnu-gcc"
_TOKENIZER = r"all_special_tokens_extended|additional_special_tokens|special_tokens_map_extended"

CAUSES = (
    Cause(
        "compiler-missing",
        "A compiler or header that vLLM needs at run time is not in the image",
        "vLLM, FlashInfer, Triton and PyTorch compile kernels at the start. Use vLLM's own image of the release, or "
        "install the program that the line names.",
        (
            Signature(
                rf"(?:\b|/)(?:{_COMPILER}): (?:command )?not found|"
                rf"No such file or directory: '(?:[^']*/)?(?:{_COMPILER})'|"
                r"Could not find nvcc|[Nn]vcc (?:is )?not found|cannot execute .?cc1plus|"
                r"error trying to exec 'cc1plus'|'cicc': No such file",
                "dash, bash, Python's subprocess, gcc, of a command that a build runs",
            ),
            Signature(
                r"Failed to find C compiler|InvalidCxxCompiler|No working C\+\+ compiler found|"
                r"Ninja is required to load C\+\+ extensions|CUDA_HOME environment variable is not set|"
                r"Please specify via CC environment variable|Cannot find CUDA compiler|"
                r"CUDA_HOME .{0,40}does not exist",  # style: quoted
                "Triton python/triton/runtime/build.py; PyTorch torch/_inductor/exc.py, torch/utils/cpp_extension.py",
            ),
            Signature(
                r"(?:fatal )?error: \"?[\w./+-]+\.(?:h|hpp|cuh|hxx)\"?: No such file or directory|"
                r"cannot open source file \"[^\"]+\"|could not open source file \"[^\"]+\"|"
                r"fatal error: '?[\w./+-]+'? file not found",
                "gcc, nvcc, clang: headers of the C library, Python or CUDA",
            ),
        ),
        meanings=(
            (r"Python\.h", "'Python.h' is in the package python3-dev (python3.12-dev) of the image's Python."),
            (r"nvcc|cicc", "nvcc is in the images of the CUDA toolkit (devel), not in the runtime images."),
            (
                r"flashinfer|topk_topp_sampler",
                "VLLM_USE_FLASHINFER_SAMPLER=0 makes vLLM sample without FlashInfer, which compiles its sampler.",
            ),
            (r"std(?:def|int|io|lib)\.h", "'stddef.h' and its like are in the packages gcc and libc6-dev."),
        ),
    ),
    Cause(
        "driver-library-not-found",
        "The driver's library libcuda is not where the loader or linker looks",
        "If the container requests a GPU, the runtime mounts libcuda.so.1: add its folder to LD_LIBRARY_PATH and set "
        "TRITON_LIBCUDA_PATH to it (find it with `ldconfig -p | grep libcuda`). If it requests none, add "
        "nvidia.com/gpu to the limits.",
        (
            Signature(
                r"cannot find -l:?(?:lib)?cuda\b|libcuda\.so(?:\.1)? cannot (?:be )?found|"
                r"libcuda\.so(?:\.1)? not found|'-l:libcuda\.so\.1'",
                "ld; Triton third_party/nvidia/backend/driver.py libcuda_dirs",
            ),
            Signature(
                r"libcuda\.so(?:\.1)?: cannot open shared object file|Unable to find libcuda|"
                r"[Cc]ould not (?:load|find) (?:dynamic )?library '?libcuda",
                "ld.so",
                ambiguous=True,
            ),
        ),
        ("gpu-count-mismatch", "invalid-environment"),
    ),
    Cause(
        "no-user-entry",
        "The container's user id has no entry in /etc/passwd",
        "OpenShift and runAsUser choose such ids. Set the variables USER (any name), HOME and TORCHINDUCTOR_CACHE_DIR "
        "(a writable folder, such as /tmp/torch).",
        (
            Signature(
                r"getpwuid\(\): uid not found|No username set in the environment|"
                r"cannot find name for user ID|No user exists for uid",
                "Python getpass.getuser, in PyTorch torch/_inductor/runtime/cache_dir_utils.py",
            ),
        ),
        ("home-not-writable",),
    ),
    Cause(
        "library-mismatch",
        "A Python library is too old or too new for this release or model",
        "Use vLLM's own image of a release that knows the model. In your own image, pin the version that this vLLM "
        "names in its requirements (`pip show vllm`, `pip check`).",
        (
            Signature(
                r"Tokenizer class TokenizersBackend does not exist",
                "transformers 4, on a checkpoint that transformers 5 wrote",
            ),
            Signature(
                rf"has no attribute '?(?:{_TOKENIZER})|object has no attribute '_?(?:pad|eos|bos)_token_type_id'",
                "vLLM transformers_utils/tokenizer.py with transformers 5",
            ),
            Signature(
                r"Couldn't instantiate the backend tokenizer|data did not match any variant of untagged enum|"
                r"requires the (?:SentencePiece|protobuf|Tokenizers|tiktoken) library|"
                r"`?(?:sentencepiece|tiktoken|blobfile)`? is (?:required|not installed)|pip install (?:tiktoken|"
                r"sentencep)",
                "transformers tokenization_utils_fast.py, convert_slow_tokenizer.py; tokenizers",
            ),
            Signature(
                r"Tokenizer class \w+ does not exist or is not currently imported",
                "transformers models/auto/tokenization_auto.py",
                ambiguous=True,
            ),
            Signature(
                r"cannot import name '[^']+' from '(?:transformers|tokenizers|huggingface_hub|torch|triton|numpy|"
                r"pydantic|compressed_tensors|xgrammar|outlines|mistral_common|flashinfer|ray|fastapi|starlette)\b|"
                r"module '(?:transformers|torch|numpy|triton|huggingface_hub|flashinfer)[\w.]*' has no attribute",
                "Python",
            ),
            Signature(
                r"is required for a normal functioning of this module|compiled using NumPy 1\.x cannot be run|"
                r"numpy\.dtype size changed|Numba needs NumPy|operator torchvision::\w+ does not exist|"
                r"flashinfer-(?:cubin|jit-cache) version .* does not match|Detected that PyTorch and torchvision were "
                r"compiled with different|requires transformers|needs? transformers|transformers (?:version|>=|==|<)",
                "transformers utils/versions.py; NumPy; torchvision; FlashInfer; vLLM",
            ),
            Signature(
                r"'\w*Config' object has no attribute|is already used by a Transformers config|"
                r"`?rope_(?:scaling|parameters)`? should have a 'rope_type' key",
                "transformers' configurations, read by a release that expects another version of them",
                ambiguous=True,
                unless=r"'(?:Speculative|Vllm|Model|Parallel|Cache|Scheduler|LoRA|Compilation)Config' object",
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:AttributeError|KeyError|TypeError|ImportError)\b",
                "transformers, or vLLM's classes of its configurations and processors",
                weak=True,
                innermost=r"/(?:transformers|tokenizers)/\S+\.py|vllm/(?:transformers_utils|tokenizers)/\S+\.py",
                unless=r"entrypoints/\S*(?:serving|protocol)|chat_template",
            ),
            Signature(
                r"^(?:[\w.]+\.)?(?:AttributeError|KeyError)\b",
                "vLLM's configuration, of a key that this config.json has not",
                weak=True,
                innermost=r"vllm/(?:config(?:/\w+)?|engine/arg_utils)\.py",
            ),
            Signature(
                r"(?:Attribute|Type)Error: .*",
                "transformers' classes, called in a way that another version of them has",
                weak=True,
                within=r"(?:Attribute|Type)Error: '?\w*(?:Tokenizer\w*|Processor\w*)(?:\.\w+\(\))?'? "
                r"(?:object has no attribute|got an unexpected keyword|got multiple values)",
            ),
        ),
    ),
    Cause(
        "broken-install",
        "The image's Python packages do not fit together",
        "Use vLLM's own image of a release, and install nothing over it without pinning what it needs.",
        (
            Signature(
                r"undefined symbol: |ImportError: (?:cannot import name|.*cannot open shared object file|"
                r".*version `GLIBC)|ModuleNotFoundError: No module named",
                "Python, ld.so",
                unless=r"libcuda\.so|No module named '?(?:vllm'|vllm\b(?!\.)|nixl|lmcache|mooncake)|libnvshmem",
            ),
            Signature(
                r"Could not run '_\w+::\w+' with arguments from the '(?:CUDA|HIP|XPU)' backend|"
                r"Torch not compiled with CUDA enabled|No package metadata was found for|Numpy is not available|"
                r"PackageNotFoundError: ",
                "PyTorch: a build for another device; Python importlib.metadata",
                ambiguous=True,
                unless=r"available for these backends: \[(?:Meta|BackendSelect)",
            ),
            Signature(
                r"\(most likely due to a circular import\)|partially initialized module '",
                "Python",
            ),
            Signature(
                r"Failed to import from vllm\.\w+ with (?:Import|OS)Error\(.*(?:undefined symbol|cannot open shared|"
                r"cannot import name)|'_OpNamespace' '_C\w*' object has no attribute|"
                r"Could not find (?:the )?operator _C::",
                "vLLM _custom_ops.py, platforms/; PyTorch torch/_ops.py",
                weak=True,
                any_level=True,
                unless=r"libcuda\.so",
            ),
            Signature(
                r"Model architectures \[.(\w+).\] .*[Ss]upported architectures: .*\b\1\b",
                "vLLM model_executor/models/registry.py: the architecture is known, its module can't be imported",
                "0.6–0.33",
                ambiguous=True,
            ),
            Signature(
                r"Model architectures .{1,200} failed to be inspected|Error in inspecting model architecture",
                "vLLM model_executor/models/registry.py: the lines above have the reason",
                "0.6–0.33",
                weak=True,
            ),
        ),
    ),
    Cause(
        "native-crash",
        "Native code crashed",
        "The line only reports the crash of a library in C++ or CUDA. Look for the first stack trace, then try vLLM's "
        "own image of another release, and leave out what is not vLLM's (LD_PRELOAD, plugins, KV connectors).",
        (
            Signature(
                r"double free or corruption|free\(\): (?:invalid|double|corrupted)|malloc\(\): |malloc_consolidate\(\)|"
                r"corrupted (?:size vs|double-linked list)|realloc\(\): invalid|munmap_chunk\(\): invalid|"
                r"\*\*\* stack smashing detected",
                "glibc malloc/malloc.c",
                ambiguous=True,
            ),
            Signature(
                r"Segmentation fault|Segfault encountered|SIGSEGV|Caught signal 11|Illegal instruction|SIGILL|"
                r"'(?:EngineCore|Worker|VllmWorker)[\w-]*': -(?:4|6|11)\b|exit code:? -(?:4|6|11)\b|"
                r"Fatal Python error: (?:Segm|Abort|Illegal)|段错误|核心已转储|\bsegfault at [0-9a-f]+ ip",
                "Linux, signals 4, 6 and 11; vLLM's stack trace handler; UCX",
                weak=True,
                unless=r"potential root causes",
            ),
            Signature(r"exit code (?:139|132)\b", "128 + SIGSEGV, SIGILL", channel="status", weak=True),
        ),
        meanings=(
            (r"Illegal instruction|SIGILL|-4\b", "SIGILL: the image was built for a newer processor (AVX-512)."),
        ),
    ),
    Cause(
        "jit-compile-failed",
        "A kernel could not be compiled for this GPU",
        "DeepGEMM, FlashInfer, Triton or PyTorch compile at the start. The compiler's first error above names the "
        "reason. "
        "Otherwise use vLLM's image of a newer release; VLLM_USE_DEEP_GEMM=0, VLLM_USE_FLASHINFER_SAMPLER=0 or "
        "--enforce-eager leave one of them out.",
        (
            Signature(
                r"NVRTC error|nvrtc: error|nvrtcCompileProgram|Assertion (?:error|failed).*(?:deep_gemm|"
                r"/jit(?:_kernels)?/)|"
                r"deep_gemm\S*[: ].*(?:[Aa]ssert|compil)|Failed to compile .*(?:kernel|cubin)|"
                r"NVCC compilation failed|ptxas (?:error|fatal) ?:",
                "NVRTC; DeepGEMM csrc/jit/compiler.hpp; ptxas",
                ambiguous=True,
            ),
            Signature(
                r"Ninja build failed|ninja: build stopped|Error building extension '|FAILED: \S+\.(?:o|so)\b|"
                r"torch\._inductor\.exc\.InductorError|BackendCompilerFailed|PassManager::run failed|LLVM ERROR|"
                r"CalledProcessError: Command .*(?:ninja|nvcc|gcc|cuda_utils\.c)|nvcc (?:error|fatal)",
                "FlashInfer jit/cpp_ext.py; PyTorch torch/utils/cpp_extension.py, torch/_inductor; Triton",
                weak=True,
            ),
            Signature(
                r"^(?:[\w.]+\.)?\w+(?:Error|Exception|OutOfResources)\b",
                "PyTorch's compiler, Triton, FlashInfer, DeepGEMM: raised where a kernel is compiled or loaded",
                weak=True,
                innermost=r"/(?:torch/_(?:inductor|dynamo)|triton/(?:compiler|backends|runtime)|flashinfer/jit|deep_gemm|"
                r"tvm_ffi|cutlass/cute)/\S+\.py|vllm/compilation/\S+\.py",
            ),
        ),
        meanings=(
            (
                r"out of memory|Killed|Error 137",
                "The compiler itself ran out of host memory: set MAX_JOBS=4, or raise the memory limit.",
            ),
        ),
        plane="gpu",
    ),
)
