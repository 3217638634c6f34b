"""The Lossless page without a browser: starting, following and stopping audits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SpecvizError
from specviz.record.breaks import BREAKS
from specviz.theory.evalues import Detectable
from specviz.tune.audit import LEVEL, AuditReport
from specviz.tune.greedy import GreedyCheck, GreedyDivergence
from specviz.tune.recorded_audits import AuditCourse, audits_from_record, audits_to_record
from specviz.ui.lossless.sections import TRUE_RULE
from specviz.ui.session.background_jobs import the_job_queue
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import AuditingMaker, page_text, put_maker

GREEDY = GreedyCheck(prompts=5, tokens=240, divergence=None)
REPORT = AuditReport(
    runs=25, planned=50, first_tokens=200, accepted=100, recovered=40, bonus=10, alpha=0.7,
    e_value=0.5, p_value=0.6, level=0.01, alarm_at=None,
    detectable=Detectable(bias=0.05, tokens="the target's likeliest tokens"), temperature=1.0,
    broken=None, greedy=None,
)  # fmt: skip
LAST = replace(REPORT, runs=50, e_value=0.9, p_value=0.4, greedy=GREEDY)
ALARM = replace(
    LAST, broken="recovered-from-target", alarm_at=43, e_value=math.log(20_000), p_value=1 / 20_000
)
CERTAIN = replace(ALARM, e_value=math.inf, p_value=0.0)


pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AuditingMaker]:
    def put(*reports: AuditReport, held: bool = False) -> AuditingMaker:
        maker = AuditingMaker(*reports, held=held)
        put_maker(monkeypatch, maker)
        return maker

    return put


def audited(app: AppTest, button: str = "audit_start") -> Any:
    """Press the button and wait until the audit ends."""
    sound(app.button(key=button).click().run())
    work: Any = the_job_queue().newest("audit")
    assert work.wait(30)
    sound(app.run())
    return work


def test_explains_the_audit_before_the_first_one() -> None:
    app = page_of("lossless")
    assert "Recorded example" in page_text(app)
    assert "press *Audit*" in page_text(app)
    (drawn,) = charts(app).values()
    correct, broken = drawn["data"]
    assert (correct["name"], broken["name"]) == (TRUE_RULE, "recovered-from-target")
    threshold = -math.log10(LEVEL)
    assert max(correct["y"]) < threshold < max(broken["y"])
    assert [each.key for each in app.button if str(each.key).startswith("break_")]
    cards = {each.value.replace("\\", "") for each in app.markdown}
    for each in BREAKS.values():
        colour = "orange" if each.symptom == "acceptance" else "red"
        assert f"**{each.name}** :{colour}-badge[costs {each.costs}]" in cards
    assert "**match** :orange-badge[costs acceptance only]" in cards
    assert "**untrimmed-target-cache** :red-badge[costs exactness and acceptance]" in cards


def test_controls_set_the_audit(use: Callable[..., AuditingMaker]) -> None:
    maker = use(LAST)
    app = page_of("lossless", audit_temperature="0.6", audit_gamma="3", audit_runs="70")
    audited(app)
    (audit,) = maker.audits
    assert (audit.config.temperature, audit.config.gamma) == (0.6, 3)
    assert (audit.runs, audit.broken) == (70, None)


def test_a_target_alone_is_audited_with_its_template_and_without_bugs(
    use: Callable[..., AuditingMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.widgets.pair_panel.has_chat", lambda *_: True)
    maker = use(LAST)
    app = page_of("lossless", pair="Local", target_folder="one")
    audited(app)
    (audit,) = maker.audits
    assert (audit.config.drafter, audit.config.chat) == ("prompt-lookup", True)
    assert all(each.disabled for each in app.button if str(each.key).startswith("break_"))


def test_shows_an_audit_without_an_alarm(use: Callable[..., AuditingMaker]) -> None:
    use(REPORT, LAST)
    app = page_of("lossless")
    audited(app)
    shown = page_text(app)
    assert ":green-badge[✓] No deviation found in 200 tokens (p = 0.4)." in shown
    assert "50 of 50 runs" in shown
    assert "At temperature 0 all 240 tokens of 5 texts" in shown
    assert "ended before the check" not in shown
    (line,) = charts(app)["audit_evidence"]["data"]
    assert line["x"] == [0, 25, 50]
    assert line["name"] == "the unmodified loop"


def test_names_the_injected_bug_before_explaining_the_alarm(
    use: Callable[..., AuditingMaker],
) -> None:
    maker = use(ALARM)
    app = page_of("lossless")
    audited(app, "break_recovered-from-target")
    assert maker.audits[0].broken == "recovered-from-target"
    shown = page_text(app)
    head = shown.index("Alarm at run 43")
    purpose = shown.index("The loop is broken on purpose (recovered-from-target)")
    assert head < purpose < shown.index("one in 20,000")
    assert ":orange-badge[broken on purpose] Alarm" in shown
    assert ":red-badge[found] at run 43." in shown


def test_the_finding_is_on_the_card_of_the_injected_bug(
    use: Callable[..., AuditingMaker],
) -> None:
    app = page_of("lossless")
    use(LAST)
    audited(app)
    use(ALARM)
    audited(app, "break_recovered-from-target")
    shown = page_text(app)
    card = shown.index(":red-badge[found] at run 43.")  # below the button that was pressed
    zoo, alarm = shown.index("The bug zoo"), shown.index("Alarm at run 43")
    assert shown.index("No deviation found") < zoo < card < alarm
    lines = {key: drawn["data"] for key, drawn in charts(app).items()}
    assert [each["name"] for each in lines["audit_evidence"]] == [
        "the unmodified loop", "recovered-from-target"
    ]  # fmt: skip
    assert len(lines["audit_evidence_before"]) == 1


def test_alarm_of_the_true_rule_is_red(use: Callable[..., AuditingMaker]) -> None:
    use(replace(ALARM, broken=None))
    app = page_of("lossless")
    audited(app)
    assert ":red-badge[✕] Alarm at run 43" in page_text(app)
    assert "on purpose" not in page_text(app)


def test_shows_infinite_evidence(use: Callable[..., AuditingMaker]) -> None:
    use(CERTAIN)
    app = page_of("lossless")
    audited(app, "break_recovered-from-target")
    assert "One of the tokens has probability 0 under the target." in page_text(app)
    assert charts(app)["audit_evidence"]["data"][0]["y"][-1] == 12.0


def test_cards_show_the_result_of_their_audit(use: Callable[..., AuditingMaker]) -> None:
    app = page_of("lossless")
    use(replace(LAST, broken="match"))
    audited(app, "break_match")
    assert ":green-badge[no alarm] in 200 tokens, as expected" in page_text(app)
    use(replace(LAST, broken="reused-uniform"))
    audited(app, "break_reused-uniform")
    assert ":gray-badge[not found yet] in 200 tokens." in page_text(app)
    use(LAST)
    audited(app)
    names = [each["name"] for each in charts(app)["audit_evidence"]["data"]]
    assert names == ["match", "reused-uniform", "the unmodified loop"]
    use(replace(LAST, broken="match", first_tokens=999))  # replaces the older one
    audited(app, "break_match")
    assert "in 999 tokens, as expected" in page_text(app)
    assert len(charts(app)["audit_evidence"]["data"]) == 3


@pytest.mark.parametrize(
    ("shortfall", "words"), [(1.0, "The cause is a bug"), (0.0, "The cause is a near tie")]
)
def test_shows_a_divergence_at_temperature_0(
    use: Callable[..., AuditingMaker], shortfall: float, words: str
) -> None:
    found = GreedyDivergence(
        prompt=0, place=6, token_id=1, token=" *x*<b>", expected_id=2, expected=" y", margin=0.5,
        shortfall=shortfall, limit=0.1,
    )  # fmt: skip
    use(replace(LAST, greedy=replace(GREEDY, divergence=found)))
    app = page_of("lossless")
    audited(app)
    shown = page_text(app)
    assert words in shown
    assert "At temperature 0, token 7 of a text is ' *x*<b>'" in shown
    drawn = next(each.value for each in app.markdown if "token 7" in each.value)
    assert "<b>" not in drawn  # escaped, as every token
    assert (":red-badge[✕] A bug: at temperature 0" in shown) == (words == "The cause is a bug")


def test_audit_can_be_stopped_and_disables_the_bugs_meanwhile(
    use: Callable[..., AuditingMaker],
) -> None:
    maker = use(REPORT, held=True)
    app = page_of("lossless")
    sound(app.button(key="audit_start").click().run())
    work: Any = the_job_queue().newest("audit")
    deadline = time.monotonic() + 20
    while not work.reports:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    sound(app.run())
    assert "No deviation found in 200 tokens" in page_text(app)
    assert "ended before the check" not in page_text(app)  # still running
    assert all(app.button(key=f"break_{each}").disabled for each in BREAKS)
    sound(app.button(key="stop_audit").click().run())
    assert work.wait(10)
    assert maker.stopped
    sound(app.run())
    assert "Stopped. Partial results are shown." in page_text(app)
    assert "The audit ended before the check at temperature 0." in page_text(app)
    assert not any(app.button(key=f"break_{each}").disabled for each in BREAKS)


def test_shows_an_error_of_the_audit(
    use: Callable[..., AuditingMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = use()

    def broken(*_: object) -> Iterator[AuditReport]:
        raise SpecvizError("The worker *ended*.", remedy="Start again.")

    monkeypatch.setattr(maker, "find", broken)
    app = page_of("lossless")
    audited(app)
    assert "The worker *ended*. Start again." in page_text(app)
    assert not charts(app)


def test_audits_belong_to_their_pair(use: Callable[..., AuditingMaker]) -> None:
    use(LAST)
    audited(page_of("lossless"))
    other = page_of("lossless", pair="Local", target_folder="one", draft_folder="two")
    assert list(charts(other)) == ["audit_evidence_recorded"]


def test_work_line_links_to_the_page(use: Callable[..., AuditingMaker]) -> None:
    maker = use(REPORT, held=True)
    app = page_of("lossless")
    sound(app.button(key="audit_start").click().run())
    left = sound(app.switch_page("pages/runs.py").run())
    assert any("Audit of the unmodified loop" in each.value for each in left.caption)
    links = [each.proto for each in left.get("page_link")]
    assert any("lossless" in each.page for each in links)
    maker.go_on.set()


def test_a_recorded_audit_is_thinned_but_keeps_its_last_report() -> None:
    reports = (*(replace(REPORT, runs=runs) for runs in range(1, 300)), LAST)
    courses = (AuditCourse(broken=None, reports=reports), AuditCourse(broken="x", reports=()))
    read = audits_from_record(audits_to_record(courses))
    assert [each.broken for each in read] == [None, "x"]
    assert len(read[0].reports) <= 61
    assert set(read[0].reports) <= set(reports)
    assert (read[0].reports[0], read[0].reports[-1]) == (reports[0], LAST)
    assert read[1].reports == ()
