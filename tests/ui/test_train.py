"""The Train page without a browser: costs, a training from start to result, refused settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SpecvizError, TrainingError
from specviz.measure.run_makers import StoppedError, Study
from specviz.record.pairs import PairSpec
from specviz.record.prompts import preset_suite
from specviz.training.drafts.curves import Curves
from specviz.training.drafts.estimate import estimate
from specviz.training.drafts.kept_trainings import folder_named
from specviz.training.drafts.plan import TrainingPlan
from specviz.training.drafts.progress import (
    Collecting,
    Computing,
    TextFigures,
    Trained,
    TrainedDraft,
)
from specviz.training.drafts.training_job import TRAINING, DraftWork, TrainingJob
from specviz.training.drafts.worth import MOST_CANDIDATES, RoundCosts
from specviz.ui.session.background_jobs import the_job_queue
from specviz.ui.train import result_section
from specviz.ui.train.charts import acceptance_chart, loss_chart
from specviz.ui.train.current import target_name, target_of
from specviz.ui.train.result_section import held_out_items, lanes_of, pair_with
from specviz.ui.train.sections import gains_of, worth_points
from tests.machines import LAPTOP
from tests.tune.fakes import FakeMaker
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import page_text

pytestmark = pytest.mark.usefixtures("own_home")

COSTS = RoundCosts(c=0.05, verify=(1.1,) * MOST_CANDIDATES, measured=True)
FIGURES = TextFigures(texts=95, tokens=4000, ended=0.5, repetition=0.02, repeated=5, covered=0.96)


class TrainingMaker(FakeMaker):
    """Reports a training of six evaluations; ``held``: it waits in the middle of the steps."""

    def __init__(self, *, held: bool = False, error: Exception | None = None) -> None:
        super().__init__(lambda _: 1.5)
        self.works = list[DraftWork]()
        self.reached, self.go_on = Event(), Event()
        self._held, self._error = held, error

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        assert isinstance(study, DraftWork)
        self.works.append(study)
        if self._error is not None:
            raise self._error
        found = estimate(study.plan, LAPTOP, 1e11)
        assert found is not None
        yield found
        yield COSTS
        yield Collecting(texts=100, planned=100, tokens=4000)
        yield FIGURES
        yield Computing(texts=95, planned=95)
        for number in range(1, 7):
            yield evaluated(100 * number, study.plan.steps)
            if self._held and number == 3:
                self.reached.set()
                self.go_on.wait(60)
            if self.stopped:
                raise StoppedError
        last = evaluated(600, 600)
        yield TrainedDraft(
            folder=str(Path(study.folder) / "draft"), step=600, accepted=last.accepted,
            agreeing=last.agreeing, expected=last.expected,
        )  # fmt: skip

    def stop(self) -> None:
        super().stop()
        self.go_on.set()


def evaluated(step: int, planned: int) -> Trained:
    accepted = tuple(0.3 + step / 2000 - place / 20 for place in range(3))
    return Trained(
        step=step, planned=planned, loss=9.0 - step / 100, seconds=0.1, accepted=accepted,
        agreeing=tuple(value + 0.1 for value in accepted), expected=sum(accepted),
    )  # fmt: skip


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> TrainingMaker:
    return put(monkeypatch, TrainingMaker())


def put(patch: pytest.MonkeyPatch, maker: TrainingMaker) -> TrainingMaker:
    patch.setattr("specviz.ui.train.current.run_maker", lambda: maker)
    patch.setattr(result_section, "with_head", lambda spec: replace(spec, head="eagle"))
    return maker


def started(**link: str) -> tuple[AppTest, Any]:
    app = page_of("train", **link)
    sound(app.button(key="train_start").click().run())
    return app, the_job_queue().newest(TRAINING)


def trained(**link: str) -> tuple[AppTest, TrainingJob]:
    app, job = started(**link)
    assert job.wait(30)
    return sound(app.run()), job


def test_shows_the_costs_before_the_first_training() -> None:
    app = page_of("train")
    text = page_text(app)
    assert "Recorded example" in text
    (shown,) = charts(app).values()
    last = [each["y"][-1] for each in shown["data"]]
    assert [round(each, 3) for each in last] == [0.517, 0.47, 0.439]  # as on the head's card
    assert ":orange-badge[predicted]" in text
    (table,) = app.table
    assert list(table.value["draft"]) == ["**EAGLE-3 head**", "Medusa heads", "Small model"]
    assert all(0 < float(value) < 1 for value in table.value["c here"])


def test_controls_make_the_plan(maker: TrainingMaker) -> None:
    app = page_of("train", train_texts="64", train_longest="128", train_steps="70",
                  train_source="The presets", train_seed="3")  # fmt: skip
    sound(app.button(key="train_start").click().run())
    assert the_job_queue().newest(TRAINING) is not None
    job: Any = the_job_queue().newest(TRAINING)
    assert job.wait(30)
    (work,) = maker.works
    plan = work.plan
    assert (plan.texts.count, plan.texts.longest, plan.steps, plan.seed) == (64, 128, 70, 3)
    assert plan.texts.prompts == tuple(each.prompt for each in preset_suite())
    assert plan.texts.seed == 3
    assert Path(work.folder) == folder_named("tinystories-eagle3")


def test_a_training_ends_with_curves_a_card_and_links(maker: TrainingMaker) -> None:
    app, job = trained()
    text = page_text(app)
    assert "95 texts with 4,000 tokens" in text
    assert "5 repeated texts left out" in text
    assert "##### The draft: EAGLE-3 head, from step 600" in text
    assert "##### Expected speedup" in text
    assert "Training on 2 times as many tokens would add about" in text
    assert ":orange-badge[extrapolated]" in text
    drawn = charts(app)
    assert drawn["train_acceptance"]["data"][0]["x"] == [100, 200, 300, 400, 500, 600]
    assert drawn["train_worth_chart"]["data"][0]["y"] == sorted(
        drawn["train_worth_chart"]["data"][0]["y"]
    )
    assert len(drawn["train_gains"]["data"]) == 2
    assert job.result is not None


@pytest.mark.parametrize("page", ["watch", "tune"])
def test_the_draft_opens_on_another_page(
    maker: TrainingMaker, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("streamlit.switch_page", lambda name, **_: opened.append(name))
    app, job = trained()
    sound(app.button(key=f"train_to_{page}").click().run())
    assert opened == [f"pages/{page}.py"]
    assert job.result is not None
    state = app.session_state
    assert (state["pair"], state["draft_folder"]) == ("Local", job.result.folder)
    assert state["target_folder"] == PairSpec().target_place


def test_the_draft_is_compared_with_the_others(
    maker: TrainingMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: list[dict[str, list[str]]] = []
    monkeypatch.setattr("streamlit.switch_page", lambda _, query_params: links.append(query_params))
    app, _ = trained()
    sound(app.button(key="train_to_compare").click().run())
    ((lanes,),) = (each.values() for each in links)
    assert [each.rsplit("name=")[-1] for each in lanes] == [
        "trained", "older draft", "prompt-lookup", "suffix"
    ]  # fmt: skip


def test_pausing_keeps_the_curves_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = put(monkeypatch, TrainingMaker(held=True))
    app, job = started()
    assert held.reached.wait(30)
    sound(app.run())
    assert app.button(key="train_start").disabled
    sound(app.button(key="train_pause").click().run())
    assert job.wait(30)
    sound(app.run())
    assert "Paused at step 300. Everything is saved" in page_text(app)
    assert charts(app)["train_loss"]["data"][0]["x"][-1] == 300
    assert not app.button(key="train_start").disabled


def test_the_choice_for_other_runs_applies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    held = put(monkeypatch, TrainingMaker(held=True))
    app, job = started()
    assert held.reached.wait(30)
    assert job.gives_way
    sound(app.toggle(key="train_gives_way").set_value(False).run())
    assert not job.gives_way
    held.go_on.set()
    assert job.wait(30)


def test_an_error_is_shown_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TrainingError("The folder has texts of *another* target.", remedy="Choose another.")
    put(monkeypatch, TrainingMaker(error=error))
    app, _ = trained()
    assert "another" in page_text(app)
    assert [each.value for each in app.error] == [
        r"The folder has texts of \*another\* target. Choose another."
    ]


@pytest.mark.parametrize("name", ["../out", "a:b"])
def test_a_bad_folder_is_refused(maker: TrainingMaker, name: str) -> None:
    app = page_of("train")
    app.selectbox(key="train_folder").options.append(name)
    sound(app.selectbox(key="train_folder").set_value(name).run())
    assert any("not a name for a training" in each.value for each in app.error)
    sound(app.button(key="train_start").click().run())
    assert maker.works == []


def test_sources_without_prompts_are_refused(maker: TrainingMaker) -> None:
    app = page_of("train", train_source="Prompts of kept runs")
    sound(app.button(key="train_start").click().run())
    assert any("No runs are kept." in each.value for each in app.error)
    app = page_of("train", train_source="A file of mine")
    assert any("No file is chosen." in each.value for each in app.error)
    sound(app.button(key="train_start").click().run())
    assert maker.works == []


# The parts


def test_the_target_of_a_pair() -> None:
    embedded = PairSpec(target_body="90M")
    assert target_of(embedded) == PairSpec()
    pair = PairSpec(target="org/big", draft="org/small", target_weights="q8_0")
    assert target_of(pair) == PairSpec(target="org/big", target_weights="q8_0")
    with pytest.raises(SpecvizError, match="on a server"):
        target_of(PairSpec(target="http://127.0.0.1:9", draft="d"))
    names = [target_name(each) for each in (embedded, pair, PairSpec(target="/x/M 1.Q4.gguf"))]
    assert names == ["tinystories", "big", "M-1.Q4"]


def test_the_older_draft_and_the_lookups_are_compared() -> None:
    made = PairSpec(target=PairSpec().target_place, draft="/new", head="eagle")
    lanes = lanes_of(made, PairSpec(target_body="90M"), 3, chat=False)
    assert [each.name for each in lanes] == ["trained", "older draft", "prompt-lookup", "suffix"]
    assert [each.config.gamma for each in lanes[:2]] == [3, 2]
    assert lanes[1].spec == PairSpec()
    other = PairSpec(target="another", draft="its")
    lanes = lanes_of(made, other, 3, chat=False, layers=30)
    names = [each.name for each in lanes]
    assert names == ["trained", "prompt-lookup", "suffix", "early-exit:8"]


def test_prompts_of_the_training_are_left_out() -> None:
    prompts = [each.prompt for each in preset_suite()]
    left = held_out_items(tuple(prompts[:-1]), chat=False)
    assert [each.prompt for each in left] == prompts[-1:]
    with pytest.raises(SpecvizError, match="all shipped prompts"):
        held_out_items(tuple(prompts), chat=False)
    assert len({each.kind for each in held_out_items((), chat=True)}) > 3


def test_a_head_is_found_in_its_folder() -> None:
    place = PairSpec(name="tinystories-eagle3").draft_place
    assert place is not None
    made = pair_with(PairSpec(), Path(place))
    assert (made.head, made.target) == ("eagle", PairSpec().target_place)


def test_charts_draw_the_break_even_and_the_points() -> None:
    curves = Curves()
    for number in range(1, 4):
        curves.add(evaluated(100 * number, 300))
    drawn = acceptance_chart(curves.checks, 0.4).to_dict()
    assert [each["name"] for each in drawn["data"]] == ["position 1", "position 2", "position 3"]
    assert drawn["layout"]["annotations"][0]["text"] == "break-even"
    assert not acceptance_chart(curves.checks, None).to_dict()["layout"].get("shapes")
    assert list(loss_chart(curves.losses).to_dict()["data"][0]["x"]) == [100, 200, 300]


def test_worth_needs_the_costs_of_a_round() -> None:
    job = TrainingJob(
        DraftWork(plan=TrainingPlan(), spec=PairSpec(), folder="none"), TrainingMaker()
    )
    job.curves.add(evaluated(100, 300))
    assert (worth_points(job), gains_of(job), job.best_worth) == ([], [], None)
    job.costs = COSTS
    assert [each.step for each in worth_points(job)] == [100]
    assert [name for name, _ in gains_of(job)] == ["temperature 1", "temperature 0"]
