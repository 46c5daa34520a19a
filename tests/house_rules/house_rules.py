"""The house rules that a program can check. Prints one line for each break: file, line, rule, what to do instead."""

import argparse
import os
import sys

import docs
import layers
import text
from tree import Tree


def check(tree, build=None, program=None):
    """All breaks of the tree, as lines."""
    breaks = [*text.check(tree), *layers.check(tree), *docs.check(tree)]
    if program:
        breaks += docs.check_commands(tree, program)
    if build:
        breaks += layers.check_compiled(tree, build)
    return breaks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--build", help="a build folder, to find files that no target compiles")
    parser.add_argument("--program", help="the built ompipe, to ask for its options")
    arguments = parser.parse_args()
    tree = Tree.of_directory(arguments.root)
    breaks = check(tree, arguments.build, arguments.program) + text.check_format(tree)
    for line in breaks:
        print(line)
    print(f"{len(tree.files)} files, {len(breaks)} breaks")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main())
