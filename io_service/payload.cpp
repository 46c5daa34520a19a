#include "ompipe/io/payload.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "ompipe/io/limits.h"

namespace ompipe::io {
namespace {

// Keeps a mapping and the file that it shows.
class Mapping {
 public:
  Mapping(void* base, size_t bytes, std::shared_ptr<const FileHandle> file)
      : base_(base), bytes_(bytes), file_(std::move(file)) {}
  ~Mapping() { munmap(base_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

 private:
  void* const base_;
  const size_t bytes_;
  const std::shared_ptr<const FileHandle> file_;
};

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

}  // namespace

uint64_t MappedBytes::alignment() const {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return std::min<uint64_t>(uint64_t{1} << std::min(std::countr_zero(address), 12), kDirectAlignment);
}

Payload mapped_payload(MappedBytes mapped) {
  OMPIPE_CHECK(mapped.owner != nullptr, "mapped bytes without an owner");
  return mapped;
}

Payload caller_payload(std::span<const std::byte> bytes, std::shared_ptr<const void> lifetime) {
  OMPIPE_CHECK(lifetime != nullptr, "caller's bytes without a lifetime");
  return CallerBytes{bytes, std::move(lifetime)};
}

Result<Payload> lazy_payload(std::shared_ptr<const FileHandle> source, uint64_t offset, uint64_t length) {
  OMPIPE_CHECK(source != nullptr, "a lazy descriptor without a source");
  const Status range = source->check_range(offset, length);
  if (!range) return range.error();
  return Payload(LazyDescriptor{std::move(source), offset, length});
}

Result<Payload> destination_payload(std::shared_ptr<const FileHandle> source, uint64_t offset,
                                    std::span<std::byte> destination, std::shared_ptr<const void> owner) {
  OMPIPE_CHECK(source != nullptr && owner != nullptr, "a final destination without source or owner");
  const Status range = source->check_range(offset, destination.size());
  if (!range) return range.error();
  return Payload(FinalDestination{{std::move(source), offset, destination.size()}, destination, std::move(owner)});
}

uint64_t payload_bytes(const Payload& payload) {
  return std::visit(Match{[](const LazyDescriptor& lazy) { return lazy.length; },
                          [](const FinalDestination& final) { return final.source.length; },
                          [](const auto& present) { return uint64_t{present.bytes.size()}; }},
                    payload);
}

std::optional<std::span<const std::byte>> bytes_in_memory(const Payload& payload) {
  using Bytes = std::optional<std::span<const std::byte>>;
  return std::visit(
      Match{[](const LazyDescriptor&) { return Bytes(); }, [](const FinalDestination&) { return Bytes(); },
            [](const auto& present) { return Bytes(present.bytes); }},
      payload);
}

Result<MappedBytes> map_range(std::shared_ptr<const FileHandle> file, uint64_t offset, uint64_t length) {
  OMPIPE_CHECK(file->descriptor() >= 0, "only a file with a descriptor can be mapped");
  const Status range = file->check_range(offset, length);
  if (!range) return range.error();
  const FileIdentity identity = file->identity();
  if (length == 0) return MappedBytes{{}, std::move(file), identity};
  const uint64_t inside_page = offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = length + inside_page;
  void* base =
      mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->descriptor(), static_cast<off_t>(offset - inside_page));
  if (base == MAP_FAILED) {
    return Error{.phase = "read",
                 .subject = "",
                 .reason = "the range cannot be mapped",
                 .file = file->path(),
                 .offset = offset,
                 .length = length,
                 .errno_value = errno};
  }
  const std::span<const std::byte> seen(static_cast<const std::byte*>(base) + inside_page, length);
  return MappedBytes{seen, std::make_shared<const Mapping>(base, bytes, std::move(file)), identity};
}

}  // namespace ompipe::io
