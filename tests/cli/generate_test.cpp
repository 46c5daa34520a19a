#include "ompipe/cli/generate.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ompipe/io/digest.h"
#include "ompipe/io/digest_list.h"

namespace {

namespace fs = std::filesystem;
using namespace ompipe;

// A directory that exists as long as the test.
struct Scratch {
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "ompipe-generate-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Scratch() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  fs::path path;
};

std::string contents(const fs::path& file) {
  std::string bytes(fs::file_size(file), '\0');
  std::ifstream(file, std::ios::binary).read(bytes.data(), std::streamsize(bytes.size()));
  return bytes;
}

std::string digest(const std::string& bytes) {
  return io::format_digest(io::digest_of(std::as_bytes(std::span(bytes))));
}

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

void generate(const std::string& preset, const std::string& directory, uint64_t seed = 1, int accuracy_level = 4) {
  const Status done = cli::generate_model({preset, directory, seed, accuracy_level});
  REQUIRE_MESSAGE(done.ok(), (done ? "" : done.error().message()));
}

struct External {
  std::string name, location, checksum;
  uint64_t offset = 0, length = 0, elements = 1;
  int32_t data_type = 0;
};

std::pair<std::string, std::string> read_entry(protozero::pbf_reader entry) {
  std::pair<std::string, std::string> pair;
  while (entry.next()) {
    std::string& part = entry.tag() == 1 ? pair.first : pair.second;
    part = entry.get_string();
  }
  return pair;
}

// The initializers of a model whose bytes lie outside it (field numbers of onnx.proto).
std::vector<External> external_tensors(const std::string& onnx) {
  std::vector<External> found;
  protozero::pbf_reader model(onnx);
  while (model.next(7)) {
    protozero::pbf_reader graph = model.get_message();
    while (graph.next(5)) {
      protozero::pbf_reader tensor = graph.get_message();
      External made;
      std::map<std::string, std::string> entries;
      while (tensor.next()) {
        switch (tensor.tag()) {
          case 1:
            made.elements *= uint64_t(tensor.get_int64());
            break;
          case 2:
            made.data_type = tensor.get_int32();
            break;
          case 8:
            made.name = tensor.get_string();
            break;
          case 13:
            entries.insert(read_entry(tensor.get_message()));
            break;
          default:
            tensor.skip();
        }
      }
      if (entries.empty()) continue;
      made.location = entries.at("location");
      made.offset = std::stoull(entries.at("offset"));
      made.length = std::stoull(entries.at("length"));
      made.checksum = entries.at("checksum");
      CHECK(entries.size() == 4);  // ONNX Runtime refuses any other key
      found.push_back(made);
    }
  }
  return found;
}

uint64_t element_bytes(int32_t data_type) { return std::map<int32_t, uint64_t>{{1, 4}, {2, 1}, {10, 2}}.at(data_type); }

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

}  // namespace

TEST_SUITE("generate") {
  TEST_CASE("the same seed gives the bytes that it always gave") {
    Scratch scratch;
    generate("tiny-int4", scratch / "a");
    CHECK(names_in(scratch.path / "a") == std::set<std::string>{"model.data", "model.digests", "model.onnx"});
    CHECK(digest(contents(scratch.path / "a/model.data")) == "xxh3-128/1M:2c6e59de249a646bff0c245752d41903");
    CHECK(digest(contents(scratch.path / "a/model.onnx")) == "xxh3-128/1M:91730f5796cbb76b5760d6af42b24362");
    generate("tiny-int4", scratch / "a");  // over the old files
    CHECK(digest(contents(scratch.path / "a/model.data")) == "xxh3-128/1M:2c6e59de249a646bff0c245752d41903");
  }

  TEST_CASE("the seed changes the weights, the accuracy level only the graph") {
    Scratch scratch;
    generate("tiny-int4", scratch / "a", 1, 4);
    generate("tiny-int4", scratch / "b", 2, 4);
    generate("tiny-int4", scratch / "c", 1, 0);
    CHECK(contents(scratch.path / "a/model.data") != contents(scratch.path / "b/model.data"));
    CHECK(contents(scratch.path / "a/model.data") == contents(scratch.path / "c/model.data"));
    CHECK(contents(scratch.path / "a/model.onnx") != contents(scratch.path / "c/model.onnx"));
  }

  TEST_CASE("every range lies in the file, is aligned, and has the digest that stands beside it and in the list") {
    const std::set<std::string> row_addressed{"embedding.weight", "embedding.scales", "embedding.word.weight"};
    for (const std::string preset : {"tiny-int4", "bert-f32"}) {
      CAPTURE(preset);
      Scratch scratch;
      generate(preset, scratch / "m");
      const std::string data = contents(scratch.path / "m/model.data");
      const std::vector<External> tensors = external_tensors(contents(scratch.path / "m/model.onnx"));
      Result<std::vector<io::DigestEntry>> list =
          io::parse_digest_list(contents(scratch.path / "m/model.digests"), "list");
      REQUIRE(list.ok());
      CHECK(tensors.size() > 30);
      std::set<uint64_t> ranges;
      for (const External& tensor : tensors) {
        CAPTURE(tensor.name);
        REQUIRE(tensor.offset + tensor.length <= data.size());
        CHECK(tensor.location == "model.data");
        CHECK(tensor.length == tensor.elements * element_bytes(tensor.data_type));
        CHECK(tensor.offset % (tensor.length >= 65536 ? 4096 : 64) == 0);
        CHECK(digest(data.substr(tensor.offset, tensor.length)) == tensor.checksum);
        const auto listed = std::find_if(list->begin(), list->end(),
                                         [&](const io::DigestEntry& entry) { return entry.offset == tensor.offset; });
        REQUIRE(listed != list->end());
        CHECK(listed->length == tensor.length);
        CHECK(io::format_digest(listed->digest) == tensor.checksum);
        if (row_addressed.contains(tensor.name)) CHECK(listed->slices.size() == io::slice_count(tensor.length));
        ranges.insert(tensor.offset);
      }
      CHECK(list->size() == ranges.size());
    }
  }

  TEST_CASE("the tied head shares the embedding's bytes") {
    Scratch scratch;
    generate("tiny-int4", scratch / "m");
    std::map<std::string, External> tensors;
    for (const External& tensor : external_tensors(contents(scratch.path / "m/model.onnx")))
      tensors[tensor.name] = tensor;
    CHECK(tensors.at("lm_head.weight").offset == tensors.at("embedding.weight").offset);
    CHECK(tensors.at("lm_head.weight").length == 8192 * 512 / 2);
  }

  TEST_CASE("a model much larger than a block is never in memory") {
    Scratch scratch;
    const int64_t before = peak_rss_bytes();
    generate("bert-f32", scratch / "m");
    CHECK(fs::file_size(scratch.path / "m/model.data") > 128'000'000);
    CHECK(peak_rss_bytes() - before < 32 * 1024 * 1024);
  }

  TEST_CASE("wrong arguments are usage, and write nothing") {
    Scratch scratch;
    const Status preset = cli::generate_model({"tiny-int5", scratch / "m"});
    REQUIRE_FALSE(preset.ok());
    CHECK(preset.error().kind == ErrorKind::usage);
    CHECK(preset.error().message().find("qwen-0.5b-int4") != std::string::npos);
    const Status level = cli::generate_model({"tiny-int4", scratch / "m", 1, 3});
    REQUIRE_FALSE(level.ok());
    CHECK(level.error().kind == ErrorKind::usage);
    CHECK(fs::is_empty(scratch.path));
  }

  TEST_CASE("a file in the directory's place is the environment's fault") {
    Scratch scratch;
    std::ofstream(scratch / "m") << "in the way";
    const Status done = cli::generate_model({"tiny-int4", scratch / "m"});
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().kind == ErrorKind::environment);
    CHECK(done.error().message().find(scratch / "m") != std::string::npos);
  }

  TEST_CASE("what cannot be published leaves nothing behind") {
    Scratch scratch;
    fs::create_directories(scratch.path / "m/model.data/in the way");
    const Status done = cli::generate_model({"tiny-int4", scratch / "m"});
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().kind == ErrorKind::environment);
    CHECK(names_in(scratch.path / "m") == std::set<std::string>{"model.data"});
  }
}
