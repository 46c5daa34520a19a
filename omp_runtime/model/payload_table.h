// Collects payload descriptors: opens external files, checks every range, lets identical ranges share one descriptor.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <variant>

#include "ompipe/io/file_set.h"
#include "ompipe/model/reader.h"
#include "tensor_reader.h"

namespace ompipe::model {

// Where a tensor's elements ended up: a payload, or a constant, or neither (strings, types this runtime doesn't hold).
struct TensorPlace {
  PayloadId payload = kNone;
  int32_t constant = kNone;
};

class PayloadTable {
 public:
  // `files` has the model's file open already, and outlives the table; `graph` receives files, payloads, constants and
  // notes.
  PayloadTable(io::FileSet& files, ModelGraph& graph);

  // Throws ReadFailure: bad_model, phase "open", with tensor, file, range and what the file has there.
  TensorPlace add(TensorRecord tensor, Walk& walk);

 private:
  PayloadId add_external(const TensorRecord& tensor, Walk& walk);
  PayloadId add_range(const TensorRecord& tensor, int32_t file, uint64_t offset, uint64_t length);
  int32_t file_index(std::shared_ptr<const io::FileHandle> handle, const std::string& location);
  void note_checksum(const TensorRecord& tensor, PayloadId id);

  io::FileSet& files_;
  ModelGraph& graph_;
  std::map<std::tuple<int32_t, uint64_t, uint64_t>, PayloadId> by_range_;  // raw ranges only
};

}  // namespace ompipe::model
