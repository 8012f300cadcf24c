"""The camera server runs under another interpreter: nothing here imports it."""

collect_ignore = ["server.py"]
