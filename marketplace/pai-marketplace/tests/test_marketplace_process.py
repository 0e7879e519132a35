"""The server as a process: many clients at once, a kill during writes, the end, and what its log has."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest

from pai_marketplace import items
from pai_marketplace.database import Database
from pai_marketplace.viewer import ANYBODY
from tests.running_marketplace import add_people, definition
from tests.support import until
from tests.web_client import request

pytestmark = pytest.mark.process

_PROGRAM = Path(sys.executable).with_name("pai-marketplace")


@contextmanager
def _process(url: str, log: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The address of a server, and its process."""
    environment = {**os.environ, "PAI_MARKETPLACE_DATABASE": url}
    options = ["--port", "0", "--writes-per-minute", "100000"]
    with log.open("wb") as file:
        process = subprocess.Popen([_PROGRAM, "serve", *options], env=environment, stderr=file)
    try:
        yield until(lambda: _address(log, process)), process
    finally:
        process.kill()
        process.wait()


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    text = log.read_text("utf-8")
    assert process.poll() is None, text
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return next((str(each["url"]) for each in lines if each["event"] == "listening"), "")


def _versions(database: Database) -> list[tuple[int, str]]:
    with database.reading() as session:
        item = items.get(session, ANYBODY, "team", "mnist")
        return [(each.number, each.version) for each in items.versions(session, ANYBODY, item)]


def _publish(address: str, token: str, version: str) -> int:
    sent = {"owner": "team", "content": definition(version=version)}
    try:
        return request(address, "POST", "/v1/items", sent, token).status
    except (OSError, HTTPException):
        return 0


def test_twenty_clients_publish_versions_of_one_item(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    token = add_people(database)["alice"]
    log = tmp_path / "log"
    with _process(database_url, log) as (address, process), ThreadPoolExecutor(20) as pool:
        wanted = [f"1.{number}" for number in range(20)]
        # Each twice: of the two one is new, whoever comes first.
        statuses = list(pool.map(lambda each: _publish(address, token, each), [*wanted, *wanted]))
        assert sorted(statuses) == [200] * 20 + [201] * 20
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    found = _versions(database)
    assert sorted(version for _, version in found) == sorted(wanted)
    assert [number for number, _ in found] == list(range(20, 0, -1))
    text = log.read_text("utf-8")
    assert {json.loads(line)["event"] for line in text.splitlines()} == {"listening", "request"}
    assert token not in text


def test_what_was_acknowledged_outlives_a_kill(database: Database, database_url: str, tmp_path: Path) -> None:
    token = add_people(database)["alice"]
    acknowledged: list[str] = []

    def publish(number: int) -> None:
        if _publish(address, token, f"1.{number}") == 201:
            acknowledged.append(f"1.{number}")
        if len(acknowledged) == 8:
            process.kill()

    with _process(database_url, tmp_path / "log") as (address, process), ThreadPoolExecutor(8) as pool:
        list(pool.map(publish, range(30)))
        process.wait()
    assert 8 <= len(acknowledged) < 30
    with _process(database_url, tmp_path / "log") as (address, process), ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda each: _publish(address, token, f"1.{each}"), range(30)))
        assert set(statuses) <= {200, 201}
        assert statuses.count(200) >= len(acknowledged)
    found = _versions(database)
    assert sorted(version for _, version in found) == sorted(f"1.{number}" for number in range(30))
    assert sorted(number for number, _ in found) == list(range(1, 31))


def test_tokens_by_commands(tmp_path: Path) -> None:
    environment = {**os.environ, "PAI_MARKETPLACE_DATABASE": f"sqlite:///{tmp_path}/market.db"}

    def run(*args: str) -> str:
        done = subprocess.run([_PROGRAM, *args], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    run("user", "add", "alice")
    token = run("token", "add", "alice", "--label", "laptop").strip()
    listed = run("token", "list")
    assert "laptop" in listed
    assert token not in listed
    assert token.encode() not in (tmp_path / "market.db").read_bytes()
    run("token", "revoke", listed.split()[0])
    assert "revoked" in run("token", "list")
