"""The schemas that Kubernetes has published, each of them read once."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kubernetes_validate import utils  # type: ignore[import-untyped]

# It reads all definitions of a version for each object that is checked, which takes 20 ms.
utils.schema_contents = cache(utils.schema_contents)
utils.all_versions = cache(utils.all_versions)

NEWEST: str = utils.latest_version()


def validate(document: Mapping[str, Any], version: str = NEWEST) -> None:
    """Strictly: a field that they do not know is an error; raises `ValidationError`."""
    utils.validate(dict(document), version, strict=True)


def models_of_jobset() -> Any:
    """The module with the models that JobSet publishes; few have a use for its import, which takes long."""
    from kubeflow_trainer_api import models  # type: ignore[import-untyped] # noqa: PLC0415

    return models
