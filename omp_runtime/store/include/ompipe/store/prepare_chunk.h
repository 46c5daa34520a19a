// Turns the bytes of one chunk into their part of a prepared object: hash, decode, pack or copy.
#pragma once

#include <cstddef>

#include "ompipe/plan/plan.h"
#include "ompipe/store/scale_form.h"
#include "ompipe/store/slice_hashes.h"

namespace ompipe::store {

// One chunk whose bytes have arrived. All memory is the caller's.
struct ChunkJob {
  const plan::PreparedExecutionPlan* plan = nullptr;
  const plan::PreparedObject* object = nullptr;
  size_t chunk = 0;
  std::byte* staging =
      nullptr;  // the chunk's block, or where its bytes are mapped; null when they were read into the object
  std::byte* aux = nullptr;  // scales and zero points, all of them; null if there are none
  std::byte* prepared =
      nullptr;  // the object's bytes; null: they are made elsewhere, of bytes that are only hashed here
  SliceHashes* hashes = nullptr;  // null: nothing is hashed (--verify never)
  // The object's: the first chunk to come looks at the scales and says there in what form all are packed. Null: as they
  // are, in the object's `layout`.
  SharedScaleForm* scale_form = nullptr;
};

// Hashes the chunk's slices while they come into the cache, and its share of the aux sources' slices (slice j is chunk
// j mod chunks'), then writes its part of the object. Different chunks of an object may run at once on different
// threads. Errors: bad_model, when typed fields can't be decoded. Doesn't allocate.
Status prepare_chunk(const ChunkJob& job);

}  // namespace ompipe::store
