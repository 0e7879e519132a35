"""How the log of a failed program is read, whatever stands before its lines and whatever it survived.

The failures are those of ``tests/failures``, with the rule that explains each: what is put before
their lines, or before them, must change nothing.
"""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pai_failure_analysis.cuda_errors import as_raised
from pai_failure_analysis.evidence import Evidence
from pai_failure_analysis.last_words import MOST_BYTES
from pai_failure_analysis.matching import Match, Matcher
from pai_failure_analysis.plain_lines import plain
from pai_failure_analysis.rules import read_rules, shipped_rules

FAILURES = Path(__file__).parent / "failures"
PROGRESS = "".join(f"Epoch {number}/30 - 12s - loss: 0.{number}1\n" for number in range(30))
STEPS = "".join(f"epoch {number} loss 0.{number} lr 0.001\n" for number in range(30))
TRACEBACK = 'Traceback (most recent call last):\n  File "data.py", line 88, in load\n    return read(path)\n'

CAUSED = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 1, in <module>
  | ExceptionGroup: x (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------
"""

LSF = f"""
{"-" * 60}
Sender: LSF System <lsf@node7>
Subject: Job 12: <train.sh> in cluster <c> Exited

Job <train.sh> was submitted from host <login> by user <u> in cluster <c> at Sun Mar  1 10:00:00 2026
</home/u> was used as the working directory.

Your job looked like:

{"-" * 60}
# LSBATCH: User input
./train.sh --epochs 3
{"-" * 60}

Exited with exit code 1.

The output (if any) is above this job summary.
"""

PREFIXES: dict[str, Callable[[str, int], str]] = {
    "srun --label": lambda line, _: f"3: {line}",
    "srun --label of 4 tasks": lambda line, n: f"{n % 4}: {line}",
    "kubectl logs --timestamps": lambda line, n: f"2026-03-01T10:00:{n % 60:02}.123456789Z {line}",
    "kubectl logs --prefix": lambda line, _: f"[pod/worker-0/trainer] {line}",
    "CRI": lambda line, n: f"2026-03-01T10:00:{n % 60:02}.123456789+00:00 stderr F {line}",
    "Docker's log file": lambda line, _: json.dumps(
        {"log": f"{line}\n", "stream": "stderr", "time": "2026-03-01T10:00:00.123456789Z"},
        separators=(",", ":"),
    ),
    "docker compose": lambda line, _: f"worker-0  | {line}",
    "docker compose, coloured": lambda line, _: f"\x1b[36mworker-0  |\x1b[0m {line}",
    "Google Cloud Build": lambda line, _: f'Step #4 - "train": {line}',
    "quoted": lambda line, _: f"> {line}",
    "stern": lambda line, _: f"worker-0-abcde trainer {line}",
    "pdsh": lambda line, _: f"worker-1: {line}",
    "journalctl": lambda line, n: f"Mar 01 10:00:{n % 60:02} node7 train[1234]: {line}",
    "torchrun": lambda line, _: f"[default0]:{line}",
    "PyTorch": lambda line, _: f"[rank0]: {line}",
    "Ray": lambda line, _: f"(train pid=1234, ip=10.0.0.1) {line}",
    "Open MPI": lambda line, _: f"[1,0]<stderr>:{line}",
    "Airflow": lambda line, n: f"[2026-03-01, 10:00:{n % 60:02} IST] {{taskinstance.py:27}} ERROR - {line}",
    "Horovod": lambda line, n: f"Wed Apr  8 12:05:{n % 60:02} 2020[0]<stderr>:{line}",
    "logging": lambda line, _: f"ERROR:root:{line}",
    "logging with asctime": lambda line, n: f"2026-03-01 10:00:{n % 60:02},123 - ERROR - {line}",
    "logging with a name": lambda line, n: f"2026-03-01 10:00:{n % 60:02},123 - train - ERROR - {line}",
    "loguru": lambda line, n: f"2026-03-01 10:00:{n % 60:02}.123 | ERROR    | train:main:12 - {line}",
    "vLLM": lambda line, n: f"(EngineCore_0 pid=123) ERROR 03-01 10:00:{n % 60:02} [core.py:123] {line}",
    "brackets": lambda line, _: f"[ERROR] {line}",
    "BuildKit": lambda line, n: f"#9 {n}.12{n % 10} {line}",
    "docker build": lambda line, n: f"{n}.{n % 100:02} {line}",
    "numbers": lambda line, n: f"[{n}] {line}",
    "dmesg": lambda line, n: f"[{n:5}.123456] {line}",
    "Airflow, of a command": lambda line, n: (
        f"[2026-03-01T10:00:{n % 60:02}.123+0000] {{subprocess.py:93}} INFO - {line}"
    ),
    "pytest": lambda line, _: f"E   {line}",
    "the name of the stream": lambda line, _: f"stderr: {line}",
    "TPU pod": lambda line, n: f"2026-03-01 10:00:{n % 60:02} 10.164.0.60 [2] {line}",
    "colours": lambda line, _: f"\x1b[31m{line}\x1b[0m",
    "a terminal": lambda line, _: f"{line}\r",
    "Metaflow": lambda line, n: f"2026-03-01 10:00:{n % 60:02}.123 [12/train/34 (pid 567)] {line}",
    "kubectl, compose, logging": lambda line, n: f"2026-03-01T10:00:{n % 60:02}Z w-0 | [ERROR] {line}",
    "a script that relays": lambda line, n: f"I0301 10:00:{n % 60:02}.123456 8493928320 docker.py:89] {line}",
    "a time": lambda line, n: f"[2026-03-01 10:00:{n % 60:02}] {line}",
}

SURVIVED = {
    "a retried read": f"{TRACEBACK}OSError: [Errno 5] Input/output error: '/data/3.bin'\n",
    "a full cache": f"{TRACEBACK}OSError: [Errno 28] No space left on device: '/tmp/cache'\n",
    "a full cache, told": "cache not written: [Errno 28] No space left on device, going on without\n",
    "a quota": f"{TRACEBACK}OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache'\n",
    "a truncated image": f"{TRACEBACK}OSError: image file is truncated (12 bytes not processed)\n",
    "an optional import": f"{TRACEBACK}ModuleNotFoundError: No module named 'apex'\n",
    "too large a batch": "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB; trying batch size 32\n",
    "a hub that was slow": "HTTPSConnectionPool(host='h.example', port=1): Read timed out.\nRetrying in 1s\n",
    "a name server": "ERROR:get:attempt 1: <urlopen error [Errno -3] Temporary failure in name resolution>\n",
    "a setting": "WARNING: 'unable to write to file </torch_1>: No space left on device' was seen\n",
    "a file of others": "PermissionError: [Errno 13] Permission denied: '/root/.netrc'\n",
    "a tracker": "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)\n",
}

FATAL = {
    "PythonValueError": "ValueError: Unknown optimizer: adamm",
    "PythonKeyError": "KeyError: 'lr'",
    "PythonTypeError": "TypeError: f() got an unexpected keyword argument 'x'",
    "PythonIndexError": "IndexError: list index out of range",
    "PythonZeroDivision": "ZeroDivisionError: division by zero",
    "PythonAssertion": "AssertionError: batches differ",
    "PythonRuntimeError": "RuntimeError: The model has not been built yet",
    "PythonError": "mylib.errors.OutOfLuck: try again",
    "TensorShapeMismatch": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 5x6)",
    "FileNotFound": "FileNotFoundError: [Errno 2] No such file or directory: 'train.csv'",
    "CudaOutOfMemory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has 79 GiB"
    ),
}


@cache
def _shipped() -> Matcher:
    return Matcher(shipped_rules())


def _match(log: str, code: int = 1, matcher: Matcher | None = None, **evidence: Any) -> Match | None:
    return (matcher or _shipped()).first_match(Evidence(code, user_log=log.encode(), **evidence))


def _phrase(log: str, code: int = 1, **evidence: Any) -> str | None:
    match = _match(log, code, **evidence)
    return match.rule.phrase if match else None


@cache
def _failures() -> tuple[tuple[str, str, int], ...]:
    """The failures that their log alone explains: phrase, log, exit code."""
    return tuple(_explained_by_their_logs())


def _explained_by_their_logs() -> Iterator[tuple[str, str, int]]:
    for file in sorted(FAILURES.glob("*.yaml")):
        for each in yaml.safe_load(file.read_bytes()) if file.name != "healthy.yaml" else ():
            log, code = each.get("userLog"), each.get("exitCode", 1)
            if log and _phrase(log, code) == each["phrase"]:
                yield each["phrase"], log, code


@pytest.mark.parametrize("name", PREFIXES)
def test_a_failure_is_explained_whatever_stands_before_each_line(name: str) -> None:
    """Each failure behind a third of the prefixes, and each prefix before a third of the failures."""
    assert len(_failures()) > 200
    prefix = PREFIXES[name]
    wrong = []
    for phrase, log, code in _failures()[list(PREFIXES).index(name) % 3 :: 3]:
        lines = f"{PROGRESS}{log}".split("\n")
        found = _phrase("\n".join(prefix(line, number) for number, line in enumerate(lines)), code)
        wrong += [(phrase, found)] if found != phrase else []
    assert wrong == []


def test_a_line_of_a_level_below_error_mentions_an_error() -> None:
    for level in ("INFO", "WARNING", "DEBUG"):
        assert _phrase(f"{STEPS}2026-03-01 10:00:00,123 - {level} - ValueError: skipped\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: 503 Service Unavailable, next mirror",
        "2026-03-01 10:00:00,123 WARNING 429 Too Many Requests",
        "[WARNING] disk: No space left on device",
        "wget: 429 Too Many Requests. Retrying.",
        "joblib.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode",
        "data.py: 404 Not Found, will retry",
        "PASSED tests/test_a.py::test_errors[RuntimeError: CUDA out of memory]",
        "ok 3 - RuntimeError: CUDA out of memory",
        "I0101 10:00:00.123456 12 process_rows.py:33] ValueError: a bad row, left out",
        "CUDA initialization error: no CUDA-capable device is detected, using the CPU",
        "cudaMallocAsync: out of memory, falling back to cudaMalloc",
        "cudaMalloc failed out of memory, trying a smaller batch",
        'HTTP Request: GET https://a.example/x "HTTP/1.1 403 Forbidden"',
    ],
)
def test_a_line_that_only_mentions_an_error_is_not_why_a_program_failed(line: str) -> None:
    assert _phrase(f"{STEPS}{line}\n") is None
    assert (
        _phrase(f"{line}\n{STEPS}wget: server returned error: HTTP/1.1 502 Bad Gateway\n")
        == "HttpServerError"
    )


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("GPUassert: misaligned address solve.cu 9", "CudaMisalignedAddress"),
        ("solve.cu:9: Cuda failure 'misaligned address'", "CudaMisalignedAddress"),
        ("CUDA error at solve.cu:9:\nin solve(): misaligned address", "CudaMisalignedAddress"),
        ("cuInit(0) failed with error 35", "CudaDriverTooOld"),
        ("CUDA Driver API error = 0035 from file <a.cpp>", "CudaDriverTooOld"),
        ("cudaMemcpy() returned error 719", "CudaLaunchFailure"),
        ("solver: GPU error: unknown error", "CudaError"),
    ],
)
def test_what_cuda_says_is_found_in_its_line_whatever_a_program_puts_around_it(
    line: str, phrase: str
) -> None:
    log = f"{STEPS}{line}\nexiting\n"
    match = _match(log)
    assert match
    assert match.user
    assert match.rule.phrase == phrase
    assert log.encode()[match.user.start : match.user.end].decode() in line
    assert log.encode().rfind(b"\n", 0, match.user.start) < log.index("exiting") - 1


PIECES_OF_CUDA = [
    *("CUDA error ", "cuInit returned error ", "out of memory", "misaligned address", "35", "2", ": ", " "),
    *("\n", "é"),
]


@pytest.mark.parametrize(
    "log",
    [
        "GPU exception handler installed\nmalloc: out of memory\n",
        "GPU error count 0\nallocator: out of memory in pool\n",
        "CUDA error checks: enabled\nioctl failed: invalid argument\n",
        "GPU error: none\nserver: unknown error\n",
        "GPU exception handler installed, host out of memory\n",
        "cuda failure: 100 steps lost\n",
        "CUDA error 35% of runs\n",
        "CUDA error 700.5 s\n",
    ],
)
def test_what_is_no_error_of_cuda_is_not_read_as_one(log: str) -> None:
    assert as_raised(log.encode()) == log.encode()


@given(st.lists(st.sampled_from(PIECES_OF_CUDA)).map("".join))
def test_errors_of_cuda_are_read_in_the_same_lines(log: str) -> None:
    lines = as_raised(log.encode()).decode().split("\n")
    for line, read in zip(log.split("\n"), lines, strict=True):
        rest = iter(read)
        assert all(each in rest for each in line)


@pytest.mark.parametrize(
    "log",
    [
        b"CUDA error of GPU 7 is 0.001, unknown; cuda call failed with no error\n" * 150_000,
        b"CUDA error 35 " * 20_000,
        b"CUDA error 35 " * 700_000,
        b"CUDA error 35 \n" * 20_000,
        b"CUDA call ' CUDA error misaligned address " * 7_000,
    ],
)
def test_a_long_log_about_cuda_is_read_quickly(log: bytes) -> None:
    began = time.process_time()
    assert len(as_raised(log)) - len(log) < 8 * MOST_BYTES
    assert time.process_time() - began < 2


def test_an_exception_is_read_though_somebody_has_indented_the_log() -> None:
    log = f"{STEPS}{TRACEBACK}KeyError: 'lr'"
    assert _phrase("\n".join(f"    {line}" for line in log.split("\n"))) == "PythonKeyError"


@given(
    st.lists(
        st.sampled_from(
            [b"3: ", b"w-0 | ", b"[rank0]: ", b"\x1b[31m", b"\r", b"\r\n", b"\n", b"a: b", b"\xff"]
        )
    )
)
def test_the_lines_of_any_log_keep_their_numbers(pieces: list[bytes]) -> None:
    log = b"".join(pieces) * 9
    assert plain(log).count(b"\n") == log.count(b"\n")


def test_a_match_is_where_it_is_in_the_log_as_it_was_written() -> None:
    lines = [
        f"worker-0  | \x1b[31m{line}\x1b[0m" for line in f"{STEPS}{TRACEBACK}ValueError: bad".split("\n")
    ]
    log = "\n".join([*lines, ""])
    match = _match(log)
    assert match
    assert match.user
    assert match.user.text == "ValueError: bad\n"
    assert log.encode()[match.user.start :].startswith(b"ValueError: bad\x1b[0m")


@pytest.mark.parametrize("survived", SURVIVED.values(), ids=SURVIVED)
def test_an_exception_that_nobody_caught_beats_what_the_program_had_survived(survived: str) -> None:
    found = {phrase: _phrase(f"{survived}{STEPS}{TRACEBACK}{fatal}\n") for phrase, fatal in FATAL.items()}
    assert found == {phrase: phrase for phrase in FATAL}


@pytest.mark.parametrize("survived", SURVIVED.values(), ids=SURVIVED)
@pytest.mark.parametrize(
    ("code", "signal", "phrase"), [(137, 9, "Killed"), (137, None, "Killed"), (143, 15, "Terminated")]
)
def test_a_program_that_is_killed_did_not_end_by_what_it_had_survived(
    survived: str, code: int, signal: int | None, phrase: str
) -> None:
    assert _phrase(f"{survived}{STEPS}", code, signal=signal) == phrase


@pytest.mark.parametrize(
    "fatal",
    [
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroup.cpp:197, unhandled system error",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ],
)
def test_an_exception_that_passes_on_what_happened_elsewhere_does_not_decide(fatal: str) -> None:
    cause = f"{TRACEBACK}torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert _phrase(f"{cause}another rank prints its progress\n{TRACEBACK}{fatal}\n") == "CudaOutOfMemory"


def test_a_rank_that_had_only_begun_a_traceback_does_not_decide() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    lines = [f"[rank{n % 2}]: {line}" for n, line in enumerate(STEPS.splitlines())]
    lines += [f"[rank0]: {line}" for line in f"{TRACEBACK}{oom}".splitlines()]
    lines += [f"[rank1]: {TRACEBACK.splitlines()[0]}", ""]
    assert _phrase("\n".join(lines)) == "CudaOutOfMemory"


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        (f"{TRACEBACK}KeyError: 'x'\n\n{DURING}\n\n{TRACEBACK}", "PythonKeyError"),
        (f"{TRACEBACK}    raise ValueError(f'{{x}} is odd')\n", "PythonValueError"),
        (
            'a() File "x.py", line 8, in a return b() File "y.py", line 9, in b KeyError: "lr"',
            "PythonKeyError",
        ),
        (
            (
                "Traceback (most recent call last):\n File 'x.py', line 8, in a\nKeyError: 'lr'\n"
                "Epoch 0:   0%|          | 0/134 [00:01<?, ?it/s]"
            ),
            "PythonKeyError",
        ),
        (" 10%|#         | 1/10 [00:01<00:09,  1.21s/it]KeyError: 'lr'", "PythonKeyError"),
        (
            f"{TRACEBACK}KeyError: 'x'\n\n{CAUSED}\n\n{TRACEBACK}lib.DatasetGenerationError: no",
            "PythonKeyError",
        ),
        (f"{TRACEBACK}KeyError: 'x'\n\n{CAUSED}\n\n{TRACEBACK}TypeError: no", "PythonTypeError"),
        (f"[E 10:00:00] Trial 3 failed because of: KeyError('lr')\n{TRACEBACK}", "PythonKeyError"),
        ("Error in call to target 'm.Net':\nKeyError('lr')\nfull_key: model\n", "PythonKeyError"),
        (
            (
                "hydra.errors.InstantiationException: Error in call to target 'm.Net':\n"
                "TypeError(\"f() got an unexpected keyword argument 'lr'\")\nfull_key: model\n"
            ),
            "BadArguments",
        ),
        (
            "  rank : 0\n  traceback : " + TRACEBACK.replace("\n", "\n  ") + "KeyError: 'lr'\n  \n",
            "PythonKeyError",
        ),
        ("Message:\n\n    KeyError: 'lr'\n\nSYSTEM ERROR! Contact somebody.\n", "PythonKeyError"),
        (
            (
                f"{TRACEBACK}KeyError: 'lr'\ntime=\"2026-03-01T10:00:00Z\" level=error "
                'msg="cannot save artifact /tmp/o" error="stat /tmp/o: no such file or directory"\n'
                "Error: exit status 1\n"
            ),
            "PythonKeyError",
        ),
        ('ExitCode 1\nErrorMessage "KeyError: \'lr\'\n"\nCommand "python a.py"\n', "PythonKeyError"),
        ("FAILED tests/test_a.py::test_b[c] - KeyError: 'lr'\n= 1 failed in 0.12s =\n", "PythonKeyError"),
    ],
    ids=[
        "cut after it",
        "cut before it",
        "joined",
        "before a bar",
        "behind a bar",
        "wrapped",
        "not only wrapped",
        "told before it is cut",
        "by Hydra",
        "by Hydra, of its settings",
        "by torchrun",
        "by Flyte",
        "before what Argo says",
        "by SageMaker",
        "by pytest",
    ],
)
def test_an_exception_is_found_where_libraries_and_people_put_it(log: str, phrase: str) -> None:
    assert _phrase(f"{STEPS}{log}") == phrase


@pytest.mark.parametrize(
    ("before", "phrase"),
    [
        ("", "SlurmCancelled"),
        ("srun: error: n: task 5: Exited with exit code 1\n", "WorkerFailed"),
        ("srun: error: n: task 5: Killed\n", "Killed"),
    ],
)
def test_what_slurm_kills_with_a_cancelled_step_is_no_cause(before: str, phrase: str) -> None:
    cancelled = "slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT 2026-03-01T10:00:00 ***\n"
    assert _phrase(f"{before}{cancelled}srun: error: n: tasks 3,7: Killed\n") == phrase


@pytest.mark.parametrize(
    ("log", "phrase"),
    [
        ("mkdir: x: Permission denied\nThe command 'm' returned a non-zero code: 1\n", "PermissionDenied"),
        ("2026-01-01 10:00:00 ERROR 503: Service Unavailable.\n", "HttpServerError"),
        (
            (
                "mkdir: x: Permission denied\nI0101 10:00:00.000000      21 launcher_v2.go:1] published.\n"
                "F0101 10:00:00.000000      21 main.go:49] failed to execute component: exit status 1\n"
            ),
            "PermissionDenied",
        ),
        (
            (
                "a.sh: line 3: foo: command not found\n"
                "2026-01-01 10:00:00,000 sagemaker-training-toolkit INFO     Waiting for the process\n"
            ),
            "CommandNotFound",
        ),
    ],
    ids=["docker build's last line", "wget's line", "Kubeflow's line", "SageMaker's line"],
)
def test_no_cause_is_hidden_by_the_last_line_or_the_prefix_of_a_tool(log: str, phrase: str) -> None:
    assert _phrase(log) == phrase


def test_without_a_traceback_an_exception_of_its_own_comes_before_what_peers_say() -> None:
    peers = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:10895\n"
    assert _phrase(f"RuntimeError: batches differ\n{peers}") == "PythonRuntimeError"
    assert _phrase(peers) == "PeerGoneGloo"


def test_an_exception_that_python_ignored_does_not_hide_the_one_that_ended_the_program() -> None:
    ignored = (
        f"Exception ignored in: <function Loader.__del__ at 0x7f>\n{TRACEBACK}AttributeError: no 'pool'\n"
    )
    for log in (f"{TRACEBACK}ValueError: bad\n{ignored}", f"{ignored}{TRACEBACK}ValueError: bad\n"):
        assert _phrase(log) == "PythonValueError"


@pytest.mark.parametrize(
    ("log", "phrase", "said"),
    [
        (
            f"{TRACEBACK}AssertionError: \n\nTensor-likes are not close!\n",
            "PythonAssertion",
            "Tensor-likes are not close!",
        ),
        (f"{TRACEBACK}mylib.OutOfLuck: try again\n", "PythonError", "mylib.OutOfLuck: try again"),
        (
            f"{TRACEBACK}KeyError: 'x'\n\n{DURING}\n\n{TRACEBACK}mylib.ConfigError: no x\n",
            "PythonOtherError",
            "mylib.ConfigError: no x",
        ),
        (
            GROUP,
            "PythonValueError",
            "ValueError: 1",
        ),
    ],
    ids=["assertion on the next line", "of a library", "chain", "group"],
)
def test_the_exception_itself_is_quoted(log: str, phrase: str, said: str) -> None:
    match = _match(f"{STEPS}{log}")
    assert match
    assert (match.rule.phrase, match.user_match.strip()) == (phrase, said)


MANY, LINES = 1 << 20, 1 << 18
HOSTILE = {
    "names": ("KeyError: " + "Ray" * MANY, "PythonKeyError"),
    "a time": ("1" + " " * MANY + "[Errno 28] No space left on device", "NoSpaceLeft"),
    "slashes": ("/" * MANY + " [Errno 28] No space left on device", "NoSpaceLeft"),
    "percents": ("%" * MANY + f"\rx\n{TRACEBACK}KeyError: 'lr'", "PythonKeyError"),
    "bars": ("%|" * MANY + f"\r\n{TRACEBACK}KeyError: 'lr'", "PythonKeyError"),
    "a dotted name": (f"KeyError: 1\n{CAUSED}\n{TRACEBACK}" + "a." * MANY, "PythonKeyError"),
    "lines after a wrapper": (
        f"{CAUSED}\n{TRACEBACK}" + "\n" * LINES + "so on\nKeyError: 1",
        "PythonKeyError",
    ),
    "lines after what is ignored": (
        "Exception ignored in: x" + "\n" * LINES + "so on\nKeyError: 1",
        "PythonKeyError",
    ),
    "tracebacks": (f" {TRACEBACK}" * (LINES // 32) + "SystemExit: 1\nKeyError: 'lr'", "PythonKeyError"),
}


@pytest.mark.parametrize(("log", "phrase"), HOSTILE.values(), ids=HOSTILE)
def test_no_log_takes_long_or_much_memory_to_read(log: str, phrase: str) -> None:
    tracemalloc.start()
    try:
        found = _phrase(f"{STEPS}{log}\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == phrase
    assert peak < 12 * len(log)


def test_rules_of_others_are_tried_on_the_log_as_it_is() -> None:
    entries = [
        {"code": 200, "phrase": "Prefixed", "patterns": [{"userLogRegex": r"(?m)^3: slow disk$"}]},
        {"code": 201, "phrase": "Early", "patterns": [{"userLogRegex": "No space left"}]},
    ]
    matcher = Matcher([*read_rules(entries, "the cluster's exit spec")[0], *_shipped().rules])
    fatal = f"{TRACEBACK}ValueError: bad\n"
    prefixed = "".join(f"3: {line}\n" for line in f"slow disk\n{STEPS}{fatal}".splitlines())
    for log, phrase in ((prefixed, "Prefixed"), (f"No space left\n{STEPS}{fatal}", "Early")):
        match = _match(log, matcher=matcher)
        assert match
        assert match.rule.phrase == phrase


@pytest.mark.parametrize(
    "line",
    [
        "user@box:~/job$ ",
        "(base) [user@box job]$ ",
        "PS C:\\job>",
        "real\t0m1.204s\nuser\t0m0.300s\nsys\t0m0.020s",
        "Sun Mar  1 10:00:00 UTC 2026",
        "[Sun Mar  1 10:00:00 2026]",
        "Job finished at 10:00:00",
        "logout",
        "Dockerfile:12",
        "##[endgroup]",
        "npm ERR! code 1",
        "5 actionable tasks: 5 executed",
        "[INFO] Finished at: 2026-03-01T10:00:00Z",
        "Resource usage summary:\n\n    CPU time :   0.10 sec.",
        "0.01user 0.00system 0:00.02elapsed 90%CPU\n0inputs+0outputs (0major+300minor)pagefaults 0swaps",
        "[Pipeline] }\n[Pipeline] // stage\nERROR: script returned exit code 1",
        'Finished Step #1 - "train"\nERROR\nERROR: build step 1 failed: step exited with non-zero status: 1',
        LSF,
    ],
)
def test_what_is_printed_around_a_program_is_not_what_it_went_on_with(line: str) -> None:
    failed = "cp: cannot stat '/data/in.bam': No such file or directory"
    assert _phrase(f"{STEPS}{failed}\n{line}\n") == "PathMissing"
    assert _phrase(f"{failed}\n{line}\n{STEPS}") is None


def test_the_name_of_a_tool_before_each_line_is_no_prefix() -> None:
    log = b"mount.nfs: timeout set\nmount.nfs: trying 10.0.0.1\nmount.nfs: mount(2): no\nmount.nfs: denied\n"
    assert plain(log) == log


def test_pytest_indents_an_exception_as_the_line_that_raised_it() -> None:
    assert (
        _phrase(">       return settings[name]\nE       KeyError: 'lr'\n\ntrain.py:3: KeyError\n")
        == "PythonKeyError"
    )


def test_few_lines_of_docker_compose_are_read_without_the_name_of_their_service() -> None:
    log = "Attaching to web-1\nweb-1  | exec ./start.sh: no such file or directory\n"
    assert _phrase(f"{log}web-1 exited with code 0\n") == "InterpreterMissing"


def test_two_lines_of_docker_compose_are_read_without_the_name_of_their_service() -> None:
    log = "init_1       | ValueError: Unable to set up: [Errno 13] Permission denied: '/var/log/x'\n"
    assert _phrase(f"{log}init_1       | \n") == "PermissionDenied"
    log = "trainer  | OSError: [Errno 28] No space left on device: '/x'\n"
    assert _phrase(f"{log}shop_trainer exited with code 1\n") == "NoSpaceLeft"


def test_a_traceback_that_a_launcher_relays_as_information_is_one() -> None:
    lines = (*TRACEBACK.splitlines(), "AssertionError")
    log = "".join(f"2026-03-01 10:00:00,123 - Launcher - INFO - [rank0]: {line}\n" for line in lines)
    assert _phrase(log) == "PythonAssertion"


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-03-01 10:00:0{}.123 - Launcher - INFO - ",
        "INFO:root:",
        "[INFO 10:00:0{}] ",
        "I0301 10:00:0{}.123 77 launch.py:7] ",
    ],
)
def test_a_traceback_with_a_prefix_before_each_line_is_of_the_program_that_failed(prefix: str) -> None:
    lines = (*TRACEBACK.splitlines(), "KeyError: 'lr'")
    assert _phrase("".join(f"{prefix.format(n)}{line}\n" for n, line in enumerate(lines))) == "PythonKeyError"


def test_a_traceback_with_a_prefix_before_its_first_line_only_is_a_mention() -> None:
    log = f"INFO:root:{TRACEBACK}KeyError: 'lr'\n1 step\n".encode()
    assert plain(log) == log


def test_what_airflow_relays_of_spark_is_why_its_command_failed() -> None:
    log = (
        "{spark_submit.py:7} INFO - JAVA_HOME is not set\n{taskinstance.py:8} ERROR - Task failed\n"
        f"{TRACEBACK}airflow.exceptions.AirflowException: Cannot execute: spark-submit. Error code is: 1.\n"
    )
    assert _phrase(log) == "JavaVersion"


def test_errors_of_programs_that_try_a_compiler_count_only_if_it_does_not_work() -> None:
    tried = "conftest.c:3:1: fatal error: x.h: No such file or directory\n    3 | #include <x.h>\n"
    assert _phrase(f"{tried}no\nModuleNotFoundError: No module named 'x'\n") == "ModuleNotFound"
    broken = "It is not able to compile a simple test program.\ncmTC_1: undefined reference to `f'\n"
    assert _phrase(broken) == "ExtensionBuildFailed"


def test_a_time_before_a_rank_is_taken_away_and_of_a_tool_that_says_error_only_the_time() -> None:
    time = "[2026-03-01 10:00:00] "
    assert plain(f"{time}[rank1]: ValueError: x\n".encode()) == b"ValueError: x\n"
    assert plain(f"{time}./train: error while loading x\n".encode()) == b"./train: error while loading x\n"


def test_a_time_may_be_missing_before_what_airflow_says() -> None:
    assert plain(b"{taskinstance.py:8} ERROR - x\n{subprocess.py:9} INFO - y\n") == b"x\ny\n"


def test_a_warning_that_r_takes_as_an_error_is_one() -> None:
    log = "Error: (converted from warning) dependency 'plotx' is not available\nExecution halted\n"
    assert _phrase(log) == "PackageNotFound"


def test_a_warning_of_skypilot_that_a_zone_has_no_room_is_none() -> None:
    log = "W 02-09 00:22:30 backend.py:435] An error occurred (VcpuLimitExceeded) when calling the X\n"
    assert _phrase(f"{log}I 02-09 00:22:31 backend.py:7] Trying us-east-2\n") is None


def test_what_buildkit_repeats_of_a_step_that_failed_is_read_without_the_seconds() -> None:
    log = "------\n > [3/4] RUN mkdir /x:\n0.312 mkdir: cannot create directory '/x': Permission denied\n"
    assert _phrase(f"{log}------\nDockerfile:3\n") == "PermissionDenied"


def test_a_time_before_a_message_below_error_stays() -> None:
    log = b"[2026-03-01 10:00:00] WARNING no GPU\n2026-03-01 10:00:01 ERROR 404: Not Found.\n"
    assert plain(log) == log


def test_the_name_of_a_compiler_or_tool_after_a_time_stays() -> None:
    log = b"[2026-03-01 10:00:00] src/a.c:3:10: fatal error: b.h: No such file or directory\n"
    assert plain(log) == log.partition(b"] ")[2]


def test_a_cause_within_the_lines_before_a_launcher_s_is_found() -> None:
    log = "run failed: loading: open /data/conf.yaml: no such file or directory\n"
    assert _phrase(f"{log}Error in rule a:\n    jobid: 1\n") == "FileNotFound"
