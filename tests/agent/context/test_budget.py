import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agent.context.budget import (
    ContextSettings,
    GaugeState,
    Trigger,
    gauge_state,
    next_max_tokens,
    result_cap_tokens,
    step_results_cap_tokens,
    summary_output_cap,
    thresholds,
)


class Limits(Struct, frozen=True):
    context_window_tokens: int
    max_output_tokens: int


PUBLISHED = [
    (8_192, 4_096, 6_554, 4_392, 5_702, 6_358),
    (32_768, 8_192, 26_215, 17_565, 22_808, 25_429),
    (200_000, 64_000, 180_000, 147_000, 167_000, 177_000),
    (1_000_000, 128_000, 980_000, 830_000, 850_000, 977_000),
]


@pytest.mark.parametrize(("window", "cap", "effective", "warning", "trigger", "blocking"), PUBLISHED)
def test_K5_K6_published_numbers(
    window: int, cap: int, effective: int, warning: int, trigger: int, blocking: int
) -> None:
    found = thresholds(Limits(window, cap), ContextSettings(), {})
    assert (found.effective, found.warning, found.error) == (effective, warning, warning)
    assert (found.trigger, found.blocking) == (trigger, blocking)
    assert (found.context_window, found.reserve) == (window, window - effective)
    assert found.auto_compact
    assert found.can_compact


@pytest.mark.parametrize(
    ("window", "cap", "trigger", "tokens"),
    [
        (1_000_000, 128_000, "buffer", 967_000),
        (200_000, 64_000, "ratio", 167_233),
        (1_000_000, 128_000, "ratio", 850_001),
        (40_000, 1_000, "ratio", 34_001),
        (200_000, 64_000, 90_000, 90_000),
        (200_000, 64_000, 0.5, 90_000),
        (200_000, 64_000, 999_999, 177_000),
        (200_000, 64_000, -5, 1),
    ],
)
def test_I6_every_kind_of_trigger(window: int, cap: int, trigger: Trigger, tokens: int) -> None:
    assert thresholds(Limits(window, cap), ContextSettings(trigger=trigger), {}).trigger == tokens


SETTINGS = st.builds(
    ContextSettings,
    trigger=st.one_of(st.sampled_from(["auto", "buffer", "ratio"]), st.integers(1, 2_000_000), st.floats(0.01, 1.0)),
    reserve_tokens=st.one_of(st.none(), st.integers(0, 3_000_000)),
    auto_compact=st.just(True),
)
WINDOWS = st.integers(1, 3_000_000)
CAPS = st.integers(0, 500_000)


@given(WINDOWS, CAPS, SETTINGS)
def test_K6_thresholds_are_ordered_and_positive(window: int, cap: int, settings: ContextSettings) -> None:
    found = thresholds(Limits(window, cap), settings, {})
    assert 0 < found.warning <= found.error <= found.trigger <= found.blocking <= found.effective <= window
    assert found.trigger == 1 or found.error < found.trigger


@given(WINDOWS, st.integers(0, 500_000), CAPS, SETTINGS)
def test_K6_a_larger_window_never_has_a_smaller_trigger(
    window: int, more: int, cap: int, settings: ContextSettings
) -> None:
    small = thresholds(Limits(window, cap), settings, {})
    large = thresholds(Limits(window + more, cap), settings, {})
    assert small.trigger <= large.trigger
    assert small.effective <= large.effective
    assert small.blocking <= large.blocking


@pytest.mark.parametrize("window", [65_535, 65_536, 80_000, 88_472])
def test_I6_ratio_does_not_drop_where_its_formula_changes(window: int) -> None:
    settings = ContextSettings(trigger="ratio", reserve_tokens=0)
    assert thresholds(Limits(window, 8_192), settings, {}).trigger == 55_705


def test_K5_the_environment_may_only_shrink_the_window() -> None:
    limits = Limits(200_000, 64_000)
    assert thresholds(limits, ContextSettings(), {"CLAW_CONTEXT_WINDOW": "8192"}).effective == 6_554
    assert thresholds(limits, ContextSettings(), {"CLAW_CONTEXT_WINDOW": "900000"}).effective == 180_000


def test_K6_overrides_for_tests() -> None:
    limits = Limits(200_000, 64_000)
    assert thresholds(limits, ContextSettings(), {"CLAW_AUTOCOMPACT_PCT": "50"}).trigger == 90_000
    found = thresholds(limits, ContextSettings(), {"CLAW_BLOCKING_LIMIT": "50_000"})
    assert (found.blocking, found.trigger) == (50_000, 50_000)


def test_K7_switches_all_off_before_automatic_off_before_settings() -> None:
    limits = Limits(200_000, 64_000)
    all_off = thresholds(limits, ContextSettings(), {"CLAW_DISABLE_COMPACT": "1"})
    assert (all_off.can_compact, all_off.auto_compact) == (False, False)
    automatic_off = thresholds(limits, ContextSettings(), {"CLAW_DISABLE_AUTO_COMPACT": "true"})
    assert (automatic_off.can_compact, automatic_off.auto_compact) == (True, False)
    by_settings = thresholds(limits, ContextSettings(auto_compact=False), {"CLAW_DISABLE_COMPACT": "0"})
    assert (by_settings.can_compact, by_settings.auto_compact) == (True, False)
    assert by_settings.warning == 160_000  # below the effective window


@pytest.mark.parametrize("name", ["CLAW_CONTEXT_WINDOW", "CLAW_AUTOCOMPACT_PCT", "CLAW_BLOCKING_LIMIT"])
@pytest.mark.parametrize("value", ["many", "-1", "0", "nan", "inf", "1e999"])
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .* not '{value}'"):
        thresholds(Limits(200_000, 64_000), ContextSettings(), {name: value})


def test_K6_the_five_fields_compare_with_at_least() -> None:
    limits = thresholds(Limits(200_000, 64_000), ContextSettings(), {})
    assert gauge_state(146_999, limits) == GaugeState(20_001 / 167_000, False, False, False, False)
    assert gauge_state(147_000, limits) == GaugeState(20_000 / 167_000, True, True, False, False)
    assert gauge_state(166_999, limits).above_trigger is False
    assert gauge_state(167_000, limits) == GaugeState(0.0, True, True, True, False)
    assert gauge_state(177_000, limits) == GaugeState(0.0, True, True, True, True)
    assert gauge_state(0, limits).fraction_left == 1.0


def test_K6_without_automatic_compaction_nothing_is_above_the_trigger() -> None:
    limits = thresholds(Limits(200_000, 64_000), ContextSettings(auto_compact=False), {})
    assert gauge_state(170_000, limits) == GaugeState(10_000 / 180_000, True, True, False, False)
    assert gauge_state(177_000, limits).at_blocking


def test_I13_the_summary_has_at_most_80_percent_of_the_reserve_and_a_fifth_of_the_room() -> None:
    limits = thresholds(Limits(200_000, 64_000), ContextSettings(), {})
    assert summary_output_cap(limits, 64_000, 150_000) == 16_000
    assert summary_output_cap(limits, 4_000, 150_000) == 4_000
    assert summary_output_cap(limits, 64_000, 20_000) == 4_000
    assert summary_output_cap(limits, 64_000, -7) == 1


def test_max_tokens_of_the_next_request() -> None:
    assert next_max_tokens(64_000, 10_000, 200_000) == 32_000
    assert next_max_tokens(8_192, 10_000, 200_000) == 8_192
    assert next_max_tokens(64_000, 180_000, 200_000) == 18_000
    assert next_max_tokens(64_000, 10_000, 200_000, most=64_000) == 64_000
    assert next_max_tokens(64_000, 250_000, 200_000) == 1


def test_K8_caps_of_results() -> None:
    large, small = (thresholds(Limits(w, 64_000), ContextSettings(), {}) for w in (1_000_000, 32_768))
    assert (result_cap_tokens(large), step_results_cap_tokens(large)) == (16_000, 50_000)
    assert (result_cap_tokens(small), step_results_cap_tokens(small)) == (5_243, 6_553)
