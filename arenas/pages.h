// The few calls by which arenas get memory from the system and give it back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ompipe/arenas/error.h"

namespace ompipe::arenas {

inline constexpr uint64_t kHugePageBytes = 2u << 20;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Anonymous private memory, readable and writable, not charged to the system's commit limit before it is touched.
// `bytes` and `alignment` are multiples of 4 KiB. ErrorKind::environment with errno when the system has no address
// space.
Result<std::byte*> map_pages(uint64_t bytes, uint64_t alignment);
void unmap_pages(std::byte* base, uint64_t bytes);
// Huge pages on touch (transparent ones; advice: a kernel without them ignores it), or 4 KiB ones only.
void advise_huge(std::byte* base, uint64_t bytes, bool huge);
// Gives the pages back and keeps the addresses: the next touch reads zeros.
void discard_pages(std::byte* base, uint64_t bytes);
// Makes every access a report of AddressSanitizer, or allowed again. Nothing in other builds.
void poison(const std::byte* base, uint64_t bytes);
void unpoison(const std::byte* base, uint64_t bytes);

}  // namespace ompipe::arenas
