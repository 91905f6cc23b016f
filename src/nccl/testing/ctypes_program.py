#!/usr/bin/env python3
"""NCCL through ctypes, declared and called as inference engines do it.

    ctypes_program.py LIBRARY     two ranks, as processes; LIBRARY "-": whatever is loaded already
"""
import ctypes
import os
import subprocess
import sys

RANKS = 2
COUNT = 1000
INT32, FLOAT32, BFLOAT16, SUM, MAX = 2, 7, 9, 0, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


comm_t = ctypes.c_void_p
stream_t = ctypes.c_void_p
buffer_t = ctypes.c_void_p
window_t = ctypes.c_void_p
size_t = ctypes.c_size_t
c_int = ctypes.c_int

FUNCTIONS = {
    "ncclGetErrorString": (ctypes.c_char_p, [c_int]),
    "ncclGetVersion": (c_int, [ctypes.POINTER(c_int)]),
    "ncclGetUniqueId": (c_int, [ctypes.POINTER(UniqueId)]),
    "ncclCommInitRank": (c_int, [ctypes.POINTER(comm_t), c_int, UniqueId, c_int]),
    "ncclAllReduce": (c_int, [buffer_t, buffer_t, size_t, c_int, c_int, comm_t, stream_t]),
    "ncclAllGather": (c_int, [buffer_t, buffer_t, size_t, c_int, comm_t, stream_t]),
    "ncclReduceScatter": (c_int, [buffer_t, buffer_t, size_t, c_int, c_int, comm_t, stream_t]),
    "ncclSend": (c_int, [buffer_t, size_t, c_int, c_int, comm_t, stream_t]),
    "ncclRecv": (c_int, [buffer_t, size_t, c_int, c_int, comm_t, stream_t]),
    "ncclBroadcast": (c_int, [buffer_t, buffer_t, size_t, c_int, c_int, comm_t, stream_t]),
    "ncclCommDestroy": (c_int, [comm_t]),
    "ncclGroupStart": (c_int, []),
    "ncclGroupEnd": (c_int, []),
    "ncclCommWindowRegister": (
        c_int, [comm_t, buffer_t, size_t, ctypes.POINTER(window_t), c_int]),
    "ncclCommWindowDeregister": (c_int, [comm_t, window_t]),
}


class Nccl:
    def __init__(self, path):
        self.library = ctypes.CDLL(None if path == "-" else path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def check(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {self.library.ncclGetErrorString(result).decode()}")


def expect(what, found, wanted):
    if found != wanted:
        raise RuntimeError(f"{what}: {found} instead of {wanted}")


def run_rank(nccl, unique_id, rank):
    other = 1 - rank
    comm = comm_t()
    nccl.check("ncclCommInitRank", ctypes.byref(comm), RANKS, unique_id, rank)
    ints = ctypes.c_int32 * COUNT
    data = ints(*range(rank, rank + COUNT))
    total = ints()
    stream = stream_t(0xdead)  # none that could be followed
    nccl.check("ncclAllReduce", data, total, COUNT, INT32, SUM, comm, stream)
    expect("ncclAllReduce", list(total), [2 * i + 1 for i in range(COUNT)])

    both = (ctypes.c_int32 * (RANKS * COUNT))()
    nccl.check("ncclAllGather", data, both, COUNT, INT32, comm, stream)
    expect("ncclAllGather", list(both), [*range(COUNT), *range(1, COUNT + 1)])

    half = COUNT // 2
    part = (ctypes.c_int32 * half)()
    nccl.check("ncclReduceScatter", data, part, half, INT32, MAX, comm, stream)
    expect("ncclReduceScatter", list(part), [rank * half + i + 1 for i in range(half)])

    received = ints()
    nccl.check("ncclGroupStart")
    nccl.check("ncclSend", data, COUNT, INT32, other, comm, stream)
    nccl.check("ncclRecv", received, COUNT, INT32, other, comm, stream)
    nccl.check("ncclGroupEnd")
    expect("ncclRecv", list(received), list(range(other, other + COUNT)))

    nccl.check("ncclBroadcast", data, total, COUNT, INT32, 1, comm, stream)
    expect("ncclBroadcast", list(total), list(range(1, COUNT + 1)))

    # bf16: 1.0 is 0x3f80, 2.0 is 0x4000
    words = (ctypes.c_uint16 * 8)(*[0x3F80] * 8)
    nccl.check("ncclAllReduce", words, words, 8, BFLOAT16, SUM, comm, stream)
    expect("ncclAllReduce of bf16", list(words), [0x4000] * 8)

    window = window_t()
    nccl.check("ncclCommWindowRegister", comm, data, ctypes.sizeof(data), ctypes.byref(window), 1)
    nccl.check("ncclCommWindowDeregister", comm, window)
    nccl.check("ncclCommDestroy", comm)
    print(f"rank {rank}: all right", flush=True)


def main():
    path = sys.argv[1]
    nccl = Nccl(path)
    unique_id = UniqueId()
    if len(sys.argv) > 2:
        text = sys.stdin.buffer.read(128)
        ctypes.memmove(ctypes.byref(unique_id), text, len(text))
        return run_rank(nccl, unique_id, int(sys.argv[2]))
    version = c_int()
    nccl.check("ncclGetVersion", ctypes.byref(version))
    expect("ncclGetVersion, at least 2.27", version.value >= 22700, True)
    nccl.check("ncclGetUniqueId", ctypes.byref(unique_id))
    other = subprocess.Popen([sys.executable, __file__, path, "1"], stdin=subprocess.PIPE)
    other.stdin.write(bytes(unique_id))
    other.stdin.close()
    run_rank(nccl, unique_id, 0)
    if other.wait(timeout=60) != 0:
        raise RuntimeError("rank 1 failed")
    return None


if __name__ == "__main__":
    os.environ.setdefault("IMEX_NCCL_TIMEOUT_MS", "20000")
    main()
