"""Every kind of key that is known, where keys turn up, and what must be left alone. The keys are made up piece by piece."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.redaction import KIND_NAMES, LEAST_VALUE_CHARS, Redactor, secret_values

A = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4aB7cD0eF3gH6jK9mN2"
HEX = "0123456789abcdef" * 6
UP = "A3B6C9D2E5F8G1H4J7K0L3M6N9P2Q5R8S1T4V7W0X3Y6Z9"

KEYS = {
    "Anthropic": f"sk-ant-api03-{A[:60]}",
    "OpenRouter": f"sk-or-v1-{HEX[:64]}",
    "OpenAI": f"sk-{A[:48]}",
    "OpenAI, project": f"sk-proj-{A[:50]}_-{A[:20]}",
    "Google": f"AIza{A[:35]}",
    "Google, new": f"AQ.{A[:40]}",
    "xAI": f"xai-{A[:70]}",
    "Groq": f"gsk_{A[:52]}",
    "Hugging Face": f"hf_{A[:34]}",
    "Replicate": f"r8_{A[:37]}",
    "Perplexity": f"pplx-{A[:48]}",
    "Fireworks": f"fw_{A[:24]}",
    "NVIDIA": f"nvapi-{A[:60]}",
    "GitHub": f"ghp_{A[:36]}",
    "GitHub, app": f"ghs_{A[:36]}",
    "GitHub, fine-grained": f"github_pat_{A[:22]}_{A[:59]}",
    "GitLab": f"glpat-{A[:20]}",
    "Bitbucket": f"ATBB{A[:32]}",
    "npm": f"npm_{A[:36]}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{A[:60]}",
    "RubyGems": f"rubygems_{HEX[:48]}",
    "crates.io": f"cio{A[:32]}",
    "Docker": f"dckr_pat_{A[:27]}",
    "AWS, id": f"AKIA{UP[:16]}",
    "AWS, session id": f"ASIA{UP[:16]}",
    "Google OAuth": f"ya29.{A[:60]}",
    "Google OAuth secret": f"GOCSPX-{A[:28]}",
    "DigitalOcean": f"dop_v1_{HEX[:64]}",
    "Heroku": f"HRKU-{A[:40]}",
    "Fly": f"fm2_{A[:60]}",
    "Databricks": f"dapi{HEX[:32]}",
    "Vault": f"hvs.{A[:40]}",
    "Terraform": f"{A[:14]}.atlasv1.{A[:60]}",
    "Pulumi": f"pul-{HEX[:40]}",
    "Doppler": f"dp.pt.{A[:43]}",
    "Supabase": f"sbp_{HEX[:40]}",
    "PlanetScale": f"pscale_tkn_{A[:40]}",
    "Slack": f"xoxb-{'1234567890' * 2}-{A[:24]}",
    "Slack, app": f"xapp-1-{UP[:10]}-{A[:40]}",
    "Discord bot": f"M{A[:24]}.{A[:6]}.{A[:30]}",
    "Telegram": f"1234567890:AA{A[:33]}",
    "Stripe": f"sk_live_{A[:24]}",
    "Stripe, restricted": f"rk_test_{A[:24]}",
    "Webhook secret": f"whsec_{A[:32]}",
    "Square": f"sq0atp-{A[:22]}",
    "Shopify": f"shpat_{HEX[:32]}",
    "SendGrid": f"SG.{A[:22]}.{A[:43]}",
    "Mailgun": f"key-{HEX[:32]}",
    "Mailchimp": f"{HEX[:32]}-us12",
    "Twilio": f"SK{HEX[:32]}",
    "Linear": f"lin_api_{A[:40]}",
    "Notion": f"ntn_{A[:46]}",
    "Figma": f"figd_{A[:40]}",
    "Postman": f"PMAK-{HEX[:24]}-{HEX[:34]}",
    "Atlassian": f"ATATT3{A[:60]}",
    "Airtable": f"pat{A[:14]}.{HEX[:64]}",
    "Dropbox": f"sl.{A}{A[:20]}",
    "New Relic": f"NRAK-{UP[:27]}",
    "Grafana": f"glsa_{A[:32]}_{HEX[:8]}",
    "Sentry": f"sntrys_{A[:60]}",
    "1Password": f"ops_eyJ{A[:60]}",
    "age": f"AGE-SECRET-KEY-1{UP[:46]}{UP[:12]}",
    "JSON web token": f"eyJ{A[:20]}.eyJ{A[:40]}.{A[:43]}",
}
PLACES = (
    "{}",
    "the key is {}.",
    'key = "{}"',
    "export K={}\n",
    "`{}`",
    "curl -H 'x: {}' https://x",
    '{{\\"k\\": \\"{}\\"}}',
    "({})",
)


def test_T101_more_than_25_kinds_are_known() -> None:
    assert len(KIND_NAMES) >= 60 and len(set(KIND_NAMES)) == len(KIND_NAMES) and len(KEYS) > 55


@pytest.mark.parametrize("name", KEYS)
def test_T101_a_key_of_each_kind_is_taken_out_wherever_it_stands(name: str) -> None:
    key = KEYS[name]
    for place in PLACES:
        shown = Redactor().text(place.format(key))
        assert key not in shown and key[-12:] not in shown, (name, place, shown)
        assert "[redacted 1]" in shown and "[redacted 2]" not in shown, (name, place, shown)
        assert shown == place.format("[redacted 1]"), name


PEM = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    + "\n".join(A[:64] for _ in range(5))
    + "\n-----END OPENSSH PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"a\n{PEM}\nb", "a\n[redacted 1]\nb"),
        (f"a\n{PEM[:200]} and so on, he said.", "a\n[redacted 1] and so on, he said."),
        (json.dumps({"f": PEM}), '{"f": "[redacted 1]"}'),
        (f"{PEM}\n--\n{PEM.replace('a', 'b')}", "[redacted 1]\n--\n[redacted 2]"),
        ("postgres://me:s3cr3t!@db.example/x", "postgres://me:[redacted 1]@db.example/x"),
        ("https://:tok3n@host https://user@host http://host:80/a@b", "https://:[redacted 1]@host https://user@host http://host:80/a@b"),
        (f"Authorization: Bearer {A[:30]}", "Authorization: Bearer [redacted 1]"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic [redacted 1]"),
        (f"-H 'Authorization: token {A[:20]}'", "-H 'Authorization: token [redacted 1]'"),
        (f"aws_secret_access_key = {A[:40]}", "aws_secret_access_key = [redacted 1]"),
        (f"AccountName=x;AccountKey={A[:60]}==;y", "AccountName=x;AccountKey=[redacted 1];y"),
        (f"https://a.blob/x?sv=1&sig={A[:44]}%3D", "https://a.blob/x?sv=1&sig=[redacted 1]"),
        (f"https://hooks.slack.com/services/T0/B0/{A[:24]}", "https://hooks.slack.com/services/[redacted 1]"),
        (f"https://discord.com/api/webhooks/{'1' * 18}/{A[:60]}", "https://discord.com/api/webhooks/[redacted 1]"),
        ('password: "hunter22"', 'password: "[redacted 1]"'),
        ("DB_PASSWORD='correct horse'", "DB_PASSWORD='correct horse'"),
        (f"client_secret={A[:24]}", "client_secret=[redacted 1]"),
        ('"api_key": "abcdefghijkl"', '"api_key": "[redacted 1]"'),
        (r'{\"token\": \"abcdefgh1234\"}', r'{\"token\": \"[redacted 1]\"}'),
        (f"refresh_token => {A[:20]}", "refresh_token => [redacted 1]"),
    ],
)  # fmt: skip
def test_T101_secrets_that_have_no_form_of_their_own(text: str, left: str) -> None:
    assert Redactor().text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "", "sk-", "the sk-learn and scikit-learn packages", "risk-averse-and-a-long-word-with-dashes", "gh_pages",
        "def token(self) -> str: return self._token", "max_tokens = 32_000", "tokens: 12,345 of 200,000",
        "password = getpass.getpass()", "api_key = os.environ['ANTHROPIC_API_KEY']", "key = value", "keys: up, down",
        "secret: yes", "commit 3f786850e387550fdab836ed7e6dc881de23001b", "sha256:" + HEX[:64], "Bearer of bad news",
        "https://example.org/a?b=c@d", "git@github.com:me/repo.git", "me@example.org",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "import hf_hub", "dop_v1 is a prefix", "a.b.c", "eyJ", "glob('**/*.py')", "xoxo", "BEGIN PUBLIC KEY",
        "npm_config_cache=/x", "[redacted 1]", "你好 password",
    ],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_same_secret_has_the_same_number_everywhere() -> None:
    redactor = Redactor()
    a, b = KEYS["GitHub"], KEYS["Anthropic"]
    assert redactor.text(f"{a} {b} {a}") == "[redacted 1] [redacted 2] [redacted 1]"
    assert redactor.text(f"again {b}") == "again [redacted 2]" and redactor.count == 2


def test_known_values_go_in_each_form_they_may_have() -> None:
    value = 'p@ss "w/rd"\nx'
    redactor = Redactor([value, "longer-than-" + value, "short"])
    text = f"{value}|p%40ss%20%22w%2Frd%22%0Ax|{json.dumps(value)}|short"
    assert redactor.text(text) == '[redacted 1]|[redacted 1]|"[redacted 1]"|short'
    assert redactor.text("longer-than-" + value) == "[redacted 2]"


def test_plain_values_are_redacted_to_their_leaves_and_by_their_names() -> None:
    value = {
        "text": f"a {KEYS['npm']}", "list": [KEYS["npm"], 5, None, {"n": True}], "api_key": "only-its-name-tells",
        "token": "word", "tokens_before": 5, KEYS["Groq"]: 1,
    }  # fmt: skip
    assert Redactor().value(value) == {
        "text": "a [redacted 1]", "list": ["[redacted 1]", 5, None, {"n": True}], "api_key": "[redacted 2]",
        "token": "word", "tokens_before": 5, "[redacted 3]": 1,
    }  # fmt: skip


def test_values_of_key_variables_are_known_and_those_of_others_are_not() -> None:
    env = {
        "ANTHROPIC_API_KEY": "value-of-1", "MY_TOKEN": "value-of-2", "DB_PASSWORD": "p4ssw0rd!", "MINE": "value-of-3",
        "SSH_AUTH_SOCK": "/tmp/agent.123", "KEY_FILE": "~/key.pem", "MONKEY": "value-of-4", "SHORT_KEY": "abc", "TOKEN_URL": "https://a/b",
        "KEYBOARD_LAYOUT": "value-of-5", "AUTH_METHOD": "password", "SECRET_COUNT": "12345678", "PATH": "/bin",
    }  # fmt: skip
    assert secret_values(env, ["MINE"]) == ["value-of-1", "value-of-2", "p4ssw0rd!", "value-of-3"]


@given(st.text(max_size=200), st.sampled_from(sorted(KEYS.values())), st.text(max_size=200))
def test_whatever_stands_around_it_a_key_behind_a_blank_never_stays(before: str, key: str, after: str) -> None:
    assert key not in Redactor().text(f"{before} {key} {after}")


@given(st.text(min_size=LEAST_VALUE_CHARS, max_size=40), st.text(max_size=60))
def test_a_known_value_never_stays(value: str, around: str) -> None:
    assert value in "[redacted 1]" or value not in Redactor([value]).text(f"{around}{value}{around}")


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "eyJ",
        "sk-",
        "://",
        "-----BEGIN PRIVATE KEY-----",
        "password=",
        "aws ",
        "0123456789abcdef",
        "\n",
        "token: '",
    ],
)
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + " sk- :// eyJ password key aws sig= bearer "
        started = time.perf_counter()
        Redactor().text(text)
        return time.perf_counter() - started

    seconds(1_000)
    assert seconds(400_000) < 5.0
