// External data: locations, ranges, sharing, checksums, and the layouts that model hubs and users make.
#include <doctest/doctest.h>

#include <filesystem>

#include "ompipe/io/digest.h"
#include "ompipe/io/digest_list.h"
#include "ompipe/model/reader.h"
#include "ompipe/model/resolver.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("external");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;
using Entries = std::vector<std::pair<std::string, std::string>>;

Tensor external(const std::string& name, std::vector<int64_t> dims, Entries entries, DType dtype = DType::f32) {
  return {
      .name = name, .dtype = dtype, .dims = std::move(dims), .form = Form::external, .external = std::move(entries)};
}

// A model that uses only the tensors it lists, as outputs.
ModelSpec model_of(std::vector<Tensor> tensors) {
  ModelSpec spec;
  for (const Tensor& tensor : tensors) spec.outputs.push_back({tensor.name, tensor.dtype, {}, false});
  spec.initializers = std::move(tensors);
  return spec;
}

TEST_CASE("offset and length may be left out") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  const auto path =
      folder.write("m.onnx", model_bytes(model_of({external("a", {16}, {{"location", "w.bin"}}),
                                                   external("b", {4}, {{"location", "w.bin"}, {"offset", "48"}})})));
  auto model = open_model(path, {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->payload(0).offset == 0);
  CHECK((*model)->payload(0).length == 64);
  CHECK((*model)->payload(1).offset == 48);
  CHECK((*model)->payload(1).length == 16);
  CHECK((*model)->files().size() == 2);
  CHECK((*model)->files()[1].bytes == 64);
}

TEST_CASE("ranges may be unordered, shared, overlapping and unaligned") {
  TempFolder folder;
  folder.write("w.bin", std::string(101, 'x'));
  auto at = [](const char* offset, const char* length) {
    return Entries{{"location", "w.bin"}, {"offset", offset}, {"length", length}};
  };
  const auto path = folder.write(
      "m.onnx",
      model_bytes(model_of({external("last", {5}, at("81", "20")), external("first", {2, 2}, at("1", "16")),
                            external("shared", {4}, at("1", "16")), external("overlaps", {4}, at("9", "16"))})));
  auto model = open_model(path, {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->payloads().size() == 3);
  CHECK(value_named(**model, "shared").payload == value_named(**model, "first").payload);
  CHECK(shape_text(value_named(**model, "shared").shape) == "[4]");
  CHECK(shape_text(value_named(**model, "first").shape) == "[2, 2]");
  CHECK((*model)->source_bytes() == 20 + 16 + 16);
}

TEST_CASE("blanks, non-ASCII letters and folders in paths") {
  TempFolder folder;
  folder.write("mein Modell ä/Gewichte 重み/w 1.bin", std::string(16, 'x'));
  const Tensor tensor = external("a", {4}, {{"location", "Gewichte 重み/w 1.bin"}});
  const auto path = folder.write("mein Modell ä/модель.onnx", model_bytes(model_of({tensor})));
  auto model = open_model(path, {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->files()[1].location == "Gewichte 重み/w 1.bin");
}

TEST_CASE("a hub's cache: model and weights are links into a folder of blobs") {
  TempFolder folder;
  folder.write("blobs/1111", model_bytes(model_of({external("a", {4}, {{"location", "model.data"}})})));
  folder.write("blobs/2222", std::string(16, 'x'));
  std::filesystem::create_directories(folder.path("snapshot"));
  std::filesystem::create_symlink("../blobs/1111", folder.path("snapshot/model.onnx"));
  std::filesystem::create_symlink("../blobs/2222", folder.path("snapshot/model.data"));
  auto model = open_model(folder.path("snapshot/model.onnx"), {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->payload(0).length == 16);
}

TEST_CASE("checksums: a payload's digest, a file's SHA-1, anything else") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  const std::string digest = io::format_digest(io::Hash128{1, 2}), sha1(40, 'a');
  const auto path = folder.write(
      "m.onnx",
      model_bytes(model_of({external("a", {4}, {{"location", "w.bin"}, {"checksum", digest}}),
                            external("b", {4}, {{"location", "w.bin"}, {"offset", "16"}, {"checksum", sha1}}),
                            external("c", {4}, {{"location", "w.bin"}, {"offset", "32"}, {"checksum", "crc:1"}})})));
  auto model = open_model(path, {});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->payload(0).digest == digest);
  CHECK((*model)->payload(1).digest.empty());
  CHECK((*model)->files()[1].sha1 == sha1);
  CHECK((*model)->payload(2).digest.empty());
  REQUIRE((*model)->notes().size() == 1);
  CHECK((*model)->notes()[0].find("tensor c") != std::string::npos);
}

TEST_CASE("a trusted list gives digests and slice hashes, and wins over the model's") {
  TempFolder folder;
  const std::string data(64, 'x');
  folder.write("w.bin", data);
  const std::string stale = io::format_digest(io::Hash128{1, 2});
  const auto path = folder.write(
      "m.onnx", model_bytes(model_of({external("a", {16}, {{"location", "./w.bin"}, {"checksum", stale}})})));
  const auto bytes = std::as_bytes(std::span(data));
  const std::vector<io::DigestEntry> entries = {
      {.name = "a", .file = "w.bin", .length = 64, .digest = io::digest_of(bytes), .slices = io::slice_hashes(bytes)},
      {.name = "gone", .file = "w.bin", .offset = 1, .length = 63, .digest = io::digest_of(bytes.subspan(1))}};
  const auto list = folder.write("model.digests", io::format_digest_list(entries));
  auto model = open_model(path, {.digests_path = list});
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  CHECK((*model)->payload(0).digest == io::format_digest(io::digest_of(bytes)));
  CHECK((*model)->payload(0).slice_hashes.size() == 1);
  CHECK((*model)->notes().size() == 2);
  CHECK(open_model(path, {.digests_path = folder.path("none")}).error().kind == ErrorKind::environment);
  folder.write("model.digests", "nonsense");
  CHECK(open_model(path, {.digests_path = list}).error().kind == ErrorKind::bad_model);
}

struct Wrong {
  const char* what;
  Entries entries;
  std::vector<int64_t> dims;
  ErrorKind kind;
  const char* reason;
};

TEST_CASE("every wrong range or location is refused by tensor, file, range and what is there") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  folder.write("d/inner", "");
  const std::vector<Wrong> wrongs = {
      {"past the end", {{"location", "w.bin"}, {"offset", "52"}}, {4}, ErrorKind::bad_model, "past the end"},
      {"overflow",
       {{"location", "w.bin"}, {"offset", "18446744073709551615"}},
       {4},
       ErrorKind::bad_model,
       "past the end"},
      {"more than 64 bits",
       {{"location", "w.bin"}, {"offset", "99999999999999999999"}},
       {4},
       ErrorKind::bad_model,
       "64 bits"},
      {"no number", {{"location", "w.bin"}, {"offset", "0x10"}}, {4}, ErrorKind::bad_model, "not a number"},
      {"negative", {{"location", "w.bin"}, {"offset", "-1"}}, {4}, ErrorKind::bad_model, "not a number"},
      {"empty number", {{"location", "w.bin"}, {"length", ""}}, {4}, ErrorKind::bad_model, "not a number"},
      {"length and dims", {{"location", "w.bin"}, {"length", "12"}}, {4}, ErrorKind::bad_model, "needs 16 bytes"},
      {"no location", {{"offset", "0"}}, {4}, ErrorKind::bad_model, "location"},
      {"outside", {{"location", "../w.bin"}}, {4}, ErrorKind::bad_model, ""},
      {"absolute", {{"location", "/etc/passwd"}}, {4}, ErrorKind::bad_model, ""},
      {"missing", {{"location", "none.bin"}}, {4}, ErrorKind::environment, ""},
      {"a directory", {{"location", "d"}}, {4}, ErrorKind::environment, ""},
      {"bytes overflow", {{"location", "w.bin"}}, {INT64_MAX / 2, 4}, ErrorKind::bad_model, "overflow"},
      {"negative dims", {{"location", "w.bin"}}, {-4}, ErrorKind::bad_model, "negative"},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.what);
    const auto path = folder.write("m.onnx", model_bytes(model_of({external("weight", wrong.dims, wrong.entries)})));
    const auto model = read_model(path, {});
    REQUIRE_FALSE(model.ok());
    const Error& error = model.error();
    CHECK(error.kind == wrong.kind);
    CHECK(error.phase == "open");
    CHECK(error.subject == "weight");
    CHECK_FALSE(error.file.empty());
    CHECK_MESSAGE(error.reason.find(wrong.reason) != std::string::npos, error.message());
  }
}

TEST_CASE("the numbers of a range past the end") {
  TempFolder folder;
  folder.write("w.bin", std::string(64, 'x'));
  const auto path =
      folder.write("m.onnx", model_bytes(model_of({external("w", {4}, {{"location", "w.bin"}, {"offset", "52"}})})));
  const auto model = read_model(path, {});
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().offset == 52);
  CHECK(model.error().length == 16);
  CHECK(model.error().got == 12);
  CHECK(model.error().file.ends_with("w.bin"));
}

}  // namespace

TEST_SUITE_END();
