#!/usr/bin/env python3
"""Runs experiment e01: sequential, eager and streaming, cold and warm, interleaved; writes one results directory."""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile

VARIANTS = {
    "sequential": ["--scheduler", "sequential", "--mode", "streaming"],
    "eager": ["--scheduler", "omp-tasks", "--mode", "eager"],
    "streaming": ["--scheduler", "omp-tasks", "--mode", "streaming"],
}


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


def busy_jiffies():
    fields = [int(x) for x in first_line("/proc/stat").splitlines()[0].split()[1:]]
    return sum(fields) - fields[3] - fields[4]


def run_once(options, model, variant, cache, bound, scratch):
    """One process. Returns its report and the share of the machine that others used meanwhile."""
    report = scratch / f"{variant}.json"
    command = [options.ompipe, "run", str(model / "model.onnx"), "--prompt-length", str(options.prompt), "--generate", "1",
               "--threads", str(options.threads), "--quiet", "--report", str(report), *VARIANTS[variant]]
    if cache == "cold":
        command.append("--drop-page-cache")
    else:
        for name in ("model.onnx", "model.data"):
            (model / name).read_bytes()
    if bound:
        command += ["--bound-from", str(bound)]
    busy = busy_jiffies()
    usage = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    own = (after.children_user + after.children_system - usage.children_user - usage.children_system) * os.sysconf("SC_CLK_TCK")
    return json.loads(report.read_text()), max(0.0, busy_jiffies() - busy - own)


def sample_of(report, variant, cache, repeat, foreign):
    milestones = report["milestones"]
    return {
        "variant": variant, "cache": cache, "repeat": repeat, "foreign_jiffies": foreign,
        "first_output_s": milestones["first_output"] - milestones["first_read"],
        "ready_s": max(milestones["first_output"], milestones.get("fully_prepared", 0)) - milestones["first_read"],
        "overlap": report["overlap"], "work": report["work"], "faults": report["faults"],
        "peak_rss": report["memory"]["peak_rss"],
        "tokens": report["runs"][0]["tokens"], "digest": report["runs"][0]["output_digest"],
        "physical_read": report["bytes"]["physical_read"],
    }


def measure(options, model):
    rng = random.Random(options.seed)
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for repeat in range(options.repeats):
            for cache in rng.sample(["cold", "warm"], 2):
                base, foreign = run_once(options, model, "sequential", cache, None, scratch)
                samples.append(sample_of(base, "sequential", cache, repeat, foreign))
                bound = scratch / "bound.json"
                bound.write_text(json.dumps(base))
                for variant in rng.sample(["eager", "streaming"], 2):
                    report, foreign = run_once(options, model, variant, cache, bound, scratch)
                    samples.append(sample_of(report, variant, cache, repeat, foreign))
    return samples, base


def summary_of(samples):
    rows = []
    for cache in ("cold", "warm"):
        for variant in VARIANTS:
            chosen = [s for s in samples if s["variant"] == variant and s["cache"] == cache]
            def middle(pick):
                values = [v for v in map(pick, chosen) if v is not None]
                return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None
            rows.append({"cache": cache, "variant": variant, "first_output_s": middle(lambda s: s["first_output_s"]),
                         "ready_s": middle(lambda s: s["ready_s"]), "bound_s": middle(lambda s: s["overlap"].get("bound_s")),
                         "hidden": middle(lambda s: s["overlap"].get("hidden"))})
    return rows


def verdict_of(samples):
    reasons = []
    if len({(tuple(s["tokens"]), s["digest"]) for s in samples}) != 1:
        reasons.append("outputs differ between runs")
    loud = [s for s in samples if s["foreign_jiffies"] > 0.1 * 100 * max(0.1, s["ready_s"]) * (os.cpu_count() or 1)]
    if len(loud) > len(samples) // 3:
        reasons.append(f"other processes used more than a tenth of the machine in {len(loud)} of {len(samples)} runs")
    return ("INVALID" if reasons else "VALID"), reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ompipe")
    parser.add_argument("preset")
    parser.add_argument("--accuracy-level", default="4")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", default="build/models", help="where models are generated and kept")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    model = pathlib.Path(options.models) / f"{options.preset}-acc{options.accuracy_level}"
    if not (model / "model.onnx").exists():
        subprocess.run([options.ompipe, "generate", options.preset, str(model), "--accuracy-level", options.accuracy_level], check=True)
    samples, report = measure(options, model)
    verdict, reasons = verdict_of(samples)

    system = "".join(c if c.isalnum() else "-" for c in f"{cpu_name()}-{os.cpu_count()}cpu").strip("-").lower()
    utc = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    sha = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    dirty = bool(subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True).stdout.strip())
    folder = pathlib.Path(options.results) / "e01_overlap" / system / f"{utc}_{sha[:8]}"
    folder.mkdir(parents=True)
    manifest = {
        "command": ["experiments/e01_overlap/run.py", options.preset, f"--repeats={options.repeats}"],
        "seed": options.seed, "git": sha, "dirty": dirty, "compiler": report["compiler"],
        "openmp_runtime": report["openmp_runtime"].split(",")[0], "openmp_environment": report["openmp_environment"],
        "isa": report["isa"], "cpu": cpu_name(), "cpus": os.cpu_count(), "kernel": platform.release(),
        "thp": first_line("/sys/kernel/mm/transparent_hugepage/enabled"), "slice": report["scheduling_slice"],
        "model": {"preset": options.preset, "accuracy_level": options.accuracy_level, "sha256": sha256(model / "model.data"),
                  "bytes": (model / "model.data").stat().st_size},
        "verdict": verdict, "reasons": reasons,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    (folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    rows = summary_of(samples)
    (folder / "summary.json").write_text(json.dumps(rows, indent=1) + "\n")
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / n)}  {n}\n" for n in ("manifest.json", "samples.jsonl", "summary.json")))

    print(f"{verdict} {'; '.join(reasons)}")
    print(f"{'cache':6}{'variant':12}{'first output':>14}{'all ready':>12}{'bound':>10}{'hidden':>9}")
    for row in rows:
        cells = [f"{row[k]['median'] * 1e3:.0f} ms" if row[k] else "-" for k in ("first_output_s", "ready_s", "bound_s")]
        hidden = f"{row['hidden']['median']:.2f}" if row["hidden"] else "-"
        print(f"{row['cache']:6}{row['variant']:12}{cells[0]:>14}{cells[1]:>12}{cells[2]:>10}{hidden:>9}")
    print(folder)
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
