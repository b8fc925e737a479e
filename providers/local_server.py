"""The process that holds a model: llama.cpp's own HTTP server, on loopback. Run as `python -m providers.local_server`.

It says its address on standard output and ends when its standard input does, so that it never outlives claw. A process of
its own, since llama.cpp writes to the terminal and takes a core.
"""

import json
import sys
from collections.abc import Callable
from typing import Any


def main(settings: dict[str, Any], adapt: Callable[[Any], None] = lambda params: None) -> int:
    """`settings`: path, key (empty: none is asked for), port (0: any), n_ctx (0: the model's own), threads (0: all).
    `adapt` may change llama.cpp's own parameters before the model is loaded."""
    try:
        import xllamacpp
    except ImportError as error:
        return _fail(f"the package xllamacpp cannot be imported ({error})")
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = settings.get("port", 0)
    if settings["key"]:
        params.api_keys = [settings["key"]]
    params.ui = False
    params.warmup = False
    if settings["threads"]:
        params.cpuparams.n_threads = settings["threads"]
    adapt(params)
    try:
        server = xllamacpp.Server(params)
    except Exception as error:  # whatever the library raises for a file it cannot load
        return _fail(str(error) or "the model cannot be loaded")
    _say({"url": server.listening_address})
    sys.stdin.read()
    return 0


def _fail(text: str) -> int:
    _say({"error": " ".join(text.split())})
    return 1


def _say(value: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
