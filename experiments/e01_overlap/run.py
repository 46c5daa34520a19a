#!/usr/bin/env python3
"""Runs experiment e01: sequential, eager and streaming, cold and warm, interleaved; writes one results directory."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recording

VARIANTS = {
    "sequential": ["--scheduler", "sequential", "--mode", "streaming"],
    "eager": ["--scheduler", "omp-tasks", "--mode", "eager"],
    "streaming": ["--scheduler", "omp-tasks", "--mode", "streaming"],
}
READ_STREAMS, READ_BYTES = 2, 2 << 20  # the program's defaults: I/O threads and chunk


def run_once(options, model, variant, cache, scratch):
    """One process. Returns its report and the share of the machine that others used meanwhile."""
    report = scratch / f"{variant}.json"
    command = [options.ompipe, "run", str(model / "model.onnx"), "--prompt-length", str(options.prompt), "--generate", "1",
               "--threads", str(options.threads), "--quiet", "--report", str(report), *VARIANTS[variant]]
    if cache == "cold":
        command.append("--drop-page-cache")
    else:
        recording.warm_pages(model / "model.data")
    _, foreign = recording.beside_others(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    return json.loads(report.read_text()), foreign


def read_alone(path, cache):
    """Wall time of reading the file with as many streams as the runs have, into memory that was touched before."""
    recording.drop_pages(path) if cache == "cold" else recording.warm_pages(path)
    descriptor = os.open(path, os.O_RDONLY)
    size = os.fstat(descriptor).st_size
    buffers = [bytearray(READ_BYTES) for _ in range(READ_STREAMS)]

    def read_every_other(first):
        for offset in range(first * READ_BYTES, size, READ_STREAMS * READ_BYTES):
            os.preadv(descriptor, [buffers[first]], offset)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(READ_STREAMS) as pool:
        list(pool.map(read_every_other, range(READ_STREAMS)))
    took = time.monotonic() - begin
    os.close(descriptor)
    return took


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
    """Returns the samples, the times of reading alone by page cache, and one report for the manifest."""
    rng = random.Random(options.seed)
    samples, reads = [], {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            for cache in rng.sample(["cold", "warm"], 2):
                for variant in rng.sample([*VARIANTS, "read"], len(VARIANTS) + 1):
                    if variant == "read":
                        reads[cache].append(read_alone(model / "model.data", cache))
                        continue
                    report, foreign = run_once(options, model, variant, cache, pathlib.Path(folder))
                    samples.append(sample_of(report, variant, cache, repeat, foreign))
    return samples, reads, report


def hidden(sample, io_side_s):
    """The contract's `hidden` of one run, for a given I/O side; without --bound-from its sum is its own reads and its CPU side."""
    cpu_side_s = sample["overlap"]["sum_s"] - sample["work"]["read_s"]
    total, longest = io_side_s + cpu_side_s, max(io_side_s, cpu_side_s)
    return (total - sample["overlap"]["measured_s"]) / (total - longest) if total - longest >= 0.05 * total else None


def spread(values):
    values = [v for v in values if v is not None]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None


def summary_of(samples, reads):
    rows = []
    for cache in ("cold", "warm"):
        of_cache = [s for s in samples if s["cache"] == cache]
        one_stream_s = statistics.median(s["work"]["read_s"] for s in of_cache if s["variant"] == "sequential")
        alone_s = statistics.median(reads[cache])
        for variant in VARIANTS:
            chosen = [s for s in of_cache if s["variant"] == variant]
            rows.append({"cache": cache, "variant": variant, "first_output_s": spread(s["first_output_s"] for s in chosen),
                         "ready_s": spread(s["ready_s"] for s in chosen),
                         "one_stream_read_s": one_stream_s, "hidden_one_stream": spread(hidden(s, one_stream_s) for s in chosen),
                         "read_alone_s": alone_s, "hidden": spread(hidden(s, alone_s) for s in chosen)})
    return rows


def verdict_of(samples):
    reasons = []
    if len({(tuple(s["tokens"]), s["digest"]) for s in samples}) != 1:
        reasons.append("outputs differ between runs")
    reasons += recording.disturbed(samples, "ready_s")
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

    model = recording.generated_model(options.ompipe, options.models, options.preset, options.accuracy_level)
    samples, reads, report = measure(options, model)
    verdict, reasons = verdict_of(samples)
    manifest = {"command": ["experiments/e01_overlap/run.py", options.preset, f"--repeats={options.repeats}"], "seed": options.seed,
                **recording.machine(), **recording.program_of(report),
                "model": recording.model_of(model, options.preset, options.accuracy_level),
                "read_alone_s": reads, "verdict": verdict, "reasons": reasons}
    rows = summary_of(samples, reads)
    folder = recording.write_run(options.results, "e01_overlap", manifest, samples, rows)

    print(f"{verdict} {'; '.join(reasons)}")
    print(f"{'cache':6}{'variant':12}{'first output':>14}{'all ready':>12}{'read alone':>12}{'hidden':>9}{'(one stream)':>14}")
    for row in rows:
        cells = [f"{row[k]['median'] * 1e3:.0f} ms" for k in ("first_output_s", "ready_s")] + [f"{row['read_alone_s'] * 1e3:.0f} ms"]
        shares = [f"{row[k]['median']:.2f}" if row[k] else "-" for k in ("hidden", "hidden_one_stream")]
        print(f"{row['cache']:6}{row['variant']:12}{cells[0]:>14}{cells[1]:>12}{cells[2]:>12}{shares[0]:>9}{shares[1]:>14}")
    print(folder)
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
