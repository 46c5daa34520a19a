#!/usr/bin/env python3
"""Generates a model and runs one host program over it.

hosts.py OMPIPE FOLDER HOST HOSTS_RUNTIME GUESTS_RUNTIME [LIBRARY plain|deepbind]
"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    ompipe, folder, host, *rest = sys.argv[1:]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as model:
        subprocess.run([ompipe, "generate", "tiny-int4", model, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        return subprocess.run([host, f"{model}/model.onnx", *rest], timeout=240).returncode


if __name__ == "__main__":
    sys.exit(main())
