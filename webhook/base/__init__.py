"""Immutable values, safe text and the package's data: what depends on neither Kubernetes nor vLLM.

Here: `frozen` (named tuples and values computed once), `secret` (secrets in text), `printable` (control characters,
long values), `data` (the JSON files of `webhook/data`, or of a newer set of facts), `facts_set` (how such a set is
verified), `facts_shape` (what its tables must look like). Not here: anything that knows a field of a manifest. Imports
nothing of podfit.
"""
