"""The pages as a browser without scripts gets them, from the real server."""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.running_marketplace import WHOLE_JOB, RunningMarketplace, template
from tests.support import cli
from tests.web_client import Answer, Visitor


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMarketplace]:
    with RunningMarketplace(tmp_path_factory.mktemp("market")) as served:
        served.publish(template(), owner="team", title="Digits", tags=["images"])
        served.publish(template(version="1.1", summary="More of them"), owner="team")
        served.publish(WHOLE_JOB, tags=["jobs"])
        served.publish(template("own"), visibility="private")
        yield served


EVIL = """'"</textarea></title></script><script>alert(1)</script><img src=x onerror=alert(1)>{{'zy'*3}}"""
"""Ends whatever it stands in. No page may have its tags, whichever field it came by."""

ALL_PAGES = (
    "/",
    "/?q={evil}&type={evil}&tag={evil}&author={evil}&page={evil}",
    "/items/alice/trap?version={evil}",
    "/items/alice/trap/differences?from={evil}&to={evil}",
    "/items/{evil}/{evil}",
    "/publish",
    "/review",
    "/sign-in?next={evil}",
    "/{evil}",
)


class Tags(HTMLParser):
    """The tags of a page, as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_safe(answer: Answer) -> None:
    """Nothing of `EVIL` is a tag, an attribute or a template; and no page has anything inline."""
    tags = Tags(answer.text).found
    assert not {"img", "style", "iframe", "object", "embed", "base"} & {tag for tag, _ in tags}
    scripts = [attributes for tag, attributes in tags if tag == "script"]
    assert all(set(each) == {"src", "defer"} and str(each["src"]).startswith("/static/") for each in scripts)
    assert answer.text.count("</script>") == len(scripts) <= 1
    for _, attributes in tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "srcdoc")]
        assert not [
            text for text in attributes.values() if str(text).lower().startswith(("javascript:", "data:"))
        ]
    assert "zyzyzy" not in answer.text


def evil_fields() -> Iterator[tuple[str, dict[str, str], str]]:
    """Each field of an item that its author writes, by form and in the text; at once those that are taken."""
    texts = ("title", "summary", "description", "note")
    yield "texts", {name: f"{name} {EVIL}" for name in texts}, template("trap", "1.1")
    for name in ("tags", "groups", "visibility", "owner"):
        evil = EVIL[-49:] if name == "tags" else EVIL
        yield name, {name: evil}, template("trap", "1.1")
    quoted = EVIL.replace("'", "''")
    fields = {name: f"'{name} {quoted}'" for name in ("title", "summary", "usage", "description")}
    yield "text: texts", {}, template("trap", "1.1", **fields) + f"# {EVIL}\n"
    yield "text: contributor", {}, template("trap", "1.1", contributor=f"'{quoted}'")
    yield "text: tags", {}, template("trap", "1.1", tags=f"['{quoted[-51:]}']")
    for part in ("What is said.", "default: 3"):
        made = template("trap", "1.1").replace("type: integer, ", "")
        yield (
            f"text: {part}",
            {},
            made.replace(part, f"default: '{quoted}'" if ":" in part else f"'{quoted}'"),
        )
    yield "text: name", {}, template("trap", "1.1").replace("name: trap", f"name: '{quoted}'")
    yield "text: type", {}, template("trap", "1.1").replace("type: data", f"type: '{quoted}'")
    yield "text: version", {}, template("trap", f"1.1{quoted}")
    yield "text: variable", {}, template("trap", "1.1").replace("{name: words", f"{{name: '{quoted}'")
    yield "text: require", {}, template("trap", "1.1", require=f"['{quoted}']")
    yield "text: not YAML", {}, EVIL


@pytest.fixture(scope="module")
def trapped(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningMarketplace, Visitor, Visitor]]:
    with RunningMarketplace(tmp_path_factory.mktemp("trapped"), review=True) as served:
        yield served, served.visitor("alice"), served.visitor("carol")


@pytest.mark.parametrize(("form", "text"), [pytest.param(*rest, id=id_) for id_, *rest in evil_fields()])
def test_no_field_brings_markup_to_any_page(
    trapped: tuple[RunningMarketplace, Visitor, Visitor],
    request: pytest.FixtureRequest,
    form: dict[str, str],
    text: str,
) -> None:
    market, alice, carol = trapped
    name = f"trap{request.node.name.translate(str.maketrans(dict.fromkeys(' :[].', '-')))}"
    text = text.replace("name: trap", f"name: {name}")
    market.publish(template(name))
    csrf = alice.csrf("/")
    assert_safe(alice.post("/publish", csrf=csrf, do="check", text=text, **form))
    published = alice.post(f"/items/alice/{name}/edit", csrf=csrf, do="publish", text=text, **form)
    assert_safe(published)
    if "texts" in request.node.name:
        assert published.status == 303, published.text
    assert_safe(alice.post(f"/items/alice/{name}/use", csrf=csrf, do="check", text=text))
    for below in ("", "?version=1.1", "/use?version=1.1", "/edit", "/differences?from=1.0&to=1.1"):
        assert_safe(alice.get(f"/items/alice/{name}{below}"))
    assert_safe(alice.get(f"/?q={name}"))
    assert_safe(carol.get("/review"))


def test_no_address_and_no_value_brings_markup_to_any_page(
    trapped: tuple[RunningMarketplace, Visitor, Visitor],
) -> None:
    market, alice, carol = trapped
    market.publish(template("trap"))
    evil = quote(EVIL, safe="")
    for who in (alice, carol, market.visitor()):
        for path in ALL_PAGES:
            assert_safe(who.get(path.format(evil=evil)))
    for do in ("fill", "check"):
        values = {"var.words": EVIL, "var.count": EVIL, f"var.{EVIL}": EVIL}
        assert_safe(alice.post("/items/alice/trap/use", do=do, text=EVIL, **values))
    assert_safe(market.visitor().post("/sign-in", token=EVIL, next=EVIL))


def test_pages_name_what_is_published(market: RunningMarketplace) -> None:
    listed = market.visitor().get("/").text
    assert "Digits" in listed
    assert "alice/hello" in listed
    assert "alice/own" not in listed
    item = market.visitor().get("/items/team/mnist").text
    for shown in ("What is said.", "marketplace://name/team/mnist@1.1", "required", "1.0"):
        assert shown in item


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=digits", {"team/mnist"}),
        ("q=DIGITS+more", set()),
        ("type=template", {"alice/hello"}),
        ("tag=images", {"team/mnist"}),
        ("author=alice", {"team/mnist", "alice/hello"}),
        ("author=nobody", set()),
        ("q=%00%ff'%25", set()),
        ("page=99999999999999999999", {"team/mnist", "alice/hello"}),
        ("page=-1&q=hello", {"alice/hello"}),
    ],
)
def test_search_and_filters_find(market: RunningMarketplace, query: str, found: set[str]) -> None:
    answer = market.visitor().get(f"/?{query}")
    assert answer.status == 200
    assert set(re.findall('<h2><a href="/items/([^"]+)"', answer.text)) == found


def test_many_items_are_on_several_pages(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path) as market:
        for number in range(21):
            market.publish(template(f"item{number}"), tags=["a&b"])
        first = market.visitor().get("/?tag=a%26b").text
        assert 'rel="prev"' not in first
        following = re.search('rel="next" href="([^"]+)"', first)
        assert following
        second = market.visitor().get(unescape(following[1])).text
        assert 'rel="next"' not in second
        names = [re.findall('<h2><a href="/items/([^"]+)"', each) for each in (first, second)]
        assert [len(each) for each in names] == [20, 1]
        assert len({*names[0], *names[1]}) == 21


def test_a_page_shows_what_differs_between_versions(market: RunningMarketplace) -> None:
    shown = market.visitor().get("/items/team/mnist/differences?from=1.0&to=1.1").text
    assert re.findall("<del>([^<]*)</del>", shown) == ["version: &#39;1.0&#39;"]
    assert re.findall("<ins>([^<]*)</ins>", shown) == ["version: &#39;1.1&#39;", "summary: More of them"]


def test_where_nothing_is_pages_say_what_to_do(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path) as market:
        assert 'href="/publish"' in market.visitor().get("/").text.partition("<main")[2]
        assert 'href="/"' in market.visitor().get("/?q=x").text.partition("<main")[2]
        assert "Nothing waits" in market.visitor("carol").get("/review").text


def job_in(answer: Answer) -> str:
    """The text that the page has to be copied."""
    found = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', answer.text, re.DOTALL)
    assert found
    return unescape(found[1])


def test_a_form_becomes_a_job_that_the_runtime_has_checked(market: RunningMarketplace) -> None:
    page = "/items/team/mnist/use"
    answer = market.visitor().post(page, do="fill", **{"var.words": "good morning", "var.count": "7"})
    job = job_in(answer)
    assert "marketplace://name/team/mnist@1.1" in job
    assert "good morning" in job
    assert 'class="valid"' in answer.text
    wrong = market.visitor().post(page, do="check", text=job.replace("instances", "x") + "taskRoles: {}\n")
    assert wrong.status == 200
    assert f"line {job.count(chr(10)) + 1}</a>" in wrong.text


@pytest.mark.parametrize(
    "reference", ["/etc/passwd", "file:///etc/passwd", "../x.yaml", "http://127.0.0.1:1/x.yaml", "alice/own"]
)
def test_checking_a_job_reads_no_file_and_asks_no_server(market: RunningMarketplace, reference: str) -> None:
    text = WHOLE_JOB.replace("    dockerImage", f"    prerequisites: ['{reference}']\n    dockerImage")
    answer = market.visitor().post("/items/alice/hello/use", do="check", text=text)
    assert answer.status == 200
    assert "in the job" in answer.text
    assert "root:" not in answer.text


@pytest.mark.process
def test_a_downloaded_job_runs_and_counts_as_a_use(market: RunningMarketplace, tmp_path: Path) -> None:
    page = "/items/alice/hello/use"
    text = job_in(market.visitor().get(page))
    answer = market.visitor().post(page, do="download", text=text.replace("echo hello", "echo from the page"))
    assert answer.headers["content-disposition"] == 'attachment; filename="job.yaml"'
    (tmp_path / "job.yaml").write_text(answer.text)
    run = cli("run", "job.yaml", "--out", "out", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "from the page" in run.stdout
    assert "used 1 time" in market.visitor().get("/?q=hello").text


def test_who_may_publishes_and_changes_and_nobody_else(market: RunningMarketplace) -> None:
    alice, bob, nobody = market.visitor("alice"), market.visitor("bob"), market.visitor()
    published = alice.post("/publish", do="publish", text=template("fresh"), owner="alice", title="Fresh")
    assert (published.status, published.headers["location"]) == (303, "/items/alice/fresh")
    assert alice.post("/publish", do="publish", text=template("fresh", x="1"), owner="alice").status == 409
    again = alice.post("/items/alice/fresh/edit", do="publish", text=template("fresh", "2"), title="Fresher")
    assert again.status == 303
    assert "Fresher" in nobody.get("/items/alice/fresh").text
    described = alice.post("/items/alice/fresh/edit", do="publish", text=template("fresh", "2"), title="Best")
    assert described.status == 303
    assert "Best" in nobody.get("/items/alice/fresh").text
    assert bob.get("/items/alice/fresh/edit").status == 403
    assert nobody.get("/items/alice/fresh/edit").status == 401
    assert nobody.get("/publish").status == 401
    edit = {"do": "publish", "text": template("fresh", "3")}
    assert bob.post("/items/alice/fresh/edit", "/publish", **edit).status == 403
    assert bob.post("/publish", do="publish", text=template("theirs"), owner="alice").status == 403
    assert bob.post("/publish", do="publish", text=template("theirs"), owner="team").status == 403
    for below in ("", "/use", "/differences", "/edit"):
        assert bob.get(f"/items/alice/own{below}").status == 404
        assert alice.get(f"/items/alice/own{below}").status == 200
    assert bob.post("/items/alice/own/star", "/publish", starred="yes").status == 404


def test_a_wrong_text_is_not_published_and_the_form_keeps_what_was_written(
    market: RunningMarketplace,
) -> None:
    alice = market.visitor("alice")
    answer = alice.post("/publish", do="publish", text="name: wrong\ntype: data\nplugin: []\n", title="Kept")
    assert answer.status == 400
    assert 'value="Kept"' in answer.text
    assert "line 3</a>" in answer.text
    assert market.visitor("alice").get("/items/alice/wrong").status == 404


def test_a_star_can_be_given_once_and_taken_back(market: RunningMarketplace) -> None:
    bob, page = market.visitor("bob"), "/items/alice/hello"
    for starred, stars in (("yes", "1 star"), ("yes", "1 star"), ("no", "0 stars")):
        assert bob.post(f"{page}/star", page, starred=starred).status == 303
        assert stars in bob.get("/?q=hello").text
    assert "/star" not in market.visitor().get(page).text


def test_reviewers_decide_what_others_see(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path, review=True) as market:
        alice, carol, nobody = market.visitor("alice"), market.visitor("carol"), market.visitor()
        assert alice.post("/publish", do="publish", text=template(), owner="alice").status == 303
        assert nobody.get("/items/alice/mnist").status == 404
        assert "waits for review" in alice.get("/items/alice/mnist").text
        assert alice.get("/review").status == 403
        assert "alice/mnist" in carol.get("/review").text
        act = "/items/alice/mnist/review?version=1.0"
        assert alice.post(act, "/publish", status="approved").status == 403
        assert carol.post(act, "/review", status="rejected", note="no licence").status == 303
        assert "no licence" in alice.get("/items/alice/mnist").text
        assert carol.post(act, "/publish", status="approved").status == 303
        assert nobody.get("/items/alice/mnist").status == 200


def test_a_form_is_taken_from_its_own_page_only(market: RunningMarketplace) -> None:
    alice, bob = market.visitor("alice"), market.visitor("bob")
    star = {"starred": "yes"}
    page = "/items/alice/hello"
    assert alice.post(f"{page}/star", csrf="", **star).status == 403
    assert alice.post(f"{page}/star", csrf=bob.csrf(page), **star).status == 403
    assert alice.post(f"{page}/star", csrf=market.visitor().csrf("/sign-in"), **star).status == 403
    for site in ("cross-site", "same-site"):
        assert alice.post(f"{page}/star", page, {"Sec-Fetch-Site": site}, **star).status == 403
    assert "0 stars" in alice.get("/?q=hello").text
    stolen = market.visitor().post("/sign-in", csrf=bob.csrf("/publish"), token=market.tokens["bob"])
    assert stolen.status == 403  # nobody is signed in as somebody else by another site


def test_a_session_ends_on_the_server(market: RunningMarketplace) -> None:
    alice = market.visitor("alice")
    cookie = next(each for each in alice.cookies if "session" in each.name)
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    assert market.tokens["alice"] != cookie.value
    assert "Signed in as" in alice.get("/").text
    assert alice.post("/sign-out", "/").status == 303
    alice.cookies.set_cookie(cookie)
    assert "Signed in as" not in alice.get("/").text


@pytest.mark.parametrize("token", ["", "x", "paim_" + 43 * "a", "\0", 70_000 * "t"])
def test_a_wrong_token_signs_nobody_in(market: RunningMarketplace, token: str) -> None:
    visitor = market.visitor()
    assert visitor.post("/sign-in", token=token).status == 401
    assert "Signed in as" not in visitor.get("/").text


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ("/publish", "/publish"),
        ("", "/"),
        ("https://example.org", "/"),
        ("//example.org", "/"),
        ("/\\example.org", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
    ],
)
def test_signing_in_leads_to_pages_of_this_server_only(
    market: RunningMarketplace, given: str, location: str
) -> None:
    answer = market.visitor().post("/sign-in", token=market.tokens["alice"], next=given)
    assert (answer.status, answer.headers["location"]) == (303, location)


def test_over_https_cookies_are_sent_over_https_only(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path, secure_cookies=True) as market:
        assert "secure" in market.visitor().get("/sign-in").headers["set-cookie"].lower()


def test_a_closed_marketplace_shows_nothing_before_one_signs_in(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path, anonymous=False) as market:
        market.publish(template())
        nobody = market.visitor()
        for path in ("/", "/items/alice/mnist", "/items/alice/mnist/use", "/nowhere"):
            answer = nobody.get(path)
            assert (answer.status, "mnist" in answer.text) == (401, False)
        assert 'href="/sign-in"' in nobody.get("/").text
        assert "mnist" in market.visitor("alice").get("/").text


@pytest.mark.parametrize("path", ["/", "/publish", "/items/team/mnist", "/nowhere", "/sign-in", "/items/a/b"])
def test_every_page_forbids_scripts_of_others_and_caches(market: RunningMarketplace, path: str) -> None:
    headers = market.visitor().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"


def test_what_is_too_much_is_refused(market: RunningMarketplace) -> None:
    visitor = market.visitor()
    page = "/items/alice/hello/use"
    assert visitor.post(page, do="check", text=(1 << 20) * "a").status == 413
    assert visitor.post(page, do="check", **{f"var.{each}": "" for each in range(400)}).status == 400
    bomb = "".join(f"a{each}: &a{each} [{', '.join(9 * [f'*a{each - 1}'])}]\n" for each in range(1, 9))
    assert visitor.post(page, do="check", text=f"a0: &a0 x\n{bomb}").status == 200
