"""The local page of `podfit ui`: questions of a browser on this machine, answered by the functions of the commands.

Each tab has a module with one pure function, from the JSON of a question to that of an answer. `app` is the HTTP edge:
token, Host, Origin, Content-Security-Policy, bounds. Not here: reading files, which `cli` does; any estimate or
evaluation of its own. Nothing writes a file.
"""
