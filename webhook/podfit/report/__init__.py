"""Report → text for people and formats for machines: one module per format, each a function of the report.

Here: text, JSON, SARIF, JUnit, Markdown, HTML, the ledgers explained, edits written into a file's own text
(`rewrite`, `marks`). Not here: decisions, and what a webhook answers (`evaluation/denial`, `bounds`).
Imports `base` to `generate`.

Every text is masked with the secrets of its object (`Report.secrets`); a patch is neither masked nor cut.
"""
