"""Documents: each is reachable from README.md, links lead somewhere, and commands and options named in them exist."""

import os
import re
import subprocess


def pages(tree):
    return {path: contents for path, contents in tree.files.items() if path.endswith(".md")}


def links(contents):
    for number, line in enumerate(contents.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            yield number, target


def check(tree):
    breaks = []
    reached = {"README.md"}
    waiting = ["README.md"]
    while waiting:
        page = waiting.pop()
        for number, target in links(tree.files.get(page, "")):
            if "://" in target or target.startswith("#"):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), target.split("#")[0])).replace(os.sep, "/")
            if not os.path.exists(os.path.join(tree.root, path)) and path not in tree.files:
                breaks.append(f"{page}:{number}: {target} is nowhere")
                continue
            inside = [path] if path in tree.files else [other for other in pages(tree) if os.path.dirname(other) == path]
            for other in inside:
                if other.endswith(".md") and other not in reached:
                    reached.add(other)
                    waiting.append(other)
    for page in sorted(pages(tree)):
        if page not in reached:
            breaks.append(f"{page}: no page that README.md leads to links to it")
    return breaks


def options_in(contents):
    """(line number, command, options) of every `ompipe COMMAND ...` in code."""
    in_block = False
    for number, line in enumerate(contents.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        spans = [line] if in_block or line.startswith("    ") else re.findall(r"`([^`]*)`", line)
        for span in spans:
            found = re.search(r"(?:^|&&|;|\|)\s*(?:[\w./-]*/)?ompipe ([a-z]+)(?![\w-])(.*)", span.split("#")[0].strip())
            if found:
                yield number, found.group(1), re.findall(r"(?<![\w-])--[a-z][a-z-]*", found.group(2))


def check_commands(tree, program):
    help_of = {}

    def help_text(command):
        if command not in help_of:
            done = subprocess.run([program, command, "--help"], capture_output=True, text=True)
            help_of[command] = done.stdout if done.returncode == 0 else None
        return help_of[command]

    breaks = []
    for path, contents in {**pages(tree), **{p: c for p, c in tree.files.items() if p.endswith(".sh")}}.items():
        for number, command, options in options_in(contents):
            shown = help_text(command)
            if shown is None:
                breaks.append(f"{path}:{number}: there is no command 'ompipe {command}'")
                continue
            known = set(re.findall(r"--[a-z][a-z-]*", shown))
            breaks += [f"{path}:{number}: 'ompipe {command}' has no {option}" for option in options if option not in known]
    return breaks
