"""A model of vLLM in a container: its command, arguments, model, GPUs and memory. Pure.

This package has all that vLLM's own code decides, per release. Its modules are `release` (an image's tag), `command`
(the argv), `args` (the values), `model`, `gpu`, and `memory` (of the GPU and of the host). `facts` has the inputs from
outside, `measured` what vLLM's logs reported (preferred to any estimate). `volumes` has the mounts, `group` the Pods
that serve one model together. Whether a container's setup is good or bad is a matter for the rules. Imports `base` and
`kube`.

Each fact knows whether it may support a denial (`Fact.may_deny`). A trusted catalog entry, a config.json, and a GPU
named by a label or `--gpu` may; a model guessed from a path or a name only informs. If the release is unknown, memory
is planned for every generation of vLLM; the model does not fit only if it fits in none.
"""
