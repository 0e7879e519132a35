"""Items and their versions, through the functions that pages and APIs are made of."""

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session

from pai_marketplace import items, publishing
from pai_marketplace.database import Database
from pai_marketplace.errors import Conflict, Forbidden, Invalid, NotFound, NotSignedIn
from pai_marketplace.publishing import About, Publication, Published
from pai_marketplace.settings import Settings
from pai_marketplace.viewer import ANYBODY, Viewer
from tests.running_marketplace import WHOLE_JOB, add_people, definition

ALICE = Viewer("alice", frozenset({"team"}), can_write=True)
BOB = Viewer("bob", can_write=True)
CAROL = Viewer("carol", is_reviewer=True, can_write=True)
ADMIN = Viewer("root", is_admin=True, can_write=True)


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    add_people(database)
    with database.writing() as session:
        yield session


def publish(
    session: Session,
    text: str,
    viewer: Viewer = ALICE,
    owner: str = "",
    *,
    review: bool = False,
    about: About | None = None,
) -> Published:
    settings = Settings("", review=review)
    given = Publication(owner or viewer.name, text, about=about or About())
    return publishing.publish(session, viewer, settings, given)


def test_a_version_never_changes(session: Session) -> None:
    first = publish(session, definition())
    assert (first.is_new, publish(session, definition()).is_new) == (True, False)
    with pytest.raises(Conflict):
        publish(session, definition(command="echo ho"))
    publish(session, definition(version="1.1"))
    assert [each.version for each in items.versions(session, ANYBODY, first.item)] == ["1.1", "1.0"]
    assert items.content(session, items.version(session, ANYBODY, first.item, "1.0")) == definition()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (definition().replace("type: data\n", ""), "missing-field"),
        (definition(version="1/0"), "wrong-version"),
        (definition(more="template_variables: [{name: a, default: '{{ b }}'}]\n"), "wrong-template"),
        (definition(kind="script").replace("plugin: cmd", "plugin: com.example.none"), "no-such-plugin"),
        (definition().replace("taskStarts", "taskStrats"), "wrong-value"),
        (definition().replace("commands:", "commnads:"), "unknown-field"),
        ("type: job\nname: x\n", "missing-field"),
        (f"{WHOLE_JOB}extras:\n  com.microsoft.pai.runtimeplugin: [{{plugin: none}}]\n", "no-such-plugin"),
        ("- [", "unclosed-bracket"),
    ],
)
def test_what_is_invalid_is_refused_with_its_problems(session: Session, text: str, code: str) -> None:
    with pytest.raises(Invalid) as error:
        publish(session, text)
    assert code in {each.code for each in error.value.problems}


def test_problems_are_at_their_lines(session: Session) -> None:
    text = definition().replace("plugin: cmd", "plugin: none")
    for invalid, line in ((text, 4), (definition().replace("taskStarts", "x"), 6)):
        with pytest.raises(Invalid) as error:
            publish(session, invalid)
        (problem,) = error.value.problems
        assert problem.position
        assert problem.position.line == line


def test_what_a_definition_requires_may_be_elsewhere(session: Session) -> None:
    published = publish(session, definition(more="require: [marketplace://name/x/y, debug_hook]\n"))
    assert [(each.code, each.severity) for each in published.checked.problems] == [
        ("no-such-definition", "warning")
    ]


def test_nobody_publishes_under_the_name_of_another(session: Session) -> None:
    assert publish(session, definition(), owner="team").item.full_name == "team/mnist"
    for viewer, refused in ((BOB, Forbidden), (ANYBODY, NotSignedIn)):
        with pytest.raises(refused):
            publish(session, definition(), viewer, "team")
    assert publish(session, definition(), BOB).item.full_name == "bob/mnist"


@pytest.mark.parametrize(
    ("about", "seen_by"),
    [
        (About(), {"", "alice", "bob", "root"}),
        (About(visibility="private"), {"alice", "root"}),
        (About(visibility="groups", groups=["others"]), {"alice", "member", "root"}),
    ],
)
def test_an_item_is_for_those_who_may_see_it(session: Session, about: About, seen_by: set[str]) -> None:
    publish(session, definition(), about=about)
    member = Viewer("member", frozenset({"others"}))
    for viewer in (ANYBODY, ALICE, BOB, ADMIN, *([member] if "member" in seen_by else [])):
        found = items.search(session, viewer, items.Search(words="mnist")).items
        assert bool(found) == (viewer.name in seen_by), viewer
        if viewer.name not in seen_by:
            with pytest.raises(NotFound):
                items.get(session, viewer, "alice", "mnist")


def test_where_there_is_a_review_others_see_what_a_reviewer_approves(session: Session) -> None:
    item = publish(session, definition(), review=True).item
    assert not items.search(session, BOB, items.Search()).items
    for viewer in (ALICE, BOB, Viewer("alice", is_reviewer=True, can_write=True)):
        with pytest.raises(Forbidden):
            publishing.review(session, viewer, item, items.version(session, ALICE, item), "approved")
    publishing.review(session, CAROL, item, items.version(session, CAROL, item), "approved")
    second = publish(session, definition(version="2.0"), review=True).version
    assert (item.latest, second.status) == ("1.0", "pending")
    assert [each.version for each in items.versions(session, BOB, item)] == ["1.0"]
    publishing.review(session, CAROL, item, second, "rejected", "no")
    assert (item.latest, item.status) == ("1.0", "approved")


def test_what_is_official_is_changed_by_admins_only(session: Session) -> None:
    item = publish(session, definition()).item
    with pytest.raises(Forbidden):
        publishing.make_official(session, ALICE, item, official=True)
    publishing.make_official(session, ADMIN, item, official=True)
    with pytest.raises(Forbidden):
        publish(session, definition(version="2.0"))
    publish(session, definition(version="2.0"), ADMIN, "alice")


def test_a_name_is_not_given_again(session: Session) -> None:
    item = publish(session, definition()).item
    publishing.withdraw(session, ALICE, item)
    with pytest.raises(NotFound):
        items.get(session, ALICE, "alice", "mnist")
    with pytest.raises(Conflict):
        publish(session, definition(version="2.0"))


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("hand digits", 1),
        ("andwrit", 1),
        ("HANDWRITTEN", 1),
        ("straße", 1),
        ("数字", 1),
        ("数字集", 1),
        ("a", 1),
        ("100%", 1),
        ("100_", 0),
        ('"digits', 1),
        ("digits OR nothing", 0),
        ("digit*", 0),
        ("old", 0),
    ],
)
def test_words_are_found_anywhere_in_the_texts_of_an_item(session: Session, words: str, count: int) -> None:
    item = publish(session, definition(), about=About(title="old title")).item
    publishing.edit(session, ALICE, item, About(title='Handwritten "digits" of STRASSE, 100% 数字集合'))
    found = items.search(session, BOB, items.Search(words=words)).items
    assert [each.name for each in found] == count * ["mnist"]


def test_what_requires_what(session: Session) -> None:
    base = publish(session, definition("base")).item
    other = publish(session, definition(more="require: [base, 'marketplace://data/alice/base@1.0']\n"))
    found = items.requires(session, ANYBODY, other.version)
    assert [each.item for each in found] == [base, base]
    assert items.required_by(session, ANYBODY, base) == [other.item]


def test_a_deprecated_item_names_what_replaces_it(session: Session) -> None:
    old, _ = publish(session, definition("old")).item, publish(session, definition("new"))
    with pytest.raises(Invalid):
        publishing.deprecate(session, ALICE, old, replaced_by="alice/none")
    publishing.deprecate(session, ALICE, old, replaced_by="alice/new")
    assert (old.is_deprecated, old.replaced_by) == (True, "alice/new")


def test_a_star_counts_once(session: Session) -> None:
    item = publish(session, definition()).item
    for viewer in (BOB, BOB, CAROL):
        publishing.star(session, viewer, item)
    assert item.stars == 2
    publishing.star(session, BOB, item, on=False)
    assert (item.stars, items.has_starred(session, BOB, item)) == (1, False)
