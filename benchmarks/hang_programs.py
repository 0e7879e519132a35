"""What `hangs` runs: programs that hang, each with a culprit, and programs that are silent and healthy."""

import shlex
import sys
from collections.abc import Iterator

SYSTEM_PYTHON = "/usr/bin/python3"
CULPRIT = 1
"""The rank that is to blame."""

_JOIN = """
import ctypes, os, signal, sys, threading, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(4)
for step in range(3):
    dist.all_reduce(x)
print("steps are done", flush=True)
"""
_REST = "\ndist.all_reduce(x)\n"
_LOADER = """
class Shards(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        if rank == 1 and index == 3:
            os.mkfifo("shard"); open("shard").read()
        return x
for batch in torch.utils.data.DataLoader(Shards(), num_workers=1):
    dist.all_reduce(x)
"""
_LOST = """
import socket, struct
if rank == 1:  # a filter of each socket drops all packets to it, as a network does that has lost the node
    nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    drop = struct.pack("HxxxxxxP", 1, ctypes.addressof(nothing))
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            socket.socket(fileno=os.dup(fd)).setsockopt(socket.SOL_SOCKET, 26, drop)
        except OSError:
            pass
"""
_MOUNT = """
def mount():
    libc, fuse = ctypes.CDLL(None, use_errno=True), os.open("/dev/fuse", os.O_RDWR)
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fuse
    os.mkdir("dead")
    assert not libc.unshare(0x20000) and not libc.mount(None, b"/", None, 0x44000, None)
    assert not libc.mount(b"dead", b"dead", b"fuse", 0, options), ctypes.get_errno()
    return fuse
"""
_FUSE = """
if rank == 1:  # a file system whose server is gone
    mount()
    open("dead/shard").read()
"""
_STOPPED_SERVER = """
import struct
def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("6Q10I", node, 1 << 26, *[0] * 7, mode, 1, 0, 0, 0, 4096, 0)
def serve(fuse):  # as much of the protocol as a reader of one file needs
    begun = struct.pack("4I2H2I2H8I", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 32, *[0] * 9)
    found = struct.pack("4Q2I", 2, 0, 9, 9, 0, 0) + attributes(2)
    while True:
        request = os.read(fuse, 1 << 21)
        _, kind, number, node = struct.unpack_from("IIQQ", request)
        answers = {26: begun, 1: found, 3: struct.pack("2Q", 9, 0) + attributes(node), 14: bytes(16)}
        answer = answers.get(kind, b"")
        if kind == 15:
            _, offset, size = struct.unpack_from("QQI", request, 40)
            if offset >= 1 << 22: time.sleep(100000)
            answer = bytes(size)
        if kind not in (2, 42):
            head = struct.pack("IiQ", 16 + len(answer), 0 if answer else -38, number)
            os.write(fuse, head + answer)
class Shards(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        if rank == 1:
            with open("dead/shard", "rb") as shard: shard.seek(index << 20); shard.read(1 << 20)
        return x
if rank == 1:
    fuse = mount()
    if not os.fork(): os.fork() or serve(fuse); os._exit(0)
    os.wait(); os.close(fuse)
for batch in torch.utils.data.DataLoader(Shards(), num_workers=1):
    dist.all_reduce(x)
"""
_SPIN = """
if rank == 1:
    while True: pass
"""
GLOO = {
    "stopped by SIGSTOP": "if rank == 1: os.kill(os.getpid(), signal.SIGSTOP)",
    "held GIL": "if rank == 1: ctypes.PyDLL(None).sleep(100000)",
    "mismatched collectives": "if rank == 1: dist.barrier()",
    "a rank that leaves the steps": "if rank == 1: time.sleep(100000)",
    "a rank that computes for ever": _SPIN,
    "stuck read of a FIFO": "if rank == 1: os.mkfifo('shard'); open('shard').read()",
    "deadlock of threads": "if rank == 1: lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "lock of a file": "if rank == 1: import fcntl; f = open('l', 'w'); fcntl.flock(f, 2); "
    "os.fork() or time.sleep(100000); g = open('l', 'w'); fcntl.flock(g, 2)",
    "key that nobody sets": "if rank == 1: dist.distributed_c10d._get_default_store().get('never')",
}
MPI = """
import time
from mpi4py import MPI
def train(world):
    world.allreduce(1)
    print("steps are done", flush=True)
    if world.rank == 1: time.sleep(100000)
    world.allreduce(1)
train(MPI.COMM_WORLD)
"""
JAX = """
import os, time, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
    cluster_detection_method="deactivate",
)
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("begin")
print("steps are done", flush=True)
if jax.process_index() == 1: time.sleep(100000)
multihost_utils.sync_global_devices("end")
"""


def gloo_kinds(*, is_root: bool) -> dict[str, str]:
    """Return the commands of three ranks that PyTorch's gloo joins, by what hangs."""
    programs = {name: f"{_JOIN}{culprit}{_REST}" for name, culprit in GLOO.items()}
    programs["starved loader"] = f"{_JOIN}{_LOADER}"
    if is_root:  # what some kernels allow nobody else
        programs["lost peer"] = f"{_JOIN}{_LOST}{_REST}"
        programs["file system without its server (FUSE)"] = f"{_JOIN}{_MOUNT}{_FUSE}{_REST}"
        programs["file server that stops (FUSE)"] = f"{_JOIN}{_MOUNT}{_STOPPED_SERVER}"
    return {name: _python(program, SYSTEM_PYTHON) for name, program in programs.items()}


def mpi_command(*, ranks: int) -> str:
    """Return the command of one task in which Open MPI joins so many ranks."""
    allow = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    return f"{allow} mpirun --oversubscribe -n {ranks} {_python(MPI, SYSTEM_PYTHON)}"


def jax_command(python: str) -> str:
    """Return the command of a rank of JAX."""
    return _python(JAX, python)


def healthy(silent: float, number: int, notebook: str = "") -> dict[str, list[str]]:
    """Return so many commands, by what they do, that write nothing for `silent` seconds, and end well.

    `notebook` is a Python that has ipykernel; empty if there is none.
    """
    families: dict[str, list[str]] = {}
    for longer in (1, 1.2, 1.4, 1.6):
        for name, commands in _families(silent * longer, notebook):
            families.setdefault(name, []).extend(
                each for each in commands if each not in families.get(name, ())
            )
    found: dict[str, list[str]] = {name: [] for name in families}
    for turn in range(number):
        for name, commands in families.items():
            if turn < len(commands) and sum(map(len, found.values())) < number:
                found[name].append(commands[turn])
    return found


def _families(silent: float, notebook: str) -> Iterator[tuple[str, list[str]]]:
    ended = f"timeout {silent}"
    yield "sleep", [f"sleep {silent}"]
    yield (
        "shell that polls",
        [f"for i in $(seq {silent / wait:.0f}); do sleep {wait}; done" for wait in (1, 2, 5)],
    )
    yield "pipeline", [f"(sleep {silent}; echo end) | {' | '.join(['cat'] * number)}" for number in (1, 4)]
    shells = "sh", "bash", f"{SYSTEM_PYTHON} -i", "cat"
    yield "interactive shell", [f"{ended} sh -c 'sleep 100000 | {shell}' || true" for shell in shells]
    yield "server", [f"{ended} {_python(program)} || true" for program in _SERVERS]
    if notebook:
        yield "kernel of a notebook", [f"{ended} {notebook} -m ipykernel_launcher || true"]
    for name, programs in _PYTHONS.items():
        yield name, [_python(program.replace("SILENT", f"{silent:g}")) for program in programs]


_MAIN = "import asyncio\nasync def main():\n    "
_SERVERS = (
    "import http.server; http.server.test(port=0, bind='127.0.0.1')",
    "import socket; socket.create_server(('127.0.0.1', 0)).accept()",
    "import socketserver; socketserver.ThreadingTCPServer(('127.0.0.1', 0), None).serve_forever()",
    f"{_MAIN}await (await asyncio.start_server(print, '', 0)).serve_forever()\nasyncio.run(main())",
    "import xmlrpc.server as x; x.SimpleXMLRPCServer(('127.0.0.1', 0)).serve_forever()",
    "from multiprocessing.managers import BaseManager; BaseManager().get_server().serve_forever()",
)
_UNTIL = "import hashlib, os, time, zlib\nend = time.monotonic() + SILENT\nwhile time.monotonic() < end: "
_POOL = "import multiprocessing, time\nwith multiprocessing.get_context('{}').Pool(3) as pool: {}"
_BESIDE = "import os, queue, threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
_PYTHONS = {
    "compiler": [
        f"{_UNTIL}pass",
        f"{_UNTIL}sorted(range(10**5))",
        f"{_UNTIL}compile('x = 1\\n' * 10**4, '', 'exec')",
    ],
    "computing in C": [
        f"{_UNTIL}hashlib.pbkdf2_hmac('sha256', b'', b'', 10**7)",
        f"{_UNTIL}zlib.compress(bytes(10**8))",
        f"{_UNTIL}pow(3, 10**6)",
        f"{_UNTIL}sum(range(10**8))",
    ],
    "evaluation with pauses": [
        f"{_UNTIL}sum(range(10**{size})); time.sleep({wait})" for size in (4, 5) for wait in (0.5, 1, 2, 5, 9)
    ],
    "checkpoint to a slow disk": [
        f"f = open('c', 'wb', 0)\n{_UNTIL}f.write(bytes({size})); os.fsync(f); time.sleep({wait})"
        for size in (5_000, 50_000, 1_000_000)
        for wait in (0.5, 1, 2)
    ],
    "slow download": [
        "import subprocess\np = subprocess.Popen(['sh', '-c', 'for i in $(seq 1000); do "
        f"sleep {wait}; head -c 50000 /dev/zero; done'], stdout=-1)\n"
        f"{_UNTIL}os.read(p.stdout.fileno(), 99999)\np.kill()"
        for wait in (0.3, 1, 2)
    ],
    "event loop": [
        f"{_MAIN}{work}\nasyncio.run(main())"
        for work in (
            "await asyncio.sleep(SILENT)",
            "await asyncio.gather(*map(asyncio.sleep, [SILENT] * 9))",
            "await asyncio.to_thread(__import__('time').sleep, SILENT)",
            "await (await asyncio.create_subprocess_exec('sleep', 'SILENT')).wait()",
            "await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=SILENT)",
        )
    ],
    "threads": [
        f"{_BESIDE}{work}"
        for work in (
            "with ThreadPoolExecutor(1) as pool: pool.submit(time.sleep, SILENT)",
            "with ThreadPoolExecutor(4) as pool: list(pool.map(time.sleep, [SILENT] * 16))",
            "threading.Event().wait(SILENT)",
            "threading.Timer(SILENT, print).start()",
            "try: queue.Queue().get(timeout=SILENT)\nexcept queue.Empty: pass",
        )
    ],
    "pool of processes": [
        _POOL.format(how, work)
        for how in ("fork", "forkserver")
        for work in (
            "time.sleep(SILENT)",
            "pool.map(time.sleep, [SILENT])",
            "pool.apply_async(time.sleep, [SILENT]).wait()",
        )
    ],
    "child processes": [
        f"import os, subprocess\n{work}"
        for work in (
            "subprocess.run(['sleep', 'SILENT'])",
            "os.system('sleep SILENT')",
            "subprocess.check_output(['sleep', 'SILENT'])",
            "subprocess.run('sleep SILENT | cat', shell=True)",
            "subprocess.Popen(['sleep', 'SILENT'], stdin=-1, stdout=-1, stderr=-1).communicate()",
        )
    ],
    "waiting for input or a signal": [
        f"import os, select, signal, socket\n{work}"
        for work in (
            "signal.alarm(int(SILENT)); signal.sigwait([signal.SIGALRM])",
            "signal.signal(14, print); signal.alarm(int(SILENT)); signal.pause()",
            "select.select([], [], [], SILENT)",
            "select.epoll().poll(SILENT)",
            "select.select([os.pipe()[0]], [], [], SILENT)",
            "s = socket.socketpair()[0]; s.settimeout(SILENT)\ntry: s.recv(1)\nexcept OSError: pass",
        )
    ],
    "prompt without input": [
        f"{_BESIDE}import code\nreads = os.pipe()[0]\nthreading.Timer(SILENT, os._exit, [0]).start();{prompt}"
        for prompt in ("code.interact(lambda _: os.read(reads, 9).decode())", "os.dup2(reads, 0); input()")
    ],
}


def _python(program: str, python: str = sys.executable) -> str:
    return f"{python} -c {shlex.quote(program)}"
