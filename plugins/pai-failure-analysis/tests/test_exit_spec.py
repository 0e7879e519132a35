"""The shipped rules: each is right about what it is for, and quiet about what it is not for.

``tests/failures`` has what tools really print when something fails, with the rule that has to win against
all others, and output of programs (``healthy.yaml``) that no rule may explain.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.matching import Matcher
from pai_failure_analysis.regex import span
from pai_failure_analysis.rules import Pattern, Rule, shipped_entries, shipped_rules
from pai_task.exit_codes import CALLBACK_FAILED

FAILURES = Path(__file__).parent / "failures"
MOST_BYTES = 880_000
"""Maximum size of exit-spec.json, which takes 8 ms to read while a person waits."""

PLATFORM_CODES = {128, *range(130, 144), *range(220, 227), *range(228, 236), 249}
OWN_CODES = set(range(236, 249))
REACTIONS = {
    "PERMANENT": {"NEVER_RETRY"},
    "TRANSIENT": {"ALWAYS_RETRY", "ALWAYS_BACKOFF_RETRY", "RETRY_TO_MAX"},
    "UNKNOWN": {"RETRY_TO_MAX"},
}


@cache
def _entries() -> list[dict[str, Any]]:
    return shipped_entries()


@cache
def _rules() -> list[Rule]:
    return shipped_rules()


@cache
def _matcher() -> Matcher:
    return Matcher(_rules())


def _phrase(evidence: Evidence) -> str | None:
    match = _matcher().first_match(evidence)
    return match.rule.phrase if match else None


def _texts(field: str) -> Iterator[tuple[str, str]]:
    return ((entry["phrase"], text) for entry in _entries() for text in entry.get(field, []))


def _asked_for(pattern: Pattern, text: str) -> Evidence:
    """What is there when this pattern holds, with the text in both logs."""
    code = pattern.exit_code
    if code is None:
        code = 1 if pattern.signal is None else 128 + pattern.signal
    phase = "taskStarts" if pattern.outcome == "setup-failed" else "command"
    return Evidence(
        exit_code=code,
        signal=pattern.signal,
        outcome=pattern.outcome or "failed",
        phase=pattern.phase or phase,
        plugin=pattern.plugin,
        oom_kills=None if pattern.oom_killed is None else int(pattern.oom_killed),
        disk_full=bool(pattern.disk_full),
        user_log=text.encode(),
        platform_log=text.encode(),
        gpu=pattern.gpu,
    )


def _failures() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(FAILURES.glob("*.yaml")):
        if file.name != "healthy.yaml":
            for number, failure in enumerate(yaml.safe_load(file.read_bytes()), 1):
                yield f"{file.stem}-{number}-{failure['phrase']}", failure


def _evidence(failure: Mapping[str, Any]) -> Evidence:
    return Evidence(
        exit_code=failure.get("exitCode", 1),
        signal=failure.get("signal"),
        outcome=failure.get("outcome", "failed"),
        phase=failure.get("phase", "command"),
        plugin=failure.get("plugin"),
        oom_kills=failure.get("oomKills"),
        disk_full=failure.get("diskFull", False),
        user_log=failure.get("userLog", "").encode(),
        platform_log=failure.get("platformLog", "").encode(),
        gpu=failure.get("gpu", {}),
    )


def test_what_a_tool_prints_is_explained_by_the_right_rule() -> None:
    explained = {name: (failure, _phrase(_evidence(failure))) for name, failure in _failures()}
    assert len(explained) >= 200
    assert {
        name: phrase for name, (failure, phrase) in explained.items() if phrase != failure["phrase"]
    } == {}


def test_the_usual_words_for_a_failure_are_explained_by_the_right_rule() -> None:
    wordings = yaml.safe_load((Path(__file__).parent / "wordings.yaml").read_bytes())
    logs = [(phrase, log.encode()) for phrase, each in wordings.items() for log in each]
    found = [_phrase(Evidence(exit_code=1, user_log=log, platform_log=log)) for _, log in logs]
    assert len(logs) >= 500
    assert [(*log, other) for log, other in zip(logs, found, strict=True) if other != log[0]] == []


def test_output_that_tells_no_reason_is_not_explained() -> None:
    programs = yaml.safe_load((FAILURES / "healthy.yaml").read_bytes())
    assert len(programs) >= 40
    explained = {}
    for program in programs:
        log = program["log"].encode()
        explained[program["what"]] = _phrase(Evidence(exit_code=1, user_log=log, platform_log=log))
    assert {what: phrase for what, phrase in explained.items() if phrase} == {}


def test_each_sample_is_explained_by_its_own_rule() -> None:
    rules = {rule.phrase: rule for rule in _rules()}
    wrong = {
        phrase: text
        for phrase, text in _texts("samples")
        if not any(_phrase(_asked_for(pattern, text)) == phrase for pattern in rules[phrase].patterns)
    }
    assert wrong == {}


def test_each_sample_has_a_literal_of_what_matches_it() -> None:
    rules = {rule.phrase: rule for rule in _rules()}
    without = [
        (phrase, pattern.user_log)
        for phrase, text in _texts("samples")
        for pattern in rules[phrase].patterns
        if pattern.literals and span(str(pattern.user_log), text.encode())
        if not any(each in text for each in pattern.literals)
    ]
    assert without == []
    expressions = [pattern for rule in _rules() for pattern in rule.patterns if pattern.user_log]
    assert sum(bool(each.literals) for each in expressions) > len(expressions) * 0.95


def test_near_misses_are_not_explained_by_their_rule() -> None:
    wrong = {}
    for phrase, text in _texts("nearMisses"):
        log = text.encode()
        if _phrase(Evidence(exit_code=1, user_log=log, platform_log=log)) == phrase:
            wrong[phrase] = text
    assert wrong == {}


@pytest.mark.parametrize("part", range(8))
def test_each_rule_leaves_alone_what_is_only_mentioned_or_was_survived(part: int) -> None:
    asking = {entry["phrase"] for entry in _entries() if entry.get("nearMisses")}
    steps = "".join(f"epoch {number} loss 0.{number}\n" for number in range(30))
    wrong = {}
    for phrase, text in [*_texts("samples")][part::8]:
        mentioned = "".join(f"2026-03-01 10:00:00,123 - WARNING - {line}\n" for line in text.split("\n"))
        fatal = "KeyError: 'x'" if phrase == "PythonValueError" else "ValueError: x"
        for log in (f"{mentioned}{steps}", f"{text}\n{steps}{TRACEBACK}{fatal}\n"):
            if _phrase(Evidence(exit_code=1, user_log=log.encode())) == phrase and phrase not in asking:
                wrong[phrase] = log
    assert wrong == {}


def test_each_code_has_a_rule_and_no_rule_has_another() -> None:
    assert {rule.code for rule in _rules()} == PLATFORM_CODES | OWN_CODES


def test_no_rule_has_the_code_of_strict_callbacks() -> None:
    assert CALLBACK_FAILED not in {rule.code for rule in _rules()}


CLASSICS: list[tuple[int, int, str]] = [
    (220, 127, "bash: foo: command not found"),
    (220, 127, "bash: foo: No such file or directory"),
    (221, 1, "ResourceExhaustedError: OOM when allocating tensor with shape[256,64,112,112]"),
    (222, 139, "[node:7] Signal code: Address not mapped (1)"),
    (223, 1, "failed to enqueue convolution on stream: CUDA_ERROR_ECC_UNCORRECTABLE"),
    (224, 1, "RuntimeError: CUDA driver version is insufficient for CUDA runtime version"),
    (225, 1, "RuntimeError: dropout supported only in cudnn v5 and above"),
    (225, 1, "RuntimeError: CUDNN_STATUS_EXECUTION_FAILED in cudnnSetDropoutDescriptor"),
    (226, 1, "RuntimeError: cuda runtime error (2) : out of memory at THC/generic/THCStorage.cu:58"),
    (226, 1, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"),
    (228, 2, "train.py: error: unrecognized arguments: --epoch-number 3"),
    (229, 1, "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"),
    (229, 1, "command: line 1: data/train.csv: No such file or directory"),
    (230, 1, "ValueError: Restore called with invalid save path model.ckpt"),
    (230, 1, "FileNotFoundError: [Errno 2] No such file or directory: 'checkpoints/last.pth'"),
    (231, 1, "SyntaxError: invalid syntax"),
    (231, 1, "NameError: name 'epochs' is not defined"),
    (232, 1, "ImportError: cannot import name 'train' from 'model' (model.py)"),
    (233, 1, "IndexError: list index out of range"),
    (234, 139, "train.sh: line 1:    12 Segmentation fault      (core dumped) python train.py"),
    (235, 1, "Aborted (core dumped)"),
]
"""The platform's codes, each with the exit code and the line that everybody knows of it."""


def test_the_best_known_messages_have_the_platforms_codes() -> None:
    given = [
        match.rule.code
        if (match := _matcher().first_match(Evidence(exit_code=own, user_log=f"start\n{text}\n".encode())))
        else None
        for _, own, text in CLASSICS
    ]
    assert list(zip(given, CLASSICS, strict=True)) == [(each[0], each) for each in CLASSICS]
    of_programs = PLATFORM_CODES - {128, *range(130, 144), 249}  # those are the signals', GPU's and ssh's
    assert {code for code, _, _ in CLASSICS} == of_programs


@pytest.mark.parametrize("number", range(2, 16))
def test_a_signal_that_ends_a_task_without_a_word_gives_the_code_that_a_shell_would_give(
    number: int,
) -> None:
    code = 128 + number
    for evidence in (Evidence(exit_code=code, signal=number), Evidence(exit_code=code)):
        match = _matcher().first_match(evidence)
        assert match
        assert match.rule.code == code


def test_phrases_are_names_and_each_is_there_once() -> None:
    phrases = [entry["phrase"] for entry in _entries()]
    assert len(phrases) == len(set(phrases))
    assert [phrase for phrase in phrases if not re.fullmatch(r"(?:[A-Z][a-z0-9]*)+", phrase)] == []


def test_a_rule_says_all_that_a_person_needs() -> None:
    for entry in _entries():
        assert len(entry["reason"]) > 20, entry
        assert entry["reason"].endswith("."), entry
        assert entry["solution"], entry
        assert all(len(line) > 10 for line in entry["solution"]), entry
        assert entry["samples"], entry
        assert entry["reaction"] in REACTIONS[entry["behavior"]], entry


def test_rules_that_blame_another_task_are_named_so_and_may_pass() -> None:
    peers = [entry for entry in _entries() if entry.get("becauseOfPeer")]
    assert peers
    assert {entry["phrase"] for entry in peers} == {
        entry["phrase"] for entry in _entries() if entry["phrase"].startswith("PeerGone")
    }
    assert {(entry["code"], entry["behavior"]) for entry in peers} == {(237, "TRANSIENT")}


def test_no_pattern_holds_for_every_failure() -> None:
    assert _phrase(Evidence(exit_code=1)) is None
    assert _phrase(Evidence(exit_code=77, user_log=b"\xff\xfe\0" * 1000)) is None


TOUCH = "touch: cannot touch '/mnt/data/x': Read-only file system\n"
TRACEBACK = (
    "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    open(name, 'w')\n"
)
ERRNO = "OSError: [Errno 30] Read-only file system: '/mnt/data/x'\n"


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (3, f"{TOUCH}using /tmp instead\nepoch 1: loss 0.3\n"),
        (1, f"{TOUCH}using /tmp instead\n"),
        (3, f"{TOUCH}touch failed, going on\nepoch 1 loss 0.3\n"),
        (3, TOUCH),  # which ends with 1
        (3, "bash: line 1: /mnt/data/x: Read-only file system\n"),
        (3, f"{TRACEBACK}{ERRNO}starting without\n"),
        (7, f"WARNING:root:not written: {ERRNO}training\n训练完成\n"),
        (3, "cat: data/train.csv: No such file or directory\nusing the sample\n"),
        (3, "train.sh: line 4: foo: command not found\ndoing it without foo\n"),
        (1, "/var/spool/slurmd/job7/slurm_script: line 4: foo: command not found\nepoch 1 loss 0.3\n"),
        (1, "command: 1: nvidia-smi: not found\nepoch 1 loss 0.3\n"),
        (1, f"cache: {ERRNO}" + "".join(f"epoch {number} loss 0.{number}\n" for number in range(20))),
        (5, "cp: cannot create regular file '/data/x': Permission denied\nkeeping it here\n"),
        (
            5,
            f"{TRACEBACK}FileNotFoundError: [Errno 2] No such file or directory: 'last.ckpt'\nfrom scratch\n",
        ),
        (5, f"{TRACEBACK}ModuleNotFoundError: No module named 'apex'\nusing torch.nn.LayerNorm\n"),
        (5, f"{TRACEBACK}ValueError: loss is odd\nskipping the batch\n"),
        (3, "dd: error writing 'x': No space left on device\nremoved the oldest checkpoint\n"),
    ],
)
def test_what_a_program_has_lived_with_is_not_why_it_failed(code: int, log: str) -> None:
    assert _phrase(Evidence(exit_code=code, user_log=log.encode())) is None


@pytest.mark.parametrize(
    ("code", "log"),
    [
        (1, TOUCH),
        (1, f"epoch 1\n{TOUCH}"),
        (1, f"{TOUCH}going on\n{TOUCH}"),
        (2, f"{TOUCH}make: *** [Makefile:3: all] Error 1\n"),
        (1, f"{TOUCH}the data could not be written; stopping\n"),
        (3, f"training\n{ERRNO}"),
        (3, f"{TRACEBACK}{ERRNO}"),
        (3, f"{TRACEBACK}{ERRNO}training failed\n"),
        (1, f"{TRACEBACK}{ERRNO}another rank prints its progress\n"),
        (1, f"{ERRNO}wandb: View run fit at https://wandb.example\n+ cleanup\n\n  rate: 3\n======\n"),
        (1, f"{ERRNO}\rEpoch 3:  40%|####      | 4/10\r\n"),
        (
            1,
            (
                f"{ERRNO}============================================================\ntrain.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n  <NO_OTHER_FAILURES>\n"
                "Root Cause (first observed failure):\n[0]:\n  exitcode  : 1 (pid: 12)\n"
            ),
        ),
        (
            1,
            (
                f"{ERRNO}--------------------------------------------------------------------------\n"
                "Primary job  terminated normally, but 1 process returned\n"
                "a non-zero exit code. Per user-direction, the job has been aborted.\n"
                "--------------------------------------------------------------------------\n"
            ),
        ),
    ],
)
def test_what_comes_last_or_before_reports_only_is_why_a_program_failed(code: int, log: str) -> None:
    assert _phrase(Evidence(exit_code=code, user_log=log.encode())) == "ReadOnlyFileSystem"


def test_an_error_that_comes_again_is_not_one_that_a_program_has_lived_with() -> None:
    full, steps = "No space left on device on volume a\n", "".join(f"saved part {n}\n" for n in range(30))
    assert _phrase(Evidence(1, None, user_log=f"{full}{steps}".encode())) is None
    again = f"{full}{steps}{full}{steps[:40]}"
    assert _phrase(Evidence(1, None, user_log=again.encode())) == "NoSpaceLeft"


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        ("./tool: it cannot be run\n", "CommandNotExecutable"),
        ("", "CommandNotExecutable"),
        (
            (
                "docker: Error response from daemon: OCI runtime create failed: error mounting '/x'\n"
                "\nRun 'docker run --help' for more information\n"
            ),
            "ContainerNotStarted",
        ),
        ('OCI runtime exec failed: exec: "foo": executable file not found in $PATH\n', "CommandNotFound"),
    ],
)
def test_a_container_that_is_not_started_is_told_from_a_command_that_cannot_be_run(
    log: str, phrase: str
) -> None:
    assert _phrase(Evidence(exit_code=126, user_log=log.encode())) == phrase


def test_evidence_beats_what_a_log_may_say() -> None:
    log = b"KeyError: 'retried'\n"
    assert _phrase(Evidence(exit_code=137, signal=9, oom_kills=1, user_log=log)) == "HostOutOfMemory"
    assert _phrase(Evidence(exit_code=137, signal=9, oom_kills=0, user_log=log)) == "KilledFromOutside"
    assert _phrase(Evidence(exit_code=143, outcome="timeout", user_log=log)) == "TimeLimitReached"
    assert _phrase(Evidence(exit_code=139, signal=11, user_log=log)) == "KilledBySegmentationFault"


@pytest.mark.parametrize(
    ("mistake", "phrase"),
    [
        ("TypeError: train() missing 1 required positional argument: 'data'", "PythonTypeError"),
        ("ValueError: Unknown optimizer: adamm", "PythonValueError"),
    ],
)
def test_a_mistake_of_a_rank_beats_what_its_peers_say_of_it(mistake: str, phrase: str) -> None:
    complaints = "\n".join(text for name, text in _texts("samples") if name.startswith("PeerGone"))
    for log in (f"{mistake}\n{complaints}\n", f"{complaints}\n{mistake}\n"):
        assert _phrase(Evidence(exit_code=1, user_log=log.encode())) == phrase


def test_the_file_is_small_enough_to_be_read_at_each_failure() -> None:
    assert len(resources.files("pai_failure_analysis").joinpath("exit-spec.json").read_bytes()) < MOST_BYTES
