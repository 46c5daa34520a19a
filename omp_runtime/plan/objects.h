// Makes the prepared objects of a plan from payloads: identity, layout, reads, chunks, staging.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ompipe/plan/plan.h"
#include "weights.h"

namespace ompipe::plan {

// Collects objects; requests with the same key get the same one. Part of build_plan.
class ObjectTable {
 public:
  ObjectTable(const model::ResolvedModel& model, const PlanOptions& options, std::vector<PreparedObject>& objects)
      : model_(model), options_(options), objects_(objects) {}

  // What the bytes of some sources are, in order, wherever they lie and whatever shape their tensors give them.
  std::string lineage(const std::vector<model::PayloadId>& payloads) const;
  // B and what belongs to it, packed, on the CPU or on the device. Errors: bad_model, naming the node.
  Result<ObjectId> packed(const model::Node& node, const WeightSources& weight, bool on_device);
  // One payload as it is: the node's input of that index.
  Result<ObjectId> source_form(const model::Node& node, size_t input, model::PayloadId payload);
  // Several small payloads, at least one; `offsets` receives where each lies in the object.
  Result<ObjectId> bundle(const std::string& name, std::vector<model::PayloadId> payloads,
                          std::map<model::PayloadId, uint64_t>& offsets);
  // The most that a payload of so many bytes adds to a bundle.
  static uint64_t bundled_bytes(uint64_t bytes);

 private:
  Result<const model::Payload*> readable(model::PayloadId payload) const;
  ObjectId add(PreparedObject object);
  void place_on_device(PreparedObject& object, bool whole) const;
  void cut_chunks(PreparedObject& object, const model::Payload& main, bool whole) const;

  const model::ResolvedModel& model_;
  const PlanOptions& options_;
  std::vector<PreparedObject>& objects_;
  std::map<std::string, ObjectId> by_key_;
};

}  // namespace ompipe::plan
