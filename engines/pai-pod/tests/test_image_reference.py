"""References to images are read as Docker reads them."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pai_document.printable import printable
from pai_pod.image_reference import BadReference, ImageReference, parse_reference

SHA256, SHA512 = f"sha256:{'0a' * 32}", f"sha512:{'0a' * 64}"


@pytest.mark.parametrize(
    ("text", "registry", "repository", "manifest"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("ubuntu:22.04", "docker.io", "library/ubuntu", "22.04"),
        ("docker.io/ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("index.docker.io/ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("docker.io/library/ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("a/b:Tag", "docker.io", "a/b", "Tag"),
        ("a/b:_x.Y-z", "docker.io", "a/b", "_x.Y-z"),
        (f"a/b:{'x' * 128}", "docker.io", "a/b", "x" * 128),
        ("a/b/c/d", "docker.io", "a/b/c/d", "latest"),
        ("a__b/c--d/e.f_g", "docker.io", "a__b/c--d/e.f_g", "latest"),
        (f"a/b@{SHA256}", "docker.io", "a/b", SHA256),
        (f"a/b:tag@{SHA256}", "docker.io", "a/b", SHA256),
        (f"ubuntu@{SHA512}", "docker.io", "library/ubuntu", SHA512),
        (f"host:5000/a/b@{SHA256}", "host:5000", "a/b", SHA256),
        ("host:5000/a", "host:5000", "a", "latest"),
        ("host:5000", "docker.io", "library/host", "5000"),
        ("localhost/x", "localhost", "x", "latest"),
        ("localhost:5000/x:1", "localhost:5000", "x", "1"),
        ("localhost", "docker.io", "library/localhost", "latest"),
        ("openpai.azurecr.io/x/y", "openpai.azurecr.io", "x/y", "latest"),
        ("Host/x", "Host", "x", "latest"),
        ("127.0.0.1/x", "127.0.0.1", "x", "latest"),
        ("[::1]:5000/x", "[::1]:5000", "x", "latest"),
        ("[2001:db8::1]/x:y", "[2001:db8::1]", "x", "y"),
        (f"docker.io/{'a' * 255}", "docker.io", "a" * 255, "latest"),
        ("f" * 63, "docker.io", f"library/{'f' * 63}", "latest"),
        (f"{'f' * 64}:x", "docker.io", f"library/{'f' * 64}", "x"),
        (f"x/{'f' * 64}", "docker.io", f"x/{'f' * 64}", "latest"),
    ],
)
def test_what_docker_reads_means_the_same_here(
    text: str, registry: str, repository: str, manifest: str
) -> None:
    if len(repository) == 255:
        registry, text = "host.io", text.replace("docker.io", "host.io")
    assert parse_reference(text) == ImageReference(registry, repository, manifest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ubuntu",
        "ubuntu ",
        "ubuntu\n",
        "Ubuntu",
        "a/B",
        "host:5000/A",
        "ubuntu:",
        "ubuntu:-x",
        "ubuntu:.x",
        f"ubuntu:{'x' * 129}",
        "ubuntu:a:b",
        "ubuntu:ä",
        "übuntu",
        "ubuntu@",
        "ubuntu@sha256:",
        f"ubuntu@{SHA256[:-1]}",
        f"ubuntu@{SHA256.upper()}",
        f"ubuntu@sha256:{'0A' * 32}",
        f"ubuntu@md5:{'0a' * 16}",
        f"ubuntu@{SHA256}@{SHA256}",
        f"@{SHA256}",
        ":tag",
        "/x",
        "x/",
        "a//b",
        "host:5000/",
        "a/-b",
        "a/b-",
        "a/b..c",
        "a/b___c",
        "a/_b",
        "host:/x",
        "host:port/x",
        "-host.io/x",
        "host-.io/x",
        "host..io/x",
        "[::1/x",
        "[::1]5000/x",
        "user@host.io/x",
        "user:password@host.io/x",
        "https://host.io/x",
        "docker://ubuntu",
        "f" * 64,
        f"host.io/{'a' * 256}",
        "<% $parameters.image %>",
    ],
)
def test_what_docker_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse_reference(text)
    assert printable(str(refused.value)) == str(refused.value)


def test_a_refusal_says_what_was_expected() -> None:
    for text, word in [
        ("a/B", "lower case"),
        ("f" * 64, "id"),
        ("https://x.io/y", "https://"),
        ("x:", "tag"),
    ]:
        with pytest.raises(BadReference, match=word):
            parse_reference(text)


_COMPONENT = st.from_regex(r"[a-z0-9]{1,5}((\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}", fullmatch=True)
_LABEL = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,5}[A-Za-z0-9])?", fullmatch=True)
_HOST = st.lists(_LABEL, min_size=2, max_size=4).map(".".join)
_PORT = st.one_of(st.just(""), st.integers(1, 65535).map(lambda port: f":{port}"))
_TAG = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", fullmatch=True)


@given(
    _HOST.filter(lambda host: host not in ("docker.io", "index.docker.io")),
    _PORT,
    st.lists(_COMPONENT, min_size=1, max_size=5),
    _TAG,
)
def test_a_reference_of_the_grammar_is_taken_apart_and_written_the_same(
    host: str, port: str, components: list[str], tag: str
) -> None:
    repository = "/".join(components)
    image = parse_reference(f"{host}{port}/{repository}:{tag}")
    assert image == ImageReference(f"{host}{port}", repository, tag)
    assert parse_reference(str(image)) == image


@given(
    st.one_of(st.text(), st.text(alphabet=string.ascii_letters + string.digits + ".:/@_-[] \n", max_size=60))
)
@example("[::1]:5000/x" * 5000)
@example("a-" * 50_000)
@example("a/" * 50_000)
def test_any_text_is_a_reference_that_can_be_asked_for_or_refused(text: str) -> None:
    try:
        image = parse_reference(text)
    except BadReference as error:
        refusal = str(error)
        assert printable(refusal) == refusal
        assert len(refusal) < 2000
        return
    parts = (image.registry, image.repository, image.manifest)
    assert all(part.isascii() and part.isprintable() and not set(part) & set(' ?#\\@%"') for part in parts)
    assert parse_reference(str(image)) == image
