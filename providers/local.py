"""The embedded model: any GGUF file by its path, served by llama.cpp in a process of its own (extra `claw[local]`).

What speaks to it is the adapter of the Chat Completions API; here is starting, naming and ending it.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from providers.base import ListedModel, ModelRequest
from providers.errors import BadRequestError, ConnectionFailedError, NotFoundError
from providers.openai_chat import OpenAIChat
from providers.types import ProviderConfig, Secret, StreamEvent

_START_PATIENCE_S = 300.0
_END_PATIENCE_S = 2.0
_MAGIC = b"GGUF"
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from providers.local_server import main; "
    "sys.exit(main(json.loads(open(0, 'rb', 0, closefd=False).readline())))"
)
"""The settings come on standard input, since anyone may read a command line, and there is a key among them."""
_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class LocalModel:
    """A provider whose models are files. One model is loaded at a time; another one takes its place."""

    def __init__(self, config: ProviderConfig, n_ctx: int = 0, threads: int = 0) -> None:
        """`n_ctx`: size of the context window in tokens; 0: what the model was trained with. `threads` 0: as many as cores."""
        self.config = config
        self._n_ctx = n_ctx
        self._threads = threads
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._path = ""
        self._chat: OpenAIChat | None = None

    def warm_up(self) -> None:
        """Nothing: which model is meant is known with the first request."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """See `Provider.stream`; the first request loads the model.

        Raises:
            ProviderError: there is no such file, it is no model, or the package is missing.
        """
        chat = await self._started(request.model)
        async for event in chat.stream(request):
            yield event

    async def list_models(self) -> list[ListedModel]:
        """The loaded model, with its real window; empty before the first request."""
        if self._chat is None:
            return []
        return [
            ListedModel(self._path, Path(self._path).name, model.context_window_tokens)
            for model in await self._chat.list_models()
        ]

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """None: the API cannot count."""
        return None

    async def aclose(self) -> None:
        chat, self._chat = self._chat, None
        if chat is not None:
            await chat.aclose()
        await asyncio.to_thread(self._end)

    # ------------------------------------------------------------------ the process

    async def _started(self, path: str) -> OpenAIChat:
        if self._chat is not None and self._path == path and self._process is not None and self._process.poll() is None:
            return self._chat
        if self._chat is not None:
            await self.aclose()
        return await asyncio.to_thread(self._start, path)

    def _start(self, path: str) -> OpenAIChat:
        with self._starting:
            file = _model_file(path)
            key = secrets.token_urlsafe(24)
            settings = {"path": str(file), "key": key, "n_ctx": self._n_ctx, "threads": self._threads}
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if not _SECRET_NAME.search(name)},
            )
            self._process = process
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(settings).encode() + b"\n")
                process.stdin.flush()
            timer = threading.Timer(_START_PATIENCE_S, process.kill)
            timer.start()
            try:
                line = process.stdout.readline()
            finally:
                timer.cancel()
            said = json.loads(line) if line.strip() else {"error": "llama.cpp ended without a word"}
            if "url" not in said:
                self._end()
                raise ConnectionFailedError(
                    f"The model {path} cannot be loaded: {said['error']}.",
                    retryable=False,
                    remedy="Give the path of a GGUF file that this machine's memory can hold.",
                )
            config = ProviderConfig(self.config.name, "chat", f"{said['url']}/v1", Secret(key))
            self._path, self._chat = path, OpenAIChat(config)
            return self._chat

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(_END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _model_file(path: str) -> Path:
    """
    Raises:
        ProviderError: no such file, no model in it, or nothing that could load it.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise BadRequestError(
            "Models from a file need the package xllamacpp, which is not installed.",
            remedy="Install it with: pip install 'claw[local]'",
        )
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(_MAGIC))
    except OSError as error:
        raise NotFoundError(
            f"The model file {path} cannot be read: {error.strerror}.", remedy="Write -m local/PATH/TO/MODEL.gguf."
        ) from None
    if magic != _MAGIC:
        raise NotFoundError(f"{path} is no GGUF file.", remedy="Write -m local/PATH/TO/MODEL.gguf.")
    return file.resolve()
