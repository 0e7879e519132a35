"""This machine, with the environment of the tests, as the runtime image, which any user can run."""

from collections.abc import Iterator
from pathlib import Path

from tests.containers.pod import PATH, PLACES, RUNTIME_IMAGE, elsewhere
from tests.containers.runc import Mount
from tests.containers.volumes import Image
from tests.support import PROGRAM


def runtime_image(bundle: Path, folder: Path) -> Image:
    """It with a bundle; `folder` is for directories in the place of those that only root may enter."""
    folder.mkdir()
    environment = {"PATH": PATH, "LANG": "C.UTF-8"}
    mounts = [*_places(folder), Mount(bundle, "/opt/pai-runtime/bundle", read_only=True)]
    return Image(RUNTIME_IMAGE, [str(PROGRAM)], ["init"], environment, mounts)


def _places(folder: Path) -> Iterator[Mount]:
    closed = {above for place in PLACES for above in place.parents if not above.stat().st_mode & 1}
    for number, above in enumerate(sorted(closed)):
        (folder / str(number)).mkdir(mode=0o755)
        yield Mount(folder / str(number), str(above))
    hidden = (place for place in PLACES if not closed.isdisjoint(place.parents))
    yield from (Mount(place, str(place), read_only=True) for place in hidden)
    yield from elsewhere()
