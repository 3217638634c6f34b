"""The rules of [models]: folders, the Hub and the largest model, for everybody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specviz.access.settings import SETTINGS
from specviz.errors import PairError
from specviz.local_models.weight_sizes import weights_bytes
from specviz.record.pairs import PairSpec, Progress
from specviz.ui.access import reachable_by_others
from specviz.ui.session.model_places import MODELS, refusal_of
from specviz.worker.child.model_limits import check_download, stay_offline_if_set

FOLDER = "The settings of this dashboard do not allow this folder."
HUB = "This dashboard downloads no models from the Hub."


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    monkeypatch.delenv(MODELS, raising=False)
    return folder


@pytest.fixture
def allowed(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that the settings list, with a model in it."""
    folder = tmp_path / "models"
    (folder / "a").mkdir(parents=True)
    settings(tmp_path, monkeypatch, f"folders = ['{folder}']")
    return folder


def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"[models]\n{text}")
    monkeypatch.setenv(SETTINGS, str(path))


def refusal(place: str) -> str:
    """The answer must be the same for the target and for the draft."""
    answers = {
        str(refusal_of(spec) or "")
        for spec in (PairSpec(target=place), PairSpec(target="owner/name", draft=place))
    }
    assert len(answers) == 1
    return answers.pop()


def test_only_the_listed_folder_opens_even_on_a_local_dashboard(allowed: Path) -> None:
    assert not reachable_by_others()
    assert refusal(f"{allowed}/a") == refusal(f"{allowed}/./a/../a") == ""
    assert refusal("owner/name") == ""
    assert refusal_of(PairSpec()) is None


TRAVERSALS = [
    "{0}/..", "{0}/../secret", "{0}/a/../../secret", "{0}-other", "{0}/link", "{0}/link/x",
    "{0}/a/link/../..", "/etc", "/etc/passwd", "~", "~root", "../secret", ".", "..", "./a",
    "{0}/\0", "{0}/a\0/../../secret", "file://{0}/a", "{0}//../secret", "{0}/a/../..//secret",
    "/proc/self/root{0}/a", "/proc/self/cwd", "ollama:x", "http://127.0.0.1/x", "C:\\x", "\\\\x\\y",
    "{0}/dangling",
]  # fmt: skip


@pytest.mark.parametrize("form", TRAVERSALS)
@pytest.mark.parametrize("exists", [True, False])
def test_paths_out_of_the_folder(allowed: Path, form: str, exists: bool) -> None:
    secret = allowed.parent / "secret"
    if exists:
        secret.mkdir()
    (allowed / "link").symlink_to(secret)
    (allowed / "a" / "link").symlink_to("/")
    (allowed / "dangling").symlink_to(secret / "missing")
    assert refusal(form.format(allowed)).startswith(FOLDER)


def test_a_listed_symlink_may_lead_elsewhere(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "m").mkdir(parents=True)
    (tmp_path / "listed").symlink_to(tmp_path / "real")
    settings(tmp_path, monkeypatch, f"folders = ['{tmp_path}/listed']")
    assert refusal(f"{tmp_path}/listed/m") == ""


def test_folders_of_the_environment_are_allowed_too(
    allowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODELS, str(tmp_path / "more"))
    assert refusal(f"{tmp_path}/more/m") == ""


def test_texts_outside_are_refused(allowed: Path) -> None:
    assert str(refusal_of(PairSpec(suffix_texts="/etc/passwd"))).startswith(FOLDER)


# The Hub


def test_without_the_hub_only_cached_models_open(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, monkeypatch, "hub = false")
    monkeypatch.chdir(tmp_path)
    assert str(refusal_of(PairSpec(target="owner/name"))).startswith(HUB)
    (cache / "models--owner--name" / "snapshots" / "abc").mkdir(parents=True)
    assert refusal_of(PairSpec(target="owner/name")) is None
    assert str(refusal_of(PairSpec(target="owner/name", draft="gpt2"))).startswith(HUB)
    assert refusal_of(PairSpec(target=str(tmp_path))) is None  # no folders are listed
    assert refusal_of(PairSpec()) is None


def test_the_worker_process_stays_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    settings(tmp_path, monkeypatch, "hub = true")
    stay_offline_if_set()
    assert os.environ["HF_HUB_OFFLINE"] == ""
    settings(tmp_path, monkeypatch, "hub = false")
    stay_offline_if_set()
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_a_download_is_refused_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = Progress(activity="downloading", text="", done_bytes=0, total_bytes=10**9)
    check_download(begins)
    settings(tmp_path, monkeypatch, "largest = '999 MB'")
    with pytest.raises(PairError, match="at most 999 MB"):
        check_download(begins)
    check_download(Progress(activity="loading", text="", total_bytes=10**12))
    settings(tmp_path, monkeypatch, "hub = false")
    with pytest.raises(PairError, match="no models from the Hub"):
        check_download(begins)
    settings(tmp_path, monkeypatch, "hub = 5")  # never valid in this process: closed
    with pytest.raises(PairError, match="no models from the Hub"):
        check_download(begins)


# The largest model


def sized(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_the_size_of_weights(tmp_path: Path, cache: Path) -> None:
    sized(tmp_path / "m" / "model-1.safetensors", 100)
    sized(tmp_path / "m" / "model-2.SAFETENSORS", 10)
    sized(tmp_path / "m" / "other.bin", 5000)
    assert weights_bytes(str(tmp_path / "m")) == 110
    first = sized(tmp_path / "x-00001-of-00002.gguf", 30)
    sized(tmp_path / "x-00002-of-00002.gguf", 4)
    assert weights_bytes(str(first)) == 34
    blob = sized(cache / "blobs" / "b", 77)
    snapshot = cache / "models--owner--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(blob)
    assert weights_bytes("owner/name") == 77
    for place in ("no/such", "/no/such", "ollama:none", "\0", "a\0b"):
        assert weights_bytes(place) == 0


def test_a_model_above_the_largest_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path, monkeypatch, "largest = 1000")
    small = sized(tmp_path / "small" / "model.safetensors", 1000).parent
    large = sized(tmp_path / "large" / "model.safetensors", 1001).parent
    (tmp_path / "link").symlink_to(large)
    assert refusal(str(small)) == ""
    for place in (large, tmp_path / "link", small / ".." / "large", large / "model.safetensors"):
        assert "this dashboard opens at most 1 kB" in refusal(str(place))
    assert refusal("owner/name") == ""  # the worker process checks what it downloads


def test_the_size_of_a_refused_path_is_not_revealed(
    allowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sized(tmp_path / "large" / "model.safetensors", 5000)
    settings(tmp_path, monkeypatch, f"folders = ['{allowed}']\nlargest = 1000")
    assert refusal(f"{tmp_path}/large") == refusal(f"{tmp_path}/none")
