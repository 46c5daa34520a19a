"""Runs compare_kernels on tiny products: smoke_test.py PROGRAM LIBRARY LIBRARY_WITH_OTHER_BITS."""

import re
import subprocess
import sys
import unittest

PROGRAM, LIBRARY, OTHER_BITS = sys.argv[1:4]
TINY = ["--m", "30", "--k", "200", "--n", "50", "--pairs", "5", "--copies", "2"]


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60)


class Comparison(unittest.TestCase):
    def measured(self, *words):
        done = run(*words, *TINY)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        ratio = re.search(r"^time of B to A: ([0-9.]+) \(95%: ([0-9.]+) to ([0-9.]+)\), median of 5 pairs$", done.stdout, re.M)
        self.assertIsNotNone(ratio, done.stdout)
        median, least, most = map(float, ratio.groups())
        self.assertTrue(0 < least <= median <= most, done.stdout)
        self.assertEqual(len(re.findall(r"^[AB]: best [0-9.]+, median [0-9.]+ Gflop/s$", done.stdout, re.M)), 2, done.stdout)
        return done.stdout

    def test_one_library_twice_has_the_same_bits(self):
        for words in "", "--format nbits", "--format nbits --level 4 --half-scales", "--format nbits --bits 2":
            with self.subTest(words):
                self.assertRegex(self.measured(LIBRARY, LIBRARY, *words.split()), r"\nresults: same bits; the largest is [0-9.]*[1-9]")

    def test_tunings_of_one_library_have_the_same_bits(self):
        printed = self.measured(LIBRARY, LIBRARY, "--tuning-a", "rows=24", "--tuning-a", "strip-k=64", "--tuning-b", "rows=48")
        self.assertRegex(printed, r"\nA: .* rows=24 strip-k=64\nB: .* rows=48\n")
        self.assertIn("\nresults: same bits", printed)

    def test_other_bits_are_reported_with_the_largest_difference(self):
        found = re.search(r"\nresults: 1500 of 1500 differ, by (\S+) at most; A's largest is (\S+)\n", self.measured(LIBRARY, OTHER_BITS))
        self.assertIsNotNone(found)
        self.assertEqual(found[1], found[2])  # B is twice A


class Refusals(unittest.TestCase):
    def refused(self, words, expected):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Acompare_kernels: " + expected + r"\n\Z")

    def test_a_missing_library(self):
        self.refused([LIBRARY, "missing.so"], r"missing\.so: .*No such file or directory: expected a build of ompipe_kernels_shared")

    def test_a_file_that_is_no_library(self):
        self.refused([__file__, LIBRARY], r".*smoke_test\.py: .*: expected a build of ompipe_kernels_shared")

    def test_wrong_usage(self):
        for words, expected in [
                ([LIBRARY], "command line: 1 libraries: expected two paths; see --help"),
                ([LIBRARY, LIBRARY, "--rows", "1"], "--rows: unknown option: expected one that --help names"),
                ([LIBRARY, LIBRARY, "--m"], "--m: nothing follows: expected a value"),
                ([LIBRARY, LIBRARY, "--m", "0"], "--m: '0': expected a whole number from 1 to 1048576"),
                ([LIBRARY, LIBRARY, "--k", "2x"], "--k: '2x': expected a whole number from 1 to 1048576"),
                ([LIBRARY, LIBRARY, "--format", "f64"], "--format: 'f64': expected f32 or nbits"),
                ([LIBRARY, LIBRARY, "--level", "4"], "--level: weights are float32: expected --format nbits"),
                ([LIBRARY, LIBRARY, "--tuning-a", "rows"], "--tuning-a: 'rows': expected NAME=VALUE with a whole number")]:
            with self.subTest(words[2:]):
                self.refused(words, expected)

    def test_what_the_library_refuses(self):
        self.refused([LIBRARY, LIBRARY, "--format", "nbits", "--bits", "3"], r".*: the weight: .*bits.*")
        self.refused([LIBRARY, LIBRARY, "--tuning-b", "rows=25"], r".*: tuning rows=25: .*rows must be a multiple of 6.*")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
