"""`pai-runtime plugins`: what is installed, what is allowed, and whether a plugin matches its manifest."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin_factory import GREETS, Site, policy_rule, write_policy
from tests.support import cli_each, job, write_job

pytestmark = pytest.mark.process

PARAMETERS = {
    "type": "object",
    "required": ["greeting"],
    "properties": {
        "greeting": {"type": "string", "description": "What it says."},
        "times": {"type": "integer", "minimum": 1},
        "anything": {},
    },
    "examples": [{"greeting": "hello", "times": 2}],
}


def test_the_list_has_every_plugin_with_its_distribution_and_why_it_is_refused(
    site: Site, tmp_path: Path
) -> None:
    made = site.add("org.allowed", version="1.2")
    site.add("org.refused", distribution="other")
    result = site.cli("plugins", "list", "--policy", write_policy(tmp_path, policy_rule(made)))
    assert result.returncode == 0
    assert "org.allowed (org-allowed 1.2)\n  The plugin org.allowed\norg.refused" in result.stdout
    reason = f"policy {tmp_path / 'policy.yaml'} does not list it; it lists org.allowed"
    assert f"org.refused (other 1.0)\n  The plugin org.refused\n  refused: {reason}\n" in result.stdout


def test_the_list_fits_80_columns(site: Site) -> None:
    assert all(len(line) <= 80 for line in site.cli("plugins", "list").stdout.splitlines())


def test_the_list_as_json_says_the_same(site: Site, tmp_path: Path) -> None:
    made = site.add("org.allowed")
    site.add("org.broken", api=7)
    result = site.cli("plugins", "list", "--json", "--policy", write_policy(tmp_path, policy_rule(made)))
    rows = {row["id"]: row for row in json.loads(result.stdout)}
    assert list(rows) == sorted(rows)
    assert rows["org.allowed"] == {
        "id": "org.allowed",
        "distribution": "org-allowed",
        "version": "1.0",
        "origin": "index",
        "api": 1,
        "summary": "The plugin org.allowed",
        "allowed": True,
        "reason": None,
        "startupFiles": [],
    }
    assert rows["org.broken"]["api"] == 7
    assert rows["org.broken"]["reason"] == "it needs plugin API 7; this runtime supports 1"


def test_show_says_what_a_person_needs_to_use_a_plugin(site: Site) -> None:
    made = site.add("org.one", programs=["git", "tar"], parameters=PARAMETERS)
    result = site.cli("plugins", "show", "org.one")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "org.one",
        f"  org-one 1.0, index, {made.code}",
        "  allowed",
        "  The plugin org.one",
        "  API 1, hooks: pai_prerequisite",
        "  programs it needs in the image: git, tar",
        "  parameters:",
        "    greeting: a string, required",
        "      What it says.",
        "    times: a whole number, at least 1",
        "    anything: any value",
        "  example:",
        "      - name: one",
        "        type: script",
        "        plugin: org.one",
        "        greeting: hello",
        "        times: 2",
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"api": 2}, "  refused: it needs plugin API 2; this runtime supports 1"),
        ({"files": {"{package}/manifest.json": None}}, "  refused: its manifest "),
        ({"files": {"{package}/__init__.py": None}}, "  refused: its distribution has no module org_one"),
    ],
)
def test_show_says_why_a_plugin_is_refused(site: Site, fields: dict[str, Any], reason: str) -> None:
    site.add("org.one", **fields)
    result = site.cli("plugins", "show", "org.one")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[2].startswith(reason)


def test_a_short_name_is_that_of_a_plugin_of_the_platform(site: Site) -> None:
    for command in ("show", "check"):
        result = site.cli("plugins", command, "cmd")
        assert result.returncode == 0, result.stderr
        assert "com.microsoft.pai.runtimeplugin.cmd" in result.stdout


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_plugin_that_is_not_there_is_status_2(site: Site, command: str) -> None:
    result = site.cli("plugins", command, "org.none")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "pai-runtime: plugin org.none is not installed\n"
    assert site.cli("plugins", command, "cmdd").stderr.endswith(
        "did you mean com.microsoft.pai.runtimeplugin.cmd?\n"
    )


ALL_HOOKS = "".join(
    f"@hookimpl\ndef {name}(use, task): pass\n"
    for name in ("pai_init", "pai_task_starts", "pai_task_succeeds", "pai_task_fails", "pai_task_exits")
)
ALL = [
    "pai_prerequisite",
    "pai_init",
    "pai_task_starts",
    "pai_task_succeeds",
    "pai_task_fails",
    "pai_task_exits",
]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (GREETS, {}),
        (GREETS, {"parameters": PARAMETERS}),
        ("", {"hooks": []}),
        (GREETS + ALL_HOOKS, {"hooks": ALL}),
        ("@hookimpl\ndef pai_prerequisite(task): pass\n", {}),
        (GREETS, {"id": ["org.one", "org.other-name"]}),
    ],
)
def test_a_plugin_that_matches_its_manifest_passes_its_check(
    site: Site, code: str, fields: dict[str, Any]
) -> None:
    made = site.add("org.one", code, **fields)
    result = site.cli("plugins", "check", "org.one")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"OK: {made.label} matches its manifest\n"


RAISES = "@hookimpl\ndef pai_prerequisite(use, task): "

CHECKS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "raises on import": ("raise RuntimeError('boom')", {}, ["RuntimeError: boom"]),
    "another signature": (
        "@hookimpl\ndef pai_prerequisite(usage): pass",
        {},
        ["the hook pai_prerequisite has the argument usage, which nobody gives it: it may have use, task"],
    ),
    "a hook that there is not": (
        "@hookimpl\ndef pai_starts(): pass",
        {},
        ["there is no hook pai_starts; did you mean pai_task_starts?"],
    ),
    "hooks not as listed": (
        "@hookimpl\ndef pai_init(): pass\n@hookimpl\ndef pai_task_exits(): pass",
        {"hooks": ["pai_prerequisite", "pai_init", "pai_task_fails"]},
        [
            "implements pai_task_exits, which its manifest does not list",
            "does not implement pai_prerequisite, which its manifest lists",
            "does not implement pai_task_fails, which its manifest lists",
        ],
    ),
    "a hook that is not marked": (
        "def pai_prerequisite(use, task): pass",
        {},
        ["does not implement pai_prerequisite, which its manifest lists"],
    ),
    "examples that do not fit": (
        GREETS,
        {"parameters": {**PARAMETERS, "examples": [{"greeting": "x"}, {"greeting": 3}, {"times": 0}]}},
        [
            "example 1 does not match the schema: greeting: expected",
            "example 2 does not match the schema: missing field 'greeting'",
            "example 2 does not match the schema: times: expected",
        ],
    ),
    "a contribution that fails": (
        RAISES + "return Contribution(environment={'N': use.parameters['times']})",
        {"parameters": {**PARAMETERS, "examples": [{"greeting": ""}]}},
        ["example 0: pai_prerequisite KeyError: 'times'"],
    ),
    "a contribution that does not fit": (
        RAISES + "return {}",
        {"parameters": PARAMETERS},
        ["example 0: pai_prerequisite returned dict, not a Contribution"],
    ),
    "a contribution that exits": (
        RAISES + "raise SystemExit(3)",
        {"parameters": PARAMETERS},
        ["example 0: pai_prerequisite called sys.exit(3)"],
    ),
    "another API": (GREETS, {"api": 2}, ["it needs plugin API 2; this runtime supports 1"]),
    "a manifest that is wrong": (GREETS, {"summary": ""}, ["its manifest "]),
    "a schema that refers to nothing": (
        GREETS,
        {"parameters": {"$ref": "#/none", "examples": [{}]}},
        ["example 0 does not match the schema: the manifest of plugin org.one (org-one 1.0) cannot be"],
    ),
}


@pytest.mark.parametrize(("code", "fields", "faults"), CHECKS.values(), ids=CHECKS)
def test_a_check_says_each_thing_that_does_not_hold(
    site: Site, code: str, fields: dict[str, Any], faults: list[str]
) -> None:
    made = site.add("org.one", code, **fields)
    result = site.cli("plugins", "check", "org.one")
    assert (result.returncode, result.stdout) == (1, "")
    lines = result.stderr.splitlines()
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(f"{made.label}: {fault}")


def test_a_plugin_that_the_policy_refuses_is_not_imported_to_be_checked(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    result = site.cli("plugins", "check", "org.one", "--policy", write_policy(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{made.label} is refused: policy " in result.stderr
    assert site.imported == set()


def test_an_id_that_two_distributions_claim_is_shown_and_not_checked(site: Site) -> None:
    site.add("org.one", distribution="first")
    site.add("org.one", distribution="second")
    shown = site.cli("plugins", "show", "org.one")
    assert shown.returncode == 0
    assert "both claim this id" in shown.stdout
    checked = site.cli("plugins", "check", "org.one")
    assert (checked.returncode, checked.stdout) == (2, "")
    assert "first 1.0 and second 1.0 both claim this id; uninstall all but one" in checked.stderr
    assert site.imported == set()


# What an operator freezes


def test_what_is_frozen_is_a_policy_that_allows_exactly_what_is_installed(site: Site, tmp_path: Path) -> None:
    made = [site.add("org.two", version="2.0.post1"), site.add("org.one")]
    frozen = site.cli("plugins", "freeze")
    assert frozen.returncode == 0
    document = yaml.safe_load(frozen.stdout)
    assert [entry["id"] for entry in document["plugins"]] == ["org.one", "org.two"]
    assert all(entry["digest"].startswith("sha256:") for entry in document["plugins"])
    assert site.cli("plugins", "freeze").stdout == frozen.stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text(frozen.stdout)
    assert _allowed(site, policy) == {"org.one", "org.two"}
    checked = site.cli("plugins", "check", "--policy", policy)
    assert (checked.returncode, checked.stdout.count("OK: ")) == (0, 2)
    checked = site.cli("plugins", "check-policy", "--policy", policy)
    assert (checked.returncode, checked.stderr) == (0, "")
    module = made[0].code
    module.write_text(module.read_text() + "# another byte\n")
    assert _allowed(site, policy) == {"org.one"}


def test_what_cannot_be_pinned_or_is_refused_is_left_out_and_said(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    site.add("org.refused")
    site.add("org.broken", api=7)
    site.add("org.unordered", version="of-today")
    rules = [policy_rule(made), {"id": "org.unordered", "distribution": "org-unordered", "versions": "*"}]
    frozen = site.cli("plugins", "freeze", "--policy", write_policy(tmp_path, *rules))
    assert [entry["id"] for entry in yaml.safe_load(frozen.stdout)["plugins"]] == ["org.one"]
    left_out = [line for line in frozen.stderr.splitlines() if "left out" in line]
    for id_ in ("org.broken", "org.refused", "org.unordered"):
        assert sum(id_ in line.partition(":")[2].partition(";")[0] for line in left_out) == 1, left_out


def test_a_policy_that_would_refuse_everything_is_said_to(site: Site) -> None:
    site.add("org.broken", api=7)
    frozen = site.cli("plugins", "freeze")
    assert yaml.safe_load(frozen.stdout)["plugins"] == []
    assert "refuses every plugin" in frozen.stderr


UNMATCHED: dict[str, tuple[dict[str, str], str]] = {
    "no such id": ({"id": "org.other"}, "no plugin with this id is installed"),
    "a misspelt id": ({"id": "org.oen"}, "did you mean org.one?"),
    "another distribution": ({"distribution": "other"}, "allows only the distribution other"),
    "another version": ({"versions": ">=2"}, "allows only >=2"),
    "another digest": ({"digest": f"sha256:{0:064}"}, "allows only the digest"),
}


@pytest.mark.parametrize("case", UNMATCHED)
def test_an_entry_of_a_policy_that_matches_nothing_is_a_warning_at_its_place(
    site: Site, tmp_path: Path, case: str
) -> None:
    fields, text = UNMATCHED[case]
    made = site.add("org.one")
    policy = write_policy(tmp_path, policy_rule(made), policy_rule(made, **fields))
    listed = site.cli("plugins", "list", "--policy", policy)
    assert (listed.returncode, len(listed.stderr.splitlines())) == (0, 1)
    assert listed.stderr.startswith(f"{policy}:10:10: warning: plugins[1].id: ")
    assert text in listed.stderr
    checked = site.cli("plugins", "check-policy", "--policy", policy)
    assert (checked.returncode, checked.stdout, checked.stderr) == (1, "", listed.stderr)
    assert site.imported == set()


def test_a_check_of_all_names_each_plugin_that_fails(site: Site) -> None:
    good, bad = site.add("org.good"), site.add("org.bad", "raise RuntimeError('boom')")
    checked = site.cli("plugins", "check")
    assert checked.returncode == 1
    assert f"OK: {good.label} matches its manifest" in checked.stdout.splitlines()
    assert f"{bad.label}: " in checked.stderr


def _allowed(site: Site, policy: Path) -> set[str]:
    rows = json.loads(site.cli("plugins", "list", "--json", "--policy", policy).stdout)
    return {row["id"] for row in rows if row["allowed"]}


# What is pasted


def test_the_examples_of_every_plugin_can_be_pasted_into_a_job(site: Site, tmp_path: Path) -> None:
    site.add("org.one", parameters={"type": "object", "examples": [{"description": "mine", "times": 2}]})
    ids = [row["id"] for row in json.loads(site.cli("plugins", "list", "--json").stdout)]
    pasted = []
    for shown in cli_each(*(("plugins", "show", id_) for id_ in ids), env=site.environment()):
        for example in shown.stdout.split("  example:\n")[1:]:
            pasted += yaml.safe_load(example)
    one = {"name": "one", "type": "script", "plugin": "org.one", "times": 2}
    assert {**one, "parameters": {"description": "mine"}} in pasted
    assert len(pasted) > 20
    for number, prerequisite in enumerate(pasted):
        prerequisite["name"] += str(number)
        worker = {"prerequisites": [prerequisite["name"]]}
        secrets = dict.fromkeys(re.findall(r"\$secrets\.(\w+)", json.dumps(prerequisite)), "x")
        document = job(prerequisites=[prerequisite], worker=worker, secrets=secrets)
        write_job(tmp_path, document, f"{number}.yaml")
    lines = [("validate", tmp_path / f"{number}.yaml") for number in range(len(pasted))]
    for done in cli_each(*lines, env=site.environment()):
        assert ": error: " not in done.stderr


# What is put into a policy

OTHERS = """\
policyVersion: 1
plugins:
  # by the team of storages
  - {id: org.other, distribution: other, versions: '>=1'}  # of last year
  - id: org.one   # reviewed
    distribution: org_one
    versions: '==0.9'
definitions: {sources: [embedded]}
"""


def test_an_entry_for_a_plugin_is_printed_whatever_the_policies_say(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    site.add("org.two", distribution="org-one-too")
    env = {"PAI_RUNTIME_POLICY": str(write_policy(tmp_path))}
    result = site.cli("plugins", "allow", "org.one", env=env)
    assert (result.returncode, result.stderr) == (0, "")
    entry = {"id": "org.one", "distribution": "org-one", "versions": "==1.0", "digest": made.digest}
    assert yaml.safe_load(f"plugins:\n{result.stdout}") == {"plugins": [entry]}
    assert site.cli("plugins", "allow", "Org_One", env=env).stdout == result.stdout
    assert site.imported == set()


def test_an_entry_is_written_into_a_policy_whose_comments_stay(site: Site, tmp_path: Path) -> None:
    made, policy = site.add("org.one"), tmp_path / "policy.yaml"
    policy.write_text(OTHERS)
    policy.chmod(0o640)
    assert _allowed(site, policy) == set()
    assert site.cli("plugins", "allow", "org.one", "--write", policy).returncode == 0
    expected = OTHERS.replace("versions: '==0.9'\n", f"versions: '==1.0'\n    digest: {made.digest}\n")
    assert policy.read_text() == expected
    assert policy.stat().st_mode & 0o777 == 0o640
    assert _allowed(site, policy) == {"org.one"}
    site.add("org.two")
    assert site.cli("plugins", "allow", "org.two", "--write", policy).returncode == 0
    assert policy.read_text().startswith(expected.partition("definitions:")[0])
    assert _allowed(site, policy) == {"org.one", "org.two"}


FORMS = {
    "blocks": "policyVersion: 1\nplugins:\n- id: org.a\n  distribution: a\n  versions: '*' # all\n",
    "mappings in braces": "policyVersion: 1\nplugins:\n  - {id: org.a, distribution: a, versions: '*'}\n",
    "a list in brackets": "policyVersion: 1\nplugins: [{id: org.a, distribution: a, versions: '*'}] # one\n",
    "an empty list": "plugins: [] # none\npolicyVersion: 1\n",
    "no line break at the end": "policyVersion: 1\nplugins:\n  - {id: org.a, distribution: a, versions: '*'}",
    "JSON": json.dumps(
        {"policyVersion": 1, "plugins": [{"id": "org.a", "distribution": "a", "versions": "*"}]}
    ),
    "dashes alone": "policyVersion: 1\nplugins:\n -\n   id: org.a\n   versions: '*'\n   distribution: a\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_of_any_form_is_changed_and_keeps_what_is_in_it(
    site: Site, tmp_path: Path, form: str
) -> None:
    made, policy = site.add("org.one"), tmp_path / "policy.yaml"
    policy.write_text(FORMS[form])
    before = yaml.safe_load(FORMS[form])["plugins"]
    pinned = {"id": "org.one", "distribution": "org-one", "versions": "==1.0", "digest": made.digest}
    assert site.cli("plugins", "allow", "org.one", "--write", policy).returncode == 0
    assert yaml.safe_load(policy.read_text())["plugins"] == [*before, pinned]
    made.code.write_text(made.code.read_text() + "# another byte\n")
    assert site.cli("plugins", "allow", "org.one", "--write", policy).returncode == 0
    assert yaml.safe_load(policy.read_text())["plugins"] == [*before, {**pinned, "digest": made.digest}]
    text = policy.read_text()
    assert site.cli("plugins", "allow", "org.one", "--write", policy).returncode == 0
    assert policy.read_text() == text
    assert FORMS[form].count("#") == text.count("#")


def test_a_policy_is_begun_with_an_entry(site: Site, tmp_path: Path) -> None:
    site.add("org.one")
    policy = tmp_path / "policy.yaml"
    assert site.cli("plugins", "allow", "org.one", "--write", policy).returncode == 0
    assert _allowed(site, policy) == {"org.one"}


def test_an_update_makes_a_policy_match_what_is_installed_and_adds_nothing(
    site: Site, tmp_path: Path
) -> None:
    made, policy = site.add("org.one"), tmp_path / "policy.yaml"
    site.add("org.two")
    policy.write_text(OTHERS)
    result = site.cli("plugins", "freeze", "--update", policy)
    assert (result.returncode, result.stdout) == (1, "")
    assert "org.other is not installed" in result.stderr
    expected = OTHERS.replace("versions: '==0.9'\n", f"versions: '==1.0'\n    digest: {made.digest}\n")
    assert policy.read_text() == expected
    made.code.write_text(made.code.read_text() + "# another byte\n")
    assert _allowed(site, policy) == set()
    site.cli("plugins", "freeze", "--update", policy)
    assert _allowed(site, policy) == {"org.one"}


@pytest.mark.parametrize("command", [["allow", "org.one", "--write"], ["freeze", "--update"]])
def test_a_policy_goes_back_to_a_lower_version_only_if_that_is_asked_for(
    site: Site, tmp_path: Path, command: list[str]
) -> None:
    made, policy = site.add("org.one"), tmp_path / "policy.yaml"
    policy.write_text(OTHERS.replace("==0.9", "==1.1"))
    before = policy.read_text()
    refused = site.cli("plugins", *command, policy)
    assert (refused.returncode, policy.read_text()) == (1, before)
    assert "org.one: 1.0 is installed, and ==1.1 allowed" in refused.stderr
    site.cli("plugins", *command, policy, "--allow-downgrade")
    assert f"versions: '==1.0'\n    digest: {made.digest}\n" in policy.read_text()


@pytest.mark.parametrize("command", [["allow", "org.one", "--write"], ["freeze", "--update"]])
def test_who_built_a_plugin_stays_until_that_is_shown_again(
    site: Site, tmp_path: Path, command: list[str]
) -> None:
    site.add("org.one")
    built = f"digest: 'sha256:{0:064}'\n    builtBy: https://github.com/example/one/.github/workflows/a.yml\n"
    policy = tmp_path / "policy.yaml"
    policy.write_text(OTHERS.replace("versions: '==0.9'\n", f"versions: '==0.9'\n    {built}"))
    before = policy.read_text()
    refused = site.cli("plugins", *command, policy)
    assert (refused.returncode, policy.read_text()) == (1, before)
    assert "org.one: allowed as built by https://github.com/example/one/" in refused.stderr


def test_what_is_frozen_under_a_policy_says_who_built_it(site: Site, tmp_path: Path) -> None:
    made = site.add("org.one")
    rule = policy_rule(made, digest=made.digest, builtBy="https://github.com/a/b/.github/workflows/c.yml")
    policy = write_policy(tmp_path, rule)
    assert yaml.safe_load(site.cli("plugins", "freeze", "--policy", policy).stdout)["plugins"] == [rule]


@pytest.mark.parametrize("command", [["allow", "org.one", "--write"], ["freeze", "--update"]])
def test_a_policy_that_is_invalid_is_not_changed(site: Site, tmp_path: Path, command: list[str]) -> None:
    site.add("org.one")
    policy = tmp_path / "policy.yaml"
    policy.write_text("policyVersion: 7\nplugins: []\n")
    result = site.cli("plugins", *command, policy)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{policy}:1:16: error: policyVersion: " in result.stderr
    assert policy.read_text() == "policyVersion: 7\nplugins: []\n"


def test_what_cannot_be_allowed_is_said(site: Site, tmp_path: Path) -> None:
    site.add("org.broken", api=7)
    policy = tmp_path / "policy.yaml"
    for name, reason in (("org.broken", "needs plugin API 7"), ("org.brokn", "did you mean org.broken?")):
        result = site.cli("plugins", "allow", name, "--write", policy)
        assert (result.returncode, result.stdout) == (2, "")
        assert reason in result.stderr
        assert not policy.exists()
