#include "loader.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <numeric>
#include <random>

#include "ompipe/io/file_handle.h"

namespace ompipe::test {

std::shared_ptr<std::byte> aligned_bytes(uint64_t bytes) {
  const uint64_t rounded = (bytes + 63) / 64 * 64;
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(64, std::max<uint64_t>(rounded, 64))),
                                    [](std::byte* data) { std::free(data); });
  std::memset(memory.get(), 0xa5, std::max<uint64_t>(rounded, 64));
  return memory;
}

void read_into(const plan::PreparedExecutionPlan& plan, const std::vector<plan::Read>& reads, std::byte* to) {
  for (const plan::Read& read : reads) {
    const int file = plan.model->files()[size_t(read.file)].handle->descriptor();
    REQUIRE(pread(file, to + read.staging_offset, read.length, off_t(read.offset)) == ssize_t(read.length));
  }
}

Prepared prepare_object(const plan::PreparedExecutionPlan& plan, plan::ObjectId id, const std::vector<size_t>& order) {
  const plan::PreparedObject& object = plan.objects[size_t(id)];
  Prepared result{aligned_bytes(object.bytes), store::SliceHashes(plan, object)};
  const auto aux = aligned_bytes(object.aux_staging_bytes), staging = aligned_bytes(object.chunk_staging_bytes);
  read_into(plan, object.aux_reads, aux.get());
  store::SharedScaleForm scale_form{store::ScaleForm::unknown};
  for (size_t chunk : order) {
    const bool direct = object.chunk_staging_bytes == 0;
    read_into(plan, object.chunks[chunk].reads,
              direct ? result.bytes.get() + object.chunks[chunk].begin : staging.get());
    store::ChunkJob job;
    job.plan = &plan;
    job.object = &object;
    job.chunk = chunk;
    job.staging = direct ? nullptr : staging.get();
    job.aux = aux.get();
    job.prepared = result.bytes.get();
    job.hashes = &result.hashes;
    job.scale_form = &scale_form;
    const Status status = store::prepare_chunk(job);
    if (result.status.ok()) result.status = status;
  }
  result.scale_form = scale_form;
  return result;
}

Prepared prepare_object(const plan::PreparedExecutionPlan& plan, plan::ObjectId id) {
  std::vector<size_t> order(plan.objects[size_t(id)].chunks.size());
  std::iota(order.begin(), order.end(), size_t(0));
  return prepare_object(plan, id, order);
}

std::string noise(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string result(bytes, '\0');
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(result.data() + i, &word, std::min<size_t>(8, bytes - i));
  }
  return result;
}

}  // namespace ompipe::test
