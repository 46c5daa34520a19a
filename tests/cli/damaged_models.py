"""Damaged input: each case has its exit status and one line with phase, tensor, file, range and reason, and leaves nothing behind."""

import os
import sys

import support
from support import ProgramTest, change_external, external_tensors, rewrite


class DamagedModels(ProgramTest):

    def run_fails(self, status, model, parts):
        output = self.path("out")
        line = self.fail_with(status, "run", model, "--prompt", "1,2,3", "--generate", "2", "--output", output, "--threads", "2",
                              parts=parts)
        self.assert_empty(output)
        return line

    def damaged(self, change):
        """A copy of tiny-int4 whose .onnx file went through `change`."""
        model = os.path.join(self.copy_of_tiny(), "model.onnx")
        with open(model, "rb") as file:
            data = file.read()
        with open(model, "wb") as file:
            file.write(change(data))
        return model

    def with_external(self, key, value):
        with open(self.model(), "rb") as file:
            tensors = external_tensors(file.read())
        tensor = max(tensors, key=lambda name: int(tensors[name].get("length", 0)))
        return tensor, self.damaged(lambda data: change_external(data, tensor, key, value))

    def test_model_truncated_anywhere(self):
        size = os.path.getsize(self.model())
        model = os.path.join(self.copy_of_tiny(), "model.onnx")
        with open(model, "rb") as file:
            data = file.read()
        for length in [0, 1, 2, 10, size // 7, size // 2, size - 100, size - 1]:
            with open(model, "wb") as file:
                file.write(data[:length])
            self.run_fails(3, model, ["model.onnx"])

    def test_model_of_other_bytes(self):
        self.run_fails(3, self.damaged(lambda data: b"\xff" * len(data)), ["model.onnx"])
        self.run_fails(3, self.damaged(lambda data: b"\0" * 1000), ["model.onnx"])

    def test_data_truncated(self):
        copy = self.copy_of_tiny()
        data = os.path.join(copy, "model.data")
        size = os.path.getsize(data)
        for length in [size - 1, size // 2, 0]:
            os.truncate(data, length)
            self.run_fails(3, os.path.join(copy, "model.onnx"), ["model.data", str(length)])

    def test_data_with_a_flipped_bit(self):
        copy = self.copy_of_tiny()
        data = os.path.join(copy, "model.data")
        with open(data, "r+b") as file:
            file.seek(os.path.getsize(data) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        self.run_fails(3, os.path.join(copy, "model.onnx"), ["digest", "model.data"])
        status, _, stderr = self.ompipe("verify", os.path.join(copy, "model.onnx"))
        self.assertEqual(status, 3)
        self.assertIn("digest", stderr)

    def test_length_that_the_shape_contradicts(self):
        tensor, model = self.with_external("length", "12345")
        self.run_fails(3, model, [tensor, "12345"])

    def test_offset_past_the_end(self):
        tensor, model = self.with_external("offset", "99999999999")
        self.run_fails(3, model, [tensor, "model.data", "99999999999"])

    def test_offset_that_overflows(self):
        for value in ["18446744073709551615", "18446744073709550000", "9223372036854775807"]:
            tensor, model = self.with_external("offset", value)
            self.run_fails(3, model, [tensor])

    def test_numbers_that_are_none(self):
        for key, value in [("offset", "-1"), ("offset", "12x"), ("offset", ""), ("length", "99999999999999999999")]:
            tensor, model = self.with_external(key, value)
            self.run_fails(3, model, [tensor])

    def test_location_that_leaves_the_directory(self):
        for value in ["../model.data", "/etc/passwd", "a/../../model.data", ""]:
            tensor, model = self.with_external("location", value)
            self.run_fails(3, model, [tensor])

    def test_location_that_is_missing(self):
        tensor, model = self.with_external("location", "nowhere.data")
        self.run_fails(1, model, ["nowhere.data"])

    def test_unknown_operator(self):
        def change(op_type):
            return b"Frobnicate" if op_type == b"Sigmoid" else op_type

        self.run_fails(3, self.damaged(lambda data: rewrite(data, [7, 1, 4], change)), ["Frobnicate"])

    def test_output_that_nothing_produces(self):
        model = self.damaged(lambda data: rewrite(data, [7, 12, 1], lambda name: b"no such value"))
        self.run_fails(3, model, ["no such value"])

    def test_directory_in_place_of_a_file(self):
        copy = self.copy_of_tiny()
        data = os.path.join(copy, "model.data")
        os.remove(data)
        os.mkdir(data)
        self.run_fails(1, os.path.join(copy, "model.onnx"), ["model.data"])
        self.run_fails(1, copy, ["copy"])

    def test_pipe_in_place_of_a_file(self):
        # Opening a pipe that nobody writes to would wait for ever.
        copy = self.copy_of_tiny()
        data = os.path.join(copy, "model.data")
        os.remove(data)
        os.mkfifo(data)
        self.run_fails(1, os.path.join(copy, "model.onnx"), ["model.data"])
        pipe = self.path("model.onnx")
        os.mkfifo(pipe)
        self.run_fails(1, pipe, [pipe])

    def test_link_that_leads_nowhere(self):
        link = self.path("model.onnx")
        os.symlink(self.path("gone.onnx"), link)
        self.run_fails(1, link, [link])


if __name__ == "__main__":
    support.main(sys.argv)
