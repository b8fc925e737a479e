"""Everything that can go wrong with a provider, as one tree, and the words by which failures are recognised.

    ProviderError                      retry helps?
    ├── AuthenticationError            no   401: the key is wrong
    ├── MissingKeyError                no   there is no key
    ├── PermissionDeniedError          no   403
    ├── BillingError                   no   402, spent credit or quota
    ├── NotFoundError                  no   404: model or address
    ├── BadRequestError                no   400, 422 and other refusals
    ├── ContextOverflowError           no   the request is too long; compacting helps
    ├── RateLimitedError               yes  429
    ├── OverloadedError                yes  529, 503
    ├── ServerError                    yes  408, 409, 425, other 5xx
    ├── ConnectionFailedError          yes  no connection, or it broke before the reply began
    ├── StreamBrokenError              yes  the reply ended or fell silent in the middle
    └── ProtocolError                  no   the server does not speak the expected protocol

Adapters translate their SDK's errors with `classify`, always with the cause chained. No text here ever holds a key.
"""

import re
from typing import Any, ClassVar


class ProviderError(Exception):
    """Base of all failures of a provider; `str` gives the message."""

    retryable: bool = False
    default_remedy: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        """`message` is the provider's own words, `remedy` one line of what to do; both are shown to the user."""
        super().__init__(message)
        self.message = message
        self.remedy = self.default_remedy if remedy is None else remedy
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        if retryable is not None:
            self.retryable = retryable
        self.partial: Any = None
        """The Assembler with what had arrived of the reply, if anything had."""


class AuthenticationError(ProviderError):
    default_remedy = "Check the provider's key: it was refused."


class MissingKeyError(ProviderError):
    default_remedy = "Set the provider's key variable, for instance ANTHROPIC_API_KEY, or key_env in config.toml."


class PermissionDeniedError(ProviderError):
    default_remedy = (
        "The key may not use this model or feature: choose another with /model, or ask the account's owner."
    )


class BillingError(ProviderError):
    default_remedy = "Add credit or raise the spending limit in the provider's console."


class NotFoundError(ProviderError):
    default_remedy = "Check the model's name (/model lists what the server offers) and the provider's base_url."


class BadRequestError(ProviderError):
    default_remedy = "The provider refused the request; the same request will be refused again."


class ContextOverflowError(ProviderError):
    default_remedy = "Use /compact, or start a new session with /new."

    def __init__(self, message: str, *, window_tokens: int | None = None, **fields: Any) -> None:
        """`window_tokens` is the limit that the provider named, or None."""
        super().__init__(message, **fields)
        self.window_tokens = window_tokens


class RateLimitedError(ProviderError):
    retryable = True
    default_remedy = "Wait a little; the provider limits how much may be sent in a time."


class OverloadedError(ProviderError):
    retryable = True
    default_remedy = "The provider is overloaded: try again later, or choose another model with /model."


class ServerError(ProviderError):
    retryable = True
    default_remedy = "The provider's server failed: try again later."


class ConnectionFailedError(ProviderError):
    retryable = True
    default_remedy = "Check the network, the proxy variables and the provider's base_url."


class StreamBrokenError(ProviderError):
    retryable = True
    default_remedy = "The connection broke in the middle of the reply: try again."


class ProtocolError(ProviderError):
    default_remedy = "Something else than the expected API answered: check base_url, api and any proxy in between."


# --------------------------------------------------------------------------- recognising

_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt is too long",  # Anthropic
            r"context limit: [\d,]+ \+",  # Anthropic, with max_tokens
            r"input is too long for (?:the )?requested model",  # Bedrock
            r"exceeds? (?:the|your|this model's) context (?:window|length)",  # OpenAI
            r"context[_ ]length[_ ]exceeded",
            r"input token count.{0,60}exceeds the maximum",  # Gemini
            r"maximum prompt length is [\d,]+",  # xAI
            r"reduce the length of the (?:messages|prompt|input)",  # Groq
            r"maximum context length (?:is|of) [\d,]+",  # OpenRouter, vLLM
            r"(?:prompt|input|request|token).{0,80}exceeds the limit of [\d,]+",  # Copilot
            r"exceeds? the available context size|exceed_context_size",  # llama.cpp
            r"greater than the context length",  # LM Studio
            r"context window exceeds (?:the )?limit",  # MiniMax
            r"exceeded model token limit",  # Kimi
            r"too large for model with [\d,]+ maximum context length",  # Mistral
            r"model_context_window_exceeded",  # z.ai
            r"too many (?:input |prompt )?tokens",
            r"token limit (?:was )?exceeded",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
# Limits of a rate also speak of tokens.
_RATE = re.compile(
    r"(?:per|/)[ -]?(?:minute|min|hour|day|second)\b|\b[TR]P[MD]\b|rate.?limit|throttl|please wait", re.IGNORECASE
)
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"> ?(?P<n>[\d,]+)(?: maximum)?",
        r"maximum (?:prompt|context) length (?:is|of) (?P<n>[\d,]+)",
        r"exceeds the limit of (?P<n>[\d,]+)",
        r"model with (?P<n>[\d,]+) maximum context length",
        r"maximum number of tokens allowed \(?(?P<n>[\d,]+)",
        r"available context size \(?(?P<n>[\d,]+)",
        r"context length (?:of |\(|is )(?P<n>[\d,]+)",
        r"token limit: ?(?P<n>[\d,]+)",
        r"context window (?:of |is |\()(?P<n>[\d,]+)",
        r"[\"']n_ctx[\"']: ?(?P<n>\d+)",
    )
)
_LEAST_WINDOW_TOKENS = 256
"""A smaller number is none: believing it would leave no room for anything."""
_SPENT = re.compile(
    r"insufficient[_ ](?:quota|funds|balance|credit)|credit balance|spend(?:ing)?[ _-]?limit|usage limit|billing"
    r"|exceeded your current quota|quota|payment|out of credits?",
    re.IGNORECASE,
)
_KINDS: dict[str, type[ProviderError]] = {
    "authentication_error": AuthenticationError,
    "invalid_api_key": AuthenticationError,
    "permission_error": PermissionDeniedError,
    "billing_error": BillingError,
    "insufficient_quota": BillingError,
    "not_found_error": NotFoundError,
    "model_not_found": NotFoundError,
    "rate_limit_error": RateLimitedError,
    "rate_limit_exceeded": RateLimitedError,
    "overloaded_error": OverloadedError,
    "server_overloaded": OverloadedError,
    "invalid_request_error": BadRequestError,
    "invalid_prompt": BadRequestError,
    "api_error": ServerError,
    "server_error": ServerError,
    "timeout_error": ServerError,
}
_OVERFLOW_KINDS = frozenset({"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"})
_NEVER_TOO_LONG = frozenset({401, 402, 403, 404, 407})
"""Statuses that are about the caller, whatever their words mention."""


def is_overflow(text: str) -> bool:
    """Whether a provider's words mean that the request is too long for the model; false for limits of a rate."""
    return _OVERFLOW.search(text) is not None and _RATE.search(text) is None


def overflow_window(text: str) -> int | None:
    """The context window in tokens that an overflow message names, or None if it names none."""
    for pattern in _WINDOW:
        if match := pattern.search(text):
            digits = match["n"].replace(",", "")
            if digits and int(digits) >= _LEAST_WINDOW_TOKENS:
                return int(digits)
    return None


def classify(
    message: str,
    *,
    status: int | None = None,
    kind: str = "",
    request_id: str | None = None,
    retry_after_s: float | None = None,
    hopeless: bool = False,
) -> ProviderError:
    """The error for what a server said: its HTTP status (None or 200 inside a stream), its error type or code, its words.

    `hopeless`: it said itself that trying again is of no use. An answer of 400 or 413 without any words counts as
    overflow, since some servers say it that way.
    """
    cls = _class_of(message, status, kind, retry_after_s)
    fields: dict[str, Any] = {"status": status, "request_id": request_id, "retry_after_s": retry_after_s}
    if hopeless:
        fields["retryable"] = False
    if cls is ContextOverflowError:
        text = message or "The request is too long for the model."
        return ContextOverflowError(text, window_tokens=overflow_window(message), **fields)
    if status == 407:
        fields["remedy"] = "The proxy wants a log-in: check HTTPS_PROXY."
    return cls(message or f"HTTP status {status} without an explanation", **fields)


def _class_of(message: str, status: int | None, kind: str, retry_after_s: float | None) -> type[ProviderError]:
    in_stream = status is None or status < 300
    if kind == "insufficient_quota":
        return BillingError
    if status == 429 or (in_stream and _KINDS.get(kind) is RateLimitedError):
        spent = retry_after_s is None and _SPENT.search(message) and not _RATE.search(message)
        return BillingError if spent else RateLimitedError
    too_long = kind in _OVERFLOW_KINDS or is_overflow(message) or (status == 400 and not message) or status == 413
    if too_long and status not in _NEVER_TOO_LONG:
        return ContextOverflowError
    if in_stream:
        return _KINDS.get(kind, ServerError)
    return _by_status(status or 0, kind, message)


STATUSES: dict[int, type[ProviderError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    402: BillingError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: ServerError,
    409: ServerError,
    422: BadRequestError,
    425: ServerError,
    503: OverloadedError,
    529: OverloadedError,
}
"""What a status alone means; 413 and 429 depend on the words, which are looked at first."""


def _by_status(status: int, kind: str, message: str) -> type[ProviderError]:
    if status < 400:
        return ProtocolError  # a redirect; they are not followed
    named = STATUSES.get(status, ServerError if status >= 500 else BadRequestError)
    if named is ServerError and (_KINDS.get(kind) is OverloadedError or "overloaded" in message.lower()):
        return OverloadedError
    if status in (400, 403) and re.search(r"credit balance|billing|insufficient funds", message, re.I):
        return BillingError
    if named is BadRequestError:
        known = _KINDS.get(kind, BadRequestError)
        return BadRequestError if known.retryable else known
    return named
