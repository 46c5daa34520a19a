#!/usr/bin/env python3
"""The shared library exports the functions that its header declares, and nothing else: exports.py HEADER LIBRARY"""
import re
import subprocess
import sys


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    header, library = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        contents = file.read()
    declared = set(re.findall(r"^OMPIPE_KERNELS_API[^;(]*?(\w+)\(", contents, re.MULTILINE))
    # Absolute symbols (A) are the names of versions.
    exported = {line.split()[-1].split("@")[0] for line in tool("nm", "-D", "--defined-only", library).splitlines() if " A " not in line}
    major = re.search(r"VERSION_MAJOR (\d+)", contents).group(1)
    wrong = sorted(f"declared, not exported: {name}" for name in declared - exported)
    wrong += sorted(f"exported, not declared: {name}" for name in exported - declared)
    if f"soname: [libompipe_kernels.so.{major}]" not in tool("readelf", "-d", library):
        wrong.append(f"the soname isn't libompipe_kernels.so.{major}")
    print("\n".join(wrong) or f"{len(exported)} functions")
    return 1 if wrong or not declared else 0


sys.exit(main())
