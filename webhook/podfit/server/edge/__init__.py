"""HTTP and TLS: gunicorn manages the process (`worker`), uvicorn parses each connection (`peer`); public names only."""
