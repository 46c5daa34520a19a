// Starts threads where a refusal by the system is a value, as every operating error is.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ompipe/arenas/error.h"

namespace ompipe {

// A thread that runs `body`, which must not throw. Error: environment, phase "start", with errno, when the system
// refuses it; `what` names it, and `body` has not run. Any thread.
template <class Body>
Result<std::thread> start_thread(const std::string& what, Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& refusal) {
    return Error{
        .phase = "start", .subject = what, .reason = "the system refuses it", .errno_value = refusal.code().value()};
  }
}

}  // namespace ompipe
