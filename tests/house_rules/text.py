"""Rules about the text of a file: banned calls, lengths, first sentences, words that don't belong, format."""

import os
import re
import shutil
import subprocess

MAX_LINES = 800
MAX_COLUMNS = {".h": 120, ".cpp": 120, ".py": 140, ".sh": 140}

# The scheduling layer, its tests, and the benchmark that has plain OpenMP as a peer.
OPENMP_PLACES = ("omp_runtime/schedule/", "tests/schedule/", "experiments/bench_scheduler")

# (pattern, where it is banned, where it is allowed all the same, what to do instead)
BANNED = [
    (r"\bsleep_(for|until)\b|\busleep\b|\bnanosleep\b|(?<![\w.>:])sleep\s*\(\s*\d", "", (), "prove order with gates, never with time"),
    (r"#\s*pragma\s+omp", "", OPENMP_PLACES, "OpenMP pragmas stand in omp_runtime/schedule only"),
    (r"#\s*include\s*<omp(-tools)?\.h>", "", OPENMP_PLACES, "OpenMP stands in omp_runtime/schedule only"),
    # A private constructor leaves no other way than an owner around `new`.
    (r"(?<![\w.>])(?<!\()new\s+[A-Za-z_:]+[\w:<>]*\s*[({\[]", "", ("arenas/",), "std::make_unique, or an arena"),
    (r"(?<![\w.>=])delete(\[\])?\s+[A-Za-z_]", "", ("arenas/",), "an owner whose destructor does it"),
    (r"(?<![\w.])assert\s*\(", "", (), "OMPIPE_CHECK, or static_assert"),
    (r"std::endl", "", (), "'\\n'"),
    (r"\bstd::cout\b|\bstd::cerr\b|(?<![\w.:])(?:std::)?f?printf\s*\(|(?<![\w.:])(?:std::)?f?puts\s*\(", "",
     ("omp_runtime/cli/", "tests/", "experiments/", "arenas/error.cpp"), "return an Error, or a string; only the command line prints"),
    (r"\bthrow\b", "", ("omp_runtime/cli/options.cpp", "omp_runtime/model/", "tests/"),
     "return an Error; only readers of damaged bytes unwind inside"),
    (r"\bstd::(rand|srand)\s*\(|(?<![\w.:])s?rand\s*\(", "", (), "a generator with a seed"),
    (r"\b(TODO|FIXME|XXX)\b", "", (), "do it, or open an issue"),
    (r"\bthread\w*(\[\w+\]|\))?\.detach\(\)", "", ("omp_runtime/schedule/",), "join every thread"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atof)\s*\(", "", (), "std::string, std::from_chars, fmt"),
]

# Nothing in the project says where it was made. Spelt so that this list is none of them.
FORBIDDEN_WORDS = [
    ("/wo" + "rk/", "a path of one machine"),
    ("/ro" + "ot/", "a path of one machine"),
    ("registry.npm" + "js.org", "the host of a registry"),
    ("proxy.golang" + ".org", "the host of a registry"),
    ("pypi" + ".org", "the host of a registry"),
    ("deb.debian" + ".org", "the host of a registry"),
]


def strip_comments_and_strings(line):
    line = re.sub(r'R"\w*\(.*?\)\w*"', '""', line)
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"//.*", "", line)


def banned_calls(tree):
    for path, contents in tree.sources().items():
        previous = ""
        for number, line in enumerate(contents.split("\n"), 1):
            code = strip_comments_and_strings(line)
            if previous.endswith("(") and code.lstrip().startswith("new "):
                code = "(" + code.lstrip()
            previous = code.rstrip()
            for pattern, where, allowed, instead in BANNED:
                if not path.startswith(where) or path.startswith(allowed or ("\0",)):
                    continue
                searched = line if "TODO" in pattern else code
                found = re.search(pattern, searched)
                if found:
                    yield f"{path}:{number}: banned '{found.group(0).strip()}': {instead}"


def lengths(tree):
    for path, contents in tree.files.items():
        limit = MAX_COLUMNS.get(os.path.splitext(path)[1])
        if limit is None:
            continue
        lines = contents.split("\n")
        if len(lines) > MAX_LINES:
            yield f"{path}: {len(lines)} lines: split it by job, {MAX_LINES} are the most"
        for number, line in enumerate(lines, 1):
            if len(line) > limit:
                yield f"{path}:{number}: {len(line)} columns, {limit} are the most"


def first_sentences(tree):
    for path, contents in tree.sources().items():
        if not path.endswith(".h"):
            continue
        comment = []
        for line in contents.split("\n"):
            if not line.startswith("//"):
                break
            comment.append(line[2:].strip())
        sentence = " ".join(comment)
        if not re.search(r"[.;:]( |$)", sentence) or len(sentence.split()) < 4:
            yield f"{path}:1: begin with a sentence that says what the file is for"
        if "#pragma once" not in contents:
            yield f"{path}: no #pragma once"


def words(tree):
    for path, contents in tree.files.items():
        for number, line in enumerate(contents.split("\n"), 1):
            for word, what in FORBIDDEN_WORDS:
                if word in line:
                    yield f"{path}:{number}: {what}"


def check(tree):
    return [*banned_calls(tree), *lengths(tree), *first_sentences(tree), *words(tree)]


def check_format(tree):
    """Files that clang-format would change, in one call."""
    formatter = shutil.which("clang-format-19")
    if not formatter:
        return ["clang-format-19 is not installed: tests/run.sh installs it"]
    paths = sorted(tree.sources())
    done = subprocess.run([formatter, "--dry-run", "-Werror", "-ferror-limit=1", *paths], cwd=tree.root, capture_output=True, text=True)
    breaks = []
    for line in done.stderr.split("\n"):
        found = re.match(r"(\S+?):(\d+):\d+: error: ", line)
        if found:
            breaks.append(f"{found.group(1)}:{found.group(2)}: not as clang-format-19 -i writes it")
    return breaks
