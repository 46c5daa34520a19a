"""Environments that break a persistent OpenMP region, or only look as if: a refusal that names the variable, the right
tokens with a fallback, and never a hang. Usage: environment.py OMPIPE GOLDENS"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, GOLDENS = sys.argv[1:3]
SECONDS = 60  # a hang

FORBIDDEN = [
    ("OMP_THREAD_LIMIT", "1"),
    ("OMP_THREAD_LIMIT", "2"),
    ("OMP_MAX_ACTIVE_LEVELS", "0"),
]
FORBIDDEN_UNDER_LIBOMP = [  # libgomp doesn't know them
    ("KMP_LIBRARY", "serial"),
    ("KMP_TASKING", "0"),
]

HARMLESS = [
    {"OMP_PROC_BIND": "true"},
    {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
    {"OMP_PROC_BIND": "spread", "OMP_PLACES": "threads"},
    {"OMP_PROC_BIND": "primary", "OMP_PLACES": "{0}"},
    {"OMP_PROC_BIND": "close", "OMP_PLACES": "{0},{0},{0}"},
    {"OMP_PROC_BIND": "spread", "OMP_PLACES": "sockets"},
    {"OMP_WAIT_POLICY": "passive"},
    {"OMP_DYNAMIC": "true", "OMP_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "16"},
    {"KMP_BLOCKTIME": "0"},
    {"OMP_MAX_TASK_PRIORITY": "16"},
]


class Environment(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="ompipe-environment-")
        subprocess.run([PROGRAM, "generate", "tiny-int4", cls.root, "--accuracy-level", "0", "--quiet"], check=True)
        with open(os.path.join(GOLDENS, "tiny-int4-acc0.json"), encoding="utf-8") as file:
            golden = json.load(file)
        cls.prompt = ",".join(map(str, golden["prompt"]))
        cls.tokens = golden["tokens"][:3]
        cls.forbidden, cls.harmless = list(FORBIDDEN), list(HARMLESS)
        _, report, _ = cls.run_model(cls)
        if report["openmp_runtime"].startswith("libomp"):
            cls.forbidden += FORBIDDEN_UNDER_LIBOMP
        else:
            cls.harmless += [{name: value} for name, value in FORBIDDEN_UNDER_LIBOMP]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def run_model(self, *options, environment=None, prefix=()):
        """Returns (status, report or None, stderr)."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "GOMP_"))}
        command = [*prefix, PROGRAM, "run", os.path.join(self.root, "model.onnx"), "--prompt", self.prompt,
                   "--generate", str(len(self.tokens)), "--json", "--quiet", *options]
        if "--threads" not in options:
            command += ["--threads", "2"]
        done = subprocess.run(command, capture_output=True, text=True, env={**clean, **(environment or {})},
                              timeout=SECONDS)
        report = json.loads(done.stdout) if done.returncode == 0 else None
        return done.returncode, report, done.stderr

    def assert_right(self, report):
        self.assertEqual([token for run in report["runs"] for token in run["tokens"]], self.tokens)
        self.assertEqual(report["scheduler_counters"]["ran_on_coordinator"], 0)

    def test_refused(self):
        for name, value in self.forbidden:
            with self.subTest(f"{name}={value}"):
                status, _, stderr = self.run_model(environment={name: value})
                self.assertEqual(status, 1, stderr)
                self.assertIn(name, stderr)
                self.assertEqual(stderr.count("\n"), 1, stderr)

    def test_fallback(self):
        for name, value in self.forbidden:
            with self.subTest(f"{name}={value}"):
                status, report, stderr = self.run_model("--fallback", "sequential", environment={name: value})
                self.assertEqual(status, 0, stderr)
                self.assert_right(report)
                self.assertTrue(report["fallback_used"])
                self.assertEqual(report["scheduler"], "sequential")
                self.assertEqual(report["openmp_environment"].get(name), value)

    def test_harmless(self):
        for environment in self.harmless:
            with self.subTest(str(environment)):
                status, report, stderr = self.run_model("--fallback", "sequential", environment=environment)
                self.assertEqual(status, 0, stderr)
                self.assert_right(report)
                self.assertFalse(report["fallback_used"])

    @unittest.skipUnless(shutil.which("taskset"), "needs taskset")
    def test_one_cpu(self):
        cpu = str(min(os.sched_getaffinity(0)))
        for threads in ("1", "2", "8"):
            with self.subTest(threads):
                status, report, stderr = self.run_model("--threads", threads, prefix=("taskset", "-c", cpu))
                self.assertEqual(status, 0, stderr)
                self.assert_right(report)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
