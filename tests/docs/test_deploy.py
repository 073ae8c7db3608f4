"""docs/deploy: each file is accepted by its own validator, where that is installed, and agrees with the server."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.test_snippets import ROOT
from serving.calling import call, guarded
from serving.fakes import FakePool

from regard.serving.http.health import HEALTH_PATHS
from regard.serving.settings import Settings
from regard.serving.workers.statistics import PoolStatistics

FOLDER = ROOT / "docs" / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
OBJECTS = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
DEPLOYMENT, SERVICE, BUDGET, SCALER = OBJECTS
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


def accepted(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def compose() -> list[str]:
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


@pytest.mark.parametrize(
    ("command", "installed"),
    [
        (["haproxy", "-c", "-f", "haproxy.cfg"], shutil.which("haproxy")),
        (["promtool", "check", "config", "prometheus.yml"], shutil.which("promtool")),
        (["kubernetes-validate", "--strict", "kubernetes.yaml"], shutil.which("kubernetes-validate")),
        ([*compose(), "-f", "compose.yaml", "config"], compose()),
    ],
    ids=["haproxy", "prometheus", "kubernetes", "compose"],
)
def test_its_own_program_accepts_it(command: list[str], installed: object) -> None:
    if not installed:
        pytest.skip(f"{command[0]} is not installed")
    accepted(*command)


def settings_of(arguments: list[str]) -> dict[str, str]:
    return {name: value for name, value in zip(arguments, [*arguments[1:], ""]) if name.startswith("--")}


def known_options() -> set[str]:
    from typer.main import get_command

    from regard.cli import build_app

    return {name for option in get_command(build_app("serve")).commands["serve"].params for name in option.opts}


def test_every_option_and_variable_exists() -> None:
    options = known_options()
    named = set(settings_of(CONTAINER["args"]))
    variables = {*COMPOSE["x-server"]["environment"], *(one["name"] for one in CONTAINER["env"])}
    named |= {"--" + name.removeprefix("REGARD_").lower().replace("_", "-") for name in variables}
    assert len(named) >= 6 and not named - options


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_a_server_that_drains_is_neither_killed_nor_sent_requests() -> None:
    options = settings_of(CONTAINER["args"])
    drain, grace = float(options["--drain"]), float(options["--grace"])
    assert POD["terminationGracePeriodSeconds"] > drain + grace
    ready = CONTAINER["readinessProbe"]
    assert drain > ready["periodSeconds"] * ready["failureThreshold"] + ready["timeoutSeconds"]

    drain = float(COMPOSE["x-server"]["environment"]["REGARD_DRAIN"])
    assert seconds(COMPOSE["x-server"]["stop_grace_period"]) > drain + Settings().grace
    found = re.search(r"check inter (\d+)s fall (\d+)", haproxy())
    assert found and drain > 1 + float(found[1]) * float(found[2])


def haproxy() -> str:
    return (FOLDER / "haproxy.cfg").read_text()


def test_addresses_agree() -> None:
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/health/live",
        "liveness": "/health/live",
        "readiness": "/health/ready",
    }
    assert {probe["path"] for probe in probes.values()} <= HEALTH_PATHS and "uri /health/ready" in haproxy()
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == Settings().port
    assert {probe["port"] for probe in probes.values()} == {port["name"]} == {SERVICE["spec"]["ports"][0]["targetPort"]}
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    for selector in (
        SERVICE["spec"]["selector"],
        *(one["spec"]["selector"]["matchLabels"] for one in (DEPLOYMENT, BUDGET)),
    ):
        assert selector == labels
    assert SCALER["spec"]["scaleTargetRef"]["name"] == DEPLOYMENT["metadata"]["name"]
    servers = {f"{name}:{Settings().port}" for name in COMPOSE["services"] if name.startswith("regard-")}
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert len(servers) == 2 and set(re.findall(r"^    server \w+ (\S+)", haproxy(), re.M)) == servers
    assert set(scraped[0]["static_configs"][0]["targets"]) == servers
    for service in COMPOSE["services"].values():
        files = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")]
        assert all((FOLDER / file).is_file() for file in files)


def test_containers_have_no_more_rights_than_they_need() -> None:
    assert POD["securityContext"]["runAsNonRoot"] and POD["automountServiceAccountToken"] is False
    context = CONTAINER["securityContext"]
    assert context["readOnlyRootFilesystem"] and context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]} and "memory" in CONTAINER["resources"]["limits"]
    assert POD["enableServiceLinks"] is False, "or Kubernetes sets REGARD_PORT to an address"
    user = str(POD["securityContext"]["runAsUser"])
    image = (ROOT / "docs" / "container" / "Containerfile").read_text()
    assert f"USER {user}\n" in image and f"--uid {user}" in image
    for service in COMPOSE["services"].values():
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_metrics_of_alerts_and_of_the_page_exist(tmp_path: Path) -> None:
    pool = FakePool()
    assert isinstance(pool.statistics, PoolStatistics)
    app = guarded(pool, metrics=True, state=str(tmp_path / "state"))
    call(app, "POST", "/translate", q="a")
    page = call(app, "GET", "/metrics").body.decode()
    offered = set(re.findall(r"^(regard_\w+)", page, re.M))
    rules = [
        rule["expr"]
        for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    named = set(re.findall(r"\bregard_\w+", " ".join(rules)))
    assert len(named) >= 4 and not named - offered
