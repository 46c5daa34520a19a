// What the C functions share: failing with a reason, reading structures of other versions, the opaque call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"
#include "ompipe_kernels.h"

// Arguments of any operator's call, in place. Its bytes are the caller's, so it has no destructor to run.
struct ompipe_call {
  static constexpr size_t kArgumentBytes = 256;

  uint64_t mark;  // kMark at this very address
  ompipe::kernels::TiledCall tiled;
  alignas(16) std::byte arguments[kArgumentBytes];

  static constexpr uint64_t kMark = 0x6f6d706970656361;
  uint64_t mark_here() const { return kMark ^ reinterpret_cast<uintptr_t>(this); }
};
static_assert(std::is_trivially_destructible_v<ompipe_call> && std::is_trivially_copyable_v<ompipe_call>);

namespace ompipe::kernels::c {

inline ompipe_status fail(ompipe_status status, const char** reason, const char* text) {
  if (reason != nullptr) *reason = text;
  return status;
}

inline ompipe_status done(const char** reason) { return fail(OMPIPE_OK, reason, nullptr); }

inline bool is_aligned(const void* memory, size_t alignment) {
  return reinterpret_cast<uintptr_t>(memory) % alignment == 0;
}

inline constexpr const char* kStruct =
    "struct_bytes must be the structure's size, and what this version doesn't know zero";

// Copies the caller's structure, of this version, an elder or a younger one. `elder_bytes`: its sizes in the versions
// where it was smaller. False if it isn't one, or sets what this version doesn't know.
template <typename Struct>
bool read_struct(const Struct* from, std::initializer_list<size_t> elder_bytes, Struct& into) {
  size_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  if (bytes > (size_t{1} << 16)) return false;
  if (bytes < sizeof(Struct) && std::ranges::find(elder_bytes, bytes) == elder_bytes.end()) return false;
  const auto* tail = reinterpret_cast<const unsigned char*>(from);
  for (size_t at = sizeof(Struct); at < bytes; ++at) {
    if (tail[at] != 0) return false;
  }
  into = Struct();
  std::memcpy(static_cast<void*>(&into), from, std::min(bytes, sizeof(Struct)));
  return true;
}

// Memory that is to become a Struct: there, large enough, aligned.
template <typename Struct>
ompipe_status check_place(const Struct* place, size_t bytes, const char** reason) {
  if (place == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "no memory for the opaque structure");
  if (bytes < sizeof(Struct)) return fail(OMPIPE_TOO_SMALL, reason, "ask for the opaque structure's size");
  if (!is_aligned(place, alignof(Struct))) return fail(OMPIPE_MISALIGNED, reason, "ask for its alignment");
  return done(reason);
}

// Scratch of a whole call: there, large enough, aligned. `too_small` names the function that says how large.
ompipe_status check_shared_scratch(const void* scratch, int64_t bytes, int64_t needed, const char* too_small,
                                   const char** reason);

// Packed bytes that a product reads or writes: there, aligned.
ompipe_status check_packed(const void* packed, const char** reason);

// Makes a call in the caller's memory: `arguments` are copied there and bound by `bind`.
template <typename Arguments, typename Bind>
void make_call(ompipe_call* call, const Arguments& arguments, Bind bind) {
  static_assert(sizeof(Arguments) <= ompipe_call::kArgumentBytes && std::is_trivially_copyable_v<Arguments> &&
                std::is_trivially_destructible_v<Arguments>);
  ::new (call) ompipe_call;
  auto* const kept = ::new (call->arguments) Arguments(arguments);
  call->tiled = bind(*kept);
  call->mark = call->mark_here();
}

// The two sides' names of an instruction set. False for a value without a counterpart; OMPIPE_ISA_BEST has one.
bool read_isa(ompipe_isa from, Isa& into);
ompipe_status read_available_isa(ompipe_isa from, Isa& into, const char** reason);
ompipe_isa c_isa(Isa isa);

}  // namespace ompipe::kernels::c
