#include "ompipe/store/prepare_chunk.h"

#include <algorithm>
#include <cstring>

#include "ompipe/model/decode.h"

namespace ompipe::store {
namespace {

const model::Payload& payload_of(const ChunkJob& job, const plan::Source& source) {
  return job.plan->model->payload(source.payload);
}

bool encoded(const model::Payload& payload) { return payload.encoding != model::Encoding::raw; }

std::span<const std::byte> slice_of(const std::byte* bytes, uint64_t length, uint64_t slice) {
  const uint64_t begin = slice * io::kSliceBytes;
  return {bytes + begin, std::min(io::kSliceBytes, length - begin)};
}

// Elements as the file holds them to elements in memory, inside one staging block.
Status decode(const model::Payload& payload, const plan::Source& source, std::byte* block) {
  return model::decode_varints({reinterpret_cast<const uint8_t*>(block + source.staging_offset), payload.length},
                               payload.dtype, uint64_t(model::element_count(payload.dims)),
                               reinterpret_cast<uint8_t*>(block + source.decoded_offset), payload.name);
}

// `bytes` are those of [begin, end) of the source, as the file holds them; begin is a multiple of a slice.
void hash_range(const ChunkJob& job, size_t source, const std::byte* bytes, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; at += io::kSliceBytes) {
    job.hashes->at(source, at / io::kSliceBytes) =
        io::slice_hash({bytes + (at - begin), std::min(io::kSliceBytes, end - at)});
  }
}

void hash_aux_share(const ChunkJob& job) {
  for (size_t i = 1; i < job.object->sources.size(); ++i) {
    const plan::Source& source = job.object->sources[i];
    const uint64_t length = payload_of(job, source).length;
    for (uint64_t slice = job.chunk; slice < job.hashes->slices(i); slice += job.object->chunks.size()) {
      job.hashes->at(i, slice) = io::slice_hash(slice_of(job.aux + source.staging_offset, length, slice));
    }
  }
}

// In which layout the object is packed, all of whose scales lie at `scales`. Relaxed: chunks need nothing from each
// other but the answer, and whoever packs them at once finds the same.
const kernels::PackedLayout& layout_for(const ChunkJob& job, const std::byte* scales) {
  const plan::PreparedObject& object = *job.object;
  if (!job.scale_form || !object.narrow) return object.layout;
  ScaleForm form = job.scale_form->load(std::memory_order_relaxed);
  if (form == ScaleForm::unknown) {
    const bool fit = kernels::scales_fit_half(reinterpret_cast<const float*>(scales),
                                              object.layout.scales_bytes / int64_t(sizeof(float)));
    form = fit ? ScaleForm::narrow : ScaleForm::wide;
    job.scale_form->store(form, std::memory_order_relaxed);
  }
  return form == ScaleForm::narrow ? *object.narrow : object.layout;
}

Status prepare_packed(const ChunkJob& job) {
  const plan::Chunk& chunk = job.object->chunks[job.chunk];
  const plan::Source& main = job.object->sources[0];
  const model::Payload& payload = payload_of(job, main);
  const std::byte* bytes = job.staging;
  if (job.hashes) {
    hash_range(job, 0, job.staging, encoded(payload) ? 0 : chunk.begin, encoded(payload) ? payload.length : chunk.end);
    hash_aux_share(job);
  }
  if (!job.prepared) return ok_status();
  if (encoded(payload)) {
    if (Status status = decode(payload, main, job.staging); !status.ok()) return status;
    bytes = job.staging + main.decoded_offset;
  }
  const std::byte* aux[2] = {nullptr, nullptr};
  for (size_t i = 1; i < job.object->sources.size(); ++i) {
    const plan::Source& source = job.object->sources[i];
    if (encoded(payload_of(job, source))) {
      if (Status status = decode(payload_of(job, source), source, job.aux); !status.ok()) return status;
    }
    aux[i - 1] = job.aux + source.decoded_offset;
  }
  kernels::pack_range(layout_for(job, aux[0]), {bytes, aux[0], aux[1]}, int64_t(chunk.begin), int64_t(chunk.end),
                      job.prepared);
  return ok_status();
}

Status prepare_source_form(const ChunkJob& job) {
  const plan::Chunk& chunk = job.object->chunks[job.chunk];
  const model::Payload& payload = payload_of(job, job.object->sources[0]);
  if (!encoded(payload)) {
    if (job.hashes) hash_range(job, 0, job.prepared + chunk.begin, chunk.begin, chunk.end);
    return ok_status();
  }
  if (job.hashes) hash_range(job, 0, job.staging, 0, payload.length);
  if (Status status = decode(payload, job.object->sources[0], job.staging); !status.ok()) return status;
  std::memcpy(job.prepared, job.staging + job.object->sources[0].decoded_offset, payload.bytes());
  return ok_status();
}

Status prepare_bundle(const ChunkJob& job) {
  for (size_t i = 0; i < job.object->sources.size(); ++i) {
    const plan::Source& source = job.object->sources[i];
    const model::Payload& payload = payload_of(job, source);
    std::byte* const target = job.prepared + source.object_offset;
    if (job.hashes) hash_range(job, i, job.staging + source.staging_offset, 0, payload.length);
    if (!encoded(payload)) {
      std::memcpy(target, job.staging + source.staging_offset, payload.length);
    } else if (Status status = model::decode_varints(
                   {reinterpret_cast<const uint8_t*>(job.staging + source.staging_offset), payload.length},
                   payload.dtype, uint64_t(model::element_count(payload.dims)), reinterpret_cast<uint8_t*>(target),
                   payload.name);
               !status.ok()) {
      return status;
    }
  }
  return ok_status();
}

}  // namespace

Status prepare_chunk(const ChunkJob& job) {
  switch (job.object->kind) {
    case plan::ObjectKind::packed_matmul:
      return prepare_packed(job);
    case plan::ObjectKind::source_form:
      return prepare_source_form(job);
    case plan::ObjectKind::bundle:
      return prepare_bundle(job);
  }
  return ok_status();
}

}  // namespace ompipe::store
