"""The two ledgers: what vLLM takes of GPU memory and of host memory, line by line, and whether it fits.

One module per line of the ledger. `arguments` reads the arguments, `settings` applies the defaults of a release,
`ranks` keeps all lines of one rank, `plan` adds them up, `verdict` compares, `kv_capacity` says what the KV cache
holds, `solve` and `search` find changes that would fit, `sweep` tries accelerators; `host` is the other ledger. Not
here: advice, and where model and GPU come from.

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
