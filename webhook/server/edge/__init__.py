"""HTTP and TLS: gunicorn manages the process (`worker`), uvicorn parses the requests of each connection (`peer`).

Only public names of the libraries are used or overridden. The ASGI application is `webhook.server.lanes`.
"""
