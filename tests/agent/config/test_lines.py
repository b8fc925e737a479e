import time
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.config.key_paths import format_key
from agent.config.lines import key_lines, over_dotted_line

TEXT = '''# comment with [brackets] = "x"
model = "a/b"
"quoted key".x = 1
instructions.text = """
[not.a.table]
key = 1
"""
a = [ # list
  "x", 'y]',
  { deep = 1, more.deeper = [
     2 ] },
]

[models."gpt-5.1"] # trailing
price.input = 2
[[hooks]]
name = "one"
[[hooks]]
name = "two"
[hooks.sub]
z = 1979-05-27T07:32:00Z
[providers]
x = { base_url = "http://l", headers = { "X-A" = "1" } }
'''


def test_lines_of_every_kind_of_key() -> None:
    lines = key_lines(TEXT)
    assert lines[("model",)] == 2
    assert lines[("quoted key", "x")] == 3
    assert lines[("instructions", "text")] == 4
    assert ("not", "a", "table") not in lines
    assert (lines[("a",)], lines[("a", "1")]) == (8, 9)
    assert (lines[("a", "2", "deep")], lines[("a", "2", "more", "deeper")]) == (10, 10)
    assert lines[("a", "2", "more", "deeper", "0")] == 11
    assert lines[("models", "gpt-5.1")] == 14
    assert lines[("models", "gpt-5.1", "price", "input")] == 15
    assert (lines[("hooks", "0", "name")], lines[("hooks", "1", "name")]) == (17, 19)
    assert lines[("hooks", "1", "sub", "z")] == 21
    assert lines[("providers", "x", "headers", "X-A")] == 23


def test_every_leaf_of_the_parser_has_a_line() -> None:
    lines = key_lines(TEXT)

    def leaves(node: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        if isinstance(node, dict):
            return [leaf for name, value in node.items() for leaf in leaves(value, (*path, name))]
        if isinstance(node, list):
            return [leaf for index, value in enumerate(node) for leaf in leaves(value, (*path, str(index)))]
        return [path]

    assert [path for path in leaves(tomllib.loads(TEXT), ()) if path not in lines] == []


def test_broken_text_gives_what_stands_before_the_break() -> None:
    assert key_lines('a = 1\nb = "open\nc = 2') == {("a",): 1, ("b",): 2}


@given(st.text(alphabet="ab.=[]{}\"'\\\n#, \t", max_size=200))
def test_any_text_is_survived(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())


def test_work_stays_linear_on_hostile_texts() -> None:
    began = time.process_time()
    for text in ("a." * 100_000, '"' * 200_000, "[" * 200_000, "a=" + "{a=" * 60_000, "a" * 400_000, '"a".' * 60_000):
        key_lines(text)
        over_dotted_line(text)
    assert time.process_time() - began < 3


def test_keys_with_too_many_parts_are_found_with_their_line() -> None:
    assert over_dotted_line("x = 1\n" + "a." * 32 + "b = 1") == 2
    assert over_dotted_line("[" + '"q" . ' * 32 + "b]") == 1
    assert over_dotted_line("a." * 31 + "b = 1") is None


def test_format_key_quotes_what_needs_it_and_escapes_the_invisible() -> None:
    assert format_key(("models", "gpt-5.1", "price")) == 'models."gpt-5.1".price'
    assert format_key(("a\x1b\u202e", 'q"\\')) == '"a\\U0000001B\\U0000202E"."q\\"\\\\"'
