from msgspec.structs import replace

from agent.context.compaction import Reply
from agent.transcript import User
from providers.errors import ContextOverflowError
from providers.types import ImageBlock, TextBlock, Usage
from tests.agent.context.compaction_kit import SUMMARY, Model, asked, compacted, done, full, only_text, shared
from tests.agent.context.talk import TOOLS, Talk, facts


async def test_K12_the_shared_form_is_used_if_it_fits() -> None:
    talk = full(turns=10)
    own, model = talk.request(), Model()
    await done(talk.inputs(request=own), model)
    (request,) = model.requests
    assert shared(request)
    assert request.messages is own.messages
    assert request.tools == TOOLS


async def test_K12_the_rendered_form_is_used_if_the_shared_one_does_not_fit() -> None:
    talk = full(turns=16)
    model = Model()
    await done(talk.inputs(window=8_000), model)
    (request,) = model.requests
    assert not shared(request)
    assert request.tools == ()
    text = only_text(request)
    assert talk.meter.count(text) + request.max_tokens < 8_000
    assert "[3] USER: USER-0 please" in text
    assert "USER-15" not in text  # the tail is not summarised


async def test_images_are_stripped_from_the_rendered_form() -> None:
    talk = Talk()
    talk.append(User((TextBlock("see"), ImageBlock("image/png", "0" * 64))))
    full(talk)
    model = Model()
    await done(talk.inputs("overflow"), model)
    assert "USER: see\n[image]" in only_text(model.requests[0])


async def test_after_an_overflow_the_transcript_is_half_of_what_was_too_long() -> None:
    talk = full()
    model = Model()
    await done(talk.inputs("overflow", window=200_000), model)
    assert not shared(model.requests[0])
    assert talk.meter.count(only_text(model.requests[0])) < talk.meter.used().tokens // 2 + 600


async def test_a_shared_request_that_is_found_too_long_is_rendered_in_half_of_it() -> None:
    talk, model = full(turns=10), Model(ContextOverflowError("prompt is too long"), SUMMARY)
    await done(talk.inputs(), model)
    assert [shared(request) for request in model.requests] == [True, False]
    assert talk.meter.count(only_text(model.requests[1])) < talk.meter.used().tokens // 2 + 700


async def test_the_output_cap_is_a_fifth_of_the_room_at_most() -> None:
    talk = full()
    model = Model()
    inputs = talk.inputs()
    await done(inputs, model)
    room = inputs.thresholds.trigger - talk.meter.floor_tokens
    assert model.requests[0].max_tokens == min(1_638 * 4 // 5, room // 5)


async def test_K12_the_shared_form_lists_the_entries_that_go_and_asks_to_cite_them() -> None:
    talk, model = full(turns=10), Model()
    payload = await done(talk.inputs(), model)
    ask = asked(model.requests[0])
    assert "as in [entry 12]" in ask
    listed = ask.split("each with its number:\n", 1)[1].split("\n```", 1)[0]
    assert (
        "[3] user: USER-0 please\n[4] assistant: looking 0; call of read\n[5] result of read: RESULT-0 word" in listed
    )
    assert f"[{payload.first_kept}]" not in listed
    assert "entries between these are not listed" in listed
    assert talk.meter.count(listed) <= 8_192 // 25 + 20


async def test_the_rendered_form_names_entries_roles_and_tools() -> None:
    model = Model()
    await done(full(turns=10).inputs("overflow"), model)
    text = only_text(model.requests[0])
    assert '[4] ASSISTANT: looking 0\n\n[4] CALL of read: {"path": "a"}\n\n[5] RESULT of read: RESULT-0 word' in text
    assert "as in [entry 12]" in text


async def test_another_model_gets_the_rendered_form_sized_for_its_own_window() -> None:
    talk, model = full(turns=40), Model()
    other = replace(facts(window=5_000, cap=400), id="small")
    inputs = replace(talk.inputs(window=40_000, request=replace(talk.request(), effort="high")), summary_facts=other)
    await done(inputs, model)
    assert len(model.requests) >= 3
    for request in model.requests:
        assert (request.model, request.effort, request.tools, request.extra) == ("small", None, (), ())
        assert talk.meter.count(only_text(request)) + request.max_tokens <= 5_000
        assert request.max_tokens == 400


async def test_I13_another_models_levels_are_its_own() -> None:
    other = replace(facts(efforts=("low", "high")), id="small")
    cut = Reply("half", False, "max_tokens", Usage(100, 0, 0, 600, 500))
    model = Model(cut, SUMMARY)
    await done(replace(full().inputs(efforts=("off", "high")), summary_facts=other), model)
    assert [request.effort for request in model.requests] == [None, "low"]


async def test_the_message_says_that_recall_finds_the_rest_unless_the_model_cannot() -> None:
    talk = full()
    told = (await done(talk.inputs())).text
    assert "`recall` with `query`" in told
    assert "`recall` with `entry`" in told
    assert "recall" not in (await done(replace(talk.inputs(), can_recall=False))).text


async def test_I_fmt_sections_that_are_missing_are_named_and_are_no_reason_to_reject() -> None:
    talk = full()
    outcome = await compacted(talk.inputs(), Model("## Goal\nSum.\n**Progress**\nok"))
    assert outcome.missing == ("Constraints and preferences", "Key decisions", "Next steps", "Critical context")
    assert "(The summary has no section Constraints and preferences, Key decisions" in outcome.compaction.text
    assert (await compacted(talk.inputs())).missing == ()
