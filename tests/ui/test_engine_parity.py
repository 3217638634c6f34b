"""The Lossless page compares a running engine's acceptance with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specviz.errors import ServerError
from specviz.measure.run_makers import Study
from specviz.record.pairs import PairSpec
from specviz.servers.acceptance import AcceptanceMeter
from specviz.tune.doctor import Examining
from specviz.tune.parity import Parity
from specviz.tune.parity_values import ConditionResult, Counts, Finding, ParityReport
from specviz.ui.session.background_jobs import the_job_queue
from tests.servers.hostile_engines import recognisable
from tests.servers.replaying import Page, Served, served
from tests.tune.fakes import FakeMaker
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import charts
from tests.ui.tune_jobs import page_text, put_maker

PAIR = "tinystories-eagle3"
COUNTERS = b"vllm:spec_decode_num_drafts_total 0\nvllm:generation_tokens_total 0\n"
pytestmark = pytest.mark.usefixtures("own_home")


def report(*findings: Finding) -> ParityReport:
    counts = Counts(drafts=100, drafted=300, accepted_at=(60, 30, 10))
    alone = ConditionResult(
        condition="alone", temperature=0.0, engine=counts, reference=counts, change=0.0,
        low=-0.01, high=0.02,
    )  # fmt: skip
    return ParityReport(
        address="http://127.0.0.1:1", title="vLLM 0.32.0", head="head", target="target", gamma=3,
        num_prompts=16, num_comparisons=7, same_text=16, conditions=(alone,), positions=(),
        findings=findings,
    )  # fmt: skip


class ComparingMaker(FakeMaker):
    def __init__(self, found: ParityReport) -> None:
        super().__init__(lambda _: 1.0)
        self.studies, self._found = list[Study](), found

    def find(self, spec: PairSpec, study: Study) -> Iterator[Any]:
        self.studies.append(study)
        yield Examining(doing="reading", done=0, planned=1)
        yield self._found


@pytest.fixture
def engine() -> Iterator[Served]:
    pages = recognisable("vllm") | {"/metrics": Page(body=COUNTERS, kind="text/plain")}
    with served(pages) as server:
        yield server


@pytest.fixture
def compare(
    engine: Served, monkeypatch: pytest.MonkeyPatch
) -> Callable[[ParityReport | ServerError], str]:
    """Return a function that compares the engine on the page, and returns the page's text."""

    def on_page(found: ParityReport | ServerError) -> str:
        def measure(_: AcceptanceMeter) -> Any:
            if isinstance(found, ServerError):
                raise found
            return "measured"

        maker = ComparingMaker(found if isinstance(found, ParityReport) else report())
        put_maker(monkeypatch, maker)
        monkeypatch.setattr(AcceptanceMeter, "measure", measure)
        app = page_of("lossless", embedded=PAIR)
        sound(app.text_input(key="parity_engine").set_value(engine.address).run())
        assert "Compare sends 64 requests (16 prompts, 4 times each)" in page_text(app)
        sound(app.button(key="parity_start").click().run())
        job = the_job_queue().newest("doctor")
        assert job is not None
        assert job.wait(30)
        sound(app.run())
        if isinstance(found, ParityReport):
            (study,) = maker.studies
            assert isinstance(study, Parity)
            assert "parity_positions" in charts(app)
        return page_text(app)

    return on_page


def test_a_finding_is_shown(compare: Callable[..., str]) -> None:
    finding = Finding(kind="lower", sentence="The engine's τ is lower.", low=-0.3, high=-0.1)
    shown = compare(report(finding))
    assert ":red-badge[✕] The engine accepts less than the reference" in shown
    assert "τ is lower" in shown
    assert "In 16 of 16 texts, every token of the engine" in shown


def test_no_difference_is_shown(compare: Callable[..., str]) -> None:
    assert ":green-badge[✓] No difference shown" in compare(report())


def test_an_error_is_shown(compare: Callable[..., str]) -> None:
    error = ServerError("The engine answers others, too.", remedy="Use another one.")
    assert "answers others, too" in compare(error)


def test_nothing_is_sent_to_an_address_from_a_link(engine: Served) -> None:
    app = page_of("lossless", embedded=PAIR, parity_engine=engine.address)
    assert "is from a link" in page_text(app)
    assert engine.asked == []


def test_a_pair_without_a_head_has_no_comparison() -> None:
    app = page_of("lossless")
    assert not [each for each in app.text_input if each.key == "parity_engine"]
