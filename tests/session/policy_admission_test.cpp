// Admission: gangs all or none, in the order of age; what can't fit says so before any read; chunks and tokens.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;

TEST_SUITE_BEGIN("policy_admission");

TEST_CASE("a run's first two segments are critical from the start, the rest is read ahead") {
  World world;
  SessionState& a = world.bind(make_chain(4));
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1",
                                "read a2.0 prefetch", "read a3.0 prefetch"});
  world.load(a, 0);
  CHECK(world.take_log() == Log{"open a0.0 critical", "publish a0"});
  world.segment(run);
  CHECK(world.take_log() == Log{"promote a2.0 critical", "segment 1.2"});
  world.load(a, 2);
  world.load(a, 3);
  CHECK(world.take_log() == Log{"open a2.0 critical", "publish a2", "open a3.0 speculative", "publish a3"});
  world.load(a, 1);
  world.segment(run);
  world.segment(run);
  CHECK_FALSE(run.done());
  world.segment(run);
  CHECK(run.succeeded());
  world.take_log();
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.succeeded());
  CHECK(world.take_log() == Log{"segment 2.0", "segment 2.1", "segment 2.2", "segment 2.3"});  // nothing is read
}

TEST_CASE("a gang is reserved as a whole or not at all") {
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(4), {{0, 1}, {2, 3}}), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "read a1.0 critical", "segment 1.0"});
  world.load(a, 0);
  world.load(a, 1);
  world.take_log();
  world.segment(run);
  const Log log = world.take_log();
  CHECK(log.size() == 4);  // one page was free
  CHECK(log[0].starts_with("evict a"));
  CHECK(Log(log.begin() + 1, log.end()) == Log{"read a2.0 critical", "read a3.0 critical", "segment 1.1"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("staging is part of the gang") {
  World world({.limits = limit(Domain::preparation, 2 * kPage)});
  SessionState& a = world.bind(make_chain(3), {.mode = Mode::on_demand});
  const Handle run = world.run(a);
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1"});
  const Handle second = world.run(a);
  CHECK(world.take_log() == Log{"segment 2.0", "segment 2.1"});  // nothing is missing that isn't on its way
  world.drain();
  CHECK(run.succeeded());
  CHECK(second.succeeded());
}

TEST_CASE("nobody overtakes a refused elder, not even with a segment that would fit") {
  World world({.limits = limit(Domain::prepared, 3 * kPage)});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(4), {{0, 1}, {2, 3}}), {.mode = Mode::on_demand});
  SessionState& b = world.bind(make_chain(1), {.mode = Mode::on_demand});
  const Handle elder = world.run(a);
  world.take_log();
  const Handle younger = world.run(b);
  CHECK(world.take_log().empty());
  world.load(a, 0);
  world.load(a, 1);
  world.segment(elder);
  const Log log = world.take_log();
  CHECK(std::find(log.begin(), log.end(), "segment 1.1") < std::find(log.begin(), log.end(), "segment 2.0"));
  world.drain();
  CHECK(elder.succeeded());
  CHECK(younger.succeeded());
}

TEST_CASE("execution bytes are granted in the order of age") {
  World world({.limits = limit(Domain::execution, 3 * kPage)});
  SessionState& a = world.bind(make_chain(1));
  const Handle first = world.run(a, {.execution_bytes = 2 * kPage});
  const Handle second = world.run(a, {.execution_bytes = 2 * kPage});
  const Handle third = world.run(a, {.execution_bytes = kPage});  // would fit beside the first
  CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0"});
  world.load(a, 0);
  world.segment(first);
  CHECK(first.succeeded());
  CHECK(world.take_log() == Log{"open a0.0 critical", "publish a0", "segment 2.0", "segment 3.0"});
  world.drain();
  CHECK(second.succeeded());
  CHECK(third.succeeded());
}

TEST_CASE("what can never fit fails before any read, with the numbers") {
  const PlanPointer plan = make_plan(std::vector<ObjectSpec>(3), {{0, 1}, {2}});
  struct Case {
    arenas::BudgetLimits limits;
    const char* domain;
  };
  arenas::BudgetLimits global;
  global.global_bytes = 6 * kPage - 1;  // two objects and their staging, a page each of execution and output
  for (const Case& given : {Case{limit(Domain::execution, kPage - 1), "execution"},
                            Case{limit(Domain::io, kPage - 1), "io"}, Case{global, "all domains together"}}) {
    World world({.limits = given.limits});
    const Handle run = world.run(world.bind(plan), {.output_bytes = {kPage}});
    REQUIRE(run.done());
    CHECK(run.error().kind == ErrorKind::cannot_fit);
    CHECK(run.error().reason.find(given.domain) != std::string::npos);
    CHECK(run.error().reason.find("largest gang: prepared 8192, staging 8192; execution 4096; outputs 4096") !=
          std::string::npos);
    CHECK(world.take_log().empty());
  }
}

TEST_CASE("a session whose largest gang alone can't fit isn't bound, with the numbers; others go on as before") {
  const PlanPointer plan = make_plan(std::vector<ObjectSpec>(3), {{0, 1}, {2}});
  arenas::BudgetLimits global;
  global.global_bytes = 4 * kPage - 1;  // two objects and their staging
  struct Case {
    arenas::BudgetLimits limits;
    const char* said;
  };
  for (const Case& given : {Case{limit(Domain::prepared, 2 * kPage - 1), "8192 bytes of prepared are needed at least"},
                            Case{limit(Domain::preparation, 2 * kPage - 1), "8192 bytes of preparation are needed"},
                            Case{global, "16384 bytes of all domains together are needed at least"}}) {
    World world({.limits = given.limits});
    SessionState& a = world.bind(make_chain(2));
    const Status refused = world.try_bind(plan);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::cannot_fit);
    CHECK(refused.error().phase == "open");
    CHECK(refused.error().reason.find(given.said) != std::string::npos);
    CHECK(refused.error().reason.find("largest gang: prepared 8192, staging 8192; execution 0; outputs 0") !=
          std::string::npos);
    const Handle run = world.run(a, {.execution_bytes = 1});
    world.drain();
    CHECK(run.succeeded());
  }
  // A byte more binds it, and a limit that is raised does.
  World world({.limits = global});
  CHECK_FALSE(world.try_bind(plan).ok());
  ++global.global_bytes;
  CHECK(world.set_limits(global).succeeded());
  SessionState& b = world.bind(plan);
  CHECK(world.run(b).error().kind == ErrorKind::cannot_fit);  // its execution comes on top
  CHECK(world.set_limits({}).succeeded());
  const Handle run = world.run(b);
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a run that leaves no room for another session's largest gang fails, with that one's numbers") {
  arenas::BudgetLimits limits;
  limits.global_bytes = 10 * kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_chain(1));  // a page and its staging
  const RunSpec spec{.execution_bytes = 6 * kPage};
  const Handle alone = world.run(a, spec);
  world.drain();
  CHECK(alone.succeeded());
  SessionState& b = world.bind(make_plan({{.bytes = 4 * kPage}}, {{0}}));
  const Handle beside = world.run(a, spec);
  REQUIRE(beside.done());
  CHECK(beside.error().kind == ErrorKind::cannot_fit);
  CHECK(beside.error().reason.starts_with("the largest gang of every open session has to fit beside a run"));
  CHECK(beside.error().reason.find("largest gang: prepared 16384, staging 4096") != std::string::npos);
  const Handle smaller = world.run(a, {.execution_bytes = 5 * kPage});
  world.drain();
  CHECK(smaller.succeeded());
  CHECK(world.close(b).done());
  const Handle again = world.run(a, spec);
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("one byte more is enough") {
  arenas::BudgetLimits limits;
  limits.global_bytes = 6 * kPage;
  limits.domain_bytes[Domain::prepared] = limits.domain_bytes[Domain::preparation] = 2 * kPage;
  limits.domain_bytes[Domain::execution] = limits.domain_bytes[Domain::io] = kPage;
  World world({.limits = limits});
  SessionState& a = world.bind(make_plan(std::vector<ObjectSpec>(3), {{0, 1}, {2}}));
  for (int i = 0; i < 3; ++i) {
    const Handle run = world.run(a, {.output_bytes = {kPage}});
    world.drain();
    CHECK(run.succeeded());
    world.outputs.clear();
  }
}

TEST_CASE("an invocation that only results in callers' hands keep out fails instead of waiting") {
  World world({.limits = limit(Domain::io, 3 * kPage)});
  SessionState& a = world.bind(make_chain(1));
  world.run(a, {.output_bytes = {kPage, 0}});
  world.drain();
  CHECK(world.outputs.size() == 2);
  const Handle live = world.run(a, {.output_bytes = {kPage}});
  const Handle waiting = world.run(a, {.output_bytes = {2 * kPage}});
  CHECK_FALSE(waiting.done());  // the live one might fail, and give its page back
  world.drain();
  CHECK(live.succeeded());
  REQUIRE(waiting.done());
  CHECK(waiting.error().kind == ErrorKind::cannot_fit);
  CHECK(waiting.error().reason.find("io") != std::string::npos);
  world.outputs.clear();
  const Handle again = world.run(a, {.output_bytes = {2 * kPage}});
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("more invocations than slots wait as pending handles") {
  World world;
  SessionState& a = world.bind(make_chain(1));
  std::vector<Handle> runs;
  for (int i = 0; i < schedule::kMaxSlots + 1; ++i) runs.push_back(world.run(a));
  Log log = world.take_log();
  CHECK(std::find(log.begin(), log.end(), "segment 8.0") != log.end());
  CHECK(std::find(log.begin(), log.end(), "segment 9.0") == log.end());
  world.load(a, 0);
  world.segment(runs[3]);
  log = world.take_log();
  CHECK(log.back() == "segment 9.0");
  world.drain();
  for (const Handle& run : runs) CHECK(run.succeeded());
}

TEST_CASE("refused instead of pending where the caller wants it, with what and where; only for want of a slot") {
  World world({.limits = limit(Domain::execution, schedule::kMaxSlots * kPage), .hot = true});
  SessionState& a = world.bind(make_chain(1));
  SessionState& b = world.bind(make_plan({}, {{}}));  // all it needs is there: it runs hot
  const RunSpec spec{.refuse_without_slot = true};
  std::vector<Handle> runs;
  for (int i = 0; i < schedule::kMaxSlots; ++i) runs.push_back(world.run(a, spec));
  for (const Handle& run : runs) CHECK_FALSE(run.done());
  const Handle refused = world.run(a, spec);
  REQUIRE(refused.done());
  CHECK(refused.error().kind == ErrorKind::busy);
  const std::string message = refused.error().message();
  CAPTURE(message);
  CHECK(message.find("scripted.onnx") != std::string::npos);
  CHECK(message.find("all 8 invocation slots are taken (live runs: 8, pending before this one: 0)") !=
        std::string::npos);
  const Handle pending = world.run(a);
  CHECK_FALSE(pending.done());
  CHECK(world.run(a, spec).error().message().find("pending before this one: 1") != std::string::npos);
  CHECK(world.run(b, spec).error().kind == ErrorKind::busy);  // an elder waits for a slot
  world.load(a, 0);                                           // everything is there: neither needs a slot any more
  CHECK_FALSE(world.run(a, spec).done());
  world.drain();
  for (const Handle& run : runs) CHECK(run.succeeded());
  CHECK(pending.succeeded());
  CHECK_FALSE(world.run(b, spec).done());
  CHECK(world.published() == 1);
  // Slots are free, bytes are not: it waits.
  const Handle large = world.run(b, {.execution_bytes = schedule::kMaxSlots * kPage});
  world.start_hot();
  const Handle waits = world.run(a, {.execution_bytes = schedule::kMaxSlots * kPage, .refuse_without_slot = true});
  CHECK_FALSE(waits.done());
  world.drain();
  CHECK(large.succeeded());
  CHECK(waits.succeeded());
}

TEST_CASE("an object takes more chunks while tokens and staging last, and always keeps one") {
  const PlanPointer plan = make_plan({{.bytes = 4 * kPage, .chunks = 4}}, {{0}});
  SUBCASE("plenty") {
    World world;
    SessionState& a = world.bind(plan);
    const Handle run = world.run(a);
    CHECK(world.take_log() ==
          Log{"read a0.0 critical", "segment 1.0", "read a0.1 critical", "read a0.2 critical", "read a0.3 critical"});
    for (const int chunk : {3, 1, 0}) {
      world.read(a, 0, chunk);
      world.pack(a, 0, chunk);
    }
    CHECK(world.take_log() == Log{"open a0.3 critical", "open a0.1 critical", "open a0.0 critical"});
    world.read(a, 0, 2);
    world.pack(a, 0, 2);
    CHECK(world.take_log() == Log{"open a0.2 critical", "publish a0"});
    world.segment(run);
    CHECK(run.succeeded());
  }
  SUBCASE("staging for one chunk") {
    World world({.limits = limit(Domain::preparation, kPage)});
    SessionState& a = world.bind(plan);
    const Handle run = world.run(a);
    for (int chunk = 0; chunk < 4; ++chunk) {
      world.read(a, 0, chunk);
      world.pack(a, 0, chunk);
    }
    CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "open a0.0 critical", "read a0.1 critical",
                                  "open a0.1 critical", "read a0.2 critical", "open a0.2 critical",
                                  "read a0.3 critical", "open a0.3 critical", "publish a0"});
    world.segment(run);
  }
  SUBCASE("staging for two, and the next is read while one is packed") {
    World world({.limits = limit(Domain::preparation, 2 * kPage)});
    SessionState& a = world.bind(plan);
    const Handle run = world.run(a);
    CHECK(world.take_log() == Log{"read a0.0 critical", "segment 1.0", "read a0.1 critical"});
    world.read(a, 0, 1);
    world.start_pack(a, 0, 1);
    world.read(a, 0, 0);
    world.pack(a, 0, 0);
    CHECK(world.take_log() == Log{"open a0.1 critical", "open a0.0 critical", "read a0.2 critical"});
    world.drain();
    CHECK(run.succeeded());
  }
  SUBCASE("no staging: reads go to their place in the object") {
    World world({.limits = limit(Domain::preparation, 0)});
    SessionState& a = world.bind(make_plan({{.bytes = 2 * kPage, .chunks = 2, .staging_bytes = 0}}, {{0}}));
    const Handle run = world.run(a);
    world.drain();
    CHECK(run.succeeded());
  }
}

TEST_CASE("a chunk is packed only once all aux bytes are there") {
  World world;
  SessionState& a = world.bind(make_plan({{.bytes = 2 * kPage, .chunks = 2, .aux_reads = 2}}, {{0}}));
  const Handle run = world.run(a);
  CHECK(world.take_log() ==
        Log{"read a0.aux critical", "read a0.aux critical", "read a0.0 critical", "segment 1.0", "read a0.1 critical"});
  world.read(a, 0, 0);
  world.read(a, 0, -1);
  CHECK(world.take_log().empty());
  world.read(a, 0, -1);
  CHECK(world.take_log() == Log{"open a0.0 critical"});
  world.read(a, 0, 1);
  CHECK(world.take_log() == Log{"open a0.1 critical"});
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("two runs share one generation of what both need") {
  World world;
  SessionState& a = world.bind(make_chain(2));
  const Handle first = world.run(a), second = world.run(a);
  CHECK(world.take_log() ==
        Log{"read a0.0 critical", "segment 1.0", "read a1.0 critical", "segment 1.1", "segment 2.0", "segment 2.1"});
  world.drain();
  CHECK(first.succeeded());
  CHECK(second.succeeded());
  CHECK(a.store->generation(0) == 1);
}

TEST_CASE("the smallest pools of tokens are enough") {
  World world({.load_tokens = 2, .publish_tokens = 2});
  SessionState& a = world.bind(
      make_plan(std::vector<ObjectSpec>(6, {.bytes = 2 * kPage, .chunks = 2}), {{0, 1}, {2}, {3, 4}, {4, 5}}));
  std::vector<Handle> runs{world.run(a), world.run(a), world.prepare(a)};
  world.drain();
  for (const Handle& run : runs) CHECK(run.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
