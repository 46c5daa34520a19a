"""The project's text files, as a table from path to contents."""

import os

SKIPPED = {".git", "build", "node_modules", "__pycache__", "results", "goldens"}
SUFFIXES = (".h", ".cpp", ".py", ".sh", ".md", ".txt", ".json", ".mjs", ".js", ".yml", ".c")


class Tree:

    def __init__(self, root, files):
        self.root = root
        self.files = files  # path with forward slashes, relative to the root -> text

    @staticmethod
    def of_directory(root):
        files = {}
        for directory, names, leaves in os.walk(root):
            names[:] = [name for name in names if name not in SKIPPED and not name.startswith("build-")]
            for leaf in leaves:
                path = os.path.relpath(os.path.join(directory, leaf), root).replace(os.sep, "/")
                if path.endswith(SUFFIXES) or path in (".ci/run", ".clang-format", ".clang-tidy"):
                    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as file:
                        files[path] = file.read()
        return Tree(root, files)

    def sources(self):
        """The C++ files."""
        return {path: contents for path, contents in self.files.items() if path.endswith((".h", ".cpp"))}
