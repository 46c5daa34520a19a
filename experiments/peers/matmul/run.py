#!/usr/bin/env python3
"""Measures the kernels' matrix products beside other libraries', a process for each shape; writes one results directory."""
import argparse
import os
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import recording

BOUNDS = ("limit", "l1")  # what the machine, and the micro-kernel in L1, could do: neither is a product
ROWS_BOUND_BY_READING = 4


def cases_of(program, wanted):
    """Names of the shapes, each with IMPL in place of the library, whose full name matches."""
    names = [name.replace("impl:ompipe", "impl:IMPL") for name in recording.benchmark_names(program) if "impl:ompipe" in name]
    return [name for name in names if re.search(wanted, name)]


def measure(options, case):
    """One process: the operations a second of each variant, and whether others used the machine meanwhile."""
    runs, loud = recording.interleaved(options.program, case.replace("IMPL", "{}"), "[a-z0-9]+", options.repeats, options.min_time)
    samples = []
    for run in runs:
        impl = re.search("impl:([a-z0-9]+)", run["name"]).group(1)
        sample = {"case": case, "impl": impl, "repeat": run["repetition_index"], "loud": loud}
        samples.append(sample | ({"error": run["error_message"]} if run.get("error_occurred") else {"ops": run["ops"]}))
    return samples


def summary_of(samples):
    """A row a case: medians in Gop/s, the best peer, and ompipe's ratio to it and to the bound that its shape has."""
    rows = []
    for case in dict.fromkeys(s["case"] for s in samples):
        chosen = [s for s in samples if s["case"] == case and "ops" in s]
        impls = dict.fromkeys(s["impl"] for s in chosen)
        medians = {impl: statistics.median_high([s["ops"] for s in chosen if s["impl"] == impl]) / 1e9 for impl in impls}
        peers = {impl: value for impl, value in medians.items() if impl not in (*BOUNDS, "ompipe")}
        few_rows = int(re.search(r"M:(\d+)", case).group(1)) <= ROWS_BOUND_BY_READING
        bound = "l1" if "l1" in medians and not few_rows else "limit"
        row = {"case": case, "gops": medians, "bound": bound, "of_bound": medians["ompipe"] / medians[bound]}
        if peers:
            best = max(peers, key=peers.get)
            row |= {"best_peer": best, "of_best_peer": medians["ompipe"] / peers[best]}
        rows.append(row)
    return rows


def verdict_of(samples):
    reasons = sorted({f"{s['impl']}: {s['error']}" for s in samples if "error" in s})
    cases = {s["case"]: s["loud"] for s in samples}
    if loud := sum(cases.values()):
        reasons.append(f"other processes used more than a tenth of the machine in {loud} of {len(cases)} cases")
    return ("INVALID" if reasons else "VALID"), reasons


def print_row(row):
    best = f"{row['of_best_peer']:6.2f} x {row['best_peer']:9}" if "best_peer" in row else " " * 18
    rates = "  ".join(f"{impl} {value:.1f}" for impl, value in row["gops"].items())
    case = row["case"].replace("impl:IMPL/", "").replace("/real_time", "")
    print(f"{case:62} {row['of_bound']:6.2f} of {row['bound']:5} {best}  {rates}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="bench_peers")
    parser.add_argument("--cases", default=".", help="a regular expression on the names that the program lists")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--min-time", type=float, default=0.1, help="seconds a repetition")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    samples = []
    for case in cases_of(options.program, options.cases):
        samples += measure(options, case)
        print_row(summary_of([s for s in samples if s["case"] == case])[0])
        sys.stdout.flush()
    verdict, reasons = verdict_of(samples)
    manifest = {"command": ["experiments/peers/matmul/run.py", f"--cases={options.cases}", f"--repeats={options.repeats}",
                            f"--min-time={options.min_time}"], **recording.machine(), "program_sha256": recording.sha256(options.program),
                "openmp_environment": {name: value for name, value in os.environ.items() if name.startswith("OMP_")},
                "verdict": verdict, "reasons": reasons}
    print(f"{verdict} {'; '.join(reasons)}")
    print(recording.write_run(options.results, "peers_matmul", manifest, samples, summary_of(samples)))
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
