"""Layers: a file includes only headers of its own layer and those below, and every source file is compiled into some target."""

import json
import os
import re

# From the lowest to the highest; name in include paths -> folder.
LAYERS = [("kernels", "kernels"), ("arenas", "arenas"), ("io", "io_service"), ("device", "omp_runtime/device"),
          ("model", "omp_runtime/model"),
          ("plan", "omp_runtime/plan"), ("store", "omp_runtime/store"), ("exec", "omp_runtime/exec"), ("schedule", "omp_runtime/schedule"),
          ("session", "omp_runtime/session"), ("trace", "omp_runtime/trace"), ("cli", "omp_runtime/cli")]
RANK = {name: rank for rank, (name, _) in enumerate(LAYERS)}
# Nothing but arithmetic and data; and a scheduler knows neither models nor kernels nor policy.
ONLY = {"kernels": {"kernels"}, "arenas": {"arenas"}, "schedule": {"schedule", "arenas"},
        "device": {"device", "arenas", "kernels"}}
# Built by projects of their own: with a peer's library, and from an installation.
ELSEWHERE = ("experiments/peers/", "tests/capi/consumer/")
HEAVY = {"nlohmann/json.hpp": "nlohmann/json", "CLI/CLI.hpp": "CLI11", "doctest/doctest.h": "doctest", "rapidcheck.h": "rapidcheck"}


def layer_of(path):
    for name, folder in LAYERS:
        if path.startswith(folder + "/"):
            return name
    return None


def includes(contents):
    for number, line in enumerate(contents.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(1), found.group(2)


def check(tree):
    breaks = []
    command_line_parsers = []
    for path, contents in tree.sources().items():
        layer = layer_of(path)
        for number, bracket, name in includes(contents):
            if name in HEAVY and path.endswith(".h") and not path.startswith("tests/"):
                breaks.append(f"{path}:{number}: {HEAVY[name]} in a header: include it in a .cpp file")
            if name == "CLI/CLI.hpp":
                command_line_parsers.append(path)
            if not name.startswith("ompipe/"):
                continue
            if bracket != '"':
                breaks.append(f"{path}:{number}: include {name} with quotes")
            used = name.split("/")[1]
            if used not in RANK:
                breaks.append(f"{path}:{number}: {name}: no layer '{used}'")
            elif layer and used not in ONLY.get(layer, {used}):
                breaks.append(f"{path}:{number}: {layer} knows nothing of {used}")
            elif layer and RANK[used] > RANK[layer]:
                breaks.append(f"{path}:{number}: {layer} lies below {used}")
    if len(command_line_parsers) > 1:
        breaks.append(f"CLI11 is included in {len(command_line_parsers)} files, one is enough: {', '.join(command_line_parsers)}")
    return breaks


# Kernels of an architecture that this build may not be for; those of x86 are compiled by the builds that run this.
ANOTHER_ARCHITECTURE = ("_neon.", "_neon_")


def check_compiled(tree, build):
    """Source files that no target of this build compiles."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        compiled = {os.path.relpath(entry["file"], tree.root).replace(os.sep, "/") for entry in json.load(file)}
    return [f"{path}: in no target: a dead file" for path in sorted(tree.sources())
            if path.endswith(".cpp") and path not in compiled and not path.startswith(ELSEWHERE)
            and not any(word in path for word in ANOTHER_ARCHITECTURE)]
