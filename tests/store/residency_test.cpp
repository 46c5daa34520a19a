// Every change of residency: those of the table in design_residency.md happen, all others end the process.
#include "ompipe/store/residency.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <utility>

TEST_SUITE_BEGIN("residency");

namespace {

using ompipe::store::Residency;
using ompipe::store::residency_name;
using ompipe::store::transition;
using enum ompipe::store::Residency;

constexpr Residency kAll[] = {absent, loading, preparing, resident, evicting, failed};

const std::set<std::pair<Residency, Residency>> kLegal = {
    {absent, loading},    {failed, loading},   {loading, preparing}, {preparing, resident},
    {resident, evicting}, {evicting, absent},  {loading, absent},    {preparing, absent},
    {loading, failed},    {preparing, failed}, {evicting, resident}, {preparing, loading},
};

// The signal that ended a child which tried; 0 when it came through.
int signal_of(Residency from, Residency to) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    Residency state = from;
    transition(state, to);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("legal changes happen") {
  for (const auto& [from, to] : kLegal) {
    Residency state = from;
    transition(state, to);
    CHECK(state == to);
  }
}

TEST_CASE("all others abort") {
  for (Residency from : kAll) {
    for (Residency to : kAll) {
      if (kLegal.contains({from, to})) continue;
      CHECK_MESSAGE(signal_of(from, to) == SIGABRT, residency_name(from), " to ", residency_name(to));
    }
  }
}

TEST_CASE("every state has a name of its own") {
  std::set<std::string> names;
  for (Residency state : kAll) names.insert(residency_name(state));
  CHECK(names.size() == std::size(kAll));
}

}  // namespace
