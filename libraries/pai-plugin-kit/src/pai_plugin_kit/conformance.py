"""The rules for every plugin, as a test."""

import warnings
from collections.abc import Callable

from pai_runtime.host.plugin_check import Fault, check_plugins
from pai_runtime.host.policies_in_force import given_host
from pai_runtime.job.model import plugin_id


def conformance(*plugins: str) -> Callable[[], None]:
    """Return a test that fails with all that ``pai-runtime plugins check`` finds in these plugins.

    They are named by their ids or short names.
    """

    def test_conformance() -> None:
        host = given_host(None)
        found = [host.find(plugin_id(each)) for each in plugins]
        faults = check_plugins(host, found)
        errors = []
        for plugin in found:
            for fault in faults[plugin.id]:
                if fault.severity == "warning":
                    warnings.warn(_line(plugin.label, fault), DeprecationWarning, stacklevel=1)
                else:
                    errors.append(_line(plugin.label, fault))
        assert not errors, "\n".join(errors)

    return test_conformance


def _line(label: str, fault: Fault) -> str:
    return "\n    ".join((f"{label}: {fault.message} [{fault.code}]", *fault.frames))
