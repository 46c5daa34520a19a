"""What runs of experiments need: the machine, the page cache, what other processes used, a results directory."""
import ctypes
import datetime
import hashlib
import json
import mmap
import os
import pathlib
import platform
import re
import subprocess
import time


def first_line(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return ""


def cpu_name():
    for line in first_line("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def drop_pages(path):
    """Takes a file out of the page cache, or raises if pages of it stay."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if (share := resident_share(path)) != 0:
        raise RuntimeError(f"{share:.1%} of {path} stayed in the page cache")


def warm_pages(path):
    """Reads a file into the page cache, or raises if more than a few pages of it don't stay: a kernel that reclaims ahead takes some."""
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass
    if (share := resident_share(path)) < 0.999:
        raise RuntimeError(f"only {share:.1%} of {path} is in the page cache")


def resident_share(path):
    """The share of a file's pages in the page cache, by mincore."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = os.path.getsize(path)
    pages = -(-size // mmap.PAGESIZE)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as area:
        # A private writable mapping, because ctypes takes addresses of writable buffers only; nothing is written.
        address = ctypes.addressof(anchor := ctypes.c_char.from_buffer(area))
        states = (ctypes.c_ubyte * pages)()
        failed = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states)
        del anchor
    if failed:
        raise OSError(ctypes.get_errno(), f"mincore of {path}")
    return sum(state & 1 for state in states) / pages


def busy_jiffies():
    fields = [int(x) for x in first_line("/proc/stat").splitlines()[0].split()[1:]]
    return sum(fields) - fields[3] - fields[4]


def beside_others(run):
    """What `run` returned, and the jiffies that others than its children used meanwhile."""
    busy, before = busy_jiffies(), os.times()
    result = run()
    after = os.times()
    own = after.children_user + after.children_system - before.children_user - before.children_system
    return result, max(0.0, busy_jiffies() - busy - own * os.sysconf("SC_CLK_TCK"))


def loud(foreign_jiffies, seconds):
    """Whether others used more than a tenth of the machine."""
    return foreign_jiffies > 0.1 * os.sysconf("SC_CLK_TCK") * max(0.1, seconds) * (os.cpu_count() or 1)


def disturbed(samples, seconds):
    """The reasons, one or none, against samples of which more than a third were loud; `seconds` names how long each took."""
    noisy = sum(loud(sample["foreign_jiffies"], sample[seconds]) for sample in samples)
    if noisy <= len(samples) // 3:
        return []
    return [f"other processes used more than a tenth of the machine in {noisy} of {len(samples)} runs"]


def benchmark_names(program):
    return subprocess.run([program, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout.split()


def interleaved(program, template, wildcard, repeats, min_time):
    """Every repetition of a Google Benchmark program's benchmarks that are named as `template`, with a word or a number for each
    `{}`, which `wildcard` matches; in random order. Gives them, and whether others used more than a tenth of the machine."""
    # The program's regular expressions know no escaped hyphen.
    pattern = "^" + re.escape(template).replace(r"\{\}", wildcard).replace(r"\-", "-") + "$"
    command = [program, f"--benchmark_filter={pattern}", "--benchmark_enable_random_interleaving=true",
               f"--benchmark_repetitions={repeats}", f"--benchmark_min_time={min_time}", "--benchmark_format=json"]
    begin = time.monotonic()
    done, foreign = beside_others(lambda: subprocess.run(command, capture_output=True, text=True))
    seconds = time.monotonic() - begin
    if done.returncode:
        raise RuntimeError(f"{template}: {done.stderr.strip().splitlines()[-1:]}")
    runs = [run for run in json.loads(done.stdout)["benchmarks"] if run["run_type"] == "iteration"]
    return runs, loud(foreign, seconds)


def generated_model(program, folder, preset, level):
    """The folder of a generated model; made if it isn't there."""
    model = pathlib.Path(folder) / f"{preset}-acc{level}"
    if not (model / "model.onnx").exists():
        subprocess.run([program, "generate", preset, str(model), "--accuracy-level", level], check=True)
    return model


def machine():
    """The manifest's fields about where this runs, and from which commit."""
    git = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
    return {"git": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain")), "cpu": cpu_name(),
            "cpus": os.cpu_count(), "affinity": sorted(os.sched_getaffinity(0)), "kernel": platform.release(),
            "thp": first_line("/sys/kernel/mm/transparent_hugepage/enabled")}


def program_of(report):
    """The manifest's fields about the measured program, from one of its reports."""
    return {"compiler": report["compiler"], "openmp_runtime": report["openmp_runtime"].split(",")[0],
            "openmp_environment": report["openmp_environment"], "isa": report["isa"], "slice": report["scheduling_slice"]}


def model_of(model, preset, level):
    data = model / "model.data"
    return {"preset": preset, "accuracy_level": level, "sha256": sha256(data), "bytes": data.stat().st_size}


def write_run(results, experiment, manifest, samples, summary):
    """Writes results/<experiment>/<system>/<utc>_<sha8>/ and returns it."""
    system = "".join(c if c.isalnum() else "-" for c in f"{cpu_name()}-{os.cpu_count()}cpu").strip("-").lower()
    utc = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    folder = pathlib.Path(results) / experiment / system / f"{utc}_{manifest['git'][:8]}"
    folder.mkdir(parents=True)
    files = {"manifest.json": json.dumps(manifest, indent=1) + "\n",
             "samples.jsonl": "".join(json.dumps(sample) + "\n" for sample in samples),
             "summary.json": json.dumps(summary, indent=1) + "\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in files))
    return folder
