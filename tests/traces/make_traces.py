"""Writes the traces that tests read, beside this file.

torch_cpu.json        a real export of torch.profiler from a run on a CPU: the shape of the file, and no kernel of a GPU in it.
torch_cuda.json.gz    that file with MADE UP events of a GPU added: one decode step of two layers. No GPU was involved.
nsys.sqlite           the same step as MADE UP tables of an Nsight Systems export, with the columns of its user guide.
nsys_ranges.sqlite    a MADE UP export of a server with our NVTX ranges: a graph captured in them and replayed, REPLAYED below.

The made up step, in microseconds, is STEP below; tests/engine/sync_tax/trace_import_test.cpp knows what it comes to.
Usage: make_traces.py   (needs torch for the first file only; without it the file that is there stays)
"""

import gzip
import json
import pathlib
import sqlite3

FOLDER = pathlib.Path(__file__).parent
TRACED_AT_US = 5150373510195.654  # where a real export has its events
ATTENTION = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>(Flash_fwd_params)"
ROUTER = "void vllm::moe::topkGating<8, 128, 4, 16>(float const*, bool const*, float*, int, int*)"
EXPERTS = "fused_moe_kernel"
SUM = "void vllm::moe::moe_sum_kernel<__nv_bfloat16, 8>(__nv_bfloat16*, __nv_bfloat16 const*, int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MYSTERY = "a_kernel_that_nobody_knows"

# What, name or direction, begin, end, bytes.
LAYER = [
    ("kernel", ATTENTION, 0, 20, 0),
    ("kernel", ROUTER, 22, 27, 0),
    ("copy", "DtoH", 28, 30, 512),
    ("copy", "HtoD", 40, 90, 9_437_184),
    ("kernel", EXPERTS, 80, 120, 0),
    ("kernel", SUM, 121, 125, 0),
    ("kernel", REDUCE, 126, 134, 0),
    ("kernel", MYSTERY, 134, 136, 0),
    ("call", "cudaStreamSynchronize", 27, 31, 0),
    ("call", "cudaLaunchKernel", 36, 39, 0),
]
LAYER_US = 140
STEP = [(what, name, begin + layer * LAYER_US, end + layer * LAYER_US, size) for layer in range(2)
        for what, name, begin, end, size in LAYER]


def write_real_trace() -> None:
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile, record_function
    except ImportError:
        return
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64))
    with profile(activities=[ProfilerActivity.CPU]) as recorded, record_function("decode step"):
        model(torch.randn(4, 64)).softmax(-1).topk(2)
    path = FOLDER / "torch_cpu.json"
    recorded.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    trace["host_name"] = "host"
    trace["traceName"] = "torch_cpu.json"
    path.write_text(json.dumps(trace, indent=1) + "\n")


def torch_event(what: str, name: str, begin: float, end: float, size: int) -> dict:
    event = {"ph": "X", "name": name, "ts": TRACED_AT_US + begin, "dur": end - begin}
    if what == "call":
        return event | {"cat": "cuda_runtime", "pid": 4242, "tid": 4242, "args": {"cbid": 131}}
    stream = 8 if name == "HtoD" else 7  # experts come on a stream of their own
    device = {"pid": 0, "tid": stream, "args": {"device": 0, "stream": stream, "correlation": 1}}
    if what == "kernel":
        return event | {"cat": "kernel"} | device
    ends = {"HtoD": "Pinned -> Device", "DtoH": "Device -> Pinned"}[name]
    device["args"]["bytes"] = size
    return event | {"cat": "gpu_memcpy"} | device | {"name": f"Memcpy {name} ({ends})"}


def write_torch_trace() -> None:
    trace = json.loads((FOLDER / "torch_cpu.json").read_text())
    trace["traceEvents"] += [torch_event(*event) for event in STEP]
    with open(FOLDER / "torch_cuda.json.gz", "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(json.dumps(trace).encode())


def write_nsys_export() -> None:
    path = FOLDER / "nsys.sqlite"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, graphNodeId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
            globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
            contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            syncType INTEGER NOT NULL, eventId INTEGER NOT NULL);
    """)
    ids: dict[str, int] = {}
    process = 4242 << 24

    def text(value: str) -> int:
        return ids.setdefault(value, len(ids) + 1)

    for number, (what, name, begin, end, size) in enumerate(STEP):
        span = (1_000_000 + 1000 * begin, 1_000_000 + 1000 * end)
        if what == "kernel":
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,?,?,?,NULL,NULL)",
                         (*span, number, process, text(name), text(name.split("(")[0])))
        elif what == "copy":
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,0,1,?,?,?,?,?,1,2,NULL)",
                         (*span, 8 if name == "HtoD" else 7, number, process, size, {"HtoD": 1, "DtoH": 2}[name]))
        else:
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0)",
                         (*span, process | 4242, number, text(name + "_v3020")))
            if "Synchronize" in name:
                base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?,?,0,1,7,?,?,3,4294967295)",
                             (*span, number, process))
    base.executemany("INSERT INTO StringIds VALUES (?,?)", [(number, value) for value, number in ids.items()])
    base.commit()
    base.execute("VACUUM")
    base.close()


# A range, begin and end of a kernel or copy of it, in microseconds of the replay. All kernels have one name.
REPLAYED = [
    ("attention", "kernel", 0, 20),
    ("router", "kernel", 20, 25),
    ("expert_loading", "copy", 30, 50),
    ("gate_up", "kernel", 50, 80),
    ("down_combine", "kernel", 80, 90),
    ("head", "kernel", 95, 100),
]


def write_ranges_export() -> None:
    path = FOLDER / "nsys_ranges.sqlite"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
            shortName INTEGER NOT NULL, graphNodeId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
            copyKind INTEGER NOT NULL, graphNodeId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER,
            textId INTEGER, domainId INTEGER NOT NULL);
        CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER NOT NULL,
            globalTid INTEGER, graphNodeId INTEGER NOT NULL, originalGraphNodeId INTEGER);
    """)
    process = 4242 << 24
    names = {1: "rows_gemm", 2: "cudaGraphLaunch_v10000", 3: "Graph Node Creation", 4: "moetune: router"}
    base.executemany("INSERT INTO StringIds VALUES (?,?)", names.items())
    base.execute("INSERT INTO NVTX_EVENTS VALUES (-900,900000,59,'decode step',?,NULL,0)", (process | 1,))
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (999000,1000000,?,1,2)", (process | 1,))
    for number, (name, what, begin, end) in enumerate(REPLAYED):
        captured = 1000 * number
        text, text_id = (None, 4) if name == "router" else (f"moetune: {name}", None)
        base.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?,?,1)",
                     (captured, captured + 500, text, process | 1, text_id))
        original, copy = 100 + number, 200 + number
        base.execute("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (?,?,3,?,?,NULL)",
                     (captured + 100, captured + 100, process | 1, original))
        base.execute("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (?,?,3,?,?,?)",
                     (50_000 + number, 50_000 + number, process | 1, copy, original))
        span = (1_000_000 + 1000 * begin, 1_000_000 + 1000 * end)
        if what == "kernel":
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,7,1,?,1,1,?)", (*span, process, copy))
        else:
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,0,7,1,?,4096,1,?)", (*span, process, copy))
    base.commit()
    base.execute("VACUUM")
    base.close()


if __name__ == "__main__":
    write_real_trace()
    write_torch_trace()
    write_nsys_export()
    write_ranges_export()
