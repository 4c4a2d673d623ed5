"""Immutable values, safe text and the package's data: what depends on neither Kubernetes nor vLLM.

Here: `lazy` (attributes computed once), `secret` (secrets in text) and `printable` (control characters,
long values). `data` reads the JSON files of `webhook/podfit/data`. Not here: anything that knows a field of a manifest.
Imports nothing of podfit.
"""
