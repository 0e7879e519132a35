"""The bundle: it runs in any image, and what an image has does not get into it."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from pai_pod.bundle.launcher import launcher_for
from pai_pod.launcher_environment import image_environment
from pai_task.exit_codes import RUNTIME_ERROR
from pai_task.paths import BUNDLE
from pai_task.signals import STOP_SIGNALS
from tests.bundle_harness import USER, Image

pytestmark = [pytest.mark.process, pytest.mark.needs("mounts", "bash-static", "busybox-static")]

USES_ALL = f"""
import ctypes, hashlib, socket, ssl, threading, subprocess
import cryptography.hazmat.bindings._rust, re2, yaml._yaml
thread = threading.Thread(target=str)
thread.start()
thread.join()
ctypes.CDLL("libgcc_s.so.1")
ssl.create_default_context()
hashlib.new("sha256")
try:
    socket.getaddrinfo("somewhere.invalid", 1)
except OSError:
    pass
try:
    __import__("pwd").getpwuid(4711)
except KeyError:
    pass
told["work"] = subprocess.run(["{BUNDLE}/bin/busybox", "echo", "é"], capture_output=True, text=True).stdout
"""
"""Loads what is loaded late: libraries of extension modules, of ending threads, and to look up names."""

HOSTILE = {
    "preloaded library": {"LD_PRELOAD": "/hostile/libc.so.6:/hostile/none.so"},
    "library path": {"LD_LIBRARY_PATH": "/hostile"},
    "audit library": {"LD_AUDIT": "/hostile/libc.so.6"},
    "debugging": {"LD_DEBUG": "all", "LD_BIND_NOW": "1", "LD_SHOW_AUXV": "1"},
    "traced objects": {"LD_TRACE_LOADED_OBJECTS": "1"},
    "Python's variables": {
        "PYTHONHOME": "/hostile",
        "PYTHONPATH": "/hostile",
        "PYTHONSTARTUP": "/hostile/json.py",
        "PYTHONINSPECT": "1",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "warn",
        "PYTHONIOENCODING": "ascii",
        "PYTHONWARNINGS": "error",
        "PYTHONPLATLIBDIR": "hostile",
    },
    "shell's variables": {"BASH_ENV": "/hostile/env.sh", "ENV": "/hostile/env.sh", "CDPATH": "/hostile"},
    "shell's functions": {"BASH_FUNC_export%%": "() { echo hostile; }", "BASH_FUNC_exec%%": "() { exit 9; }"},
    "configuration of OpenSSL": {"OPENSSL_CONF": "/hostile/openssl.cnf", "OPENSSL_MODULES": "/hostile"},
    "C library's variables": {
        "GLIBC_TUNABLES": "glibc.malloc.check=3",
        "MALLOC_CHECK_": "3",
        "LOCPATH": "/hostile",
        "GCONV_PATH": "/hostile",
        "NLSPATH": "/hostile/%N",
    },
    "unknown locale": {"LANG": "xx", "LC_CTYPE": "xx_YY.EUC-JP", "LANGUAGE": "xx"},
    "POSIX locale": {"LC_ALL": "POSIX"},
    "legacy locale": {"LANG": "zh_CN.GBK", "LC_ALL": "ja_JP.EUC-JP"},
    "a shell's own": {
        "SHELLOPTS": "noexec:xtrace",
        "BASHOPTS": "extdebug",
        "PS4": "$(exit 9)",
        "IFS": "/",
        "UID": "7",
        "RANDOM": "1",
        "PPID": "2",
        "LINENO": "3",
        "SECONDS": "4",
        "SHLVL": "5",
        "OPTIND": "6",
        "_": "me",
        "PWD": "/nowhere",
        "OLDPWD": "/",
        "HISTFILE": "/hostile",
        "TMOUT": "1",
        "POSIXLY_CORRECT": "1",
    },
    "time zone": {"TZ": ":/hostile/zone"},
    "names that are no shell's": {"a.b": "1", "a-b": "2", "PAI_IMAGE_TAG": "3", "ä": "\udcff"},
    "no path": {"PATH": ""},
}


@pytest.fixture
def scratch(tmp_path: Path, bundle: Path) -> Image:
    """An image with no file of its own."""
    root = tmp_path / "image"
    root.mkdir(0o755)
    return Image(root, bundle)


@pytest.mark.parametrize("env", HOSTILE.values(), ids=HOSTILE)
def test_variables_of_an_image_reach_the_task_and_not_the_runtime(
    scratch: Image, env: dict[str, str]
) -> None:
    told = scratch.launch("one", "two words", env=env)
    assert told.image == env
    assert (told.argv, told.fs) == (["one", "two words"], "utf-8")
    assert not {"LD_PRELOAD", "LD_LIBRARY_PATH", "OPENSSL_CONF", "LANG"} & told.own.keys()


def test_it_needs_no_file_of_an_image(scratch: Image) -> None:
    assert scratch.launch(work=USES_ALL).work == "é\n"


def test_it_needs_no_right(scratch: Image) -> None:
    scratch.launch()
    image = Image(scratch.root, scratch.bundle, user=USER, is_read_only=True)
    assert image.run(f"{BUNDLE}/bin/python3", "-I", "-S", "-c", "import ssl").returncode == 0


def test_scripts_of_plugins_import_with_its_interpreter_what_is_installed_in_it(scratch: Image) -> None:
    ended = scratch.run(f"{BUNDLE}/bin/python3", "-I", "-c", "import pai_hang.watch, pystack.engine")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_signal_that_ends_a_task_gets_lost_while_the_interpreter_starts(scratch: Image) -> None:
    """Nor does one show where it was, as SIGINT would."""
    work = "import signal; told['work'] = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    assert scratch.launch(work=work).work == sorted(STOP_SIGNALS)


@pytest.fixture
def hostile(scratch: Image) -> Image:
    """An image in which all that a C library of a program reads is wrong."""
    files = {
        "etc/ld.so.preload": "/hostile/libc.so.6\n",
        "etc/ld.so.cache": "ld.so-1.7.0\0" * 100,
        "etc/nsswitch.conf": "passwd: hostile\nhosts: hostile [!UNAVAIL=return] dns\n",
        "etc/resolv.conf": "nameserver hostile\noptions " + "x" * 5000 + "\n",
        "etc/hosts": "\0" * 5000,
        "usr/lib/ssl/openssl.cnf": "openssl_conf = x\n[x]\nproviders = y\n[y]\nz = z\n[z]\nactivate = 1\n",
        "usr/local/lib/python3/site-packages/hostile.pth": "import hostile\n",
        "hostile/env.sh": "exit 9\n",
        "hostile/json.py": "raise SystemExit(9)\n",
    }
    for name, text in files.items():
        path = scratch.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for folder in ("usr/lib", "usr/local/lib", "usr/local/pai/lib"):
        encodings = scratch.root / folder / version / "encodings/__init__.py"
        encodings.parent.mkdir(parents=True)
        encodings.write_text("raise SystemExit(9)\n")
        encodings.parents[1].joinpath("os.py").write_text("raise SystemExit(9)\n")
        (scratch.root / folder / f"{version.replace('.', '')}.zip").write_text("")
    for name in ("libc.so.6", "libz.so.1", "libcrypto.so.3", "libgcc_s.so.1", "libnss_hostile.so.2"):
        for folder in (
            "hostile",
            "lib",
            "usr/lib",
            "lib64",
            "lib/x86_64-linux-gnu",
            "usr/lib/x86_64-linux-gnu",
        ):
            path = scratch.root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\x7fELF hostile")
    return Image(scratch.root, scratch.bundle, has_proc=True)


_NEVER_READ = (
    *("etc/localtime", "usr/share/zoneinfo/UTC", "usr/share/locale/locale.alias", "hostile/zone"),
    *("usr/lib/locale/locale-archive", "usr/lib/locale/zh_CN.gbk/LC_CTYPE", "usr/lib/locale/C.utf8/LC_CTYPE"),
    *("usr/lib/x86_64-linux-gnu/gconv/gconv-modules", "usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache"),
    *("hostile/zh_CN.GBK/LC_CTYPE", "hostile/gconv-modules"),
)
_LOCALES = {
    "unset": {},
    "UTF-8": {"LANG": "C.UTF-8"},
    "legacy": {"LANG": "zh_CN.GBK", "LANGUAGE": "zh_CN"},
    "with places": {
        "LANG": "zh_CN.GBK",
        "LOCPATH": "/hostile",
        "GCONV_PATH": "/hostile",
        "TZ": ":/hostile/zone",
    },
}


@pytest.mark.parametrize("env", _LOCALES.values(), ids=_LOCALES)
def test_nothing_of_it_opens_an_images_locales_and_times(scratch: Image, env: dict[str, str]) -> None:
    """Each is a FIFO: whoever opens it waits for ever."""
    for name in _NEVER_READ:
        path = scratch.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    work = "import time; told['work'] = time.strftime('%Y', time.gmtime(0))"
    assert scratch.launch(env=env, work=work).work == "1970"
    for shell in ("bash", "sh"):
        done = scratch.run(f"{BUNDLE}/applets/{shell}", "-c", "x=é; echo ran", env=env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_the_launcher_says_what_it_cannot_execute(tmp_path: Path) -> None:
    path = tmp_path / "launcher"
    path.write_bytes(launcher_for(platform.machine(), ["/nowhere/python", "-I"]))
    path.chmod(0o755)
    done = subprocess.run([path, "one"], capture_output=True, text=True, check=False)
    assert (done.returncode, "/nowhere/python" in done.stderr) == (RUNTIME_ERROR, True)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_launcher_hands_over_its_arguments_and_hidden_variables(tmp_path: Path, count: int) -> None:
    path = tmp_path / "launcher"
    path.write_bytes(launcher_for(platform.machine(), ["/usr/bin/env", "--null", "--"][: 2 + bool(count)]))
    path.chmod(0o755)
    env = {"A": "1", "b.c": "", "LD_PRELOAD": "/nowhere", "\u00e4": "\udcff", "LONG": "x" * 100_000}
    args = ["A=one", "B=two words", "C="][:count]
    done = subprocess.run([path, *args], env=env, capture_output=True, check=True)
    found = dict(each.split("=", 1) for each in os.fsdecode(done.stdout).split("\0") if each)
    own = dict(each.split("=") for each in args)
    assert {name: found.pop(name) for name in own} == own
    assert image_environment(found) == env


def test_no_file_of_an_image_gets_into_it(hostile: Image) -> None:
    told = hostile.launch(env=HOSTILE["preloaded library"] | HOSTILE["library path"], work=USES_ALL)
    assert told.work == "é\n"
    assert told.mapped
    assert [path for path in told.mapped if not path.startswith(f"{BUNDLE}/")] == []
