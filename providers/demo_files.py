"""The two files that the demo's script writes into its project: tests about signs, and a page that states the rule."""

EXTRA_TESTS = "tests/test_signs.py"
PAGE = "docs/numbers.md"

_CASES = (
    ("a_minus_sign", '"-7"', "10", "3"),
    ("a_plus_sign", '"+4"', "1", "5"),
    ("two_minus_signs", '"-7"', '"-1"', "-8"),
    ("two_plus_signs", '"+7"', '"+1"', "8"),
    ("one_sign_of_each_kind", '"-7"', '"+7"', "0"),
    ("a_blank_before_the_sign", '" -7"', "7", "0"),
    ("blanks_before_the_sign", '"   -7"', "8", "1"),
    ("a_blank_behind_the_number", '"-7 "', "9", "2"),
    ("blanks_on_both_sides", '"  -7  "', "10", "3"),
    ("a_tab_before_the_sign", '"\\t-7"', "11", "4"),
    ("a_line_end_behind_the_number", '"-7\\n"', "12", "5"),
    ("both_numbers_below_zero", "-20", "-22", "-42"),
    ("the_first_number_below_zero", "-20", "22", "2"),
    ("the_second_number_below_zero", "20", "-22", "-2"),
    ("zero_with_a_minus_sign", '"-0"', "5", "5"),
    ("zero_with_a_plus_sign", '"+0"', "5", "5"),
    ("leading_zeros", '"007"', "1", "8"),
    ("leading_zeros_behind_a_sign", '"-007"', "1", "-6"),
    ("a_large_number", "10**12", '"-1"', "10**12 - 1"),
    ("a_large_text", '"-1000000000000"', "1", "1 - 10**12"),
    ("text_in_the_second_place", "3", '"-10"', "-7"),
    ("text_in_both_places", '"-3"', '"-10"', "-13"),
    ("numbers_are_added_not_joined", "2", "3", "5"),
    ("text_is_added_not_joined", '"2"', '"3"', "5"),
    ("a_number_and_text", "2", '"3"', "5"),
    ("text_and_a_number", '"2"', "3", "5"),
)


def extra_tests() -> str:
    """One test a notation; all of them pass once signs are kept."""
    tests = "".join(
        f"\n    def test_{name}(self):\n"
        f'        """calc.sum({_in_docstring(a)}, {_in_docstring(b)}) has to give {expected}."""\n'
        f"        self.assertEqual(calc.sum({a}, {b}), {expected})\n"
        for name, a, b, expected in _CASES
    )
    head = (
        '"""Signs: what docs/history.md says of 0.84, one notation a test."""\n\nimport unittest\n\nimport calc\n\n\n'
    )
    return f'{head}class SignTest(unittest.TestCase):{tests}\n\nif __name__ == "__main__":\n    unittest.main()\n'


def page() -> str:
    """What counts as a number, in words."""
    return _PAGE


def _in_docstring(value: str) -> str:
    return value.replace("\\", "\\\\")


_PAGE = """\
# What counts as a number

`calc.sum(a, b)` takes two values. Each of them is a number already, or it is text that holds one. This page says which text \
that is; `tests/test_signs.py` has a test for every line of the table.

## Text that is taken

| text | number | why |
|---|---|---|
| `"7"` | 7 | digits and nothing else |
| `"-7"` | -7 | a minus sign stands directly before the digits |
| `"+7"` | 7 | so does a plus sign, which changes nothing |
| `" 7 "` | 7 | blanks on either side come from forms and mean nothing |
| `" -7 "` | -7 | the same with a sign |
| `"\\t-7"` | -7 | a tab is a blank |
| `"-7\\n"` | -7 | and so is the end of a line |
| `"007"` | 7 | leading zeros are kept by some forms |
| `"-007"` | -7 | also behind a sign |
| `"-0"` | 0 | there is only one zero |

## Text that is not taken

| text | what happens | why |
|---|---|---|
| `""` | an error | nothing is not zero |
| `"7 8"` | an error | two numbers are not one |
| `"- 7"` | an error | the sign belongs to the digits |
| `"--7"` | an error | a number has one sign |
| `"7-"` | an error | a sign stands in front |
| `"seven"` | an error | words are for people |

## Why the sign matters

Release 0.84 allowed signs, because amounts that are paid back arrive with one. Whoever takes only the digits out of a text \
turns a debt into a credit, and no test that adds two positive numbers will ever notice. So a change in how text is read has \
to keep three things: the sign, the blanks that may stand around it, and the error for text that is no number at all.

## What does not change

The operation has one name and two parameters, `sum(a, b)`. What it returns is always a number, never text, also where both \
values were text. There is no option and no state, so that two calls with the same values always give the same result.
"""
