"""The local engine passes the tests that every engine has to pass, with real tasks."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("pai_conformance")

from pai_conformance import Conformance, Stage  # noqa: E402 - rewritten, as above
from pai_runtime.engines.local.machine import LocalEngine  # noqa: E402 - as above
from tests.piped_stage import PipedStage  # noqa: E402 - as above

pytestmark = pytest.mark.process


class LocalStage(PipedStage):
    """This machine, whose tasks are processes."""

    options: Mapping[str, Any] = {"isolation": "none"}

    def opened(self) -> LocalEngine:
        return LocalEngine()


class TestLocalEngine(Conformance):
    @pytest.fixture
    def stage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
        monkeypatch.chdir(tmp_path)
        made = LocalStage(tmp_path)
        yield made
        made.close()
