"""The container files: what they promise, and that what they copy and name exists."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.types import Receive, Scope, Send

from specviz import ROOT
from specviz.access.setting_values import Limits
from specviz.cli.options import build_parser
from specviz.ui.access.addresses import client_of, is_encrypted

FOLDER = ROOT / "assets" / "container"
SERVER, SPACE = FOLDER / "Dockerfile", FOLDER / "space" / "Dockerfile"
BOTH = pytest.mark.parametrize("file", [SERVER, SPACE], ids=["server", "space"])
_PINNED = re.compile(r"^[\w./-]+:\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?$")


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each with its arguments on one line."""
    lines = [each for each in file.read_text(encoding="utf-8").splitlines() if each.strip()]
    text = "\n".join(each for each in lines if not each.lstrip().startswith("#"))
    joined = text.replace("\\\n", " ").splitlines()
    return [(each.split()[0].upper(), each.split(maxsplit=1)[1].strip()) for each in joined]


def values_of(file: Path, name: str) -> list[str]:
    return [value for found, value in instructions(file) if found == name]


def last_stage(file: Path) -> list[tuple[str, str]]:
    found = instructions(file)
    (*_, start) = (index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


@BOTH
def test_the_base_image_is_pinned_and_slim(file: Path) -> None:
    bases = {each.split()[0] for each in values_of(file, "FROM")}
    assert len(bases) == 1
    (base,) = bases
    assert _PINNED.match(base)
    assert "slim" in base


@BOTH
def test_the_container_does_not_run_as_root(file: Path) -> None:
    (user,) = [value for name, value in last_stage(file) if name == "USER"]
    assert user.split(":")[0] not in ("root", "0")
    assert int(user.split(":")[0]) >= 1000


@BOTH
def test_the_health_check_asks_server_and_worker(file: Path) -> None:
    (check,) = values_of(file, "HEALTHCHECK")
    assert "specviz.healthcheck" in check
    (port,) = values_of(file, "EXPOSE")
    assert f"http://127.0.0.1:{port}" in check


@BOTH
def test_it_is_stopped_with_sigterm_and_its_entry_point_gets_the_signal(file: Path) -> None:
    assert values_of(file, "STOPSIGNAL") == ["SIGTERM"]
    (entry,) = values_of(file, "ENTRYPOINT")
    words = yaml.safe_load(entry)  # a JSON array, so no shell is between
    assert words[0] == "specviz"
    options = build_parser().parse_args(words[1:])
    assert options.dashboard_port == int(values_of(file, "EXPOSE")[0])
    assert options.dashboard_host == "0.0.0.0"
    assert options.dashboard_browser is False
    assert options.dashboard_demo is (True if file is SPACE else None)


def copied(file: Path) -> Iterator[str]:
    for each in values_of(file, "COPY"):
        words = [word for word in shlex.split(each) if not word.startswith("--")]
        if "--from" not in each:
            yield from words[:-1]


def test_copied_paths_exist_and_are_not_ignored() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {each[1:] for each in ignored if each.startswith("!")}
    paths = list(copied(SERVER))
    assert {"specviz", "pages", "assets", "app.py", "pyproject.toml"} <= set(paths)
    for path in paths:
        assert (ROOT / path).exists(), path
        assert path.split("/", maxsplit=1)[0] in kept, path
    assert "*" in ignored


def test_the_data_is_in_a_volume_that_the_user_owns() -> None:
    assert values_of(SERVER, "VOLUME") == ["/data"]
    environment = " ".join(values_of(SERVER, "ENV"))
    assert "SPECVIZ_HOME=/data" in environment
    assert any("install -d -o specviz -g specviz /data" in run for run in values_of(SERVER, "RUN"))


def test_no_secret_is_in_an_image() -> None:
    for file in (SERVER, SPACE):
        assert "TOKEN" not in " ".join(values_of(file, "ENV") + values_of(file, "ARG"))


def test_torch_is_a_build_argument_whose_light_packages_are_those_of_the_base() -> None:
    assert values_of(SERVER, "ARG") == ["TORCH=cpu"]
    (chosen,) = [run for run in values_of(SERVER, "RUN") if run.startswith("case")]
    pattern = re.search(r"grep -Ev '([^']+)'", chosen)
    assert pattern is not None
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    left = [each for each in requirements if not re.match(pattern[1], each)]
    assert {each.split("==")[0] for each in set(requirements) - set(left)} == {
        "torch", "transformers", "huggingface_hub", "numba", "gguf",
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", chosen.replace("pip install", "echo pip")], cwd=ROOT, text=True,
        env={"TORCH": "other", "PATH": "/usr/bin:/bin"}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "use cpu, cuda or none" in done.stderr


def test_compose_puts_caddy_in_front(compose: dict[str, Any]) -> None:
    specviz, caddy = compose["services"]["specviz"], compose["services"]["caddy"]
    assert "ports" not in specviz  # only Caddy is reachable
    assert {each.split(":")[0] for each in caddy["ports"]} == {"80", "443"}
    assert _PINNED.match(caddy["image"])
    build = specviz["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert ROOT / build["dockerfile"] == SERVER
    assert specviz["environment"]["SPECVIZ_TOKEN"].startswith("${SPECVIZ_TOKEN:?")
    assert specviz["environment"]["STREAMLIT_SERVER_ALLOWED_HOSTS"].startswith("${SPECVIZ_DOMAIN:?")
    assert int(specviz["stop_grace_period"].removesuffix("s")) >= 10
    for name in ("read_only", "cap_drop", "security_opt"):
        assert specviz[name]
    for service in (specviz, caddy):
        for each in service["volumes"]:
            source = each.split(":")[0]
            is_file = source.startswith("./")
            assert (FOLDER / source).is_file() if is_file else source in compose["volumes"]
        assert set(service["networks"]) <= compose["networks"].keys()


@pytest.mark.parametrize("sent", ["198.51.100.1", ""])
def test_specviz_trusts_the_headers_of_caddy(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    """Caddy's address in the network of compose is not known before."""
    seen: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope)

    trusted = compose["services"]["specviz"]["environment"]["FORWARDED_ALLOW_IPS"]
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    config = uvicorn.Config(app, log_config=None)
    config.load()
    headers = [(b"x-forwarded-proto", b"https"), (b"x-forwarded-for", sent.encode())]
    scope = {"type": "http", "scheme": "http", "client": ("172.18.0.3", 40000), "headers": headers}
    app_behind_headers: Any = config.loaded_app
    asyncio.run(app_behind_headers(scope, None, None))
    assert is_encrypted(seen[0])
    assert client_of(seen[0]) == (sent or "172.18.0.3")


def test_caddy_serves_the_domain_and_hides_the_health_check() -> None:
    text = (FOLDER / "Caddyfile").read_text(encoding="utf-8")
    assert "{$SPECVIZ_DOMAIN} {" in text
    assert "reverse_proxy specviz:8501" in text
    assert re.search(r"@health path /health\s+respond @health 404", text)
    assert text.count("{") == text.count("}")


def test_the_documented_caddyfile_has_its_braces_at_the_ends_of_lines() -> None:
    """Caddy accepts no block on one line."""
    text = (ROOT / "assets" / "docs" / "deploy.md").read_text(encoding="utf-8")
    lines = [each for each in text.splitlines() if re.match(r"`?specviz\.example\.org \{", each)]
    assert lines == ["specviz.example.org {"]


def test_the_documented_nginx_forwards_what_specviz_needs() -> None:
    text = (ROOT / "assets" / "docs" / "deploy.md").read_text(encoding="utf-8")
    for each in (
        "proxy_set_header Host $http_host;",  # $host has no port, but the Origin has
        "proxy_set_header X-Forwarded-For $remote_addr;",  # not what the client sent
        "proxy_set_header X-Forwarded-Proto $scheme;",
    ):
        assert each in text
    found = re.search(r"client_max_body_size (\d+)m;", text)  # by default 1 MB
    assert found is not None
    assert int(found[1]) * 2**20 >= Limits().request_body


def test_the_space_has_the_front_matter_that_hugging_face_reads() -> None:
    text = (FOLDER / "space" / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", maxsplit=2)
    card = yaml.safe_load(front)
    assert card["sdk"] == "docker"
    assert str(card["app_port"]) == values_of(SPACE, "EXPOSE")[0]
    assert set(card) >= {"title", "emoji", "colorFrom", "colorTo", "license"}
    assert len(card["short_description"]) <= 60
    assert "demo" in body


def test_the_health_check_needs_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import specviz.healthcheck; "
        "print({name.split('.')[0] for name in set(sys.modules) - before} "
        "- set(sys.stdlib_module_names) - {'specviz'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
