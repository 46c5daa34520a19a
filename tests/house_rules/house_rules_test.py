"""The rules can fail: each case is a small tree with one break, and the same tree without it has none."""

import os
import tempfile
import unittest

import docs
import layers
import text
from tree import Tree

HEADER = "// Says what this file is for.\n#pragma once\n"


def breaks(check, files, root="/nonexistent"):
    return list(check(Tree(root, files)))


class HouseRules(unittest.TestCase):

    def assert_one(self, check, good, bad, part):
        self.assertEqual(breaks(check, good), [])
        found = breaks(check, bad)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def source(self, line, path="omp_runtime/session/a.cpp"):
        return {path: line + "\n"}

    def test_banned_calls(self):
        for line in ["std::this_thread::sleep_for(1s);", "#pragma omp task", "int* a = new int[3];", "delete a;", "assert(a);",
                     "x << std::endl;", "printf(\"\");", "std::cout << 1;", "throw 1;", "thread.detach();", "// TODO later", "atoi(s);"]:
            self.assert_one(text.banned_calls, self.source("int a;"), self.source(line), "banned")

    def test_what_only_looks_banned(self):
        for line in ["// never sleep() here", "auto s = \"new Foo()\";", "Foo(const Foo&) = delete;", "static_assert(true);",
                     "fmt::format_to(a);", "#pragma once", "snprintf(a, 1, \"\");", "a.renew (b);",
                     "std::unique_ptr<Foo>(new Foo(1));", "ledger.sleep(parked);", "frame.detach();"]:
            self.assertEqual(breaks(text.banned_calls, self.source(line)), [], line)

    def test_where_it_is_allowed(self):
        self.assertEqual(breaks(text.banned_calls, self.source("#pragma omp task", "omp_runtime/schedule/a.cpp")), [])
        self.assertEqual(breaks(text.banned_calls, self.source("std::printf(\"\");", "omp_runtime/cli/a.cpp")), [])

    def test_lengths(self):
        self.assert_one(text.lengths, self.source("x" * 120), self.source("x" * 121), "columns")
        self.assert_one(text.lengths, {"a.cpp": "\n" * 799}, {"a.cpp": "\n" * 800}, "lines")

    def test_first_sentences(self):
        good = {"a.h": HEADER}
        self.assert_one(text.first_sentences, good, {"a.h": "#pragma once\n"}, "sentence")
        self.assert_one(text.first_sentences, good, {"a.h": "// A header\n#pragma once\n"}, "sentence")
        self.assert_one(text.first_sentences, good, {"a.h": "// Says what this file is for.\n"}, "pragma")

    def test_words(self):
        self.assert_one(text.words, {"a.md": "work"}, {"a.md": "see /wo" + "rk/x"}, "path of one machine")

    def test_layers(self):
        def includes(path, name):
            return {path: f'#include "{name}"\n'}

        self.assert_one(layers.check, includes("omp_runtime/session/a.cpp", "ompipe/plan/plan.h"),
                        includes("omp_runtime/plan/a.cpp", "ompipe/session/session.h"), "plan lies below session")
        self.assert_one(layers.check, includes("omp_runtime/schedule/a.cpp", "ompipe/arenas/error.h"),
                        includes("omp_runtime/schedule/a.cpp", "ompipe/model/graph.h"), "schedule knows nothing of model")
        self.assert_one(layers.check, {"a.cpp": ""}, {"a.cpp": '#include "ompipe/magic/a.h"\n'}, "no layer")
        json = "#include <nlohmann/json.hpp>\n"
        self.assert_one(layers.check, {"kernels/a.cpp": json}, {"kernels/a.h": json}, "in a header")

    def test_docs(self):
        self.assertEqual(breaks(docs.check, {"README.md": "[a](docs/a.md)", "docs/a.md": "[b](b.md)", "docs/b.md": ""}), [])
        self.assert_one(docs.check, {"README.md": ""}, {"README.md": "", "docs/a.md": ""}, "no page")
        self.assert_one(docs.check, {"README.md": "[x](https://example.org)"}, {"README.md": "[a](a.md)"}, "nowhere")

    def test_options_named_in_docs(self):
        page = "Try `ompipe run M --json`.\n\n    build/release/bin/ompipe inspect M --plan  # --not-this\n\nand ompipe walks --away\n"
        page += "\n    experiments/x/run.py build/bin/ompipe qwen --repeats 3\n"
        self.assertEqual([(command, options) for _, command, options in docs.options_in(page)],
                         [("run", ["--json"]), ("inspect", ["--plan"])])

    def test_dead_files(self):
        with tempfile.TemporaryDirectory() as build:
            with open(os.path.join(build, "compile_commands.json"), "w") as file:
                file.write('[{"file": "/nonexistent/a.cpp"}]')
            tree = Tree("/nonexistent", {"a.cpp": "", "b.cpp": ""})
            self.assertEqual(layers.check_compiled(tree, build), ["b.cpp: in no target: a dead file"])


if __name__ == "__main__":
    unittest.main()
