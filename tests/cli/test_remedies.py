"""Remedies of errors: they name only what exists, and following them works.

Commands run on tiny models or on the embedded pair for a few tokens. Where a case expects
``BEGINS``, the work after the checks is replaced, because it needs a GPU or minutes.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
import torch

from specviz import cli
from specviz.cli import main
from specviz.cli.compare import plan_from
from specviz.cli.options import build_parser
from specviz.comparison import compare, comparison_to_json
from specviz.engine import Pair, load_pair
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import one_hot
from specviz.errors import SpecvizError
from specviz.measure import loaded_pairs, measured_run
from specviz.measure.handed_texts import with_texts
from specviz.record.pairs import CHAT_PAIR, PairSpec, Progress
from specviz.record.run_config import RunConfig, refuse_own_drafter
from specviz.training.__main__ import _parser as training_parser
from specviz.training.__main__ import main as training
from tests.cli.remedies import Remedy, Source, names_in, problems
from tests.cli.remedy_cases import BEGINS, CASES, CHANGED, LANES, Case, followed
from tests.comparison.synthetic import runs_of
from tests.engine.models import small_tokenizer, tiny_model, write_model, write_pair
from tests.servers.hostile_engines import piece
from tests.servers.replaying import Page, events_page, served
from tests.servers.test_untrusted_scores import scoring

ROOT = Path(cli.__file__).parents[2]
FOREIGN = {"pip", "hf", "vllm"}
COVERED = (
    "cli/", "comparison/", "tune/", "engine/", "cluster/", "bench/", "servers/", "training/",
    "store/", "formats/", "record/", "local_models/", "load/",
)  # fmt: skip
WORK = (
    "cli.run._decode", "cli.score._score", "cli.compare._run_comparison", "cli.tune._find_answer",
    "cli.audit._run_audit", "cli.load._run", "cli.train._train", "cli.gpu_bench._timed_visit",
    "cli.doctor._examine",
    "bench.accounting.measure_accounting", "bench.batch_bench.run_batch_bench",
    "training.__main__.make_pair",
)  # fmt: skip
Places = dict[str, str]


class LastToken:
    """A custom drafter that proposes the last token again and again."""

    wants_hidden = False

    def __init__(self, pair: Pair, config: RunConfig, capacity: int) -> None:
        self._vocabulary = pair.vocabulary

    def prefill(self, prompt_ids: Sequence[int]) -> None:
        """Do nothing."""

    def propose(
        self, history: Sequence[int], count: int, draws: object, hidden: object = None
    ) -> Proposal:
        ids = torch.tensor([history[-1]] * count)
        return Proposal(ids, one_hot(ids[:, None], self._vocabulary), None, 0)

    def settle(self, valid: int, kept: Sequence[int] = ()) -> None:
        """Do nothing."""


# Fixtures


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share the data folder and the loaded pairs; measure no step costs."""
    threads = torch.get_num_threads()

    load = cache(lambda spec: with_texts(load_pair(spec), spec.suffix_texts))

    def cached(spec: PairSpec, _progress: Callable[[Progress], None], **_options: Any) -> Any:
        return load(spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(loaded_pairs, "load", cached)
        patch.setattr(measured_run, "step_costs", lambda *_args, **_options: None)
        patch.setattr(cli, "compile_ahead", lambda: None)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The models, files and servers that the command lines name."""
    folder = tmp_path_factory.mktemp("places")
    pair = write_pair(folder / "pair", num_hidden_layers=2)
    tokenizer = small_tokenizer(300)
    tokenizer.add_tokens([f"<{number}>" for number in range(20)])
    other = write_model(folder / "other", tiny_model(num_hidden_layers=1), tokenizer)
    unusual = write_model(folder / "unusual", tiny_model("gpt_neox"), small_tokenizer())
    files = {
        "text": "Once upon a time there was a little girl.",
        "empty": " ",
        "suite": '{"prompt": "One"}\n',
        "costs": '{"2": 1.02, "6": 1.1}',
        "corpus/some.txt": "Once upon a time.",
        **_saved_comparisons(),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "renamed").symlink_to(PairSpec().target_place)
    unreported = scoring(words=[piece("a"), piece("b", token_ids=[1])])
    with (
        served(_streaming()) as server,
        served(unreported) as scorer,
        served(scoring(own=5.0)) as raw,
    ):
        yield {
            **{name: str(folder / name) for name in files},
            "tmp": str(folder),
            "corpus": str(folder / "corpus"),
            "target": str(pair / "target"),
            "embedded": PairSpec().target_place,
            "head": str(PairSpec(name="tinystories-eagle3").draft_place),
            "draft": str(pair / "draft"),
            "renamed": str(folder / "renamed"),
            "other": str(other),
            "unusual": str(unusual),
            "server": server.address,
            "scorer": scorer.address,
            "raw": raw.address,
            "chat": CHAT_PAIR,
            "own": f"{__name__}:LastToken",
            "tiny": "--max-new-tokens 4 --threads 1",
            "short": "--max-new-tokens 4 --threads 1 --no-baseline --no-keep",
        }


def _saved_comparisons() -> dict[str, str]:
    """Return a comparison with speedups, and one with rates alone."""
    plan = plan_from(build_parser().parse_args(shlex.split(LANES)))
    saved: Any = comparison_to_json(compare(plan, runs_of(plan, lambda _: {})))
    text = json.dumps(saved)
    rates = json.loads(text)
    for lane in rates["lanes"]:
        lane["medians"]["speedup"] = None
    return {"saved": text, "rates": json.dumps(rates)}


def _streaming() -> dict[str, Page]:
    """Return an engine that answers prompts but has no metrics."""
    events = [piece(" a"), piece(" dog"), piece("", finish_reason="length")]
    models = b'{"object": "list", "data": [{"id": "some"}]}'
    return {"/v1/models": Page(body=models), "/v1/completions": events_page(events)}


@pytest.fixture
def places(kept: Places, tmp_path: Path) -> Places:
    """``new`` is the path of no file."""
    return kept | {"new": str(tmp_path / "new")}


@pytest.fixture(autouse=True)
def errors(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Collect the errors that the command line prints; no network, no GPU."""
    found: list[Exception] = []
    show, known = cli._print_error, socket.getaddrinfo

    def print_error(error: Exception, hint: str | None = None) -> int:
        found.append(error)
        return show(error, hint)

    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        if str(host).endswith(".invalid"):
            raise socket.gaierror("unknown host")
        return known(host, *args, **options)

    monkeypatch.setattr(cli, "_print_error", print_error)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("specviz.cli.gpu_bench._has_cuda", lambda: False)
    return found


def _begin(*_args: Any, **_options: Any) -> NoReturn:
    raise SpecvizError(BEGINS, remedy="The test ends here.")


def replace_work(patch: pytest.MonkeyPatch) -> None:
    """Raise ``BEGINS`` where the work after the checks would begin."""
    for name in WORK:
        patch.setattr(f"specviz.{name}", _begin)
    bench = ModuleType("specviz.bench.bench")
    bench.__dict__["run_bench"] = _begin
    patch.setitem(sys.modules, "specviz.bench.bench", bench)


def _fail_accounted_run(patch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 2, stdout="", stderr="error: It failed.")
    patch.setattr("specviz.bench.accounting._run_specviz", lambda _words: failed)


GIVEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "": lambda _patch: None,
    "accounted run fails": _fail_accounted_run,
    "no ray": lambda patch: patch.setattr("specviz.cluster.connection.has_ray", lambda: False),
    "no chat model": lambda patch: patch.setattr(
        "specviz.engine.loading.sources.chat_file", lambda: None
    ),
    "no rounds on the device": lambda patch: patch.setattr(
        "specviz.engine.loading.loading.add_lanes", lambda _pair: "it is a test"
    ),
}


def executed(line: str, places: Places) -> int:
    command, *words = shlex.split(line.format_map(places))
    return training(words) if command == "training" else main([command, *words])


def named_by(error: str, errors: list[Exception]) -> frozenset[str]:
    """Return what the remedy of the printed error names."""
    last = errors[-1] if errors else None
    return names_in(last.remedy if isinstance(last, SpecvizError) else error)


# Following a remedy


@pytest.mark.parametrize(
    "case", [each for each in CASES if each.wrong], ids=lambda case: f"{case.module}: {case.names}"
)
def test_an_error_names_its_remedy(
    case: Case,
    places: Places,
    errors: list[Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    GIVEN[case.given](monkeypatch)
    assert executed(case.wrong, places) == 2
    assert named_by(capsys.readouterr().err, errors) == case.named


@pytest.mark.parametrize("case", followed())
def test_following_a_remedy_works(
    case: Case,
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for step in case.then:
        line, outcome = (step, "") if isinstance(step, str) else step
        with monkeypatch.context() as patch:
            if outcome == BEGINS:
                replace_work(patch)
            code = executed(line, places)
        printed = capsys.readouterr().err
        assert (code, outcome in printed) == (2 if outcome else 0, True), (line, printed)


@pytest.mark.parametrize(("line", "wrong", "right"), CHANGED)
def test_another_value_passes_the_check(
    line: str,
    wrong: str,
    right: str,
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replace_work(monkeypatch)
    assert line.count(wrong) == 1
    assert executed(line, places) == 2
    assert BEGINS not in capsys.readouterr().err
    assert executed(line.replace(wrong, right), places) == 2
    assert BEGINS in capsys.readouterr().err


def test_suffix_texts_of_the_library_need_a_run(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = f"--target {places['target']} --draft {places['draft']} --max-new-tokens 8 --threads 1"
    lookup = f"run Once {pair} --no-baseline --drafter suffix --suffix-texts library"
    assert executed(lookup, places) == 2
    assert "Run this target first" in capsys.readouterr().err
    assert executed(f"run 'Once upon' {pair} --no-baseline", places) == 0
    assert executed(lookup, places) == 0


def test_a_page_recommends_a_command_for_a_custom_drafter() -> None:
    with pytest.raises(SpecvizError) as caught:
        refuse_own_drafter(RunConfig(drafter="module:Class"))
    assert names_in(caught.value.remedy) == {"run"}


def test_a_new_data_folder_replaces_an_unusable_library(
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"{LANES} --no-baseline --repeats 1 --max-new-tokens 4 --threads 1"
    (tmp_path / "runs.db").mkdir()
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    assert executed(line, places) == 2
    assert "SPECVIZ_HOME" in capsys.readouterr().err
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "another"))
    assert executed(line, places) == 0


# What remedies name


@pytest.fixture(scope="module")
def remedies() -> tuple[Remedy, ...]:
    return Source(ROOT / "specviz").remedies


@pytest.fixture(scope="module")
def exists() -> Callable[[Remedy], list[str]]:
    commands: Any = next(each for each in build_parser()._actions if each.dest == "command")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)

    def check(remedy: Remedy) -> list[str]:
        own = {"training": training_parser()} if remedy.module.startswith("training/") else {}
        if remedy.module in ("cli/dashboard.py", "cli/free_port.py"):
            own = {"": build_parser()}  # the options before a command
        return problems(remedy, commands.choices | own, targets=set(targets), foreign=FOREIGN)

    return check


def test_every_option_and_command_of_a_remedy_exists(
    remedies: tuple[Remedy, ...], exists: Callable[[Remedy], list[str]]
) -> None:
    assert len(remedies) > 300
    found = {f"{each.module}:{each.line}": exists(each) for each in remedies}
    assert {place: named for place, named in found.items() if named} == {}


def test_every_remedy_with_an_option_or_a_command_has_a_case(
    remedies: tuple[Remedy, ...],
) -> None:
    named = {(each.module, each.names) for each in remedies if each.names}
    written = {each for each in named if each[0].startswith(COVERED)}
    assert written == {(case.module, case.named) for case in CASES}
    assert all(case.why for case in CASES if not (case.wrong and case.then))


MADE_UP = """
_AGAIN = "Run `python -m specviz dance` again."
_BY_NAME = {"one": "Use `--step fast`.", "two": "Use `run --cells 2:0`."}
def fail(name, lookup):
    more = " or --no-such-option" if lookup else ""
    raise ConfigError("It is wrong.", remedy=f"Add --seed{more}.")
def refuse(culprit, remedy):
    raise ConfigError(culprit, remedy=remedy)
def others(name):
    refuse("It is wrong.", "Run `make nothing`.")
    refuse("It is wrong.", _AGAIN)
    raise PairError("It is wrong.", remedy=_BY_NAME[name])
MISSING = Missing("it is wrong", "Use python -m specviz run.")
RIGHT = Missing("it is wrong", "Use `--step lean`, `run --seed` or `make chat`.")
"""


def test_the_check_finds_made_up_options_and_commands(
    exists: Callable[[Remedy], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "made_up.py").write_text(MADE_UP, encoding="utf-8")
    found = [each for remedy in Source(tmp_path).remedies for each in exists(remedy)]
    assert sorted(found) == [
        "a command without quotes",
        "no command dance",
        "no command has --no-such-option",
        "no command takes --step fast",
        "no target of the Makefile: make nothing",
        "run has no --cells",
    ]
