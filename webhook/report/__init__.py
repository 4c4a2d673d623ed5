"""Report → text for people and formats for machines: one module per format, each a function of the report.

Here: text, JSON, SARIF, JUnit, Markdown, HTML, the ledgers explained, edits written into a file's own text
(`rewrite`, `marks`), the limits of a webhook's answer (`bounds`). Not here: decisions. Imports `base` to `generate`.

A denial: the first line can be read alone, because Argo CD, Flux and Events show only it (at most 200 characters).
Then each problem with rule, field, arithmetic, and the changes that would fit. The last line says what to do next,
because it stays on the screen after kubectl's output of a patch. Status code 403, reason `Forbidden`, one
`details.causes` entry per finding. Warnings are one line each, at most 120 characters, the most important first.
`tests/test_answers.py` checks every rule. Every text is masked with the secrets of its object (`Report.secrets`); a
patch is neither masked nor cut.
"""
