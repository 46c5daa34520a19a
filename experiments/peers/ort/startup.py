#!/usr/bin/env python3
"""Measures a start beside ONNX Runtime's: from the process's start to the first logits of one prompt, the same model
files, cold and warm, interleaved. Writes one results directory."""
import argparse
import array
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
import recording  # noqa: E402

VARIANTS = {
    "ort": None,
    "sequential": ["--scheduler", "sequential", "--mode", "streaming"],
    "streaming": ["--scheduler", "omp-tasks", "--mode", "streaming"],
}
PROMPT = ",".join(str((i * 4099 + 17) % 8192) for i in range(32))


def model_at(options, level):
    return recording.generated_model(options.ompipe, options.models, options.preset, level)


def run_ort(options, model, *more):
    """Seconds from the start of the process to each point that the script reports. `after_loading_s` begins when the
    libraries are loaded, here and below: without node's own start."""
    start = time.monotonic_ns()
    done = subprocess.run(["node", str(HERE / "first_logits.js"), str(model / "model.onnx"), str(options.threads), PROMPT, *more],
                          check=True, capture_output=True, text=True)
    result = json.loads(done.stdout)
    phases = {name: (at - start) * 1e-9 for name, at in result["clock_ns"].items()}
    first = phases.pop("first_logits")
    return {"first_logits_s": first, "after_loading_s": first - phases["library"], "phases_s": phases, "tokens": result["tokens"],
            "peak_rss": result["peak_rss"], "engine": result["engine"]}


def run_ompipe(options, model, variant, scratch, *more):
    """The report counts from the process's first own instruction. What comes before, the loader, is at most what the
    same program takes to print its version and end; that is added."""
    start = time.monotonic_ns()
    subprocess.run([options.ompipe, "--version"], check=True, stdout=subprocess.DEVNULL)
    loader = (time.monotonic_ns() - start) * 1e-9
    report = scratch / "report.json"
    subprocess.run([options.ompipe, "run", str(model / "model.onnx"), "--prompt", PROMPT, "--generate", "1", "--quiet",
                    "--threads", str(options.threads), "--report", str(report), *VARIANTS[variant], *more],
                   check=True, stdout=subprocess.DEVNULL)
    result = json.loads(report.read_text())
    milestones = result["milestones"]
    phases = {name: milestones[name] + loader for name in ("session_ready", "first_read", "fully_prepared") if name in milestones}
    return {"first_logits_s": milestones["first_output"] + loader, "after_loading_s": milestones["first_output"],
            "phases_s": {"loader": loader, **phases},
            "tokens": result["runs"][0]["tokens"], "peak_rss": result["memory"]["peak_rss"],
            "digest": result["runs"][0]["output_digest"], "engine": recording.program_of(result)}


def sample(options, model, variant, cache, repeat, scratch):
    for name in ("model.onnx", "model.data"):
        (recording.drop_pages if cache == "cold" else recording.warm_pages)(model / name)
    run = (lambda: run_ort(options, model)) if variant == "ort" else (lambda: run_ompipe(options, model, variant, scratch))
    result, foreign = recording.beside_others(run)
    return {"variant": variant, "cache": cache, "repeat": repeat, "foreign_jiffies": foreign, **result}


def last_row(path):
    """The last row of a float32 .npy file, format 1."""
    data = path.read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    width = int(re.findall(rb"(\d+),? *\), }", data[10:start])[0])
    values = array.array("f")
    values.frombytes(data[-4 * width:])
    return values


def distances_of_logits(options, scratch):
    """Both engines' logits of the prompt's last position, of the norm: how far from each other, and, at level 4, how far
    ONNX Runtime's are from its own at level 0. Untimed."""
    def theirs(level):
        run_ort(options, model_at(options, level), str(scratch / "ort.npy"))
        return last_row(scratch / "ort.npy")

    run_ompipe(options, model_at(options, options.accuracy_level), "streaming", scratch, "--output", str(scratch))
    ours, peer, exact = last_row(scratch / "logits.npy"), theirs(options.accuracy_level), theirs("0")
    norm = math.hypot(*exact)
    return {"apart": math.dist(ours, peer) / norm, "peer_from_level_0": math.dist(peer, exact) / norm}


def middle(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary_of(samples):
    rows = []
    for cache in ("cold", "warm"):
        for variant in VARIANTS:
            chosen = [s for s in samples if s["variant"] == variant and s["cache"] == cache]
            rows.append({"cache": cache, "variant": variant,
                         **{name: middle([s[name] for s in chosen]) for name in ("first_logits_s", "after_loading_s")},
                         "phases_s": {name: middle([s["phases_s"][name] for s in chosen]) for name in chosen[0]["phases_s"]},
                         "peak_rss": middle([s["peak_rss"] for s in chosen])})
    return rows


def verdict_of(samples, distances):
    reasons = []
    for group in (["ort"], ["sequential", "streaming"]):
        if len({(tuple(s["tokens"]), s.get("digest")) for s in samples if s["variant"] in group}) != 1:
            reasons.append(f"outputs of {' and '.join(group)} differ between runs")
    if distances["apart"] > max(1e-4, 1.5 * distances["peer_from_level_0"]):  # docs/decisions/0100
        reasons.append("logits of the two engines are too far apart")
    reasons += recording.disturbed(samples, "first_logits_s")
    return ("INVALID" if reasons else "VALID"), reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ompipe")
    parser.add_argument("preset")
    parser.add_argument("--accuracy-level", default="4")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", default="build/models", help="where models are generated and kept")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    model = model_at(options, options.accuracy_level)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        distances = distances_of_logits(options, scratch)
        samples = [sample(options, model, variant, cache, repeat, scratch)
                   for repeat in range(options.repeats)
                   for cache in rng.sample(["cold", "warm"], 2)
                   for variant in rng.sample(list(VARIANTS), len(VARIANTS))]
    verdict, reasons = verdict_of(samples, distances)
    engines = {s["variant"]: s.pop("engine") for s in samples}
    manifest = {"command": ["experiments/peers/ort/startup.py", options.preset, f"--repeats={options.repeats}",
                            f"--threads={options.threads}"],
                "seed": options.seed, **recording.machine(), **engines["streaming"], "peer": engines["ort"], "prompt": PROMPT,
                "logits": distances, "model": recording.model_of(model, options.preset, options.accuracy_level),
                "verdict": verdict, "reasons": reasons}
    rows = summary_of(samples)
    written = recording.write_run(options.results, "ort_startup", manifest, samples, rows)

    print(f"{verdict} {'; '.join(reasons)}; logits {distances['apart']:.1e} of the norm apart, "
          f"ONNX Runtime's level 0 and {options.accuracy_level} {distances['peer_from_level_0']:.1e}")
    print(f"{'cache':6}{'variant':12}{'first logits':>14}{'min':>8}{'max':>8}{'after loading':>16}{'peak RSS':>12}")
    for row in rows:
        first = row["first_logits_s"]
        print(f"{row['cache']:6}{row['variant']:12}{first['median'] * 1e3:>11.0f} ms{first['min'] * 1e3:>8.0f}{first['max'] * 1e3:>8.0f}"
              f"{row['after_loading_s']['median'] * 1e3:>13.0f} ms"
              f"{row['peak_rss']['median'] / 2**20:>8.0f} MiB")
    print(written)
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
