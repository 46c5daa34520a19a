"""Checks one model of docs/models with SPIN: every scene of it holds, and every mutant of a scene fails.

    model_check.py SPIN CC MODEL.pml            OMPIPE_LONG=1: the longer scenes too

A scene is what the comment at the head of the model says; a mutant reverses one step of the protocol. A mutant that passes
means that the model doesn't see what it is for, and fails the test.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

MEMORY_MIB = 1400
DEPTH = 1_000_000


class Scene:
    """`defines` make the scene out of the model; `mutants` fail in it; `eventually` is an LTL formula's name, checked
    with weak fairness; `long` scenes run with OMPIPE_LONG."""

    def __init__(self, name, defines=(), mutants=(), eventually=None, long=False):
        self.name, self.defines, self.mutants = name, defines, mutants
        self.eventually, self.long = eventually, long


SCENES = {
    "admission": [
        Scene("residency limit", ("PREPARED=2", "STAGING=2"), ("ONE_BY_ONE", "YOUNGER_OVERTAKES"), "eldest_gets_on"),
        Scene("global limit", ("ALL=6",), ("START_WITHOUT_ROOM_FOR_A_GANG",), "eldest_gets_on"),
        Scene("preparation", ("ONCE", "PREPARES", "STAGING=2", "ALL=5"), ("PREPARATION_KEEPS",), "all_end"),
        Scene("preparation, residency limit", ("ONCE", "PREPARES", "PREPARED=3"), eventually="all_end"),
        Scene("speculative reads that starve", ("OTHER_WAY_ROUND", "PREPARES", "STARVED", "INVOCATIONS=2", "PREPARED=3"),
              ("SPECULATION_STAYS",), "eldest_gets_on"),
        Scene("lowered limit", ("ONCE", "PREPARED=4", "LOWERED=2"), ("LIMIT_NOT_KEPT_TO",), "all_end"),
        Scene("preparation, global limit", ("PREPARES", "ALL=6"), eventually="eldest_gets_on", long=True),
    ],
    "parking": [
        Scene("promotion", mutants=(
            "WAKE_LOOKS_FIRST", "WAKE_BEFORE_COUNT", "CRITICAL_READ_FIRST", "SEARCHING_READ_FIRST", "ANNOUNCED_LATE",
            "LATE_PROMOTION_IS_SILENT", "WITHHELD_WITHOUT_A_SECOND_LOOK")),
        Scene("kernel", ("KERNEL",), ("NO_PASS_ON",)),
        Scene("places", ("HOT", "HOT_AND_COLD", "TEAM=1", "WAITING=1", "RUNNING=1"), ("PLACE_FREED_SILENTLY",)),
        Scene("team's limit", ("HOT", "WAITING=2", "RUNNING=0"), ("LIMIT_RAISED_SILENTLY",)),
        Scene("hot run beside a task", ("HOT", "HOT_AND_COLD", "HOT_WAITS_FOR_COLD", "WAITING=1", "RUNNING=0"), ("NO_PASS_ON",)),
        Scene("kernel and promotion", ("KERNEL", "KERNEL_AND_PROMOTION"), long=True),
    ],
    "readiness": [
        Scene("object or frames", mutants=(
            "EPOCH_READ_BEFORE_PIN", "PINS_READ_BEFORE_EPOCH", "WAITING_READ_BEFORE_UNPIN", "CANCEL_IS_SILENT", "NO_SECOND_LOOK",
            "SLOT_LEFT_AT_ONCE", "CANCEL_LOST_ON_THE_WAY")),
        Scene("two of three", ("GLOBAL",), long=True),
    ],
    "tiles": [
        Scene("two kernels", mutants=("SAME_GENERATION", "LEADER_LEAVES", "WORKER_NOT_ASKED", "JOIN_WITHOUT_COMPARING")),
    ],
}


def check(spin, compiler, model, scene, mutant=None):
    """Errors found, states looked at, and the trail where there is one."""
    defines = [f"-D{define}" for define in scene.defines] + ([f"-DMUTANT_{mutant}"] if mutant else [])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([spin, *defines, "-a", model], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        # Where few states are looked at, an optimiser would take longer than the search.
        level = "-O0" if mutant or scene.eventually else "-O1"
        kind = ["-DNFAIR=5"] if scene.eventually else ["-DSAFETY"]
        subprocess.run([compiler, level, "-w", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}", *kind, "-o", "pan", "pan.c"],
                       cwd=folder, check=True)
        options = ["-a", "-f", "-N", scene.eventually] if scene.eventually else []
        done = subprocess.run(["./pan", "-b", f"-m{DEPTH}", *options], cwd=folder, capture_output=True, text=True)
        errors = re.search(r"errors: (\d+)", done.stdout)
        if not errors or "max search depth too small" in done.stdout:
            sys.exit(f"{model}, {scene.name}: the search did not run\n{done.stdout}{done.stderr}")
        found = int(errors.group(1))
        if found == 0 and "Search not completed" in done.stdout:
            sys.exit(f"{model}, {scene.name}: the search was cut short\n{done.stdout}")
        trail = ""
        if found > 0 and not mutant:
            shown = subprocess.run([spin, *defines, "-k", os.path.basename(model) + ".trail", "-g", "-p", model], cwd=folder,
                                   capture_output=True, text=True)
            trail = done.stdout + shown.stdout
        return found, int(float(re.search(r"([\d.e+]+) states, stored", done.stdout).group(1))), trail


def main():
    spin, compiler, model = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3])
    failed = False
    for scene in SCENES[os.path.splitext(os.path.basename(model))[0]]:
        if scene.long and not os.environ.get("OMPIPE_LONG"):
            continue
        for mutant in (None, *scene.mutants):
            begin = time.monotonic()
            errors, states, trail = check(spin, compiler, model, scene, mutant)
            right = (errors > 0) == (mutant is not None)
            verdict = "fails" if errors else "holds"
            print(f"{'' if right else 'WRONG: '}{scene.name}{', mutant ' + mutant if mutant else ''}: {verdict}, "
                  f"{states} states, {time.monotonic() - begin:.1f} s\n{trail}", end="" if trail else "", flush=True)
            failed |= not right
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
