"""The policy: what it does not list is refused, and so is everything if it cannot be read."""

import json
import os
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pai_document.problems import InvalidInput, Location, Position, Problem
from pai_runtime.host.code import Code
from pai_runtime.host.discovery import UNREADABLE, Plugin, distribution_code
from pai_runtime.host.host import Host, Unavailable
from pai_runtime.host.metadata import Distribution
from pai_runtime.host.policy import (
    EVERY,
    NO_POLICY,
    AllowedPlugin,
    Policy,
    is_downgrade,
    read_policy,
    refusal,
)
from pai_runtime.host.policy_text import put_entries
from tests.plugin_factory import Site, policy_rule, uses, write_policy
from tests.support import in_turn, job, write_job

EDITABLE = {"{info}/direct_url.json": '{"url": "file:///", "dir_info": {"editable": true}}'}
WRONG = "sha256:" + "0" * 64


def found(site: Site, policy: Policy, id_: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Why the host refuses the plugin; None if it allows it."""
    monkeypatch.syspath_prepend(site.folder)
    try:
        Host(policy).find(id_)
    except Unavailable as error:
        return str(error)
    return None


class _Distribution(Distribution):
    """As far as a policy looks at it."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__("", "")
        self._metadata = f"Name: {name}\nVersion: {version}\n"

    def read_text(self, name: str) -> str | None:
        return self._metadata if name == "METADATA" else None


NOWHERE = Location(Position("p"), Position("p"), "")
DISTRIBUTION = Code(_Distribution("d", "1"))

FITTING: list[dict[str, str]] = [
    {},
    {"versions": "*"},
    {"versions": ">=1.2,<2"},
    {"versions": "~=1.4"},
    {"versions": "==1.4.*"},
    {"versions": "==1.4.0"},
    {"versions": "===1.4"},
    {"versions": "!=1.3"},
    {"distribution": "ORG_ONE"},
    {"distribution": "org.one"},
]
OTHER_VERSIONS = ("==1.3", "<1.4", ">=1,<2,!=1.4", "===1.4.0", "==1.4+local")
OTHER_DISTRIBUTIONS = ("org-two", "org-one ", "org", "org-on*")
OTHER_IDS = (
    *("org.on", "org.one.more", "org", "one", "Org.one", "org.one ", " org.one", "org.one\n", "org-one"),
    *("org.*", "*", ".*", "org.on?", "^org.one$"),
)


def refused(folder: Path, version: str, **rule: str) -> str | None:
    """Why a policy of this one rule refuses the plugin org.one of org-one in this version."""
    rule = {"id": "org.one", "distribution": "org-one", "versions": f"=={version}", **rule}
    plugin = Plugin("org.one", Code(_Distribution("org-one", version)), "org_one", None, UNREADABLE)
    return refusal([read_policy(write_policy(folder, rule))], [plugin])


@pytest.mark.parametrize("rule", FITTING, ids=str)
def test_a_plugin_is_allowed_by_a_rule_that_fits_it(tmp_path: Path, rule: dict[str, str]) -> None:
    assert refused(tmp_path, "1.4", **rule) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("versions", value) for value in OTHER_VERSIONS),
        *(("distribution", value) for value in OTHER_DISTRIBUTIONS),
    ],
)
def test_a_plugin_is_refused_by_a_rule_for_another_which_is_quoted(
    tmp_path: Path, field: str, value: str
) -> None:
    reason = refused(tmp_path, "1.4", **{field: value})
    assert reason is not None
    assert f"policy {tmp_path}/policy.yaml " in reason
    assert value in reason


@pytest.mark.parametrize("id_", OTHER_IDS)
def test_a_rule_for_another_id_is_none_for_the_plugin(tmp_path: Path, id_: str) -> None:
    reason = refused(tmp_path, "1.4", id=id_) or ""
    assert reason.endswith(f"does not list it; it lists {id_}")


def test_a_plugin_that_is_refused_is_named_with_its_policy_and_both_digests(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site.add("org.one", version="1.4")
    policy = write_policy(tmp_path, policy_rule(made, digest=WRONG))
    reason = found(site, read_policy(policy), "org.one", monkeypatch)
    assert reason is not None
    for part in (made.label, str(policy), WRONG, made.digest):
        assert part in reason


@pytest.mark.parametrize(
    ("version", "versions", "allowed"),
    [
        ("2.0rc1", "==2.0rc1", True),
        ("2.0rc1", ">=1,<3", True),
        ("2.0rc1", "<2", False),
        ("2.0rc1", ">=2", False),
        ("2.0.dev3", ">=2.0.dev1", True),
        ("1.0.post1", "==1.0", False),
        ("1.0.post1", ">1.0", False),
        ("1.0+local", "==1.0", True),
        ("1!1.0", ">=1,<2", False),
        ("not-a-version", "*", False),
        ("not-a-version", "===not-a-version", False),
        ("1.0 ", "==1.0", True),
    ],
)
def test_versions_are_compared_as_pep_440_says(
    tmp_path: Path, version: str, versions: str, *, allowed: bool
) -> None:
    assert (refused(tmp_path, version, versions=versions) is None) == allowed


def test_one_of_several_rules_for_a_plugin_is_enough(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = site.add("org.one")
    others = [policy_rule(made, versions="==0.9"), policy_rule(made, distribution="org-two")]
    both = found(site, read_policy(write_policy(tmp_path, *others)), "org.one", monkeypatch)
    assert both is not None
    assert "allows only ==0.9 and allows only the distribution org-two" in both
    with_fitting = read_policy(write_policy(tmp_path, *others, policy_rule(made)))
    assert found(site, with_fitting, "org.one", monkeypatch) is None


def test_an_empty_list_allows_nothing_and_no_policy_allows_all(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("org.one")
    empty = read_policy(write_policy(tmp_path))
    assert "does not list it" in (found(site, empty, "org.one", monkeypatch) or "")
    assert found(site, NO_POLICY, "org.one", monkeypatch) is None


@pytest.mark.parametrize("pinned", [False, True])
def test_an_editable_plugin_is_allowed_unless_a_digest_is_asked_for(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pinned: bool
) -> None:
    made = site.add("org.one", files=EDITABLE)
    digest = {"digest": WRONG} if pinned else {}
    refused = found(
        site, read_policy(write_policy(tmp_path, policy_rule(made, **digest))), "org.one", monkeypatch
    )
    assert (refused is not None) == pinned
    if refused:
        assert "org-one is an editable install, whose code has no fixed digest" in refused


@pytest.mark.parametrize("rules", [None, [0], [1], [0, 1]])
def test_an_id_that_two_distributions_claim_is_refused_whatever_the_policy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: list[int] | None
) -> None:
    made = [site.add("org.one", distribution=name) for name in ("first", "second")]
    policy = (
        NO_POLICY
        if rules is None
        else read_policy(write_policy(tmp_path, *(policy_rule(made[number]) for number in rules)))
    )
    refused = found(site, policy, "org.one", monkeypatch)
    assert refused is not None
    assert "first 1.0" in refused
    assert "second 1.0" in refused
    assert "both claim this id" in refused


def test_a_distribution_that_takes_anothers_name_has_its_own_digest(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is looked up by a name that the impostor chose."""
    real = site.add("org.one", distribution="real")
    monkeypatch.syspath_prepend(site.folder)
    digest = {"digest": distribution_code("real").digest}
    before = Site(tmp_path / "before")
    metadata = {"{info}/METADATA": "Metadata-Version: 2.1\nName: real\nVersion: 1.0\n"}
    before.add("org.one", "# other code\n", distribution="evil", files=metadata)
    policy = read_policy(write_policy(tmp_path, policy_rule(real, **digest)))
    assert found(site, policy, "org.one", monkeypatch) is None
    assert "allows only the digest" in (found(before, policy, "org.one", monkeypatch) or "")


ids = st.text(string.ascii_letters + string.digits + ".-_* \n", min_size=1, max_size=6)


@settings(deadline=None)
@given(listed=ids, wanted=ids)
def test_an_id_is_allowed_only_by_the_very_same_id(listed: str, wanted: str) -> None:
    plugin = Plugin(wanted, DISTRIBUTION, "m", None, UNREADABLE)
    refused = refusal([Policy("p", (AllowedPlugin(listed, "d", EVERY, None, NOWHERE),))], [plugin])
    assert (refused is None) == (listed == wanted)


# A policy that cannot be used

RULE = "{id: org.one, distribution: org-one, versions: '==1.0'}"

UNUSABLE: dict[str, tuple[str | bytes | None, str]] = {
    "not there": (None, ": error: cannot be read: No such file or directory"),
    "empty": ("", ": error: the file is empty"),
    "only a comment": ("# soon\n", ": error: the file is empty"),
    "not YAML": ("policyVersion: 1\nplugins: [\n", ":2:10: error: '[' is not closed"),
    "not UTF-8": (b"policyVersion: 1\nplugins: [] # \xff\n", ":2:15: error: invalid UTF-8"),
    "a text": ("all", ":1:1: error"),
    "a list": (f"- {RULE}\n", ":1:1: error"),
    "two documents": ("policyVersion: 1\nplugins: []\n---\nplugins: []\n", ":3:1: error"),
    "no version": ("plugins: []\n", ":1:1: error: missing field 'policyVersion'"),
    "another version": ("policyVersion: 2\nplugins: []\n", ":1:16: error: policyVersion"),
    "the version in quotes": ("policyVersion: '1'\nplugins: []\n", ":1:16: error: policyVersion"),
    "no list": ("policyVersion: 1\n", ":1:1: error: missing field 'plugins'"),
    "null for the list": ("policyVersion: 1\nplugins:\n", ":2:9: error: plugins"),
    "a mapping for the list": ("policyVersion: 1\nplugins: {}\n", ":2:10: error: plugins"),
    "an id for a rule": ("policyVersion: 1\nplugins:\n  - org.one\n", ":3:5: error: plugins[0]"),
    "an unknown key": ("policyVersion: 1\nplugins: []\nallow: all\n", ":3:1: error: allow: unknown field"),
    "an unknown key of a rule": (
        "policyVersion: 1\nplugins:\n- id: org.one\n  distribution: org-one\n  versions: '*'\n  Digest: ''\n",
        (
            ":6:3: error: plugins[0].Digest: unknown field; known: id, distribution, versions,"
            " digest, builtBy, default; did you mean digest?"
        ),
    ),
    "a rule without versions": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one}\n",
        ":3:3: error: plugins[0]: missing field 'versions'",
    ),
    "a rule without a distribution": (
        "policyVersion: 1\nplugins:\n- {id: org.one, versions: '*'}\n",
        ":3:3: error: plugins[0]: missing field 'distribution'",
    ),
    "a version as a number": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: 1.0}\n",
        ":3:50: error: plugins[0].versions",
    ),
    "a version that is no specifier": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: '1.0'}\n",
        ":3:50: error: plugins[0].versions: expected version specifiers",
    ),
    "a specifier with a typing error": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: '=>1.0'}\n",
        ":3:50: error: plugins[0].versions: expected version specifiers",
    ),
    "no specifier at all": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: ''}\n",
        ":3:50: error: plugins[0].versions: expected version specifiers",
    ),
    "a comma for a specifier": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: ' , '}\n",
        ":3:50: error: plugins[0].versions: expected version specifiers",
    ),
    "a digest of another kind": (
        (
            "policyVersion: 1\nplugins:\n"
            "- {id: org.one, distribution: org-one, versions: '*', digest: 'md5:0'}\n"
        ),
        ":3:63: error: plugins[0].digest: expected",
    ),
    "a digest that is too long": (
        (
            "policyVersion: 1\nplugins:\n"
            f"- {{id: org.one, distribution: org-one, versions: '*', digest: '{WRONG}0'}}\n"
        ),
        ":3:63: error: plugins[0].digest: expected",
    ),
    "a digest of nothing": (
        "policyVersion: 1\nplugins:\n- {id: org.one, distribution: org-one, versions: '*', digest: }\n",
        ": error: plugins[0].digest: expected",
    ),
    "a key twice": (
        f"policyVersion: 1\nplugins: []\nplugins: [{RULE}]\n",
        ":3:1: error: duplicate key 'plugins'",
    ),
    "a tag": ("policyVersion: 1\nplugins: !!python/name:os.system []\n", ":2:10: error: this YAML tag"),
    "aliases of aliases": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
            for before, name in zip("abcdefgh", "bcdefghi", strict=True)
        )
        + "policyVersion: 1\nplugins: []\n",
        "error: more than",
    ),
    "too many levels": ("policyVersion: 1\nplugins: " + "[" * 5000, ":2:109: error: nested deeper"),
    "too large": ("policyVersion: 1\nplugins: []\n#" + "x" * 5_000_000, ": error: the file is larger than"),
}


def _write(folder: Path, content: str | bytes | None) -> Path:
    path = folder / "policy.yaml"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(("content", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_policy_with_any_fault_is_refused_with_its_place(
    tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    path = _write(tmp_path, content)
    with pytest.raises(InvalidInput) as caught:
        read_policy(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_every_fault_of_a_policy_is_said_at_once(tmp_path: Path) -> None:
    path = _write(tmp_path, "policyVersion: 1\nplugins:\n- {id: 3, distribution: '', versions: 1}\nmore: 1\n")
    with pytest.raises(InvalidInput) as caught:
        read_policy(path)
    fields = {problem.field for problem in caught.value.problems}
    assert fields == {"plugins[0].id", "plugins[0].distribution", "plugins[0].versions", "more"}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "id": PLAIN,
        "distribution": PLAIN,
        "versions": PLAIN | st.sampled_from(["", ">=1", "==1.*", "1", ">", "===x", "==1,,"]),
        "digest": PLAIN | st.just(WRONG),
    },
)
POLICIES = st.fixed_dictionaries(
    {}, optional={"policyVersion": PLAIN | st.just(1), "plugins": PLAIN | st.lists(RULES, max_size=3)}
)


def _policy_or_problems(path: Path) -> tuple[Policy | None, tuple[Problem, ...]]:
    try:
        return read_policy(path), ()
    except InvalidInput as error:
        return None, error.problems


@settings(deadline=None)
@given(
    content=st.binary() | st.text().map(str.encode) | (POLICIES | PLAIN).map(lambda x: json.dumps(x).encode())
)
def test_any_file_is_a_policy_as_it_is_documented_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{os.getpid()}.yaml"
    path.write_bytes(content)
    policy, problems = _policy_or_problems(path)
    if policy is None:
        assert {problem.position and problem.position.file for problem in problems} == {str(path)}
        return
    document: dict[str, Any] = json.loads(content)
    assert document["policyVersion"] == 1
    assert policy.allowed is not None
    assert [rule.id for rule in policy.allowed] == [rule["id"] for rule in document["plugins"]]
    assert all(isinstance(rule.versions, str) for rule in policy.allowed)


# The command


UNDER_A_POLICY = (
    ("plugins", "list"),
    ("plugins", "show", "org.one"),
    ("plugins", "check", "org.one"),
    ("plugins", "check-policy"),
    ("plugins", "freeze"),
    ("validate", "job.yaml"),
    ("plan", "job.yaml"),
    ("run", "job.yaml"),
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("args", "given_by"), in_turn(UNDER_A_POLICY, ["flag", "environment", "both"]), ids=str
)
def test_nothing_is_done_under_a_policy_that_cannot_be_used(
    site: Site, tmp_path: Path, args: tuple[str, ...], given_by: str
) -> None:
    site.add("org.one")
    write_job(tmp_path, job(**uses("org.one")))
    bad = _write(tmp_path, "policyVersion: 1\nplugins: []\nallow: all\n")
    good = tmp_path / "good.yaml"
    good.write_text(f"policyVersion: 1\nplugins: [{RULE}]\n")
    env = {"PAI_RUNTIME_POLICY": str({"environment": bad, "both": good}.get(given_by, ""))}
    flag = () if given_by == "environment" else ("--policy", str(bad))
    before = set(tmp_path.iterdir())
    result = site.cli(*args, *flag, cwd=tmp_path, env=env if given_by != "flag" else None)
    assert result.returncode == 2
    assert result.stderr.startswith(f"{bad}:3:1: error: allow: unknown field")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert site.imported == set()
    assert set(tmp_path.iterdir()) == before


@pytest.mark.process
def test_an_empty_name_of_a_policy_is_a_policy_that_cannot_be_read(site: Site, tmp_path: Path) -> None:
    site.add("org.one")
    result = site.cli("plugins", "list", cwd=tmp_path, env={"PAI_RUNTIME_POLICY": ""})
    assert result.returncode == 2
    assert "PAI_RUNTIME_POLICY is set but empty" in result.stderr


@pytest.mark.process
@pytest.mark.parametrize("given_by", ["flag", "environment"])
@pytest.mark.parametrize(
    ("command", "status"), [(("validate",), 1), (("plan",), 1), (("run", "--out", "run"), 2)], ids=str
)
def test_a_plugin_that_the_policy_refuses_fails_the_job_before_it_is_imported(
    site: Site, tmp_path: Path, command: tuple[str, ...], status: int, given_by: str
) -> None:
    site.add("org.one", version="1.4")
    allowed = site.add("org.two")
    path = write_job(tmp_path, job(**uses("org.one", "org.two")))
    policy = write_policy(tmp_path, policy_rule(allowed))
    flag = ("--policy", policy) if given_by == "flag" else ()
    env = {"PAI_RUNTIME_POLICY": str(policy)} if given_by == "environment" else {}
    result = site.cli(*command, path, *flag, cwd=tmp_path, env=env)
    assert result.returncode == status
    expected = (
        f"{path}:8:3: error: use 'use0': plugin org.one (org-one 1.4) is refused: "
        f"policy {policy} does not list it; it lists org.two\n"
    )
    assert expected in result.stderr
    assert site.imported == set()
    assert not (tmp_path / "run").exists()


@pytest.mark.process
def test_an_allowed_plugin_is_used_under_its_policy(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    site.add("org.two")
    path = write_job(tmp_path, job(**uses("org.one")))
    result = site.cli(
        "run", path, "--policy", write_policy(tmp_path, policy_rule(made)), "--out", tmp_path / "run"
    )
    assert result.returncode == 0, result.stderr
    assert site.imported == {"org_one"}


DOWNGRADES = {
    ("1.0", "==1.1"): True,
    ("1.0rc1", "==1.0"): True,
    ("1.9", "==1.10"): True,
    ("1.0", "===1.1"): True,
    ("1.3", "==1.4.*"): True,
    ("0.9", ">=1,<2"): True,
    ("1.0", ">1"): True,
    ("1.3", "~=1.4"): True,
    ("1.1", "==1.1"): False,
    ("1.2", "==1.1"): False,
    ("1.1+local", "==1.1"): False,
    ("2.0", ">=1,<2"): False,
    ("1.0", "<1"): False,
    ("1.0", "!=1.0"): False,
    ("1.0", "===one"): False,
    ("0.1", EVERY): False,
}


@pytest.mark.parametrize(("version", "versions"), DOWNGRADES)
def test_a_downgrade_is_a_version_below_what_is_allowed(version: str, versions: str) -> None:
    assert is_downgrade(version, versions) == DOWNGRADES[version, versions]


BUILT_BY = "https://github.com/example/one/.github/workflows/release.yml"
BUILT = [
    "- id: org.one\n  distribution: org-one\n  versions: '==0.9'\n  digest: {old}\n  builtBy: https://a.example/b\n",
    "- id: org.one\n  distribution: org-one\n  versions: '==0.9' # any\n",
    "- {{id: org.one, distribution: org-one, versions: '==0.9'}}\n",
    "- {{digest: {old}, builtBy: https://a.b/c, id: org.one, distribution: org-one, versions: '==0.9'}}\n",
    "- id: org.one\n  digest: {old}\n  distribution: org-one\n  versions: '==0.9'\n",
    "  []\n",
]


@pytest.mark.parametrize("before", BUILT)
def test_who_built_a_plugin_is_put_into_a_policy_of_any_form(tmp_path: Path, before: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"policyVersion: 1\nplugins:\n{before.format(old=WRONG)}")
    entry = {"id": "org.one", "distribution": "org-one", "versions": "==1.0"}
    entry |= {"digest": f"sha256:{1:064}", "builtBy": BUILT_BY}
    assert put_entries(path, [entry]) == ([entry], [])
    (allowed,) = read_policy(path).allowed or ()
    assert (allowed.versions, allowed.digest, allowed.built_by) == ("==1.0", entry["digest"], BUILT_BY)
    assert put_entries(path, [entry]) == ([], [])


@pytest.mark.parametrize("fields", [{"builtBy": BUILT_BY}, {"digest": WRONG, "builtBy": "x"}], ids=str)
def test_who_built_a_plugin_is_a_url_beside_a_digest(tmp_path: Path, fields: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        read_policy(
            write_policy(tmp_path, {"id": "org.one", "distribution": "org-one", "versions": "*", **fields})
        )


def test_an_entry_for_another_version_puts_nothing_on_by_default(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("org.one", version="1.4")
    monkeypatch.syspath_prepend(site.folder)
    rule = {"id": "org.one", "distribution": "org-one"}
    for default_for, is_on in {"==1.4": True, "==2.0": False}.items():
        other = next(each for each in ("==1.4", "==2.0") if each != default_for)
        entries = {**rule, "versions": default_for, "default": True}, {**rule, "versions": other}
        host = Host(read_policy(write_policy(tmp_path, *entries)))
        assert ("org.one" in host.defaults) == is_on
