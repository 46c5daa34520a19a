// A caller's thread computes as the team does: with the processor's default floating-point mode.
#pragma once

namespace ompipe::schedule {

// For its lifetime the calling thread rounds to nearest and keeps denormals, whatever the host has set (SSE's MXCSR).
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(__builtin_ia32_stmxcsr()) {
    if (before_ != kDefault) __builtin_ia32_ldmxcsr(kDefault);
  }
  ~DefaultFloatMode() {
    if (before_ != kDefault) __builtin_ia32_ldmxcsr(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;
  const unsigned before_;
};

}  // namespace ompipe::schedule
