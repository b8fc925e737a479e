import pytest

from agent.permissions.shell_words import Word, split


def told(word: Word) -> str:
    """The text, and what is said of it: `e`xpands, `s`plits, `g`lobs."""
    marks = "e" * word.expands + "s" * word.splits + "g" * word.globs
    return (word.text or "''") + (f"~{marks}" if marks else "")


def parsed(text: str) -> tuple[list[str], list[str], str]:
    found = split(text)
    commands = sorted(" ".join(map(told, words)) for words in found.commands)
    return commands, [told(word) for word in found.targets], " broken" * found.broken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # words
        ("", ""),
        ("a  b\tc", "a b c"),
        ('a "" b', "a '' b"),
        ("a 'b  c'd", "a b  cd"),
        ("a \\;b\\ c", "a ;b c"),
        ("r\\\nm x", "rm x"),
        ("r\\", "r"),
        ("a#b # c; d", "a#b"),
        ("a # b\nc", "a; c"),
        # in quotes
        ('"a;b|c&d(e)f" g', "a;b|c&d(e)f g"),
        ('"a\\"b" c', 'a"b c'),
        ('"a\\$x\\`y\\\\z"', "a$x`y\\z"),
        ('"r\\\nm" x', "rm x"),
        ('"a\\b"', "a\\b"),
        ('"a\\', "a\\ broken"),
        ("\"$'a'\"", "$'a'"),
        ('"a$"b', "a$b"),
        ('"*?[{"', "*?[{"),
        ("'$x`y`*'", "$x`y`*"),
        # lists
        ("a;b|c&d\ne", "a; b; c; d; e"),
        ("a&&b||c|&d;;e", "a; b; c; d; e"),
        ("(a) b", "a; b"),
        ("f() { a; }", "f; { a; }"),
        ("case x in y) a;; esac", "case x in y; a; esac"),
        # expansions
        ("$x", "$x~es"),
        ('"$x"', "$x~e"),
        ('$x"$y"', "$x$y~es"),
        ("a$ $", "a$ $"),
        ('$"a" b', "a b"),
        ("$'a\\'b' c", "a'b~es c"),
        ("$'\\x72m' x", "x72m~es x"),
        ("a $(b c) d", "b c; a $()~es d"),
        ('a "$(b "c d")e" f', "b c d; a $()e~e f"),
        ("a `b c` d", "b c; a $()~es d"),
        ('a "`b`"', "b; a $()~e"),
        ("`a) b` c", "a; b; $()~es c"),
        ("$(a `b`)", "b; a $()~es; $()~es"),
        ("a <(b) >(c)", "b; c; a $()~es $()~es"),
        # patterns
        ("a* b? [c]* d{e,f}", "a*~g b?~g [c]*~g d{e,f}~g"),
        ("[ a ]", "[ a ]"),
        ("[[ a ]]", "[[ a ]]"),
        ("{ a {} }", "{ a {} }"),
        ("{}a [[[", "{}a~g [[[~g"),
        # redirections
        ("a >b c", "a c > b"),
        ("a>b", "a > b"),
        ("a 2>b", "a > b"),
        ("a2>b", "a2 > b"),
        ("a >>b <c <>d >|e", "a > b > c > d > e"),
        ("a 2>&1 b", "a b > 1"),
        ("a &>b c", "a c > b"),
        ("a <<<b", "a > b"),
        (">b a", "a > b"),
        ("> $x a", "a > $x~es"),
        ("a > ; b", "a; b"),
        ("a > | b c", "a; b c"),
        ("a >", "a"),
        # unfinished
        ("a 'b", "a b broken"),
        ('a "b', "a b broken"),
        ("a $(b", "b; a broken"),
        ("a `b", "b; a broken"),
        ("a (b", "b; a broken"),
        ("a $'b", "a b~es broken"),
        ("a $'b\\", "a b~es broken"),
        ("a )b", "a; b"),
    ],
)
def test_B18_a_line_is_split_as_a_shell_does(text: str, expected: str) -> None:
    whole, broken, _ = expected.partition(" broken")
    commands, *targets = whole.split(" > ")
    assert parsed(text) == (sorted(commands.split("; ")) if commands else [], targets, broken)


def test_every_kind_of_expansion_is_one() -> None:
    for name in ("x", "1", "_", "{x}", "@", "*", "#", "?", "$", "!", "-"):
        assert split(f"a ${name}").commands[0][1].expands, name
        assert split(f'a "${name}"').commands[0][1] == Word(f"${name}", expands=True), name
    for name in (".", "/", "%", "=", ","):
        assert split(f"a ${name}").commands[0][1] == Word(f"${name}"), name
