// Every fixed limit of the I/O service, and the relations between them.
#pragma once

#include <cstdint>

namespace ompipe::io {

inline constexpr uint64_t kSliceBytes = uint64_t{1} << 20;     // unit of digests; chunks are multiples of it
inline constexpr uint64_t kDirectAlignment = 4096;             // of offset, length and address of an O_DIRECT read
inline constexpr uint64_t kBounceBytes = uint64_t{1} << 20;    // one I/O thread's buffer for unaligned direct reads
inline constexpr uint64_t kPopulateBytes = uint64_t{8} << 20;  // populated between two looks at the cancel flag
inline constexpr uint64_t kMaxCallBytes = uint64_t{1} << 30;   // pread transfers at most 2 GiB - 4 KiB a call
inline constexpr uint32_t kMaxThreads = 64;                    // I/O threads of one service
inline constexpr uint32_t kDefaultThreads = 2;
inline constexpr uint32_t kDefaultMaxRequests = 4096;  // queued and in flight
inline constexpr uint64_t kDefaultInflightBytes = uint64_t{64} << 20;
inline constexpr uint32_t kMaxInterruptions = 1000;  // EINTR in a row before a read is given up

static_assert(kSliceBytes % kDirectAlignment == 0, "a chunk can be read directly without a tail in its middle");
static_assert(kBounceBytes >= 2 * kDirectAlignment, "a bounce window holds an unaligned start and an unaligned end");
static_assert(kPopulateBytes % kDirectAlignment == 0, "population steps are whole pages");
static_assert(kMaxThreads < kDefaultMaxRequests, "every thread can have a request while others are queued");

}  // namespace ompipe::io
