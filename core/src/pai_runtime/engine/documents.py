"""Documents, files and URLs of an engine's own, as in its profile, and where in them a fault is."""

from pai_document.configuration_files import written_path
from pai_document.document import read_document
from pai_document.schemas import check_value, package_schema
from pai_document.url import split_url
from pai_runtime.engines.profiles import find_profile, profile_names
from pai_runtime.job.reading import text
from pai_task.regular_file import read_file

__all__ = [
    "check_value",
    "find_profile",
    "package_schema",
    "profile_names",
    "read_document",
    "read_file",
    "split_url",
    "text",
    "written_path",
]
