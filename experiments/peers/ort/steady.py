#!/usr/bin/env python3
"""Measures prefill and decoding beside ONNX Runtime's, weights prepared, the same model files, interleaved. Writes one
results directory."""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
import recording  # noqa: E402

PASSES = 3  # in one session; the first, which prepares and allocates, doesn't count


def prompt_of(length):
    return ",".join(str((i * 4099 + 17) % 8192) for i in range(length))


def run_ort(options, model, length, threads):
    done = subprocess.run(["node", str(HERE / "steady.js"), str(model / "model.onnx"), str(threads), prompt_of(length),
                           str(options.tokens), str(PASSES)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run_ompipe(options, model, length, threads, scratch):
    report = scratch / "report.json"
    subprocess.run([options.ompipe, "run", str(model / "model.onnx"), "--prompt", prompt_of(length), "--generate", str(options.tokens),
                    "--runs", str(PASSES), "--mode", "eager", "--threads", str(threads), "--quiet", "--report", str(report)],
                   check=True, stdout=subprocess.DEVNULL)
    result = json.loads(report.read_text())
    passes = [[run["seconds"] for run in result["runs"] if run["repeat"] == repeat] for repeat in range(PASSES)]
    tokens = [token for run in result["runs"] if run["repeat"] == 0 for token in run["tokens"]]
    return {"tokens": tokens, "passes": passes, "engine": recording.program_of(result)}


def sample(options, model, level, length, threads, variant, repeat, scratch):
    measured = {"ort": lambda: run_ort(options, model, length, threads),
                "ompipe": lambda: run_ompipe(options, model, length, threads, scratch)}[variant]
    result, foreign = recording.beside_others(measured)
    counted = result["passes"][1:]
    return {"level": level, "prompt": length, "threads": threads, "variant": variant, "repeat": repeat, "foreign_jiffies": foreign,
            "seconds": sum(map(sum, result["passes"])), "prefill_s": statistics.median(run_s[0] for run_s in counted),
            "token_s": statistics.median(second for run_s in counted for second in run_s[1:]), "tokens": result["tokens"],
            "engine": result["engine"]}


def summary_of(samples):
    """Medians, and ompipe's time as a share of ONNX Runtime's."""
    rows = []
    for key in dict.fromkeys((s["level"], s["prompt"], s["threads"]) for s in samples):
        chosen = [s for s in samples if (s["level"], s["prompt"], s["threads"]) == key]
        row = dict(zip(("level", "prompt", "threads"), key))
        for name in ("prefill_s", "token_s"):
            medians = {v: statistics.median(s[name] for s in chosen if s["variant"] == v) for v in ("ort", "ompipe")}
            row[name] = medians | {"ratio": medians["ompipe"] / medians["ort"]}
        rows.append(row)
    return rows


def verdict_of(samples):
    reasons = []
    for variant in ("ort", "ompipe"):
        for key in {(s["level"], s["prompt"]) for s in samples}:
            if len({tuple(s["tokens"]) for s in samples if s["variant"] == variant and (s["level"], s["prompt"]) == key}) != 1:
                reasons.append(f"tokens of {variant} differ between runs")
    reasons += recording.disturbed(samples, "seconds")
    return ("INVALID" if reasons else "VALID"), reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ompipe")
    parser.add_argument("preset")
    parser.add_argument("--levels", nargs="+", default=["4", "0"])
    parser.add_argument("--prompts", nargs="+", type=int, default=[32, 512])
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--tokens", type=int, default=17, help="of each pass, the prompt's included")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", default="build/models", help="where models are generated and kept")
    parser.add_argument("--results", default="results")
    options = parser.parse_args()

    rng, samples = random.Random(options.seed), []
    models = {level: recording.generated_model(options.ompipe, options.models, options.preset, level) for level in options.levels}
    cells = [(level, length, threads, variant) for level in options.levels for length in options.prompts for threads in options.threads
             for variant in ("ort", "ompipe")]
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            for level, length, threads, variant in rng.sample(cells, len(cells)):
                recording.warm_pages(models[level] / "model.data")
                samples.append(sample(options, models[level], level, length, threads, variant, repeat, pathlib.Path(folder)))
    verdict, reasons = verdict_of(samples)
    rows = summary_of(samples)
    manifest = {"command": ["experiments/peers/ort/steady.py", options.preset, f"--repeats={options.repeats}",
                            f"--tokens={options.tokens}"],
                "seed": options.seed, **recording.machine(),
                "engines": {s["variant"]: s["engine"] for s in samples},
                "models": [recording.model_of(models[level], options.preset, level) for level in options.levels],
                "verdict": verdict, "reasons": reasons}
    folder = recording.write_run(options.results, "ort_steady", manifest, samples, rows)
    print(f"{verdict} {'; '.join(reasons)}")
    for row in rows:
        print(f"level {row['level']}, {row['threads']} threads, prompt {row['prompt']:4}: " + ", ".join(
            f"{label} {row[name]['ompipe'] * 1e3:.1f} against {row[name]['ort'] * 1e3:.1f} ms, {row[name]['ratio']:.2f}"
            for label, name in (("prefill", "prefill_s"), ("a token", "token_s"))))
    print(folder)
    return 0 if verdict == "VALID" else 1


if __name__ == "__main__":
    sys.exit(main())
