"""The two ledgers: the GPU memory and the host memory that vLLM uses, line by line, and whether they fit.

In the order of the data:

- The arguments: `arguments`, `parallel`, `dtype`, `media`. `settings` applies the defaults of a release: its
  `BudgetSettings` decide the budget and the longest request, its `Settings` (parallelism, batch, types, attention,
  speculation, multimodal …) all lines of a rank. `generations` replaces an unknown release, `resolved` lists the
  values that vLLM will use.
- The lines of a GPU's ledger, one module each: `weights` (from `shape`, `layer_tensors`, `tower`, `quantisation`,
  `draft`), `activations`, `cuda_graphs` and `non_torch`. `lines` lists them; everything that shows or compares a ledger
  iterates over that list. Next to them `budget`, and `loading` for the weights while they load.
- The KV cache: `kv_specs` (layers), `kv_releases` (differences between releases), `kv_cache` (groups and blocks).
  The tokens and requests that it holds are in `ledger`.
- `log_lines` replaces these lines by those in a log of the same start. `host` is the ledger of host memory, `cpu` that
  of the CPU backend.
- Together: `ranks` (all lines of one rank), `loaded` (the ledger of a rank), `plan`, `ledger` (its types), `verdict`,
  `doubt`, `startup` (seconds).
- Changes that would fit: `search` and `solve`, `division`, `served_copies`, `sweep` (accelerators), `needs` (users).

Advice is in the rules. Model and GPU come from `podfit.vllm.model` and `podfit.vllm.gpu`.

- Each line is `floor ≤ low ≤ likely ≤ high`. `low … high` is the 95 % range for people.
- `floor` is the certain minimum: exact weights, the KV cache of one request, and the smallest overhead ever measured
for the release. A denial compares it with the largest total ever measured for the GPU model.
- More GPU memory, a shorter `--max-model-len` or fewer sequences never turn `fits` into `does-not-fit`.
- If an argument or a checkpoint makes the ledger uncertain (online quantization, another revision, an encoder alone),
  the plan is at best `unsure` (`doubt`).
- Suggestions come from the same planner: each is applied and planned. A search is limited by a number of plans, not by
  a time, so that a manifest gets the same advice on every machine. Combinations that the weights alone exclude are
  excluded by a ratio (`search`), which counts as one plan.
- Results that depend on the model and a few small values are cached by these values (`lru_cache` with a bound). Each
  such function takes a named tuple of just those settings (`weights.Placed`, `activations.Run`, `host.HostSettings`),
  so that no other setting can matter. A `Model` is equal only to itself, and those of the catalog are made once.
"""
