"""Progress while a pair is loaded, in lines."""

from __future__ import annotations

import sys

import pytest

from specviz.cli import main
from specviz.cli.progress_lines import progress_in_lines
from specviz.record.pairs import PairSpec, Progress, ProgressCallback
from tests.cli.fakes import FakeEngine
from tests.cli.test_commands import fake_bench

DOWNLOAD = "downloading us/target: {} % of 988 MB"


def download(percent: int, done: int) -> Progress:
    return Progress(
        activity="downloading",
        text=DOWNLOAD.format(percent),
        done_bytes=done,
        total_bytes=988_100_000,
    )


REPORTS = (
    Progress(activity="looking", text="looking up us/target on the Hub"),
    download(0, 0),
    download(0, 90_000_000),
    download(10, 99_000_000),
    download(10, 150_000_000),
    Progress(activity="loading", text="loading target us/target"),
)


@pytest.fixture
def downloading(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine that reports a download while it loads."""

    class TellingEngine(FakeEngine):
        def load_pair(
            self, spec: PairSpec, *, progress: ProgressCallback, before_kernels: bool = False
        ) -> object:
            for output in REPORTS:
                progress(output)
            return super().load_pair(spec, progress=progress, before_kernels=before_kernels)

    return TellingEngine(monkeypatch)


def test_prints_each_text_once() -> None:
    message: list[str] = []
    on_progress = progress_in_lines(message.append)
    for progress in REPORTS:
        on_progress(progress)
    assert message == list(dict.fromkeys(progress.text for progress in REPORTS))
    assert DOWNLOAD.format(10) in message


def test_bench_prints_the_lines(downloading: FakeEngine, monkeypatch, capsys) -> None:
    fake_bench(monkeypatch, {})
    assert main(["bench"]) == 0
    lines = capsys.readouterr().err.splitlines()
    output = [line for line in lines if line.startswith("downloading")]
    assert output == [DOWNLOAD.format(0), DOWNLOAD.format(10)] * 2  # as it is, and in its body


def test_run_updates_one_status_line_in_a_terminal(
    downloading: FakeEngine, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["run", "Once"]) == 0
    shown = capsys.readouterr().err
    assert f"\r\x1b[K  {DOWNLOAD.format(10)} …" in shown
    assert shown.count(DOWNLOAD.format(10)) == 1
    assert shown.endswith("\r\x1b[K")


def test_run_prints_no_progress_without_a_terminal(downloading: FakeEngine, capsys) -> None:
    assert main(["run", "Once"]) == 0
    assert "downloading" not in capsys.readouterr().err


def test_run_reports_measuring_step_costs_once(downloading: FakeEngine, capsys) -> None:
    downloading.measures = True
    assert main(["run", "Once", "--json"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "step costs" in line]
    assert lines == [
        "measuring step costs: about 10 s at most, once for this pair and kind of sampling"
    ]


def test_run_reports_step_costs_in_the_status_line_of_a_terminal(
    downloading: FakeEngine, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    downloading.measures = True
    assert main(["run", "Once"]) == 0
    shown = capsys.readouterr().err
    assert "\r\x1b[K  measuring step costs: 20 % …" in shown
    assert "at most" not in shown
    assert shown.endswith("\r\x1b[K")
