"""The configured sources of definitions, and the embedded one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from pai_definitions.configuration import SourceSettings
from pai_definitions.folder import FolderSource
from pai_definitions.index import SUFFIX, IndexSource
from pai_definitions.model import DefinitionSource
from pai_definitions.server import MarketplaceSource
from pai_definitions.single_file import FileSource, UrlSource
from pai_definitions.web import Fetches, Web
from pai_document.value import Value
from pai_runtime.host.locations import EMBEDDED

EMBEDDED_FOLDER: Final = Path(__file__).with_name("embedded")


def open_sources(
    settings: Sequence[SourceSettings],
    secrets: Mapping[str, Value],
    fetcher: Fetches,
    kept: Callable[[str, str], bytes | None] = lambda *_: None,
) -> tuple[Sequence[DefinitionSource], Web]:
    """Return the sources in the order in which they are asked, and the web client with their tokens.

    Marketplace servers come last, since anybody publishes there under any name; the embedded source comes
    before them. Nothing is read yet. `kept`: see `Web`.
    """
    tokens = [(_below(each), partial(each.token, secrets)) for each in settings if each.value.get("token")]
    web = Web(fetcher, tokens, kept)
    embedded = FolderSource(EMBEDDED, EMBEDDED_FOLDER, EMBEDDED)
    opened = [_source(each, web) for each in settings]
    published = [source for source in opened if isinstance(source, (IndexSource, MarketplaceSource))]
    return [*(source for source in opened if source not in published), embedded, *published], web


def _source(settings: SourceSettings, web: Web) -> DefinitionSource:
    if settings.kind == "folder":
        return FolderSource(settings.name, Path(settings.place))
    if settings.kind == "file":
        return FileSource(settings.name, Path(settings.place))
    if settings.kind == "url":
        return UrlSource(settings.name, settings.place, web)
    if _is_index(settings):
        return IndexSource(settings.name, settings.place, web, settings.authors)
    return MarketplaceSource(settings.name, settings.place, web, settings.authors)


def _below(settings: SourceSettings) -> str:
    """Return the URL below which a source's token is sent: the server, or the directory of a file."""
    is_file = settings.kind == "url" or _is_index(settings)
    return urljoin(settings.place, ".") if is_file else settings.place


def _is_index(settings: SourceSettings) -> bool:
    return settings.kind == "marketplace" and urlsplit(settings.place).path.endswith(SUFFIX)
