#!/usr/bin/env python3
"""Runs experiment e03: how fast matrix products are by each value of each tuning field, and which values to take; writes one results
directory."""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recording

WITHIN = 0.98  # of the best median


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def measure(options):
    """Every value of a field, for every product, in random order: samples, and what others used meanwhile."""
    listed = subprocess.run([options.program, "--benchmark_list_tests"], capture_output=True, text=True, check=True).stdout.split()
    groups = dict.fromkeys(re.sub(r"value:\d+", "value:VALUE", name) for name in listed)
    samples = []
    for group in groups:
        if not re.search(options.cases, group):
            continue
        pattern = "^" + re.escape(group).replace("VALUE", "[0-9]+").replace("\\-", "-") + "$"
        command = [options.program, f"--benchmark_filter={pattern}", "--benchmark_enable_random_interleaving=true",
                   f"--benchmark_repetitions={options.repeats}", f"--benchmark_min_time={options.min_time}", "--benchmark_format=json"]
        begin = time.monotonic()
        done, foreign = recording.beside_others(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
        loud = recording.loud(foreign, time.monotonic() - begin)
        for run in json.loads(done.stdout)["benchmarks"]:
            if run["run_type"] == "iteration":
                field, value, case = re.match(r"tuning/field:([a-z-]+)/value:(\d+)/(.*)", run["name"]).groups()
                samples.append({"field": field, "value": int(value), "case": case, "repeat": run["repetition_index"], "ops": run["ops"],
                                "loud": loud})
    return samples


def summary_of(samples):
    """For each field its values' rates as shares of the best of their product, and the value to take: the smallest whose geometric
    mean over the products is within 2% of the best value's."""
    rows = []
    for field in dict.fromkeys(s["field"] for s in samples):
        chosen = [s for s in samples if s["field"] == field]
        cases, values = dict.fromkeys(s["case"] for s in chosen), sorted({s["value"] for s in chosen})
        medians = {(c, v): median([s["ops"] for s in chosen if (s["case"], s["value"]) == (c, v)]) for c in cases for v in values}
        shares = {c: {v: medians[c, v] / max(medians[c, w] for w in values) for v in values} for c in cases}
        means = {v: math.exp(sum(math.log(shares[c][v]) for c in cases) / len(cases)) for v in values}
        take = min(v for v in values if means[v] >= WITHIN * max(means.values()))
        rows.append({"field": field, "take": take, "means": means, "shares": shares})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bench_tuning")
    parser.add_argument("--cases", default=".", help="a regular expression on the names that the program lists")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds a repetition")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    samples = measure(options)
    groups = {(s["field"], s["case"]): s["loud"] for s in samples}
    loud = sum(groups.values())
    reasons = [f"other processes used more than a tenth of the machine in {loud} of {len(groups)} sweeps"] if loud else []
    verdict, rows = "INVALID" if reasons else "VALID", summary_of(samples)
    manifest = {"command": ["experiments/e03_tuning/run.py", f"--cases={options.cases}", f"--repeats={options.repeats}",
                            f"--min-time={options.min_time}"], **recording.machine(), "program_sha256": recording.sha256(options.program),
                "verdict": verdict, "reasons": reasons}
    print(f"{verdict} {'; '.join(reasons)}")
    for row in rows:
        print(f"{row['field']:16} take {row['take']:7}: " + "  ".join(f"{value} {mean:.3f}" for value, mean in row["means"].items()))
    print(recording.write_run(options.results, "e03_tuning", manifest, samples, rows))
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
