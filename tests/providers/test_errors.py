import pytest

from providers.errors import (
    AuthenticationError,
    BadRequestError,
    BillingError,
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
    classify,
    is_overflow,
    overflow_window,
)
from providers.http_errors import redacted, retry_after
from providers.types import ProviderConfig, Secret

OVERFLOWS: list[tuple[str, int | None]] = [
    ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease one", 200_000),
    ("Input is too long for requested model.", None),
    ("Your input exceeds the context window of this model. Please adjust it.", None),
    ("Request failed: context_length_exceeded", None),
    ("The input token count (1,196,265) exceeds the maximum number of tokens allowed (1,048,575).", 1_048_575),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
    ("Please reduce the length of the messages or completion.", None),
    ("This endpoint's maximum context length is 128,000 tokens. You asked for about 250,000.", 128_000),
    ("prompt token count of 140012 exceeds the limit of 128000", 128_000),
    ("the request exceeds the available context size (4096 tokens), try increasing it", 4_096),
    ("Trying to keep the first 5000 tokens when the prompt is greater than the context length of 4096", 4_096),
    ("invalid params, context window exceeds limit (2013)", None),
    ("Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)", 262_144),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
    ("finish: model_context_window_exceeded", None),
    ("400: too many tokens in the request", None),
    ("Token limit exceeded", None),
]


@pytest.mark.parametrize(("text", "window"), OVERFLOWS)
def test_T87_every_wording_of_an_overflow_is_recognised(text: str, window: int | None) -> None:
    assert is_overflow(text)
    assert overflow_window(text) == window
    for status in (400, 413, 500, None):
        error = classify(text, status=status, kind="invalid_request_error")
        assert isinstance(error, ContextOverflowError)
        assert error.window_tokens == window
        assert not error.retryable


@pytest.mark.parametrize(
    "text",
    [
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute: too many tokens",
        "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 45000. Reduce the length of the messages.",
        "Too many tokens, please wait before trying again.",
        "ThrottlingException: Too many tokens per day",
        "max_tokens: 999999 > 64000, which is the maximum allowed number of output tokens",
        "messages.1: all messages must have non-empty content",
        "",
    ],
)
def test_T87_limits_of_a_rate_and_other_refusals_are_no_overflow(text: str) -> None:
    assert not is_overflow(text)
    assert isinstance(classify(text, status=429, kind="rate_limit_error", retry_after_s=2.0), RateLimitedError)


def test_T87_an_overflow_text_under_429_is_a_rate_limit() -> None:
    assert isinstance(classify("prompt is too long", status=429, retry_after_s=1.0), RateLimitedError)


@pytest.mark.parametrize("text", ["prompt is too long: 9 tokens > 8 maximum", "maximum context length is 0 tokens"])
def test_T87_a_limit_that_would_leave_no_room_for_anything_is_not_believed(text: str) -> None:
    assert is_overflow(text) and overflow_window(text) is None


@pytest.mark.parametrize("status", [400, 413])
def test_T87_a_refusal_without_words_is_an_overflow(status: int) -> None:
    assert isinstance(classify("", status=status), ContextOverflowError)


@pytest.mark.parametrize(
    ("status", "kind", "text", "expected", "retryable"),
    [
        (400, "invalid_request_error", "messages: Field required", BadRequestError, False),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", BillingError, False),
        (401, "authentication_error", "invalid x-api-key", AuthenticationError, False),
        (402, "billing_error", "pay", BillingError, False),
        (403, "permission_error", "no access to this model", PermissionDeniedError, False),
        (404, "not_found_error", "model: claude-none", NotFoundError, False),
        (407, "", "Proxy Authentication Required", BadRequestError, False),
        (408, "timeout_error", "slow", ServerError, True),
        (409, "conflict_error", "again", ServerError, True),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflowError, False),
        (422, "", "unprocessable", BadRequestError, False),
        (425, "", "too early", ServerError, True),
        (429, "rate_limit_error", "slow down", RateLimitedError, True),
        (429, "rate_limit_error", "You have reached your specified usage limits: spend limit.", BillingError, False),
        (429, "insufficient_quota", "You exceeded your current quota.", BillingError, False),
        (500, "api_error", "oops", ServerError, True),
        (502, "", "Bad gateway", ServerError, True),
        (503, "", "unavailable", OverloadedError, True),
        (504, "", "gateway", ServerError, True),
        (529, "overloaded_error", "Overloaded", OverloadedError, True),
        (302, "", "", ProtocolError, False),
        (None, "overloaded_error", "Overloaded", OverloadedError, True),
        (200, "overloaded_error", "Overloaded", OverloadedError, True),
        (None, "rate_limit_error", "slow down", RateLimitedError, True),
        (None, "authentication_error", "expired", AuthenticationError, False),
        (None, "invalid_request_error", "bad", BadRequestError, False),
        (None, "api_error", "Internal server error", ServerError, True),
        (None, "something_new", "?", ServerError, True),
    ],
)
def test_R44_T77_what_a_server_says_decides_the_error_and_whether_a_retry_helps(
    status: int | None, kind: str, text: str, expected: type[ProviderError], retryable: bool
) -> None:
    error = classify(text, status=status, kind=kind, request_id="req_1")
    assert type(error) is expected
    assert error.retryable is retryable
    assert error.request_id == "req_1"
    assert error.remedy
    assert error.message


def test_R44_a_spend_limit_that_names_a_time_is_waited_for() -> None:
    assert isinstance(classify("quota used up", status=429, retry_after_s=3.0), RateLimitedError)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_R44_retry_after_in_all_its_spellings(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_R47_no_key_in_a_text() -> None:
    config = ProviderConfig(
        "anthropic", "anthropic", key=Secret("top-secret"), headers={"x-gateway": "gateway-secret", "x-flag": "1"}
    )
    shaped = "sk-ant-" + "a1B2" * 6
    text = f"key top-secret with gateway-secret and {shaped} was refused, flag 1"
    assert redacted(text, config) == "key (hidden) with (hidden) and (hidden) was refused, flag 1"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "soon"])
def test_T76_a_wait_that_is_no_number_is_none(value: str) -> None:
    assert retry_after({"retry-after-ms": value}) is None
    assert retry_after({"retry-after": value}) is None
    assert retry_after({"retry-after": "9" * 400}) is None


def test_R47_a_placeholder_for_a_key_garbles_no_message() -> None:
    config = ProviderConfig("local", "responses", key=Secret("x"), headers={"x-team": "blue"})
    assert redacted("exceeds the maximum of 8192 for team blue", config) == "exceeds the maximum of 8192 for team blue"


def test_R47_a_configuration_shows_neither_key_nor_headers() -> None:
    headers = {"authorization": "Bearer hidden-1", "x-team": "hidden-2"}
    config = ProviderConfig("mine", "anthropic", "https://models.example.com", Secret("hidden-3"), headers)
    for shown in (repr(config), str(config), f"{config}", str(config.__rich_repr__()), repr({"a": [config]})):
        assert "hidden-" not in shown
        assert "mine" in shown and "authorization" in shown and "https://models.example.com" in shown
    assert config.headers == headers
    assert config == ProviderConfig("mine", "anthropic", "https://models.example.com", Secret("hidden-3"), headers)
