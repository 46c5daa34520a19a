"""What the tests of the program share: running it, and taking an ONNX file apart and together again."""

import ctypes
import errno
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

PROGRAM = None  # set by main()


class ProgramTest(unittest.TestCase):
    """Each test has a directory of its own; tiny-int4 is generated once."""

    tiny = None

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="ompipe-cli-")
        cls.tiny = os.path.join(cls.root, "tiny")
        subprocess.run([PROGRAM, "generate", "tiny-int4", cls.tiny, "--quiet"], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)

    def setUp(self):
        self.directory = tempfile.mkdtemp(dir=self.root)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def model(self):
        return os.path.join(self.tiny, "model.onnx")

    def ompipe(self, *arguments, environment=None, before=None):
        """Runs the program; returns (status, stdout, stderr). `before` is called in the new process first."""
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, errors="replace",
                              env={**os.environ, **(environment or {})}, timeout=120, preexec_fn=before)
        return done.returncode, done.stdout, done.stderr

    def succeed(self, *arguments, environment=None, before=None):
        status, stdout, stderr = self.ompipe(*arguments, environment=environment, before=before)
        self.assertEqual((status, stderr), (0, ""), arguments)
        return stdout

    def fail_with(self, expected_status, *arguments, parts=(), environment=None, before=None):
        """The status, one line on stderr that holds all parts, nothing on stdout."""
        status, stdout, stderr = self.ompipe(*arguments, environment=environment, before=before)
        self.assertEqual(status, expected_status, (arguments, stderr))
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertTrue(stderr.startswith("ompipe: "), stderr)
        for part in parts:
            self.assertIn(part, stderr)
        self.assertEqual(stdout, "")
        return stderr

    def assert_empty(self, directory):
        """Nothing was written there, not even a part."""
        self.assertEqual(os.listdir(directory) if os.path.exists(directory) else [], [])

    def copy_of_tiny(self):
        copy = os.path.join(tempfile.mkdtemp(dir=self.directory), "copy")
        shutil.copytree(self.tiny, copy)
        return copy


def refuse_threads():
    """For `before`: every thread fails, since no system has room for a stack of this size."""
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 46, hard))


def refuse_binding():
    """For `before`: a seccomp filter that answers sched_setaffinity with EPERM and lets everything else pass (x86-64)."""

    class Instruction(ctypes.Structure):
        _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(Instruction))]

    load, jump_if_equal, answer = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
    allow, fail = 0x7FFF0000, 0x00050000 | errno.EPERM
    sched_setaffinity = 203
    filter = (Instruction * 4)((load, 0, 0, 0), (jump_if_equal, 0, 1, sched_setaffinity), (answer, 0, 0, fail),
                               (answer, 0, 0, allow))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    program = Program(len(filter), filter)
    if libc.prctl(set_no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_seccomp, mode_filter, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "prctl")


def interrupt_when_ready(process):
    """SIGINT as soon as the process handles it: until then the signal would simply end it."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as status:
            blocked = next((line.split()[1] for line in status if line.startswith("SigBlk")), "0")
        if int(blocked, 16) >> (signal.SIGINT - 1) & 1:
            process.send_signal(signal.SIGINT)
            return
        os.sched_yield()


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message):
    """(number, wire type, value) of each field: an int for varints, bytes for the rest."""
    at = 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read_varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, wire, read_varint()
        else:
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size = read_varint()
            yield number, wire, message[at:at + size]
            at += size


def encode(number, wire, value):
    key = varint(number << 3 | wire)
    if wire == 0:
        return key + varint(value)
    return key + (varint(len(value)) if wire == 2 else b"") + value


def rewrite(message, path, change):
    """Applies `change` (bytes or int to the same, or None to drop it) to every field that the path of numbers leads to."""
    out = bytearray()
    for number, wire, value in fields(message):
        if number == path[0]:
            value = change(value) if len(path) == 1 else rewrite(value, path[1:], change)
            if value is None:
                continue
        out += encode(number, wire, value)
    return bytes(out)


# onnx.proto: ModelProto.graph = 7; GraphProto.node = 1, initializer = 5; NodeProto.op_type = 4;
# TensorProto.name = 8, external_data = 13; StringStringEntryProto.key = 1, value = 2.
def change_external(model, tensor, key, value):
    """The model with another external_data entry for one tensor."""

    def change_entry(entry):
        parts = dict((number, part) for number, _, part in fields(entry))
        return encode(1, 2, parts[1]) + encode(2, 2, value.encode()) if parts[1] == key.encode() else entry

    def change_tensor(message):
        name = next(part for number, _, part in fields(message) if number == 8)
        return rewrite(message, [13], change_entry) if name == tensor.encode() else message

    return rewrite(model, [7, 5], change_tensor)


def external_tensors(model):
    """name -> {external_data key: value} of every initializer that lies in another file."""
    found = {}

    def look(message):
        parts = list(fields(message))
        name = next(part for number, _, part in parts if number == 8)
        entries = [dict((n, p) for n, _, p in fields(part)) for number, _, part in parts if number == 13]
        if entries:
            found[name.decode()] = {entry[1].decode(): entry[2].decode() for entry in entries}
        return message

    rewrite(model, [7, 5], look)
    return found


def main(argv):
    global PROGRAM
    PROGRAM = argv[1]
    unittest.main(argv=[argv[0], *argv[2:]], verbosity=1)
