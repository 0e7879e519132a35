"""Errors that programs tell within messages of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.inner_messages import MOST_SEARCHED, inner_messages
from pai_failure_analysis.matching import Match, Matcher
from pai_failure_analysis.rules import shipped_rules

MATCHER = Matcher(shipped_rules())


def _found(log: str, exit_code: int = 1) -> Match | None:
    return MATCHER.first_match(Evidence(exit_code, user_log=log.encode()))


@pytest.mark.parametrize(
    ("line", "phrase", "matched"),
    [
        ("[ERROR] training failed: ValueError: bad value", "PythonValueError", "ValueError: "),
        ("2026-03-01 10:00:00,1 - ERROR - in f: KeyError: 'lr'", "PythonKeyError", "KeyError: "),
        ("check failed: FileNotFoundError(2, 'No such file or directory')", "FileNotFound", "FileNotFound"),
        (
            "wandb: ERROR Run a1 errored: IndexError('list index out of range')",
            "PythonIndexError",
            "IndexErr",
        ),
        ("Run failed with exception ZeroDivisionError('division by zero')", "PythonZeroDivision", "division"),
        ("KeyError('loss')", "PythonKeyError", "KeyError"),
        ("10:00:00 ERROR - [move] [Errno 22] bad: '/a'", "PythonOtherError", "OSError: [Errno 22]"),
        ('level=error msg="it ended" err="rank 3: IndexError: no such item"', "PythonIndexError", "IndexErr"),
        ('{"errorMessage": "\'lr\'", "errorType": "KeyError"}', "PythonKeyError", "KeyError"),
        ('{"level":"error","exc_type":"KeyError","exc_value":"\'lr\'"}', "PythonKeyError", "KeyError"),
        ('{"level":"error","error":"a failed: KeyError(\\"lr\\")"}', "PythonKeyError", "KeyError"),
        ("Error: {'code': 500, 'message': 'CUDA out of memory. Tried'}", "CudaOutOfMemory", "CUDA out"),
        (r'{"severity": "ERROR", "message": "Traceback:\n  x\nKeyError: 3\n"}', "PythonKeyError", "KeyError"),
        (
            "step 3 failed - mkdir: cannot create directory '/t': Permission denied",
            "PermissionDenied",
            "mkdir: ",
        ),
    ],
)
def test_the_cause_is_found_within_another_message_and_at_its_line(
    line: str, phrase: str, matched: str
) -> None:
    log = f"epoch 1\n{line}\nwandb: See the logs\nexiting\n"
    match = _found(log)
    assert match
    assert match.user
    assert match.rule.phrase == phrase
    assert log[match.user.start : match.user.end] == line
    assert match.user_match.startswith(matched)


@pytest.mark.parametrize(
    ("log", "exit_code"),
    [
        ("INFO caught ValueError: bad sample 12", 1),
        ("| WARNING: ran out of memory with exception: CUDA out of memory; skipping batch", 1),
        (
            "2026-03-01 10:00:00.1: W rt/dso.cc:64] no CUDA: libcudart.so: cannot open shared object file",
            1,
        ),
        ("read failed: OSError(5, 'Input/output error'), will retry", 1),
        ("Failed to load x: ValueError: bad value, skipping it", 1),
        ("load failed: ValueError: bad value\nepoch: 3", 3),
        ("expected error: KeyError: 'x' (test)", 1),
        ("stats: MemoryError: 0", 1),
        ('level=info msg="no errors" err="ValueError: none"', 1),
        ('{"levelname": "INFO", "message": "one failed", "exc_info": "KeyError: 1"}', 1),
        ('{"level": 30, "msg": "one failed", "err": "KeyError: 1"}', 1),
        ('2026-03-01 10:00:00 [info     ] one failed error="KeyError: 1"', 1),
        ('{"status": "ok", "failed": 0, "message": "KeyError: none seen"}', 1),
        ("Config(on_error='ValueError: raise', message='CUDA out of memory')", 1),
        ('test_a failed as expected, error="KeyError: 1"', 1),
        ('level=warn msg="read failed" err="ValueError: bad" retry=1', 1),
        ('    raise ValueError("unknown optimizer") from None', 1),
        ("sync failed: ValueError: bad value\nepoch 2: loss 0.7", 3),
        ("cat: /mnt/data/x: Read-only file system", 3),
    ],
)
def test_what_a_program_goes_on_after_is_no_cause(log: str, exit_code: int) -> None:
    assert _found(log, exit_code) is None


def test_a_line_that_is_searched_in_part_only_is_left_out() -> None:
    assert _found(f"INFO caught {'a' * MOST_SEARCHED}: ValueError: bad\n") is None
    assert _found(f"INFO {'a' * 99}: caught ValueError: bad\n" + "error\n" * (MOST_SEARCHED // 6)) is None


def test_what_stands_before_a_last_line_that_is_longer_than_what_is_searched_is_no_cause() -> None:
    assert _found(f"x failed: KeyError('x')\n{'error ' * MOST_SEARCHED}") is None


def test_of_an_exception_of_the_program_itself_only_its_own_message_is_looked_into() -> None:
    own = "Traceback (most recent call last):\nmylib.OutOfLuck: try again"
    match = _found(f"[rank1]: store: Connection reset by peer\n{own}")
    assert match
    assert match.rule.phrase == "PythonError"


@given(st.text(st.sampled_from("aE:>- \n\t('\"),1\\\x00Ä") | st.characters(codec="utf-8")))
def test_the_number_of_lines_stays(text: str) -> None:
    log = text.encode()
    for inner in inner_messages(log):
        assert inner.count(b"\n") == log.count(b"\n")


@pytest.mark.parametrize("text", ["E", "\n", "a.E(': ", "x: ", "KeyError('"])
def test_what_stands_before_it_does_not_hide_it(text: str) -> None:
    log = text * (2 * MOST_SEARCHED // len(text)) + "\n"
    match = _found(f"{log}x failed: KeyError('x')\n")
    assert match
    assert match.user
    assert match.user.start == len(log)


RETRY = (
    "WARNING: Retrying after connection broken by 'SSLError([SSL: CERTIFICATE_VERIFY_FAILED] x)': /simple/"
)


def test_what_a_program_tried_again_until_it_ended_is_the_cause() -> None:
    match = _found(f"Collecting pip\n{RETRY}\n{RETRY}\n")
    assert match
    assert match.rule.phrase == "TlsCertificate"
    assert _found(f"Collecting pip\n{RETRY}\n") is None
    assert _found(f"{RETRY}\n{RETRY}\nepoch 1\n") is None


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("Failed to load data: no such file or directory", "FileNotFound"),
        ("[ERROR] write /data/x.bin: no space left on device", "NoSpaceLeft"),
        ("loader: /data/x.bin: Operation not permitted", "PermissionDenied"),
        ("could not open '/data/x.bin' (Is a directory)", "FileOrFolder"),
        ("Error: listen 0.0.0.0:80: address already in use, stopping", "PortInUse"),
        ("Unable to connect to http://localhost:11434: connection refused", "ServerUnreachable"),
        ("ERROR - sync failed - temporary failure in name resolution", "DnsFailure"),
        ("Exception: sync failed: Permission denied", "PermissionDenied"),
        ('level=error msg="sync failed" err="i/o timeout"', "ServerUnreachable"),
        ("Request failed. 403 Forbidden", "HttpForbidden"),
        ("Error: sync failed (rate limit exceeded)", "RateLimited"),
        ("fatal: upload failed: service unavailable", "HttpServerError"),
        ("Failed to fetch data: unable to get local issuer certificate", "TlsCertificate"),
        ("ERROR: could not reach service: no such host", "DnsFailure"),
        ("Failed to fetch data: unexpected EOF", "ConnectionLost"),
        ("Failed to fetch data: checksum mismatch", "DownloadCorrupt"),
        ("mytool: error: insufficient disk space", "NoSpaceLeft"),
        ("mytool: error: unexpected end of JSON input", "JsonInvalid"),
        ("error trying to connect: tcp: Connection refused (os error 111)", "ConnectionFailed"),
        ("Error waiting for the database: connection refused, giving up", "ServerUnreachable"),
        ("upload failed: connection refused, attempt 5 of 5", "ServerUnreachable"),
    ],
)
def test_usual_words_are_understood_in_any_program_s_message(line: str, phrase: str) -> None:
    match = _found(f"epoch 1\n{line}\n")
    assert match
    assert match.rule.phrase == phrase


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: could not open cache: no such file or directory",
        "could not connect: connection refused, will retry in 3 s",
        "3 files: Permission denied to none",
        "stats: errors=0 (timed out: 0, connection refused: 0)",
        "requests failed: 0 (timed out)",
        "failures: 12 - timed out",
        "errors by kind: timed out",
        "healthcheck failed: connection refused",
        "upload failed: connection refused (attempt 1/5)",
        "upload failed: connection refused, attempt 2 of 5",
        "upload failed: connection refused, backing off 3 s",
        "upload failed: connection refused. Trying the next mirror",
        "upload failed: timed out, reconnecting",
        "upload failed (timed out), switching to the mirror",
        "upload failed: timed out - requeued",
        "upload failed: connection refused. A local copy is taken instead.",
        "could not read cache: No such file or directory; rebuilding it",
        "could not load state: No such file or directory, starting anew",
        "Recovered from error: connection reset by peer",
        "Failed 3 times (timed out), succeeded then",
        "non-fatal error: connection refused",
        "could not delete old checkpoint: No such file or directory",
        "could not set affinity: Operation not permitted",
        "error: rate limit exceeded, sleeping 30 s",
        "exit codes: 2 = error: file not found",
        "# error: permission denied",
        "test io::error_of_refused: connection refused ... ok",
        "server: connection closed",
        "cache: file not found, computing",
        "auth: token expired, refreshing",
        "verify: checksum mismatches: 0",
        "fsck: checksum mismatch: 0 blocks",
        "reader: invalid UTF-8 replaced in 3 lines",
        "poll: timed out",
        "monitor: disk full at 12%",
    ],
)
def test_an_error_of_the_system_that_a_program_lives_with_is_no_cause(line: str) -> None:
    assert _found(f"epoch 1\n{line}\n") is None
