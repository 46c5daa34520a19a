"""The program from outside: what it prints and writes, and how it ends."""

import json
import os
import struct
import subprocess
import sys
import unittest

import support
from support import ProgramTest

PROMPT = ["--prompt", "1,2,3,4,5", "--generate", "6"]


def write_npy(path, descr, shape, elements):
    dictionary = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(dictionary)) + dictionary + elements)


class Program(ProgramTest):

    def tokens(self, *arguments, environment=None):
        """The token lines."""
        stdout = self.succeed("run", self.model(), *PROMPT, "--quiet", *arguments, environment=environment)
        return stdout.splitlines()

    def test_every_mode_scheduler_and_team_gives_the_same_tokens(self):
        expected = self.tokens("--scheduler", "sequential")
        self.assertEqual(len(expected), 1)
        self.assertEqual(len(expected[0].split()), 7)
        for scheduler in ["sequential", "omp-tasks"]:
            for mode in ["streaming", "eager", "on-demand"]:
                self.assertEqual(self.tokens("--scheduler", scheduler, "--mode", mode), expected, (scheduler, mode))
        for threads in ["1", "2", "4"]:
            self.assertEqual(self.tokens("--threads", threads), expected, threads)
        self.assertEqual(self.tokens("--isa", "scalar"), expected)
        self.assertEqual(self.tokens("--runs", "2", "--concurrency", "2"), expected * 4)

    def test_reading_in_every_way_gives_the_same_tokens(self):
        expected = self.tokens()
        for read in ["buffered", "direct", "mapped"]:
            self.assertEqual(self.tokens("--read", read), expected, read)
        self.assertEqual(self.tokens("--chunk", "1M"), expected)
        self.assertEqual(self.tokens("--verify", "never"), expected)

    def test_a_device_gives_the_same_tokens_and_reports_where_nodes_run(self):
        expected = self.tokens("--scheduler", "sequential")
        device = ["--device", "emulated"]
        for pack in ["cpu", "device"]:
            for scheduler in ["sequential", "omp-tasks"]:
                self.assertEqual(self.tokens(*device, "--device-pack", pack, "--scheduler", scheduler), expected, (pack, scheduler))
        self.assertEqual(self.tokens(*device, "--device-limit", "8M", "--device-bandwidth", "64G", "--device-latency-us", "1"), expected)
        report = json.loads(self.succeed("run", self.model(), *PROMPT, "--json", *device, "--device-nodes", "*"))
        placed = report["device"]
        self.assertEqual(placed["id"], "emulated:0")
        self.assertGreater(placed["nodes"], 0)
        self.assertGreater(placed["uploaded_bytes"], placed["weight_bytes"] // 2)
        self.assertIn("the device has no", placed["refused"][0]["reason"])
        self.assertEqual(report["memory"]["arenas"]["prepared"]["live"] > 0, True)
        self.assertGreaterEqual(report["memory"]["arenas"]["device"]["peak"], placed["weight_bytes"])
        self.assertNotIn("device", json.loads(self.succeed("run", self.model(), *PROMPT, "--json")))
        plan = self.succeed("inspect", self.model(), "--plan", *device)
        self.assertIn(".upload ", plan)
        self.assertIn("nodes on the device", plan)
        self.fail_with(2, "run", self.model(), "--device", "gpu", parts=["--device", "emulated"])
        self.fail_with(2, "run", self.model(), "--device-limit", "1M", parts=["--device"])

    def test_report_and_trace(self):
        report_path, trace_path = self.path("report.json"), self.path("trace.json")
        arguments = [self.model(), *PROMPT, "--report", report_path, "--trace", trace_path]
        stdout = self.succeed("run", *arguments)
        self.assertIn("first_token", stdout)
        with open(report_path) as file:
            report = json.load(file)
        self.assertEqual(report["schema_version"], 1)
        self.assertEqual(report["command"][1:], ["run", *arguments])
        self.assertEqual(report["status"]["code"], 0)
        self.assertEqual(report["scheduler_counters"]["ran_on_coordinator"], 0)
        self.assertEqual([len(run["tokens"]) for run in report["runs"]], [1] * 6)
        self.assertEqual(report["runs"][0]["path"], "cold")
        times = report["milestones"]
        for earlier, later in zip(["metadata", "resolved", "planned", "first_read", "first_output", "first_token"],
                                  ["resolved", "planned", "first_read", "first_output", "first_token", "end"]):
            self.assertLessEqual(times[earlier], times[later], (earlier, later))
        self.assertGreater(times["metadata"], 0)
        self.assertGreater(report["overlap"]["measured_s"], 0)
        self.assertGreater(report["bytes"]["logical_read"], 0)
        self.assertGreater(report["memory"]["arenas"]["prepared"]["peak"], 0)
        with open(trace_path) as file:
            events = json.load(file)["traceEvents"]
        kinds = {event["args"]["kind"] for event in events if event["ph"] == "X"}
        self.assertLessEqual({"read", "prepack", "segment"}, kinds)
        self.assertEqual(sorted(os.listdir(self.directory)), ["report.json", "trace.json"])

    def test_a_repeat_writes_to_the_memory_of_the_one_before(self):
        reports = [json.loads(self.succeed("run", self.model(), *PROMPT, "--mode", "eager", "--runs", runs, "--json"))
                   for runs in ["1", "3"]]
        once, thrice = (report["memory"]["arenas"] for report in reports)
        self.assertEqual(len(reports[1]["runs"]), 18)
        self.assertEqual({run["path"] for run in reports[1]["runs"]}, {"hot"})
        self.assertGreater(once["io"]["peak"], 0)
        for domain in ["io", "execution"]:
            self.assertEqual((thrice[domain]["peak"], thrice[domain]["retained"]),
                             (once[domain]["peak"], once[domain]["retained"]), domain)

    def test_json_is_the_report(self):
        report = json.loads(self.succeed("run", self.model(), *PROMPT, "--json"))
        self.assertEqual(report["model"]["path"], self.model())

    def test_bound_from_another_run(self):
        sequential = self.path("sequential.json")
        self.succeed("run", self.model(), *PROMPT, "--scheduler", "sequential", "--report", sequential)
        report = json.loads(self.succeed("run", self.model(), *PROMPT, "--bound-from", sequential, "--json"))
        self.assertEqual(report["overlap"]["from"], sequential)
        self.fail_with(2, "run", self.model(), *PROMPT, "--bound-from", self.model(), parts=["--bound-from"])
        self.fail_with(1, "run", self.model(), *PROMPT, "--bound-from", self.path("none"), parts=["--bound-from"])

    def test_outputs_are_written_and_nothing_else(self):
        output = self.path("out")
        self.succeed("run", self.model(), *PROMPT, "--output", output)
        self.assertEqual(os.listdir(output), ["logits.npy"])

    def test_cold_start(self):
        report = json.loads(self.succeed("run", self.model(), *PROMPT, "--drop-page-cache", "--json"))
        self.assertNotIn("--page-cache-dropped", report["command"])
        self.assertGreater(report["bytes"]["physical_read"], 0)

    def test_what_cannot_fit(self):
        line = self.fail_with(4, "run", self.model(), *PROMPT, "--prepared-limit", "64K")
        self.assertTrue(any(character.isdigit() for character in line))
        self.fail_with(4, "run", self.model(), *PROMPT, "--budget", "1M")
        self.fail_with(4, "run", self.model(), *PROMPT, "--mode", "eager", "--prepared-limit", "5M")

    def test_a_limit_below_the_whole_gives_the_same_tokens(self):
        self.assertEqual(self.tokens("--prepared-limit", "5M"), self.tokens())

    def test_inputs_that_do_not_fit(self):
        wrong = self.path("wrong.npy")
        write_npy(wrong, "<f4", [1, 2], struct.pack("<2f", 1, 2))
        generic = ["run", self.model(), "--fill", "zeros", "--dim", "batch_size=1"]
        self.fail_with(2, "run", self.model(), parts=["input"])
        self.fail_with(2, *generic, "--input", f"input_ids={wrong}", parts=["input_ids", "wrong.npy", "float32"])
        write_npy(wrong, "<i8", [3], struct.pack("<3q", 1, 2, 3))
        self.fail_with(2, *generic, "--input", f"input_ids={wrong}", parts=["input_ids", "wrong.npy"])
        write_npy(wrong, "<i8", [4], struct.pack("<3q", 1, 2, 3))
        self.fail_with(2, *generic, "--input", f"input_ids={wrong}", parts=["input_ids", "wrong.npy", "24"])
        self.fail_with(2, *generic, "--input", f"nothing={wrong}", parts=["nothing", "input_ids"])
        self.fail_with(1, *generic, "--input", f"input_ids={self.path('none.npy')}", parts=["input_ids", "none.npy"])
        self.fail_with(2, "run", self.model(), "--fill", "zeros", "--dim", "nothing=1", parts=["nothing"])
        self.fail_with(2, "run", self.model(), "--prompt", "99999999", parts=["99999999"])
        self.fail_with(2, "run", self.model(), "--generate", "2", parts=["--generate"])

    def test_places_that_take_no_file(self):
        self.fail_with(1, "run", self.model(), *PROMPT, "--report", self.path("none", "r.json"), parts=["r.json"])
        self.fail_with(1, "run", self.model(), *PROMPT, "--trace", self.directory, parts=[self.directory])
        self.assert_empty(self.directory)

    def test_an_interrupt_drains_and_ends(self):
        process = subprocess.Popen([support.PROGRAM, "run", self.model(), *PROMPT, "--runs", "1000000", "--quiet"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        support.interrupt_when_ready(process)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual((process.returncode, stdout, stderr.count("\n")), (130, "", 1), stderr)

    def test_an_environment_that_forbids_the_scheduler(self):
        expected = self.tokens("--scheduler", "sequential")
        forbidding = [("OMP_THREAD_LIMIT", "1"), ("OMP_THREAD_LIMIT", "2"), ("OMP_MAX_ACTIVE_LEVELS", "0")]
        report = json.loads(self.succeed("run", self.model(), *PROMPT, "--json"))
        if report["openmp_runtime"].startswith("libomp"):
            forbidding += [("KMP_LIBRARY", "serial"), ("KMP_TASKING", "0")]
        for variable, value in forbidding:
            environment = {variable: value}
            self.fail_with(1, "run", self.model(), *PROMPT, parts=[variable], environment=environment)
            self.assertEqual(self.tokens("--fallback", "sequential", environment=environment), expected, variable)

    def test_threads_that_the_system_refuses(self):
        for scheduler in ["sequential", "omp-tasks"]:
            self.fail_with(1, "run", self.model(), *PROMPT, "--scheduler", scheduler, parts=["start: ", "unavailable"],
                           before=support.refuse_threads)
        self.fail_with(1, "verify", self.model(), parts=["start: I/O threads: started 0 of 2"],
                       before=support.refuse_threads)

    def test_threads_that_can_not_be_bound_are_reported_and_run_all_the_same(self):
        for scheduler, threads in [("sequential", ["compute 0"]), ("omp-tasks", ["compute 0", "coordinator", "io 0"])]:
            run = ["run", self.model(), *PROMPT, "--threads", "1", "--io-threads", "1", "--scheduler", scheduler, "--json"]
            bound = json.loads(self.succeed(*run))
            self.assertEqual(bound["placement"], {"name": "compact"})
            # libomp ends a process whose threads it can't bind, unless it is told not to try.
            # The leak checker may not start its symbolizer in a process that is refused system calls, and says so on stderr.
            unbound = {"KMP_AFFINITY": "disabled", "ASAN_OPTIONS": "symbolize=0"}
            free = json.loads(self.succeed(*run, environment=unbound, before=support.refuse_binding))
            self.assertEqual(free["placement"]["name"], "compact")
            self.assertEqual(sorted(free["placement"]["unbound"]),
                             [thread + ": the system refuses: Operation not permitted" for thread in threads])
            self.assertEqual([run["tokens"] for run in free["runs"]], [run["tokens"] for run in bound["runs"]])

    def test_inspect(self):
        text = self.succeed("inspect", self.model())
        self.assertIn("input_ids", text)
        summary = json.loads(self.succeed("inspect", self.model(), "--manifest", "--plan", "--json"))
        self.assertTrue(summary["decoder"])
        self.assertEqual(len(summary["manifest"]), summary["payloads"])
        self.assertIn("plan", summary)
        steps = json.loads(self.succeed("inspect", self.model(), "--plan", "--json", "--prepared-limit", "5M", "--prompt-length", "2",
                                        "--generate", "3"))["accounting"]["steps"]
        self.assertEqual([step["work"] for step in steps].count("done"), 3)
        self.assertIn("digraph", self.succeed("inspect", self.model(), "--dot"))

    def test_verify(self):
        counts = json.loads(self.succeed("verify", self.model(), "--json"))
        self.assertEqual(counts["wrong"], 0)
        self.assertGreater(counts["right"], 0)
        for payload in counts["payloads"]:
            expected = "right" if payload["file"].endswith("model.data") else "unknown"  # small constants in the .onnx have none
            self.assertEqual(payload["verdict"], expected, payload)

    def test_topology(self):
        table = self.succeed("topology", "--synthetic", "package:2 core:2 pu:1", "--threads", "4", "--placement", "spread")
        self.assertIn("compute 3", table)
        shown = json.loads(self.succeed("topology", "--json"))
        self.assertEqual(len([t for t in shown["threads"] if t["thread"].startswith("compute")]), len(shown["cores"]))
        self.fail_with(2, "topology", "--placement", "upside-down")

    def test_help_and_version(self):
        self.assertIn("generate", self.succeed("--help"))
        self.assertTrue(self.succeed("--version").startswith("ompipe "))
        self.fail_with(2)
        self.fail_with(2, "run")
        self.fail_with(2, "fly")


@unittest.skipUnless(os.environ.get("OMPIPE_LONG"), "tests/run.sh --long runs it")
class LargeModels(ProgramTest):

    def check_decoder(self, preset):
        directory = self.path(preset)
        self.succeed("generate", preset, directory, "--quiet")
        run = ["run", os.path.join(directory, "model.onnx"), "--prompt-length", "32", "--generate", "8", "--quiet"]
        expected = self.succeed(*run, "--scheduler", "sequential")
        for mode in ["streaming", "eager", "on-demand"]:
            self.assertEqual(self.succeed(*run, "--mode", mode), expected, mode)
        self.assertEqual(self.succeed(*run, "--prepared-limit", "280M"), expected)  # a table of 260M is the least
        self.assertEqual(self.succeed(*run, "--drop-page-cache", "--read", "direct"), expected)

    def test_qwen(self):
        self.check_decoder("qwen-0.5b-int4")

    def test_llama(self):
        self.check_decoder("llama-1.1b-int4")

    def test_mlp(self):
        directory = self.path("mlp")
        self.succeed("generate", "mlp-f32-1g", directory, "--quiet")
        model = os.path.join(directory, "model.onnx")
        run = ["run", model, "--fill", "random:1", "--quiet"]
        for port in json.loads(self.succeed("inspect", model, "--json"))["inputs"]:
            for name in port["shape"].strip("[]").split(","):
                if not name.isdigit():
                    run += ["--dim", f"{name}=4"]
        expected = self.succeed(*run, "--scheduler", "sequential")
        self.assertEqual(self.succeed(*run), expected)


if __name__ == "__main__":
    support.main(sys.argv)
