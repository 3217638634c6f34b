"""A running engine's acceptance beside the reference, with engines that decode with our loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from specviz.cli import main
from specviz.engine import Pair
from specviz.engine.heads.head import Head
from specviz.engine.loading.loading import load_pair
from specviz.errors import ServerError
from specviz.measure.stoppable import StoppedError
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.record.server_run import ServerSettings
from specviz.servers import find_server
from specviz.servers.acceptance import AcceptanceMeter, MeasuringPlan, default_prompts
from specviz.tune.parity import Parity
from specviz.tune.parity_values import EngineMeasurement, ParityReport, parity_verdict, total
from specviz.values import Value
from tests.servers.counting_engine import GAMMA, Decoder, Faults, counting

SPEC = PairSpec(name="tinystories-eagle3", threads=1)
TOKENS = 32


class Models(Value):
    pair: Pair
    decoder: Decoder

    @property
    def head(self) -> Head:
        assert self.pair.head is not None
        return self.pair.head

    def changed(self, **settings: Any) -> Head:
        return self.head.with_settings(replace(self.head.settings, **settings))

    @property
    def next_layers(self) -> Head:
        return self.changed(places=tuple(each + 1 for each in self.head.settings.places))

    @property
    def recycled(self) -> Head:
        return self.changed(recycle_normed=True)


@pytest.fixture(scope="module")
def models() -> Models:
    pair = load_pair(SPEC)
    return Models(pair=pair, decoder=Decoder(pair))


def measured(models: Models, faults: Faults, temperature: float = 0.0) -> EngineMeasurement:
    settings = ServerSettings(max_new_tokens=TOKENS, temperature=temperature)
    plan = MeasuringPlan(prompts=default_prompts(8, chat=False), settings=settings)
    with counting(models.decoder, faults) as (server, _):
        info = find_server(server.address)
        return AcceptanceMeter(info, plan, allow_remote=False).measure()


def compared(models: Models, *engines: EngineMeasurement) -> list[ParityReport]:
    found = Parity(measured=engines, config=RunConfig()).find(models.pair)
    return [each for each in found if isinstance(each, ParityReport)]


def report_of(models: Models, faults: Faults, temperature: float = 0.0) -> ParityReport:
    (report,) = compared(models, measured(models, faults, temperature))
    return report


def kinds(report: ParityReport) -> list[str]:
    return [each.kind for each in report.findings]


@pytest.fixture(scope="module")
def healthy(models: Models) -> EngineMeasurement:
    return measured(models, Faults(head=models.head), temperature=0.7)


@pytest.fixture(scope="module")
def healthy_report(models: Models, healthy: EngineMeasurement) -> ParityReport:
    (report,) = compared(models, healthy)
    return report


def test_our_targets_text_replaces_another(
    models: Models, healthy: EngineMeasurement, healthy_report: ParityReport
) -> None:
    alone, first = healthy.samples[0], healthy_report
    foreign = tuple(
        replace(each, texts=tuple(replace(t, token_ids=t.token_ids[::-1]) for t in each.texts))
        for each in alone.units
    )
    (second,) = compared(models, replace(healthy, samples=(replace(alone, units=foreign),)))
    assert (first.same_text, second.same_text) == (8, 0)
    assert second.conditions[0].reference == first.conditions[0].reference


def test_an_engine_like_the_reference_has_no_finding(healthy_report: ParityReport) -> None:
    report = healthy_report
    assert kinds(report) == []
    assert not report.lower
    assert parity_verdict(report).startswith("No difference shown")
    assert (report.gamma, report.num_prompts, report.same_text) == (GAMMA, 8, 8)
    *greedy, sampled = report.conditions
    for each in greedy:
        assert each.engine == each.reference
        assert each.low == each.high == 0
    assert sampled.low < 0 < sampled.high
    assert abs(sampled.change) < 0.05


def test_layers_off_by_one_are_named(models: Models) -> None:
    faults = Faults(head=models.next_layers)
    report = report_of(models, faults)
    assert kinds(report) == ["setting"]
    layers = ", ".join(map(str, models.next_layers.settings.places))
    assert report.fits == f"layers {layers}"
    assert f"fits the setting layers {layers}" in report.findings[0].sentence
    assert report.findings[0].low > 0.5


@pytest.mark.thorough
def test_a_wrong_state_to_continue_from_shows_from_position_2_on(models: Models) -> None:
    report = report_of(models, Faults(head=models.recycled))
    assert kinds(report) == ["lower", "positions", "setting"]
    assert report.fits == "continuing after the norm"
    assert "at position 2; no earlier position shows a difference" in report.findings[1].sentence
    assert report.lower
    first, second, _ = (each.given for each in report.positions)
    assert first.low < 0 < first.high
    assert second.high < 0


@pytest.mark.parametrize(
    ("condition", "cause"),
    [
        pytest.param("repeated", "prefix cache", marks=pytest.mark.thorough),
        pytest.param("concurrent", "at once", marks=pytest.mark.thorough),
        pytest.param("sampled", "temperature 0.7", marks=pytest.mark.thorough),
    ],
)
def test_a_loss_under_one_condition_is_named(condition: str, cause: str, models: Models) -> None:
    faults = replace(Faults(head=models.head), **{condition: models.recycled})
    if condition == "repeated":  # an engine with a cache uses it for later requests, too
        faults = replace(faults, concurrent=models.recycled)
    report = report_of(models, faults, temperature=0.7 if condition == "sampled" else 0.0)
    assert kinds(report)[:1] == ["condition"]
    assert cause in report.findings[0].sentence
    assert report.findings[0].high < 0
    assert len(report.findings) == 1
    assert report.lower
    alone = report.conditions[0]
    assert alone.engine == alone.reference


def test_concurrent_requests_without_rounds_count_as_one_group(models: Models) -> None:
    alone, _, concurrent = measured(models, Faults(head=models.head, reports=False)).samples
    assert [len(each.texts) for each in concurrent.units] == [4, 4]
    first, second = (
        total([each.counts for each in units]) for units in (alone.units, concurrent.units)
    )
    assert first == second


@pytest.mark.thorough
def test_another_quantisation_of_the_target_is_named(models: Models) -> None:
    other = load_pair(replace(SPEC, target_weights="q4_0"))
    report = report_of(models, Faults(head=models.head, target=other))
    assert "target" in kinds(report)
    assert report.same_text < 8
    assert "quantisation or chat template differs" in report.findings[0].sentence
    assert report.fits == ""


@pytest.mark.thorough
def test_two_engines_are_compared(models: Models) -> None:
    old, new = (measured(models, Faults(head=each)) for each in (models.recycled, models.head))
    _, second = compared(models, old, new)
    assert kinds(second) == ["engine"]
    assert "higher than the τ of vLLM 0.32.0" in second.findings[0].sentence
    assert not second.lower


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"strangers": 3}, "also serves other requests"),
        ({"strangers": -3}, "counted 29 of the 32 tokens"),
        ({"restarts": True}, "counters that decreased"),
        ({"elsewhere": 1}, "different numbers of candidates by position and in total"),
        ({"other_drafts": 3}, r"counted \d+ drafted candidates, but its answers report \d+"),
        ({"positions": False}, "does not count accepted candidates by position"),
        ({"fails": True}, "answers 500: out of blocks"),
    ],
    ids=str,
)
def test_an_engine_that_cannot_be_measured_is_refused(
    faults: dict[str, Any], error: str, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.servers.acceptance._COUNTED_WITHIN", 0.2)
    with pytest.raises(ServerError, match=error) as found:
        measured(models, replace(Faults(head=models.head), **faults))
    assert "\n" not in str(found.value)


def test_a_measurement_can_be_stopped(models: Models) -> None:
    with counting(models.decoder, Faults(head=models.head)) as (server, engine):
        plan = MeasuringPlan(prompts=default_prompts(8, chat=False), settings=ServerSettings())
        meter = AcceptanceMeter(find_server(server.address), plan, allow_remote=False)
        meter.stop()
        with pytest.raises(StoppedError):
            meter.measure()
        assert engine.generated == 0


def command(*more: str) -> list[str]:
    place = ["--target", SPEC.target_place, "--head", str(SPEC.draft_place), "--threads", "1"]
    return ["doctor", *place, "--prompts", "8", "--temperature", "0", *more]


def test_the_command_exits_with_1_only_for_certain_losses(
    models: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specviz.servers.acceptance.TOKENS", TOKENS)
    monkeypatch.setattr("specviz.cli.parity.load_pair_of", lambda *_: models.pair)
    with counting(models.decoder, Faults(head=models.head)) as (server, _):
        assert main(command("--against", server.address, "--json")) == 0
    out, err = capsys.readouterr()
    (found,) = json.loads(out)["engines"]
    assert not found["lower"]
    given = found["positions"][0]["given"]
    assert given["engine"] == given["reference"]
    assert "24 requests (8 prompts, 3 times each), for at most 32 tokens" in err
    faults = Faults(head=models.head, concurrent=models.recycled)
    with counting(models.decoder, faults) as (server, _):
        assert main(command("--against", server.address)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "accepts less under some conditions" in shown
    assert "lower when several requests run at once" in shown
    assert "in 8 of 8 texts, every token is that of target" in shown


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--against", "http://10.0.0.1:8000"], "--allow-remote"),
        (["--against", "x:1", "--against", "x:2", "--against", "x:3"], "More than two engines"),
        (["--against", "127.0.0.1:9", "--write", "x.json"], "exclude each other"),
        (["--against", "127.0.0.1:9", "--prompts", "2"], "Give a number from 4 to 30"),
        (["--against", "127.0.0.1:9"], "cannot be reached"),
        ([], "--prompts needs a running engine"),
    ],
    ids=str,
)
def test_a_wrong_command_is_refused(
    more: Sequence[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(*more)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line
