"""Import, export, backup and restore, and migrations."""

import json
import subprocess
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, select, text

from pai_marketplace import items
from pai_marketplace.backup import backup, restore
from pai_marketplace.database import Database
from pai_marketplace.errors import Conflict, Invalid
from pai_marketplace.export import export, export_newest
from pai_marketplace.items import Search
from pai_marketplace.models import Account, Base, Version
from pai_marketplace.publishing import Publication, publish, withdraw
from pai_marketplace.settings import Settings
from pai_marketplace.sync import sync
from pai_marketplace.viewer import ANYBODY, OPERATOR
from tests.running_marketplace import WHOLE_JOB, add_people, definition

SETTINGS = Settings("")
_ACCOUNT = """
INSERT INTO accounts (name, is_group, is_admin, is_reviewer, is_disabled, created_at)
VALUES (:name, false, false, false, false, '')
"""
_ITEM = """
INSERT INTO items (id, owner, name, type, author, title, summary, description, visibility, is_official,
  is_withdrawn, is_deprecated, replaced_by, status, latest, uses, stars, search_text, created_at, updated_at)
VALUES ('x', :owner, :name, 'data', :owner, '', '', '', 'public', false,
  false, false, '', 'approved', '1', 0, 0, 'some digits', '', '')
"""


def _published(database: Database) -> list[str]:
    with database.reading() as session:
        found = items.search(session, ANYBODY, Search(order="name")).items
        return [f"{each.full_name}@{each.latest}" for each in found]


def _folder(path: Path) -> Path:
    """Definitions as a group keeps them."""
    (path / "team").mkdir(parents=True)
    (path / "alice").mkdir()
    (path / "team" / "mnist.yaml").write_text(definition())
    (path / "alice" / "two.yaml").write_text(
        "\n".join(f"- {text.replace(chr(10), chr(10) + '  ')}" for text in (definition("a"), definition("b")))
    )
    return path


def test_sync_from_a_folder_and_again(database: Database, tmp_path: Path) -> None:
    add_people(database)
    folder = _folder(tmp_path / "definitions")
    done = sync(database, SETTINGS, str(folder))
    assert (done.new, done.same, done.problems) == (3, 0, ())
    assert _published(database) == ["alice/a@1.0", "alice/b@1.0", "team/mnist@1.0"]
    (folder / "team" / "mnist.yaml").write_text(definition(command="echo changed"))
    (folder / "outside.yaml").symlink_to("/etc/hostname")
    (folder / "top.yaml").write_text(definition("top"))
    (folder / "team" / "broken.yaml").write_text("name: [")
    done = sync(database, SETTINGS, str(folder))
    assert (done.new, done.same, len(done.problems)) == (0, 2, 4)


def test_jobs_are_synced_and_exported_too(database: Database, tmp_path: Path) -> None:
    add_people(database)
    folder = _folder(tmp_path / "definitions")
    requiring = WHOLE_JOB.replace(
        "dockerImage:", "prerequisites: [marketplace://name/team/mnist]\n    dockerImage:"
    )
    (folder / "alice" / "first.yaml").write_text(requiring)
    (folder / "team" / "wrong.yaml").write_text(WHOLE_JOB.replace("commands", "comands"))
    (folder / "team" / "latin.yaml").write_bytes(WHOLE_JOB.replace("hello", "h\xe4llo").encode("latin-1"))
    done = sync(database, SETTINGS, str(folder))
    assert (done.new, done.same) == (4, 0)
    assert {each.partition(":")[0] for each in done.problems} == {"team/wrong.yaml", "team/latin.yaml"}
    assert export_newest(database, tmp_path / "again") == 4
    assert (tmp_path / "again" / "alice" / "first.yaml").read_text() == requiring
    assert sync(database, SETTINGS, str(tmp_path / "again")).same == 6  # one file has two definitions


@pytest.mark.process
def test_sync_from_a_git_repository(database: Database, tmp_path: Path) -> None:
    add_people(database)
    folder = _folder(tmp_path / "definitions")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for argv in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", folder, *argv], check=True)
    assert sync(database, SETTINGS, f"file://{folder}", "team").new == 3
    assert _published(database) == ["team/a@1.0", "team/b@1.0", "team/mnist@1.0"]
    for place in ("ext::sh -c true", "--upload-pack=true", str(tmp_path / "none")):
        with pytest.raises(Invalid):
            sync(database, SETTINGS, place)


def test_export_and_what_is_gone(database: Database, tmp_path: Path) -> None:
    add_people(database)
    sync(database, SETTINGS, str(_folder(tmp_path / "definitions")))
    folder = tmp_path / "export"
    assert export(database, folder) == 3
    (folder / ".git").mkdir()
    (folder / "index.html").write_text("ours")
    with database.writing() as session:
        withdraw(session, OPERATOR, items.get(session, OPERATOR, "alice", "a"))
    assert export(database, folder) == 2
    assert len(json.loads((folder / "index.json").read_bytes())["items"]) == 2
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {each for each in files if not each.startswith("sha256/")} == {
        "index.html",
        "index.json",
        "items/alice/b.json",
        "items/alice/b/1.0.yaml",
        "items/team/mnist.json",
        "items/team/mnist/1.0.yaml",
    }
    with pytest.raises(Conflict):
        export(database, tmp_path / "definitions")
    assert export_newest(database, tmp_path / "again") == 2
    assert (tmp_path / "again" / "team" / "mnist.yaml").read_text() == definition()


def test_backup_and_restore(database: Database, tmp_path: Path) -> None:
    tokens = add_people(database)
    sync(database, SETTINGS, str(_folder(tmp_path / "definitions")))
    rows = backup(database, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    other = Database(f"sqlite:///{tmp_path}/other.db")
    other.upgrade()
    assert restore(other, tmp_path / "backup") == rows
    assert _published(other) == _published(database)
    again = tmp_path / "again"
    assert backup(other, again) == rows
    with pytest.raises(Conflict):
        restore(other, again)
    import gzip  # noqa: PLC0415 - the token is looked for in what was compressed

    assert not any(token.encode() in gzip.decompress(again.read_bytes()) for token in tokens.values())
    empty = Database(f"sqlite:///{tmp_path}/empty.db")
    empty.upgrade()
    again.write_bytes(again.read_bytes()[:-200])
    with pytest.raises(Invalid):
        restore(empty, again)
    assert _published(empty) == []
    for each in (other, empty):
        each.close()


def test_what_is_restored_can_be_written_to(database: Database, tmp_path: Path) -> None:
    source = Database(f"sqlite:///{tmp_path}/source.db")
    source.upgrade()
    add_people(source)
    backup(source, tmp_path / "backup")
    source.close()
    restore(database, tmp_path / "backup")
    with database.writing() as session:
        publish(session, OPERATOR, SETTINGS, Publication("team", definition()))
        assert session.scalar(select(func.count()).select_from(Version)) == 1


def test_the_migrations_make_the_schema_of_the_models_and_keep_what_is_there(database_url: str) -> None:
    database = Database(database_url)
    database.upgrade("0001")
    with database.writing() as session:
        session.execute(text(_ACCOUNT), {"name": "alice"})
        session.execute(text(_ITEM), {"owner": "alice", "name": "mnist"})
    database.upgrade()
    database.upgrade()
    with database.engine.connect() as connection:
        # The index of texts is no table of the models.
        options = {
            "include_name": lambda name, *_: not str(name).startswith("item_texts"),
            "include_object": lambda _, name, *__: name != "item_texts",
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
    with database.reading() as session:
        assert session.get_one(Account, "alice").subject is None
        found = items.search(session, OPERATOR, Search(words="digits")).items
        assert [each.full_name for each in found] == ["alice/mnist"]
    database.close()
