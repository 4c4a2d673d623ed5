"""What vLLM does with a container: its command, arguments, model, GPUs and memory. Pure.

Here: everything that vLLM's own code decides, release by release: `release` (an image's tag), `command` (the argv),
`args` (the values), `model` and `gpu` (what is known of them), `memory` (both ledgers), `facts` (what the edge
knows), `measured` (what vLLM printed, preferred to any estimate), `volumes`, `group` (Pods that serve one model
together). Not here: opinions. What is good or bad about a container is a rule. Imports `base` and `kube`.

Each fact knows whether it may support a denial (`Fact.may_deny`): a trusted catalog entry, a config.json, a GPU named
by a label or `--gpu` may; a model guessed from a path or a name only informs. An unknown release is planned as every
generation: it does not fit only if it fits in none.
"""
