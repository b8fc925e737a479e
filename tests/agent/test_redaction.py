"""Every kind of key that is known, where keys turn up, and what must be left alone. The keys are made up piece by piece."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.redaction import LEAST_VALUE_CHARS, KnownValues, Redactor, fingerprint, has_fingerprint, secret_values
from agent.secret_search import KIND_NAMES
from tests.fakes.secret_keys import made_keys, made_pem

A = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6jK9mN2pQ5sT8vW1yZ4aB7cD0eF3gH6jK9mN2"
HEX = "0123456789abcdef" * 6
UP = "A3B6C9D2E5F8G1H4J7K0L3M6N9P2Q5R8S1T4V7W0X3Y6Z9"

KEYS = made_keys(1)
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
        ('"api_key": "abcdefgh1jkl"', '"api_key": "[redacted 1]"'),
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
        "text": f"a {KEYS['npm']}", "list": [KEYS["npm"], 5, None, {"n": True}], "api_key": "only-its-name-tells-1",
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
        "token=",
        "API_KEY=",
        "API_KEY=a1\n",
        "login a password ",
        "-----END RSA PRIVATE KEY-----\n",
        "A" * 64 + "\n",
        "A" * 64 + "\n-----END RSA PRIVATE KEY-----\n",
        "://a:b",
        ".",
        "\x1b[31m",
        "[redacted 1]",
    ],
)
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + " sk- :// eyJ password key aws sig= bearer "
        started = time.process_time()
        Redactor().text(text)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(400_000) < 5.0


OWN = Path(__file__).parents[2]
LINES = """
commit 3f786850e387550fdab836ed7e6dc881de23001b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  dist/claw.tar.gz
"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    {url = "https://files.example.org/packages/aa/bb/x-1.0.tar.gz", hash = "sha256:2c26b46b68ffc68ff99b453c1d3041341342"},
"id": "123e4567-e89b-12d3-a456-426614174000", "etag": "W/\\"5d8c72a5edda8d6a\\""
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
!function(e,t){"use strict";var n=e.token=function(e){return t.password(e)},r={key:"value",secret:void 0}}(this,window);
password = get_password()
def login(password: str, token: str = "") -> Secret: ...
token: str
api_key=os.environ["OPENAI_API_KEY"], secret=settings.secret_key, password=form.cleaned_data["password1"]
const apiKey = process.env.API_KEY2; let accessToken: string | null = await getToken1();
export TOKEN=$(cat /run/secrets/token1)
PASSWORD="${PASSWORD:-}"
CACHE_KEY=build-v2-linux-x64-2026
MAX_TOKENS=32000 TOKENIZERS_PARALLELISM=false
  password: ${{ secrets.DOCKER_PASSWORD1 }}
  secretName: my-tls-secret-1
password: <your-password-1>
primary_key=True, foreign_key="users.id_12345678", key="cache:user:12345678901234567890"
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5uG1o2lwT0m0mVn7h5q3uW0r8y2ZP1hW6J8Kq2q3Zx me@example.org
-----BEGIN CERTIFICATE-----
MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ
-----END CERTIFICATE-----
if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError("no private keys here")
http://user:password@host/ https://example.org:8080/a@b git@github.com:me/x.git
[redacted 1] and then [redacted 22]
0x52908400098527886E0F7030069857D2E4169EE7 bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", LINES)
def test_ordinary_lines_of_files_and_outputs_are_left_alone(line: str) -> None:
    assert Redactor().text(line) == line


def test_no_false_alarm_in_the_sources_of_claw_itself() -> None:
    places = [*(OWN / "agent").rglob("*"), *(OWN / "tui").rglob("*"), *(OWN / "providers").rglob("*"), *OWN.glob("*.*")]
    files = [path for path in places if path.suffix in (".py", ".md", ".toml", ".tcss", ".json") and path.is_file()]
    assert len(files) > 300
    alarms = []
    for path in files:
        text = path.read_text()
        alarms += [(path.name, text[found.start : found.end]) for found, _ in Redactor().find(text)]
    assert alarms == []


ENV_FILE = """# comment
DB_PASSWORD=hunter2-or-so
export API_TOKEN='zK8-2p_x.q'
STRIPE_WEBHOOK_SECRET="q9w8e7r6t5"
DEBUG=true
KEY_FILE=/etc/x.pem
PORT_TOKEN=8080
"""


def test_T55_values_in_files_of_variables_go_and_the_rest_stays() -> None:
    left = ENV_FILE.replace("hunter2-or-so", "[redacted 1]").replace("zK8-2p_x.q", "[redacted 2]")
    left = left.replace("q9w8e7r6t5", "[redacted 3]")
    assert Redactor().text(ENV_FILE) == left
    numbered = "".join(f"{n:>6}\t{line}\n" for n, line in enumerate(ENV_FILE.split("\n"), 1))
    assert not any(value in Redactor().text(numbered) for value in ("hunter2", "zK8-2p", "q9w8e7"))
    searched = "".join(f".env:{n}:{line}\n" for n, line in enumerate(ENV_FILE.split("\n"), 1))
    assert not any(value in Redactor().text(searched) for value in ("hunter2", "zK8-2p", "q9w8e7"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("machine h login me password s3cr3t", "machine h login me password [redacted 1]"),
        ("machine h\n  login me\n  password wordword\n", "machine h\n  login me\n  password [redacted 1]\n"),
        ("spring.datasource.password=tr0ub4dor&3\n", "spring.datasource.password=[redacted 1]\n"),
        ("  password: tr0ub4dor3\n  user: me", "  password: [redacted 1]\n  user: me"),
        ("[default]\naws_access_key_id = AKIA" + UP[:16], "[default]\naws_access_key_id = [redacted 1]"),
    ],
)  # fmt: skip
def test_T55_passwords_where_programs_keep_them(text: str, left: str) -> None:
    assert Redactor().text(text) == left


def test_T55_a_private_key_goes_without_its_beginning_and_without_its_end() -> None:
    lines = made_pem(5).split("\n")
    numbered = [f"{n:>6}\t{line}" for n, line in enumerate(lines, 1)]
    added = [f"+{line}" for line in lines]
    searched = [f"id_rsa:{n}:{line}" for n, line in enumerate(lines, 1)]
    for block in (lines, numbered, added, searched):
        for part in (block, block[:-2], block[2:]):
            shown = Redactor().text("\n".join(("before", *part, "after it")))
            assert not any(line in shown for line in lines[1:-1]), shown
            assert shown.startswith("before") and shown.endswith("after it") and "[redacted 1]" in shown


def test_colours_within_a_key_do_not_hide_it() -> None:
    key = KEYS["GitHub"]
    shown = Redactor().text(f"\x1b[32mkey \x1b[1;31m{key[:9]}\x1b[m\x1b[K{key[9:]}\x1b[0m.")
    assert shown == "\x1b[32mkey \x1b[1;31m[redacted 1]\x1b[0m."


def test_a_key_cut_off_at_the_end_of_a_long_line_goes_too() -> None:
    key = KEYS["Google"]
    for end in ("", "…", "… (+300 characters)"):
        shown = Redactor().text(f"{'x ' * 200}{key[:12]}{end}\nnext")
        assert key[:12] not in shown and shown.endswith("\nnext")


def test_a_marker_that_stands_in_a_text_already_keeps_its_number_to_itself() -> None:
    redactor = Redactor()
    text = f"see [redacted 7]; {KEYS['npm']}"
    assert redactor.text(text) == "see [redacted 7]; [redacted 8]"
    assert redactor.text(redactor.text(text)) == "see [redacted 7]; [redacted 8]" and redactor.count == 1


def test_numbers_go_on_after_a_resume_and_what_can_be_guessed_leaves_no_trace() -> None:
    first = Redactor(["hunter22-x"])
    text = f"{KEYS['GitHub']} hunter22-x {KEYS['Slack']}"
    shown, marked = first.take(text)
    assert shown == "[redacted 1] [redacted 2] [redacted 3]"
    assert [bool(mark.fingerprint) for mark in marked] == [True, False, True]
    assert not any(part in repr(marked) for part in (KEYS["GitHub"][4:20], "hunter22", KEYS["Slack"][-12:]))
    again = Redactor(["hunter22-x"], marked)
    assert again.text(f"{KEYS['npm']} {text}") == "[redacted 4] [redacted 1] [redacted 5] [redacted 3]"


def test_prints_of_the_same_secret_differ_and_are_of_no_other() -> None:
    key = KEYS["Groq"]
    one, other = fingerprint(key), fingerprint(key)
    assert one != other and has_fingerprint(key, one) and has_fingerprint(key, other)
    assert not has_fingerprint(key + "x", one) and not has_fingerprint(key, "") and not has_fingerprint(key, "zz")


def test_a_redactor_holds_no_secret_that_it_has_found() -> None:
    redactor = Redactor()
    redactor.text(" ".join(KEYS.values()))
    held = repr({name: value for name, value in vars(redactor).items() if name != "_known"})
    assert not any(key[8:30] in held for key in KEYS.values())


def test_T55_a_single_line_of_a_private_key_that_was_seen_before_goes_too() -> None:
    redactor, lines = Redactor(), made_pem(5).split("\n")
    assert redactor.text(lines[3]) == lines[3], "by itself it may be anything"
    assert redactor.text(f"{KEYS['npm']} {made_pem(5)}") == "[redacted 1] [redacted 2]"
    assert redactor.text(f"id_rsa:4:{lines[3]}") == "id_rsa:4:[redacted 2]" and redactor.count == 2


def test_R50_what_is_learnt_of_a_secret_counts_in_a_text_that_was_clean_before() -> None:
    known, pem = KnownValues(), made_pem(5)
    redactor, line = Redactor(known), pem.split("\n")[3]
    text = f"{'y ' * 3_000}hunter22-x\n{line}\n"
    assert redactor.text(text) == redactor.text(text) == text
    known.learn(["hunter22-x"])
    assert redactor.text(text) == text.replace("hunter22-x", "[redacted 1]")
    redactor.text(pem)
    assert redactor.text(text) == text.replace("hunter22-x", "[redacted 1]").replace(line, "[redacted 2]")
