"""`podfit mcp`: what `check`, `fix`, `plan`, `explain`, `diagnose` and `models` answer, for agents, over the Model
Context Protocol.

Thin: `tools` maps a tool's arguments to a command line, `server` maps its output to the protocol, and `confine` keeps
the process within its root folder. No rule, message or formula is here.
"""
