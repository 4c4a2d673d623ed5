"""The two ledgers: what vLLM takes of GPU memory and of host memory, line by line, and whether it fits.

In the order of the data:

- The arguments: `arguments`, `parallel`, `dtype`, `media`; `settings` applies the defaults of a release, `generations`
  stands in for an unknown release, `resolved` names what vLLM will use.
- The lines of a GPU's ledger, one module each: `budget`, `weights` (from `shape`, `layer_tensors`, `tower`,
  `quantisation`, `draft`), `loading`, `activations`, `cuda_graphs`, `non_torch`, and the KV cache: `kv_specs` (layers),
  `kv_releases` (what a release does), `kv_cache` (groups and blocks), `kv_capacity` (tokens and requests). `log_lines`
  replaces them by what a log of the same start printed. `host` is the other ledger, `cpu` that of the CPU backend.
- Together: `ranks` (all lines of one rank), `plan`, `ledger` (its types), `verdict`, `doubt`, `startup` (seconds).
- Changes that would fit: `search` and `solve`, `division`, `served_copies`, `sweep` (accelerators), `needs` (users).

Not here: advice, and where model and GPU come from.

- Each line is `floor ≤ low ≤ likely ≤ high`. `low … high` is the 95 % range for people. `floor` is the certain
  minimum: exact weights, the KV cache of one request, the smallest overhead ever measured for the release, compared
  with the largest total ever seen for the product.
- More GPU memory, a shorter `--max-model-len` or fewer sequences never turn `fits` into `does-not-fit`.
- If an argument or a checkpoint makes the ledger uncertain (online quantization, another revision, an encoder alone),
  the verdict is at most `unsure` (`doubt`).
- Suggestions come from the same planner: each is applied and planned. A search costs at most a number of plans, not a
  time, so that a manifest gets the same advice on every machine. Combinations that the weights alone exclude are
  excluded by a ratio (`search`), which counts as one plan.
- Results that depend on the model and a few small values are remembered by them (`lru_cache` with a bound). Each such
  function takes a named tuple of just those settings (`weights.Placed`, `activations.Run`, `host.HostSettings`), so
  that nothing else can matter. A `Model` is equal only to itself, and those of the catalog are made once.
"""
