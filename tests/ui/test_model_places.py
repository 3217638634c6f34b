"""Paths from visitors, on a dashboard that others can reach and on a local one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest

from specviz import ROOT
from specviz.errors import PairError
from specviz.measure.run_makers import Block, BlockRun, RunOrder
from specviz.record.pairs import LIBRARY, PairSpec, pairs_folder
from specviz.record.trace import RunConfig
from specviz.servers.distribution_study import alone
from specviz.servers.token_models import LocalModel
from specviz.tune.audit import Audit
from specviz.ui.access import reachable_by_others, the_access
from specviz.ui.session import person
from specviz.ui.session.cluster_jobs import PageClusterMaker
from specviz.ui.session.model_places import MODELS, refusal_of
from specviz.ui.session.worker import PageWorker, the_worker
from specviz.worker.parent.worker_maker import WorkerMaker
from tests.engine.models import write_pair
from tests.ui.paging import opened, page_of, sound
from tests.ui.test_pair_panel import until, words

MESSAGE = (
    "Others can reach this dashboard, so it does not open this folder. Give a Hub id, or a path "
    "inside a folder that the server's SPECVIZ_MODELS lists."
)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dashboard on a network address, with the gate in front of it."""
    kept = config.get_option("server.address"), config.get_option("client.showErrorDetails")
    config.set_option("server.address", "0.0.0.0")
    monkeypatch.setattr(the_access(), "guarded", True)
    monkeypatch.setattr(person, "_mark", lambda: the_access().open_mark)  # of an owner
    monkeypatch.delenv(MODELS, raising=False)
    yield
    config.set_option("server.address", kept[0])
    config.set_option("client.showErrorDetails", kept[1])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "hub"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    return folder


def refused(place: str) -> bool:
    """The result must be the same for the target and for the draft."""
    answers = {
        str(refusal_of(spec))
        for spec in (PairSpec(target=place), PairSpec(target="owner/name", draft=place))
    }
    assert answers in ({"None"}, {MESSAGE})
    return answers == {MESSAGE}


def kinds_of_path(folder: Path) -> list[str]:
    """A model, a folder, a file and a missing path, each spelt in several forms."""
    write_pair(folder / "pair")
    (folder / "empty").mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(folder / "pair")
    (folder / "dangling").symlink_to(folder / "nowhere")
    names = ("pair/target", "empty", "file", "link/target", "dangling", "none", "none/at/all", "..",
             "file/x")  # fmt: skip
    return [f"{folder}/{name}" for name in names]


OTHERS = ["/", "/etc", "/etc/passwd", "/root/.ssh/id_rsa", "/no/such/place", "~", "~/", "~/x",
          "~root", "~root/x", "~nobody-here/x", ".", "..", "./", "./pages", "./none", "../x",
          "../../etc", "pages", "app.py", "specviz/ui", "specviz/../specviz", "specviz/..",
          "specviz/ui/widgets", "none/at/all", "C:\\models", "a\\b", "\0", "a\0b", "/etc\0",
          "//etc", "/proc/self/cwd", "ä/ö", "a b", " ", "/" + "a" * 5000, "http://127.0.0.1:1/x",
          "owner/..", "owner/../x", "..owner/x", "file:///etc/passwd", "ollama:x",
          "ollama:x/../y"]  # fmt: skip


@pytest.mark.parametrize("place", OTHERS)
def test_paths_are_refused_on_a_shared_dashboard(
    shared: None, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert refused(place)


def test_a_model_of_ollama_is_refused_even_if_the_working_folder_is_listed(
    shared: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECVIZ_MODELS", str(tmp_path))
    assert not refused(str(tmp_path / "model"))
    assert refused("ollama:x")


def test_the_error_does_not_depend_on_the_disk(shared: None, tmp_path: Path) -> None:
    assert all(map(refused, kinds_of_path(tmp_path)))


def test_a_path_outside_is_refused_before_the_disk_is_touched(
    shared: None, monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    asked: list[str] = []
    for name in ("stat", "lstat", "listdir", "scandir", "open", "readlink", "access"):
        real: Callable[..., object] = getattr(os, name)

        def spy(path: object, *rest: object, real: Callable[..., object] = real, **more: object):
            asked.append(str(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(os, name, spy)
    (tmp_path / "secret").mkdir()
    for place in (f"{tmp_path}/secret", f"{tmp_path}/missing", "/etc/passwd", "../x/y", "./secret"):
        assert refused(place)
    assert not [each for each in asked if "secret" in each or "missing" in each or "etc" in each]


@pytest.mark.parametrize("place", ["gpt2", "owner/name", "Qwen/Qwen2.5-0.5B", "a_b/c-d.e", "_a/b"])
def test_hub_ids_are_allowed(
    shared: None, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not refused(place)
    (tmp_path / place).mkdir(parents=True)  # the loader would open this folder
    assert refused(place)


def test_a_symlink_named_like_a_hub_id_is_refused(
    shared: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").symlink_to("/etc")
    (tmp_path / "etc").symlink_to("/etc/passwd")
    assert refused("owner/passwd")
    assert refused("owner")
    assert refused("etc")


def test_the_cache_and_the_listed_folders_are_allowed(
    shared: None, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second models"
    for folder in (first / "a", second, tmp_path / "first-other"):
        folder.mkdir(parents=True)
    (first / "out").symlink_to(tmp_path)
    (tmp_path / "in").symlink_to(first)
    monkeypatch.setenv(MODELS, os.pathsep.join([str(first), "", f"{second}/"]))
    monkeypatch.chdir(tmp_path)
    opens = [first, first / "a", first / "none", second, second / "x", cache / "models--a--b"]
    assert not any(refused(str(each)) for each in opens)
    assert not refused("first/a")
    assert not refused("./first/a/../a")
    closed = [cache.parent, cache.parent / "token", tmp_path / "first-other", first / "out" / "x",
              first / "..", first / "a" / ".." / "..", first / "out" / "in" / ".." / "x",
              tmp_path / "in" / "a"]  # fmt: skip
    assert all(refused(str(each)) for each in closed)
    assert refused("first-other")


def test_a_listed_folder_may_be_a_symlink(
    shared: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv(MODELS, str(tmp_path / "link"))
    assert not refused(f"{tmp_path}/link/model")
    assert not refused(f"{tmp_path}/real/model")


def test_an_unset_list_allows_nothing(shared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS, "")
    assert refused("/etc")
    assert refused(str(ROOT / "pages"))


def test_the_embedded_pairs_are_allowed(shared: None) -> None:
    assert refusal_of(PairSpec()) is None
    assert not refused(PairSpec().target_place)
    assert not refused(str(pairs_folder() / "tinystories" / "draft"))
    assert refused(PairSpec(name="../..").target_place)


def test_text_files_outside_are_refused(shared: None, tmp_path: Path) -> None:
    assert refusal_of(PairSpec(suffix_texts=LIBRARY)) is None
    assert str(refusal_of(PairSpec(suffix_texts="/etc/passwd"))) == MESSAGE


@pytest.mark.parametrize("place", OTHERS)
def test_nothing_is_refused_on_a_local_dashboard(place: str) -> None:
    assert not reachable_by_others()
    assert not refused(place)


# The worker and the cluster


CLOSED = PairSpec(target="/etc", draft="/etc/passwd")
CONFIG = RunConfig()


class Untouched(PageWorker):
    """A worker whose process must not be started."""

    def start(self) -> None:
        raise AssertionError("the process was asked")


def test_the_worker_refuses_every_request(shared: None) -> None:
    worker = Untouched()
    worker.prepare(CLOSED)
    answers = [worker.check(CLOSED, ["a"], chat=True), worker.room(CLOSED)]
    answers.append(study := worker.study(CLOSED, Audit(config=CONFIG, runs=1, broken=None)))
    assert all(each.done for each in answers)
    assert {str(each.error) for each in answers} == {MESSAGE}
    assert list(study.values()) == []
    run = worker.submit("tab", CLOSED, "prompt", CONFIG, baseline=False)
    assert (run.state, str(run.error), run.trace) == ("failed", MESSAGE, None)
    run.stop()
    assert not worker.busy


def test_jobs_on_the_worker_fail_with_the_message(shared: None) -> None:
    maker = WorkerMaker(Untouched(), "work")
    order = RunOrder(label="run", spec=CLOSED, prompt="a", config=CONFIG)
    for ask in (
        lambda: maker.check(CLOSED, ["a"], chat=False),
        lambda: maker.make(order),
        lambda: list(maker.find(CLOSED, Audit(config=CONFIG, runs=1, broken=None))),
    ):
        with pytest.raises(PairError, match="Others can reach"):
            ask()


def test_the_draft_of_a_server_is_refused(shared: None) -> None:
    served = PairSpec(target="http://127.0.0.1:9", draft="/etc/passwd")
    draft = LocalModel(alone("/etc/passwd", served), WorkerMaker(Untouched(), "work"))
    with pytest.raises(PairError, match="Others can reach"):
        draft.tokens("some text")


def test_a_cluster_refuses_them_too(shared: None) -> None:
    maker = PageClusterMaker(timed=False)
    order = RunOrder(label="run", spec=CLOSED, prompt="a", config=CONFIG)
    block = Block(runs=(BlockRun(order=order, warm_up=order),))
    for ask in (
        lambda: maker.check(CLOSED, ["a"], chat=False),
        lambda: maker.make_blocks([block]),
        lambda: maker.find(CLOSED, Audit(config=CONFIG, runs=1, broken=None)),
    ):
        with pytest.raises(PairError, match="Others can reach"):
            ask()


def test_the_pages_use_the_refusing_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageWorker, "start", lambda _self: None)
    assert isinstance(the_worker(), PageWorker)


# On the pages


def errors(app: AppTest) -> list[str]:
    return [each.value.replace("\\", "").replace("\u2060", "") for each in app.error]


@pytest.mark.parametrize(
    ("key", "places"),
    [
        ("check_pair", slice(6)),
        ("load_pair", slice(0, 6, 5)),  # a model, and a missing path
        ("run", slice(0, 6, 5)),
    ],
)
def test_the_pair_panel_gives_the_same_error(
    shared: None, tmp_path: Path, key: str, places: slice
) -> None:
    answers = set()
    for place in kinds_of_path(tmp_path)[places]:
        app = opened(pair="Local", target_folder=place, draft_folder=place)
        assert errors(app) == []
        sound(app.button(key=key).click().run())
        answers.add((*errors(app), str(tmp_path) in " ".join(errors(app))))
        assert app.session_state["history"].current is None
        assert "pair asked for" not in app.session_state or (
            app.session_state["pair asked for"].embedded
        )
    assert answers == {(MESSAGE, False)}


def test_a_listed_pair_is_checked(
    shared: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pair(tmp_path / "pair")
    monkeypatch.setenv(MODELS, str(tmp_path / "pair"))
    app = opened(
        pair="Local",
        target_folder=f"{tmp_path}/pair/target",
        draft_folder=f"{tmp_path}/pair/draft",
    )
    sound(app.button(key="check_pair").click().run())
    until(app, lambda: "Same vocabulary" in words(app))


@pytest.mark.parametrize(
    ("page", "button"),
    [("tune", "tune_ask"), ("lossless", "audit_start"), ("compare", "compare_start_prompt")],
)
@pytest.mark.usefixtures("own_home")
def test_the_other_pages_refuse(shared: None, tmp_path: Path, page: str, button: str) -> None:
    app = page_of(page, pair="Local", target_folder=f"{tmp_path}/x", draft_folder="/etc/passwd")
    sound(app.button(key=button).click().run())
    until(app, lambda: bool(errors(app)), seconds=60)
    assert errors(app) == [MESSAGE]


@pytest.mark.usefixtures("own_home")
def test_a_lane_of_a_link_is_refused(shared: None, tmp_path: Path) -> None:
    lanes = [f"target={tmp_path},draft=/etc", "gamma=3"]
    app = page_of("compare", lane=lanes)
    sound(app.button(key="compare_start_prompt").click().run())
    until(app, lambda: bool(errors(app)), seconds=60)
    assert errors(app) == [MESSAGE]


def test_a_page_without_the_gate_shows_nothing(
    shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(the_access(), "guarded", False)
    app = page_of("runs")
    (error,) = app.error
    assert "streamlit run app.py" in error.value
    assert not app.button


def test_tracebacks_are_not_shown_to_others(shared: None) -> None:
    page_of("runs")
    assert config.get_option("client.showErrorDetails") == "type"
