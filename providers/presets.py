"""Servers known by name, so that `[providers.groq]` needs a key and nothing else. Data, as of 2026-11-30.

Addresses and names of variables are the vendors' own; whatever the user writes goes over them.
"""

from msgspec import Struct

from providers.chat_quirks import ChatQuirks
from providers.types import WireApi


class Preset(Struct, frozen=True):
    api: WireApi
    base_url: str | None
    """None: the SDK's own default."""
    key_env: str
    """Empty: a server on this machine that needs no key."""
    title: str
    """As it is shown."""
    quirks: ChatQuirks = ChatQuirks()

    @property
    def is_local(self) -> bool:
        return not self.key_env


_OPENAI = ChatQuirks("max_completion_tokens", effort="reasoning_effort", cache_key=True, parallel_calls=True)
_REASONS = ChatQuirks(effort="reasoning_effort")
_LOCAL = ChatQuirks()

PRESETS: dict[str, Preset] = {
    "anthropic": Preset("anthropic", None, "ANTHROPIC_API_KEY", "Anthropic"),
    "openai": Preset("responses", None, "OPENAI_API_KEY", "OpenAI", _OPENAI),
    "openrouter": Preset("chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "OpenRouter", _REASONS),
    "gemini": Preset(
        "chat",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "Google Gemini",
        ChatQuirks("max_completion_tokens", effort="reasoning_effort"),
    ),
    "groq": Preset(
        "chat",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "Groq",
        ChatQuirks("max_completion_tokens", effort="reasoning_effort"),
    ),
    "mistral": Preset(
        "chat", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "Mistral", ChatQuirks(usage="unasked", call_ids="nine")
    ),
    "deepseek": Preset(
        "chat",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DeepSeek",
        ChatQuirks(reasoning_back="reasoning_content"),
    ),
    "xai": Preset(
        "chat",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        "xAI",
        ChatQuirks("max_completion_tokens", effort="reasoning_effort"),
    ),
    "ollama": Preset("chat", "http://127.0.0.1:11434/v1", "", "Ollama", _LOCAL),
    "lmstudio": Preset("chat", "http://127.0.0.1:1234/v1", "", "LM Studio", _LOCAL),
    "llama.cpp": Preset("chat", "http://127.0.0.1:8080/v1", "", "llama.cpp", _LOCAL),
    "vllm": Preset("chat", "http://127.0.0.1:8000/v1", "", "vLLM", _LOCAL),
}
