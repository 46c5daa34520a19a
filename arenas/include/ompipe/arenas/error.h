// Operating errors as values with their whole context, and checks for errors of the programmer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ompipe {

// What went wrong, as far as a caller must tell cases apart. The command line turns it into an exit status
// (contract.md).
enum class ErrorKind {
  usage,        // wrong option, input name, dtype or shape: 2
  bad_model,    // damage, or lack of support, found in a model or companion: 3
  cannot_fit,   // does not fit in the budgets given: 4
  environment,  // missing or unreadable file, I/O error, refused environment: 1
  cancelled,    // by the caller: 130
  busy,         // in use at the moment, and the caller was not to wait: 1
};

// One failure. `phase` is what was being done ("open", "read", "digest", "prepack", "run"...), `subject` the tensor,
// node or option it was done for; the range is what was wanted of `file`, `got` what was there, in bytes. Empty or
// absent fields do not apply. Immutable after creation, so it may be shared between threads.
struct Error {
  ErrorKind kind = ErrorKind::environment;
  std::string phase = {};
  std::string subject = {};
  std::string reason = {};  // what was found and what was expected
  std::string file = {};
  std::optional<uint64_t> offset = {}, length = {}, got = {};
  int errno_value = 0;  // 0: no system call failed

  // One line: phase, subject, file, range, reason, the system's text for errno_value.
  std::string message() const;
};

// A value or an Error. Never holds neither.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
using Status = Result<std::monostate>;
inline Status ok_status() { return Status(std::monostate{}); }

// Prints `message` with its place and aborts. For states that only a bug can produce.
[[noreturn]] void fail_check(const char* expression, const char* file, int line, const char* message = "");

}  // namespace ompipe

// A programmer's error stays an error in release builds. Not for inner loops, not for bad input.
#define OMPIPE_CHECK(expression, ...) \
  ((expression) ? void(0) : ::ompipe::fail_check(#expression, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__))
