#!/usr/bin/env python3
"""Runs experiment e02: what a token reads anew under a residency limit, by eviction order; writes one results directory."""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recording

SHARES = {"1/4": 0.25, "1/2": 0.5, "9/10": 0.9}  # of the packed bytes
ORDERS = ("next-use", "lru")
MODES = ("streaming", "on-demand")
CANNOT_FIT = 4


def run_once(options, model, limit, order, mode, tokens, scratch):
    """One process: its report, or None and what it said if it can't fit."""
    report = scratch / "report.json"
    command = [options.ompipe, "run", str(model / "model.onnx"), "--prompt", "5", "--generate", str(tokens), "--quiet",
               "--scheduler", "sequential", "--threads", "1", "--prepared-limit", str(limit), "--evict-order", order, "--mode", mode,
               "--report", str(report)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode == CANNOT_FIT:
        return None, done.stderr.strip()
    done.check_returncode()
    return json.loads(report.read_text()), ""


def smallest_limit(options, model, scratch):
    """The least prepared bytes that a run of the longest sequence needs: its largest gang, as a refusal states it."""
    report, said = run_once(options, model, 1, "next-use", "streaming", options.settle + options.tokens, scratch)
    if report is not None:
        raise RuntimeError("one byte of prepared objects was enough")
    return int(re.search(r"(\d+) bytes of prepared are needed at least", said).group(1))


def loads_of(report):
    return {o["key"]: o["generation"] for o in report["objects"]}


def sample_of(options, model, share, limit, order, mode, repeat, scratch):
    """What one token of the steady state costs: the difference between a long run and a short one."""
    sample = {"share": share, "limit_bytes": limit, "order": order, "mode": mode, "repeat": repeat}
    short, said = run_once(options, model, limit, order, mode, options.settle, scratch)
    if short is None:
        return {**sample, "refused": said}, None
    report, _ = run_once(options, model, limit, order, mode, options.settle + options.tokens, scratch)
    before, after = loads_of(short), loads_of(report)
    bytes_of = {o["key"]: o["bytes"] for o in report["objects"]}
    anew = {key: after[key] - before[key] for key in after}
    return {**sample,
            "objects_a_token": sum(anew.values()) / options.tokens,
            "prepared_bytes_a_token": sum(anew[key] * bytes_of[key] for key in anew) / options.tokens,
            "read_bytes_a_token": (report["bytes"]["portable_read"] - short["bytes"]["portable_read"]) / options.tokens,
            "evictions_a_token": (report["scheduler_counters"]["evictions"] - short["scheduler_counters"]["evictions"]) / options.tokens,
            "peak_prepared": report["memory"]["arenas"]["prepared"]["peak"],
            "tokens": [token for run in report["runs"] for token in run["tokens"]]}, report


def least(objects, missing):
    """No order can do with fewer: what doesn't fit has to be loaded in every token."""
    count, bytes_ = 0, 0
    for size in sorted((o["bytes"] for o in objects), reverse=True):
        if bytes_ >= missing:
            break
        count, bytes_ = count + 1, bytes_ + size
    return count


def measure(options, model, limits):
    rng = random.Random(options.seed)
    samples, report = [], None
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            variants = [(share, order, mode) for share in limits for order in ORDERS for mode in MODES]
            for share, order, mode in rng.sample(variants, len(variants)):
                sample, of_run = sample_of(options, model, share, limits[share], order, mode, repeat, pathlib.Path(folder))
                samples.append(sample)
                report = of_run or report
    return samples, report


def summary_of(samples, limits, packed_bytes, objects):
    rows = []
    for share, limit in limits.items():
        missing = packed_bytes - limit
        for mode in MODES:
            for order in ORDERS:
                chosen = [s for s in samples if (s["share"], s["mode"], s["order"]) == (share, mode, order)]
                row = {"share": share, "mode": mode, "order": order, "limit_bytes": limit,
                       "least_objects": least(objects, missing), "least_prepared_bytes": missing}
                if "refused" in chosen[0]:
                    row["refused"] = chosen[0]["refused"]
                else:
                    row |= {key: chosen[0][key] for key in ("objects_a_token", "prepared_bytes_a_token", "read_bytes_a_token",
                                                            "evictions_a_token", "peak_prepared")}
                rows.append(row)
    return rows


def verdict_of(samples):
    reasons = []
    if len({tuple(s["tokens"]) for s in samples if "tokens" in s}) != 1:
        reasons.append("tokens differ between variants")
    counts = {}
    for sample in samples:
        counted = {key: value for key, value in sample.items() if key not in ("repeat", "tokens")}
        if counts.setdefault((sample["share"], sample["order"], sample["mode"]), counted) != counted:
            reasons.append(f"counts of {sample['order']} at {sample['share']}, {sample['mode']}, differ between repetitions")
    reasons += [f"more resident than the limit at {s['share']}" for s in samples if s.get("peak_prepared", 0) > s["limit_bytes"]]
    return ("INVALID" if reasons else "VALID"), reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ompipe")
    parser.add_argument("--preset", default="tiny-int4")
    parser.add_argument("--accuracy-level", default="4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--settle", type=int, default=8, help="tokens before the counting begins")
    parser.add_argument("--tokens", type=int, default=32, help="tokens that are counted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", default="build/models", help="where models are generated and kept")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    model = recording.generated_model(options.ompipe, options.models, options.preset, options.accuracy_level)
    with tempfile.TemporaryDirectory() as folder:
        whole, _ = run_once(options, model, 1 << 40, "next-use", "streaming", 1, pathlib.Path(folder))
        least_bytes = smallest_limit(options, model, pathlib.Path(folder))
    packed_bytes = whole["model"]["packed_bytes"]
    limits = {share: int(part * packed_bytes) for share, part in SHARES.items()} | {"smallest": least_bytes}
    limits = dict(sorted(limits.items(), key=lambda item: item[1]))
    samples, report = measure(options, model, limits)
    verdict, reasons = verdict_of(samples)
    rows = summary_of(samples, limits, packed_bytes, whole["objects"])
    manifest = {"command": ["experiments/e02_eviction/run.py", f"--preset={options.preset}", f"--repeats={options.repeats}",
                            f"--settle={options.settle}", f"--tokens={options.tokens}"],
                "seed": options.seed, **recording.machine(), **recording.program_of(report),
                "model": recording.model_of(model, options.preset, options.accuracy_level), "packed_bytes": packed_bytes, "limits": limits,
                "verdict": verdict, "reasons": reasons}
    folder = recording.write_run(options.results, "e02_eviction", manifest, samples, rows)

    print(f"{verdict} {'; '.join(reasons)}")
    print(f"{'share':10}{'mode':11}{'order':10}{'objects':>9}{'(least)':>9}{'prepared':>12}{'(least)':>10}{'read':>10}   MiB a token")
    for row in rows:
        cells = f"{row['share']:10}{row['mode']:11}{row['order']:10}"
        if "refused" in row:
            print(cells + row["refused"])
            continue
        mib = [f"{row[key] / 2**20:.2f}" for key in ("prepared_bytes_a_token", "least_prepared_bytes", "read_bytes_a_token")]
        print(f"{cells}{row['objects_a_token']:>9.2f}{row['least_objects']:>9}{mib[0]:>12}{mib[1]:>10}{mib[2]:>10}")
    print(folder)
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
