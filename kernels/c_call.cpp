#include "c_call.h"

namespace ompipe::kernels::c {

ompipe_isa c_isa(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return OMPIPE_ISA_SCALAR;
    case Isa::avx2:
      return OMPIPE_ISA_AVX2;
    case Isa::avx_vnni:
      return OMPIPE_ISA_AVX_VNNI;
    case Isa::avx512:
      return OMPIPE_ISA_AVX512;
    case Isa::avx512_vnni:
      return OMPIPE_ISA_AVX512_VNNI;
    case Isa::neon:
      return OMPIPE_ISA_NEON;
    case Isa::neon_dotprod:
      return OMPIPE_ISA_NEON_DOTPROD;
  }
  return OMPIPE_ISA_BEST;
}

bool read_isa(ompipe_isa from, Isa& into) {
  if (from == OMPIPE_ISA_BEST) {
    into = best_isa();
    return true;
  }
  for (const Isa isa : kIsas) {
    if (c_isa(isa) != from) continue;
    into = isa;
    return true;
  }
  return false;
}

ompipe_status read_available_isa(ompipe_isa from, Isa& into, const char** reason) {
  if (!read_isa(from, into)) return fail(OMPIPE_INVALID_ARGUMENT, reason, "isa must be one of OMPIPE_ISA_...");
  if (isa_available(into)) return done(reason);
  return fail(OMPIPE_ISA_UNAVAILABLE, reason, ompipe_status_text(OMPIPE_ISA_UNAVAILABLE));
}

ompipe_status check_shared_scratch(const void* scratch, int64_t bytes, int64_t needed, const char* too_small,
                                   const char** reason) {
  if (needed == 0) return done(reason);
  if (scratch == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "shared_scratch is null");
  if (bytes < needed) return fail(OMPIPE_TOO_SMALL, reason, too_small);
  if (is_aligned(scratch, kAlignmentBytes)) return done(reason);
  return fail(OMPIPE_MISALIGNED, reason, "shared_scratch must start at a multiple of OMPIPE_ALIGNMENT");
}

ompipe_status check_packed(const void* packed, const char** reason) {
  if (packed == nullptr) return fail(OMPIPE_INVALID_ARGUMENT, reason, "packed is null");
  if (is_aligned(packed, kAlignmentBytes)) return done(reason);
  return fail(OMPIPE_MISALIGNED, reason, "packed must start at a multiple of OMPIPE_ALIGNMENT");
}

namespace {

// Null if `call` was made, and at this address.
const TiledCall* tiled(const ompipe_call* call) {
  if (call == nullptr || !is_aligned(call, alignof(ompipe_call)) || call->mark != call->mark_here()) return nullptr;
  return &call->tiled;
}

ompipe_status check_scratch(const TiledCall& call, const void* scratch, int64_t scratch_bytes) {
  if (call.tile_scratch_bytes == 0) return OMPIPE_OK;
  if (scratch == nullptr) return OMPIPE_INVALID_ARGUMENT;
  if (scratch_bytes < static_cast<int64_t>(call.tile_scratch_bytes)) return OMPIPE_TOO_SMALL;
  return is_aligned(scratch, kAlignmentBytes) ? OMPIPE_OK : OMPIPE_MISALIGNED;
}

}  // namespace
}  // namespace ompipe::kernels::c

using namespace ompipe::kernels;

static_assert(OMPIPE_ALIGNMENT == kAlignmentBytes);

uint32_t ompipe_kernels_version(void) noexcept {
  return OMPIPE_KERNELS_VERSION_MAJOR << 16 | OMPIPE_KERNELS_VERSION_MINOR;
}

const char* ompipe_status_text(ompipe_status status) noexcept {
  switch (status) {
    case OMPIPE_OK:
      return "done";
    case OMPIPE_INVALID_ARGUMENT:
      return "invalid argument";
    case OMPIPE_UNKNOWN_FIELD:
      return "a structure of an unknown version";
    case OMPIPE_UNSUPPORTED:
      return "no kernel takes this";
    case OMPIPE_ISA_UNAVAILABLE:
      return "this CPU lacks the instruction set";
    case OMPIPE_TOO_SMALL:
      return "the memory given is too small";
    case OMPIPE_MISALIGNED:
      return "the memory given is misaligned";
    default:
      return "unknown status";
  }
}

int32_t ompipe_isa_available(ompipe_isa isa) noexcept {
  Isa named;
  return isa != OMPIPE_ISA_BEST && c::read_isa(isa, named) && isa_available(named);
}

ompipe_isa ompipe_isa_best(void) noexcept { return c::c_isa(best_isa()); }

const char* ompipe_isa_name(ompipe_isa isa) noexcept {
  Isa named;
  return isa != OMPIPE_ISA_BEST && c::read_isa(isa, named) ? isa_name(named) : nullptr;
}

ompipe_status ompipe_isa_parse(const char* name, ompipe_isa* isa) noexcept {
  if (name == nullptr || isa == nullptr) return OMPIPE_INVALID_ARGUMENT;
  const std::optional<Isa> parsed = parse_isa(name);
  if (!parsed) return OMPIPE_INVALID_ARGUMENT;
  *isa = c::c_isa(*parsed);
  return OMPIPE_OK;
}

ompipe_size ompipe_call_size(void) noexcept { return {sizeof(ompipe_call), alignof(ompipe_call)}; }

int32_t ompipe_call_phases(const ompipe_call* call) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  return tiled != nullptr ? tiled->phase_count : 0;
}

int64_t ompipe_call_tiles(const ompipe_call* call, int32_t phase) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  return tiled != nullptr && phase >= 0 && phase < tiled->phase_count ? tiled->tile_counts[phase] : 0;
}

int64_t ompipe_call_tile_scratch_bytes(const ompipe_call* call) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  return tiled != nullptr ? static_cast<int64_t>(tiled->tile_scratch_bytes) : 0;
}

double ompipe_call_predicted_ns(const ompipe_call* call) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  return tiled != nullptr ? tiled->predicted_ns() : 0;
}

ompipe_status ompipe_call_run_tile(const ompipe_call* call, int32_t phase, int64_t tile, void* scratch,
                                   int64_t scratch_bytes) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  if (tiled == nullptr || phase < 0 || phase >= tiled->phase_count) return OMPIPE_INVALID_ARGUMENT;
  if (tile < 0 || tile >= tiled->tile_counts[phase]) return OMPIPE_INVALID_ARGUMENT;
  const ompipe_status status = c::check_scratch(*tiled, scratch, scratch_bytes);
  if (status == OMPIPE_OK) tiled->run(phase, tile, static_cast<std::byte*>(scratch));
  return status;
}

ompipe_status ompipe_call_run(const ompipe_call* call, void* scratch, int64_t scratch_bytes) noexcept {
  const TiledCall* const tiled = c::tiled(call);
  if (tiled == nullptr) return OMPIPE_INVALID_ARGUMENT;
  const ompipe_status status = c::check_scratch(*tiled, scratch, scratch_bytes);
  if (status == OMPIPE_OK) run_serially(*tiled, static_cast<std::byte*>(scratch));
  return status;
}
