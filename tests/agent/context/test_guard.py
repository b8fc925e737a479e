from agent.context.guard import CompactionGuard


def test_K7_three_failures_in_a_row_stop_automatic_tries_until_a_reset() -> None:
    guard = CompactionGuard()
    guard.failed("auto")
    guard.failed("manual")  # the user's own try does not count
    guard.failed("overflow")
    assert guard.stopped() is None
    guard.failed("auto")
    assert guard.stopped() == "automatic compaction failed 3 times in a row and is off until /compact works"
    guard.reset()
    assert guard.stopped() is None


def test_K7_a_success_starts_the_count_anew() -> None:
    guard = CompactionGuard()
    for _ in range(2):
        guard.failed("auto")
    guard.succeeded(10_000, 2_000, 1_000)
    for _ in range(2):
        guard.failed("auto")
    assert guard.stopped() is None


def worked(guard: CompactionGuard, replies: int = 5) -> CompactionGuard:
    for _ in range(replies):
        guard.answered()
    return guard


def test_G21_two_in_a_row_that_free_under_a_fifth_above_the_floor_stop_it() -> None:
    guard = CompactionGuard()
    guard.succeeded(10_000, 8_400, 2_000)  # exactly a fifth of 8,000
    worked(guard).succeeded(10_000, 8_401, 2_000)
    assert guard.stopped() is None
    worked(guard).succeeded(10_000, 3_000, 2_000)
    worked(guard).succeeded(10_000, 8_401, 2_000)
    assert guard.stopped() is None
    worked(guard).succeeded(10_000, 9_000, 2_000)
    assert guard.stopped() == "the last 2 compactions freed too little, so another one would not help"
    guard.reset()
    assert guard.stopped() is None


def test_B1_three_refills_in_a_row_stop_it_with_advice() -> None:
    guard = CompactionGuard()
    guard.succeeded(10_000, 3_000, 1_000)
    for _ in range(2):
        worked(guard, 1).succeeded(10_000, 3_000, 1_000)
    assert guard.stopped() is None
    worked(guard, 1).succeeded(10_000, 3_000, 1_000)
    reason = guard.stopped()
    assert reason is not None
    assert "full again right after each of the last 3" in reason
    assert "smaller parts" in reason
    assert "larger window" in reason
    guard.reset()
    assert guard.stopped() is None


def test_B1_long_work_that_fills_the_window_again_and_again_is_no_refill() -> None:
    guard = CompactionGuard()
    for _ in range(20):
        worked(guard, 2).succeeded(10_000, 3_000, 1_000)
    assert guard.stopped() is None


def test_B1_a_compaction_by_hand_is_no_refill_and_ends_a_row_of_them() -> None:
    guard = CompactionGuard()
    guard.succeeded(10_000, 3_000, 1_000)
    for _ in range(5):
        worked(guard, 1).succeeded(10_000, 3_000, 1_000, "manual")
    for _ in range(3):
        worked(guard, 1).succeeded(10_000, 3_000, 1_000)
    assert guard.stopped() is None


def test_I8_R46_one_compaction_for_one_overflow() -> None:
    guard = CompactionGuard()
    assert guard.may_handle_overflow()
    guard.succeeded(10_000, 2_000, 1_000, "overflow")
    assert not guard.may_handle_overflow()
    guard.answered()
    assert guard.may_handle_overflow()
    guard.failed("overflow")
    assert not guard.may_handle_overflow()
    guard.reset()
    assert guard.may_handle_overflow()


def test_B1_a_final_failure_stops_it_at_once() -> None:
    guard = CompactionGuard()
    guard.failed("auto", final=True)
    assert guard.stopped() is not None
    assert not guard.may_handle_overflow()
    guard.reset()
    assert guard.stopped() is None
