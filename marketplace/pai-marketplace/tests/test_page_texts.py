"""What pages make of texts that anybody may have written: HTML, lines in colours, comparisons, jobs."""

import re
from html import unescape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_definitions.definition import read_definitions
from pai_document.document import parse_document
from pai_marketplace.pages import markdown
from pai_marketplace.pages.differences import differences
from pai_marketplace.pages.highlighting import lines_of, yaml_lines
from pai_marketplace.pages.use_form import fields, job_text
from pai_runtime.definitions import Definition, DefinitionFile
from tests.running_marketplace import template

TEXTS = st.text(
    st.sampled_from("<>&\"'`[]()!#*_-|:\\\n \tabj1{}%")
    # Pygments takes a byte order mark away.
    | st.characters(codec="utf-8", exclude_characters="\ufeff")
)


@pytest.mark.parametrize(
    "written",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JAVASCRIPT:alert(1))",
        "[x](java\tscript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        '[x](https://example.org "\\" onclick=alert(1)")',
        "![x](https://example.org/pixel.png)",
        "<javascript:alert(1)>",
        "<a href='https://example.org' onclick='alert(1)'>x</a>",
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<!--><img src=x onerror=alert(1)>-->",
    ],
)
def test_markdown_brings_no_script_and_no_image(written: str) -> None:
    assert_harmless(markdown.html(written))


@given(TEXTS)
def test_no_markdown_brings_anything_but_text_and_links(written: str) -> None:
    assert_harmless(markdown.html(written))


def assert_harmless(html: str) -> None:
    tags = re.findall(r"<(/?[a-zA-Z!][^\s>]*)([^>]*)>", html)
    assert {tag.strip("/").lower() for tag, _ in tags} <= {
        *("p", "br", "hr", "blockquote", "ul", "ol", "li", "pre", "code", "em", "strong", "s", "a"),
        *("table", "thead", "tbody", "tr", "th", "td", "h3", "h4", "h5", "h6"),
    }
    for _, attributes in tags:
        names = re.findall(r'([^\s=]+)="[^"]*"', attributes)
        assert set(names) <= {"href", "title", "rel", "start"}, attributes
        assert not re.search(r'href="(?!https?:|mailto:|[^":]*")', attributes, re.IGNORECASE), attributes


def test_headings_skip_no_level_and_start_below_those_of_the_page() -> None:
    html = markdown.html("### a\n\n# b\n\n###### c\n\n## d\n")
    assert re.findall(r"<h(\d)>", html) == ["3", "3", "4", "4"]


@given(TEXTS)
@example("")
@example("a: |\n\n\n b\n\n")
@example("a\r\nb\rc\u2028d\x85e")
@example("- &a *b !!c 'd' \"e\" # f")
def test_colours_change_nothing_of_the_text(written: str) -> None:
    shown = [unescape(re.sub("<[^>]*>", "", line)) for line in yaml_lines(written)]
    assert shown == list(lines_of(written))


LINES = st.lists(st.sampled_from(["a", "b", "c", "<d>"]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_a_comparison_tells_all_that_differs(old: str, new: str) -> None:
    found = differences(old, new)
    assert found is not None
    assert (not found) == (lines_of(old) == lines_of(new))
    for texts, kinds, numbers in (
        (lines_of(old), ("same", "removed"), [each.old for each in found]),
        (lines_of(new), ("same", "added"), [each.new for each in found]),
    ):
        shown = {number: each.text for number, each in zip(numbers, found, strict=True) if each.kind in kinds}
        assert all(texts[number - 1] == text for number, text in shown.items())
    left = [each.text for each in found if each.kind == "removed"]
    came = [each.text for each in found if each.kind == "added"]
    assert len(lines_of(old)) - len(left) == len(lines_of(new)) - len(came)


def test_versions_that_take_too_long_to_compare_are_not() -> None:
    assert differences("a\n" * 1001, "b") is None


def read(text: str) -> Definition:
    return read_definitions(DefinitionFile("x", "x", "", text.encode()))[0]


TYPED = """
name: typed
template_variables:
  - {name: s, type: string}
  - {name: n, type: number, default: 1}
  - {name: i, type: integer, default: 1}
  - {name: b, type: boolean, default: false}
  - {name: l, type: list, default: []}
  - {name: m, type: mapping, default: {}}
  - {name: any}
  - {name: apiToken}
"""


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("s", "two words", "two words"),
        ("s", "a: b # c", "a: b # c"),
        ("s", "'quoted'", "quoted"),
        ("s", "</textarea><script>", "</textarea><script>"),
        ("s", "<% $secrets.x %>", "<% $secrets.x %>"),
        ("n", "1.5", 1.5),
        ("i", "7", 7),
        ("b", "true", True),
        ("l", "[1, two]", [1, "two"]),
        ("l", "- 1\n- two", [1, "two"]),
        ("m", "a: 1\nb: [c]", {"a": 1, "b": ["c"]}),
        ("any", "12", 12),
    ],
)
def test_what_is_filled_in_is_in_the_job(name: str, text: str, data: object) -> None:
    definition = read(TYPED)
    filled_in = fields(definition, {name: text})
    assert not any(each.problem for each in filled_in)
    job = parse_document(job_text(definition, "marketplace://name/a/typed", filled_in), "job").data
    given = job["taskRoles"]["worker"]["prerequisites"][0]["template_variables"]
    assert job["parameters"].get(name, given.get(name)) == data


@pytest.mark.parametrize(
    ("name", "text"),
    [("i", "many"), ("n", "x"), ("b", "maybe"), ("l", "1"), ("l", "[1"), ("m", "- 1"), ("s", "'open")],
)
def test_what_does_not_fit_is_said_at_its_field_and_not_in_the_job(name: str, text: str) -> None:
    definition = read(TYPED)
    filled_in = fields(definition, {name: text})
    assert [each.name for each in filled_in if each.problem] == [name]
    assert job_text(definition, "r", filled_in) == job_text(definition, "r", fields(definition, {}))


@given(st.dictionaries(st.sampled_from(["words", "count"]), TEXTS))
def test_whatever_is_filled_in_the_job_is_yaml(texts: dict[str, str]) -> None:
    definition = read(template())
    job = parse_document(job_text(definition, "marketplace://name/a/mnist", fields(definition, texts)), "job")
    assert set(job.data["taskRoles"]["worker"]["prerequisites"][0]) == {"name", "template_variables"}


def test_a_secret_is_not_asked_for() -> None:
    definition = read(TYPED)
    filled_in = fields(definition, {"apiToken": "hunter2"})
    assert [each.name for each in filled_in if each.is_secret] == ["apiToken"]
    assert "hunter2" not in job_text(definition, "r", filled_in)
