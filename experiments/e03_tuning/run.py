#!/usr/bin/env python3
"""Runs experiment e03: how fast matrix products are by each value of each tuning field, and which values to take; writes one results
directory."""
import argparse
import math
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recording

WITHIN = 0.98  # of the best median


def measure(options):
    """Every value of a field, for every product, and whether others used the machine meanwhile."""
    groups = dict.fromkeys(re.sub(r"value:\d+", "value:{}", name) for name in recording.benchmark_names(options.program))
    samples = []
    for group in groups:
        if not re.search(options.cases, group):
            continue
        runs, loud = recording.interleaved(options.program, group, "[0-9]+", options.repeats, options.min_time)
        for run in runs:
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
        medians = {(c, v): statistics.median_high([s["ops"] for s in chosen if (s["case"], s["value"]) == (c, v)])
                   for c in cases for v in values}
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
