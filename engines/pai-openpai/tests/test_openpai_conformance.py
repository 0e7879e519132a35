"""The engine for OpenPAI passes the tests that every engine has to pass, on a stand-in for a cluster.

Its tasks are processes, and the rules of the platform decide the job; see `tests.openpai`.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("pai_conformance")

from pai_conformance import Conformance, Stage  # noqa: E402 - rewritten, as above
from pai_document.document import parse_document  # noqa: E402 - as above
from pai_openpai.client.engine import OpenpaiCluster  # noqa: E402 - as above
from pai_runtime.engines.profiles import Profile  # noqa: E402 - as above
from tests.openpai.rest_server import OpenpaiServer  # noqa: E402 - as above
from tests.piped_stage import PipedStage  # noqa: E402 - as above

pytestmark = pytest.mark.process


class OpenpaiStage(PipedStage):
    """A stand-in server, whose user is another than the one of the tests."""

    def __init__(self, folder: Path, server: OpenpaiServer) -> None:
        super().__init__(folder)
        profile = {"engine": "openpai", "url": server.url}
        self._profile = Profile("lab", "openpai", parse_document(json.dumps(profile), "engines.yaml"))

    def opened(self) -> OpenpaiCluster:
        return OpenpaiCluster(self._profile)


@pytest.mark.usefixtures("quick_openpai")
class TestOpenpaiEngine(Conformance):
    @pytest.fixture
    def stage(
        self, openpai_server: OpenpaiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Stage]:
        monkeypatch.setenv("PAI_TOKEN", openpai_server.cluster.token("alice"))
        made = OpenpaiStage(tmp_path, openpai_server)
        yield made
        made.close()
