#include "ompipe/model/reader.h"

#include <fmt/format.h>

#include <protozero/exception.hpp>

#include "graph_reader.h"
#include "ompipe/io/file_set.h"
#include "ompipe/io/payload.h"
#include "onnx_fields.h"
#include "payload_table.h"
#include "trusted_digests.h"
#include "walk.h"

namespace ompipe::model {
namespace {

void read_opset(std::string_view bytes, ModelMetadata& metadata, Walk& walk) {
  std::string domain;
  int64_t version = 0;
  auto message = message_of(bytes);
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::opset_domain, kBytes):
        domain = message.get_string();
        break;
      case key(field::opset_version, kVarint):
        version = message.get_int64();
        break;
      default:
        message.skip();
    }
  }
  if (domain == "ai.onnx") domain.clear();
  metadata.opsets.emplace_back(std::move(domain), version);
}

void read_property(std::string_view bytes, ModelMetadata& metadata, Walk& walk) {
  std::string name, value;
  auto message = message_of(bytes);
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::entry_key, kBytes):
        name = message.get_string();
        break;
      case key(field::entry_value, kBytes):
        value = message.get_string();
        break;
      default:
        message.skip();
    }
  }
  metadata.properties[name] = std::move(value);
}

// Fills the metadata; returns the main graph's message.
std::string_view read_header(ModelMetadata& metadata, Walk& walk) {
  std::string_view graph;
  auto message = message_of(walk.bytes);
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::model_ir_version, kVarint):
        metadata.ir_version = message.get_int64();
        break;
      case key(field::model_producer_name, kBytes):
        metadata.producer_name = message.get_string();
        break;
      case key(field::model_producer_version, kBytes):
        metadata.producer_version = message.get_string();
        break;
      case key(field::model_domain, kBytes):
        metadata.domain = message.get_string();
        break;
      case key(field::model_version, kVarint):
        metadata.model_version = message.get_int64();
        break;
      case key(field::model_graph, kBytes):
        if (graph.data()) walk.fail("", "two main graphs");
        graph = text_of(message.get_view());
        break;
      case key(field::model_opset_import, kBytes):
        read_opset(text_of(message.get_view()), metadata, walk);
        break;
      case key(field::model_metadata_props, kBytes):
        read_property(text_of(message.get_view()), metadata, walk);
        break;
      default:
        message.skip();
    }
  }
  walk.at = walk.bytes.data();
  if (!graph.data()) walk.fail("", "no graph: this is not an ONNX model");
  return graph;
}

void set_opsets(ModelGraph& graph) {
  for (Node& node : graph.nodes) {
    for (const auto& [domain, version] : graph.metadata.opsets) {
      if (domain == node.domain) node.opset = version;
    }
  }
}

}  // namespace

Result<ModelGraph> read_model(const std::string& path, const ReadOptions& options) {
  auto files = io::FileSet::open(path);
  if (!files) return files.error();
  const std::shared_ptr<const io::FileHandle> file = files->model();
  auto damaged = [&](std::string reason, uint64_t offset) {
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "open",
                 .subject = {},
                 .reason = std::move(reason),
                 .file = path,
                 .offset = offset};
  };
  if (file->size_bytes() == 0) return damaged("the file is empty", 0);
  auto mapped = io::map_range(file, 0, file->size_bytes());
  if (!mapped) return mapped.error();

  ModelGraph graph;
  graph.metadata.path = path;
  graph.metadata.bytes = file->size_bytes();
  const auto* first = reinterpret_cast<const char*>(mapped->bytes.data());
  Walk walk{.bytes = {first, mapped->bytes.size()}, .at = first, .path = path};
  try {
    const std::string_view main_graph = read_header(graph.metadata, walk);
    PayloadTable payloads(*files, graph);
    GraphReader(graph, payloads, walk).read(main_graph);
  } catch (const ReadFailure& failure) {
    return failure.error;
  } catch (const protozero::exception& broken) {
    return damaged(fmt::format("damaged or truncated protobuf ({})", broken.what()), walk.offset_of(walk.at));
  }
  set_opsets(graph);
  if (!options.digests_path.empty()) {
    const Status applied = apply_trusted_digests(options.digests_path, graph);
    if (!applied) return applied.error();
  } else {
    adopt_slice_hashes(graph);
  }
  return graph;
}

}  // namespace ompipe::model
