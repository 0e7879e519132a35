"""The pod that readers start with: what the page says that they see is what it prints."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pai_pod.peers import Peers
from tests.containers.pod import Pod
from tests.support import ROOT
from tests.test_documentation import blocks, shown_pattern

pytestmark = pytest.mark.process

_PAGE = ROOT / "docs/pods.md"


def _shown(language: str) -> list[str]:
    return [block.text for block in blocks(_PAGE) if block.language == language]


def test_the_pod_that_is_shown_is_the_example() -> None:
    example = (ROOT / "examples/pods/minimal.yaml").read_text("utf-8")
    assert _shown("yaml")[0] == re.sub(r"\A(#.*\n)+", "", example)


def test_the_peers_that_are_shown_are_read() -> None:
    (shown,) = map(json.loads, _shown("json"))
    assert Peers.from_json(shown).to_json() == shown


@pytest.mark.timeout(900)
def test_the_least_pod_prints_what_the_page_shows(
    tmp_path: Path, bundle: Path, image: Callable[[str], Path]
) -> None:
    prepares, refuses, ends = _shown("text")
    pod = Pod(tmp_path / "right", bundle, "minimal")
    prepared = pod.init()
    assert prepared.code == 0
    assert re.fullmatch(shown_pattern(prepares), prepared.stderr), prepared.stderr
    ended = pod.run_task(image("busybox"), work="/")
    assert (ended.code, ended.stdout) == (0, "hello\n")
    assert re.fullmatch(shown_pattern(ends), pod.termination_message), pod.termination_message

    wrong = Pod(tmp_path / "wrong", bundle, "minimal").init(RUNTIME_CONFIG="command:\n- echo hello\n")
    assert wrong.code == 1
    assert re.fullmatch(shown_pattern(refuses), wrong.stderr.splitlines(keepends=True)[-1]), wrong.stderr
