// Objects and segments on the device: what is visible when, staging, gates, failure, cancellation, eviction.
#include <doctest/doctest.h>

#include <algorithm>

#include "script.h"

namespace ompipe::session::script {

using arenas::Domain;
using plan::Recipe;
using store::Residency;

namespace {

Error device_error() { return {.kind = ErrorKind::environment, .phase = "device", .subject = "scripted:0"}; }

uint64_t live(const World& world, Domain domain) { return world.budget().usage()[domain].live_bytes; }

bool can_start_segment(const World& world) {
  const std::vector<Event> events = world.possible();
  return std::any_of(events.begin(), events.end(),
                     [](const Event& event) { return event.kind == Event::Kind::start_segment; });
}

// w0 for the device, by each recipe, and w1 for the CPU; a segment each.
PlanPointer two_sides(Recipe recipe) {
  return make_plan({{.bytes = 2 * kPage, .chunks = 2, .recipe = recipe}, {}}, {{0}, {1}}, {0});
}

}  // namespace

TEST_SUITE_BEGIN("policy_device");

TEST_CASE("packed by the CPU: visible after the upload, run there, and its successor waits for that end") {
  World world;
  SessionState& a = world.bind(two_sides(Recipe::pack_upload));
  const Handle run = world.run(a, {.device_bytes = kPage});
  CHECK(live(world, Domain::device) == 3 * kPage);  // the object and the run's own
  world.load(a, 1);
  world.read(a, 0, 0);
  world.read(a, 0, 1);
  world.pack(a, 0, 0);
  world.take_log();
  world.pack(a, 0, 1);
  CHECK(world.take_log() == Log{"device upload"});
  CHECK(world.state(a, 0) == Residency::preparing);
  CHECK_FALSE(can_start_segment(world));
  CHECK(live(world, Domain::preparation) == 2 * kPage);  // what is being uploaded, and no chunk
  world.end_on_device();
  CHECK(world.take_log() == Log{"publish a0"});
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(live(world, Domain::preparation) == 0);
  world.segment(run);
  CHECK(world.take_log() == Log{"device product"});
  CHECK_FALSE(can_start_segment(world));
  CHECK(a.objects[0].pins == 1);
  world.end_on_device();
  CHECK(a.objects[0].pins == 0);
  CHECK(can_start_segment(world));
  world.segment(run);
  CHECK(run.succeeded());
  CHECK(live(world, Domain::device) == 2 * kPage);
}

TEST_CASE("packed on the device: each chunk goes over before its block is used again, then one batch packs") {
  World world({.limits = limit(Domain::preparation, 3 * kPage)});  // one block, and what the CPU would pack into
  SessionState& a = world.bind(two_sides(Recipe::upload_pack));
  const Handle run = world.run(a, {.device_bytes = kPage});
  CHECK(live(world, Domain::device) == 5 * kPage);  // packed, source and the run's own
  world.read(a, 0, 0);
  world.take_log();
  world.pack(a, 0, 0);
  CHECK(world.take_log() == Log{"device upload"});  // and no read: the one block is in use
  world.end_on_device();
  CHECK(world.take_log() == Log{"read a0.1 critical"});
  world.read(a, 0, 1);
  world.pack(a, 0, 1);
  world.end_on_device();
  CHECK(world.take_log() == Log{"open a0.1 critical", "device upload", "device pack"});
  CHECK(world.state(a, 0) == Residency::preparing);
  world.end_on_device();
  CHECK(world.take_log() == Log{"publish a0", "read a1.0 critical", "segment 1.1"});
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(live(world, Domain::device) == 3 * kPage);  // the source is gone
  world.drain();
  CHECK(run.succeeded());
}

TEST_CASE("a failed upload fails exactly those who need the object; a later run is the next generation") {
  World world;
  SessionState& a = world.bind(two_sides(Recipe::pack_upload));
  SessionState& b = world.bind(make_chain(1));
  const Handle run = world.run(a, {.device_bytes = kPage});
  const Handle other = world.run(b);
  world.load(a, 1);
  for (const int chunk : {0, 1}) {
    world.read(a, 0, chunk);
    world.pack(a, 0, chunk);
  }
  CHECK_FALSE(run.done());
  world.end_on_device(device_error());
  CHECK(run.error().phase == "device");
  CHECK(world.state(a, 0) == Residency::failed);
  CHECK(live(world, Domain::device) == 0);
  world.drain();
  CHECK(other.succeeded());
  CHECK(world.state(a, 1) == Residency::resident);
  const Handle again = world.run(a, {.device_bytes = kPage});
  world.drain();
  CHECK(again.succeeded());
  CHECK(a.store->generation(0) == 2);
  CHECK(a.store->generation(1) == 1);
}

namespace {

// Up to the last batch, which packs w0.
Handle up_to_device_pack(World& world, SessionState& session) {
  const Handle run = world.run(session, {.device_bytes = kPage});
  for (const int chunk : {0, 1}) {
    world.read(session, 0, chunk);
    world.pack(session, 0, chunk);
    world.end_on_device();
  }
  const Log log = world.take_log();
  CHECK(std::find(log.begin(), log.end(), "device pack") != log.end());
  return run;
}

bool packs_on_device(World& world) {
  const Log log = world.take_log();
  return std::find(log.begin(), log.end(), "device pack") != log.end();
}

}  // namespace

// In the smallest room: what it takes was part of the gang.
TEST_CASE(
    "what the device fails to pack the CPU packs: the same admission, read once more; the next one is the device's") {
  World world({.limits = limit(Domain::preparation, 3 * kPage)});
  SessionState& a = world.bind(two_sides(Recipe::upload_pack));
  const Handle run = up_to_device_pack(world, a);
  world.end_on_device(device_error());
  CHECK_FALSE(run.done());
  CHECK(world.take_log() == Log{"read a0.0 critical"});
  CHECK(world.state(a, 0) == Residency::loading);
  CHECK(live(world, Domain::device) == 3 * kPage);  // its place and the run's own; the source is gone
  CHECK(world.policy().counters().fallbacks == 1);
  world.load(a, 0);
  CHECK(world.state(a, 0) == Residency::preparing);
  world.end_on_device();
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK_FALSE(packs_on_device(world));
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(0) == 1);
  CHECK(live(world, Domain::preparation) == 0);
  CHECK(world.evict(a, 0).succeeded());
  const Handle prepared = world.prepare(a);
  world.drain();
  CHECK(prepared.succeeded());
  CHECK(packs_on_device(world));
  CHECK(a.store->generation(0) == 2);
  CHECK(world.policy().counters().fallbacks == 1);
}

TEST_CASE("a chunk whose upload fails: what was not handed over never is; then the CPU packs") {
  World world({.device_batches = 1});
  SessionState& a = world.bind(two_sides(Recipe::upload_pack));
  const Handle run = world.run(a, {.device_bytes = kPage});
  for (const int chunk : {0, 1}) {
    world.read(a, 0, chunk);
    world.pack(a, 0, chunk);
  }
  world.take_log();
  world.end_on_device(device_error());
  CHECK_FALSE(run.done());
  CHECK(world.take_log() == Log{"read a0.0 critical", "read a0.1 critical"});
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(0) == 1);
  CHECK(world.policy().counters().fallbacks == 1);
}

TEST_CASE("what is on its way ends before the CPU's turn: reads in flight, opened prepacks") {
  World world({.threads = 1, .device_batches = 1});
  SessionState& a = world.bind(
      make_plan({{.bytes = 4 * kPage, .chunks = 4, .aux_reads = 1, .recipe = Recipe::upload_pack}}, {{0}}, {0}));
  const Handle run = world.run(a);
  world.read(a, 0, -1);
  for (const int chunk : {0, 1}) world.read(a, 0, chunk);
  world.pack(a, 0, 0);
  world.start_pack(a, 0, 1);
  world.begin_read(a, 0, 2);
  world.end_on_device(device_error());
  CHECK(world.policy().counters().fallbacks == 0);
  world.finish_pack(a, 0, 1);
  CHECK(world.policy().counters().fallbacks == 0);
  SUBCASE("then it goes on") {
    world.read(a, 0, 2);
    world.drain();
    CHECK(world.policy().counters().fallbacks == 1);
    CHECK(run.succeeded());
    CHECK(a.store->generation(0) == 1);
  }
  SUBCASE("cancelled meanwhile: nobody wants it any more") {
    world.cancel(run);
    CHECK(run.done());
    world.drain();
    CHECK(world.policy().counters().fallbacks == 0);
    CHECK(world.state(a, 0) == Residency::absent);
  }
  SUBCASE("a read that fails meanwhile fails it") {
    world.read(a, 0, 2, io_error());
    world.drain();
    CHECK(world.policy().counters().fallbacks == 0);
    CHECK(run.error().errno_value == 5);
    CHECK(world.state(a, 0) == Residency::failed);
  }
}

TEST_CASE("the CPU's attempt may fail too: that fails who needs it, and all bytes are back") {
  World world;
  SessionState& a = world.bind(two_sides(Recipe::upload_pack));
  const Handle run = up_to_device_pack(world, a);
  world.end_on_device(device_error());
  world.load(a, 0);
  world.end_on_device(device_error());
  CHECK(run.error().phase == "device");
  CHECK(run.completion->diagnostics.failed_task == "upload w0");
  CHECK(world.state(a, 0) == Residency::failed);
  CHECK(live(world, Domain::device) == 0);
  world.drain();
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.succeeded());
  CHECK(packs_on_device(world));
  CHECK(a.store->generation(0) == 2);
}

TEST_CASE("a segment that fails on the device fails its run, and nothing after it starts") {
  World world;
  SessionState& a = world.bind(two_sides(Recipe::pack_upload));
  const Handle run = world.run(a, {.device_bytes = kPage});
  world.load(a, 1);
  world.load(a, 0);
  world.end_on_device();
  world.segment(run);
  world.end_on_device(device_error());
  CHECK(run.error().phase == "device");
  CHECK(run.completion->diagnostics.failed_task == "segment s0");
  world.drain();
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(a.objects[0].pins == 0);
}

TEST_CASE("cancelled before, on and behind the device: the handle ends with what the device has of it") {
  World world({.device_batches = 1});
  SessionState& a = world.bind(two_sides(Recipe::pack_upload));
  REQUIRE(world.prepare(a).completion);
  world.drain();
  const Handle first = world.run(a, {.device_bytes = kPage}), second = world.run(a, {.device_bytes = kPage});
  SUBCASE("nothing has begun") {
    world.cancel(first);
    CHECK(first.done());
  }
  SUBCASE("the device has it") {
    world.segment(first);
    world.cancel(first);
    CHECK_FALSE(first.done());
    world.end_on_device();
    CHECK(first.done());
  }
  SUBCASE("it waits for a place in the queue") {
    world.segment(second);
    world.segment(first);
    world.cancel(first);
    CHECK(first.done());
    CHECK(a.objects[0].pins == 1);  // the other's
    world.end_on_device();
    CHECK(a.objects[0].pins == 0);
  }
  world.drain();
  CHECK(first.error().kind == ErrorKind::cancelled);
  CHECK(second.succeeded());
}

TEST_CASE("a load that is given up gives its bytes back while another's batch is on the device") {
  World world({.device_batches = 1});
  SessionState& a = world.bind(two_sides(Recipe::pack_upload));
  SessionState& b = world.bind(two_sides(Recipe::upload_pack));
  const Handle other = world.run(a), run = world.run(b);
  for (const int chunk : {0, 1}) {
    world.read(a, 0, chunk);
    world.pack(a, 0, chunk);
  }
  world.read(b, 0, 0);
  world.pack(b, 0, 0);
  world.cancel(run);  // its second read is taken back: the load has lost something
  CHECK(run.done());
  world.pack(b, 0, 1);
  CHECK(world.state(b, 0) == Residency::absent);
  CHECK(live(world, Domain::device) == 2 * kPage);
  world.drain();
  CHECK(other.succeeded());
}

namespace {

void run_twice_in_room_for_one(Recipe recipe) {
  const uint64_t room = (recipe == Recipe::upload_pack ? 2 : 1) * kPage + kPage;  // one object and a run's bytes
  World world({.limits = limit(Domain::device, room)});
  SessionState& a = world.bind(make_plan({{.recipe = recipe}, {.recipe = recipe}, {}}, {{0}, {1}, {2}}, {0, 1}));
  for (int i = 0; i < 2; ++i) {
    const Handle run = world.run(a, {.device_bytes = kPage});
    world.drain();
    CHECK(run.succeeded());
  }
  CHECK(a.store->generation(0) == 2);
  CHECK(a.store->generation(1) == 2);
  CHECK(a.store->generation(2) == 1);
  CHECK(world.budget().usage()[Domain::device].peak_bytes <= room);
}

}  // namespace

TEST_CASE("an object evicted from the device is made again; objects on the CPU stay where they are") {
  SUBCASE("packed by the CPU") { run_twice_in_room_for_one(Recipe::pack_upload); }
  SUBCASE("packed on the device") { run_twice_in_room_for_one(Recipe::upload_pack); }
}

TEST_CASE("a run whose activations don't fit beside the largest gang is refused with the numbers") {
  World world({.limits = limit(Domain::device, 2 * kPage)});
  SessionState& a = world.bind(make_plan({{.recipe = Recipe::pack_upload}}, {{0}}, {0}));
  const Handle run = world.run(a, {.device_bytes = 2 * kPage});
  REQUIRE(run.done());
  CHECK(run.error().kind == ErrorKind::cannot_fit);
  CHECK(run.error().reason.find("12288 bytes of device are needed at least") != std::string::npos);
}

TEST_CASE("critical work goes to the device before what is prefetched") {
  World world({.device_batches = 1});
  SessionState& a = world.bind(
      make_plan({{.recipe = Recipe::pack_upload}, {.recipe = Recipe::pack_upload}, {.recipe = Recipe::pack_upload}},
                {{0}, {1}, {2}}, {0, 1, 2}));
  const Handle ahead = world.prepare(a);
  for (const ObjectId object : {0, 2, 1}) world.load(a, object);
  const Handle run = world.run(a);  // its first two segments raise w0 and w1; w2 came before w1
  world.end_on_device();
  world.take_log();
  world.segment(run);
  CHECK(world.take_log().empty());
  world.end_on_device();
  CHECK(world.take_log() == Log{"publish a1", "device product"});  // and not w2's upload
  world.drain();
  CHECK(ahead.succeeded());
  CHECK(run.succeeded());
}

namespace {

// w0 for the CPU and w1 for the device, of the same sources.
PlanPointer both_sides(Recipe recipe) {
  return make_plan({{.bytes = 2 * kPage, .chunks = 2, .aux_reads = 1},
                    {.bytes = 2 * kPage, .chunks = 2, .aux_reads = 1, .recipe = recipe, .other_side = 0}},
                   {{0}, {1}}, {1});
}

size_t reads_in(const Log& log) {
  return size_t(
      std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("read"); }));
}

void share(Recipe recipe) {
  World world;
  SessionState& a = world.bind(both_sides(recipe));
  const Handle run = world.run(a);
  world.load(a, 0);  // there are no other reads
  CHECK(world.state(a, 0) == Residency::resident);
  CHECK(world.state(a, 1) == Residency::preparing);
  CHECK(reads_in(world.take_log()) == 3);
  world.drain();
  CHECK(run.succeeded());
  CHECK(world.policy().counters().shared_loads == 1);
  CHECK(live(world, Domain::preparation) == 0);
}

}  // namespace

TEST_CASE("one read serves the CPU's form and the device's") {
  SUBCASE("packed twice by the CPU") { share(Recipe::pack_upload); }
  SUBCASE("packed by the CPU and by the device") {
    World world;
    SessionState& a = world.bind(both_sides(Recipe::upload_pack));
    const Handle run = world.run(a);
    world.read(a, 0, -1);
    world.read(a, 0, 0);
    world.pack(a, 0, 0);
    world.read(a, 0, 1);
    world.pack(a, 0, 1);
    CHECK(world.state(a, 0) == Residency::preparing);  // its last block is still being uploaded
    world.drain();
    CHECK(run.succeeded());
    CHECK(world.policy().counters().shared_loads == 1);
  }
}

TEST_CASE("a failed read fails both forms; a failed upload the device's alone") {
  World world;
  SessionState& a = world.bind(both_sides(Recipe::pack_upload));
  const Handle prepared = world.prepare(a);
  SUBCASE("read") {
    world.read(a, 0, 1, io_error());
    world.drain();
    CHECK(world.state(a, 0) == Residency::failed);
    CHECK(world.state(a, 1) == Residency::failed);
  }
  SUBCASE("upload") {
    world.load(a, 0);
    world.end_on_device(device_error());
    CHECK(world.state(a, 0) == Residency::resident);
    CHECK(world.state(a, 1) == Residency::failed);
    CHECK(prepared.completion->diagnostics.failed_task == "upload w1");
  }
  CHECK_FALSE(prepared.succeeded());
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(1) == 2);
}

TEST_CASE("a form that nobody else wants, or has no room, is read for itself") {
  SUBCASE("no room for both at once") {
    World world({.limits = limit(Domain::device, kPage)});
    SessionState& a =
        world.bind(make_plan({{}, {.recipe = Recipe::pack_upload}, {.recipe = Recipe::pack_upload, .other_side = 0}},
                             {{1}, {0}, {2}}, {0, 2}));
    const Handle run = world.run(a);
    world.drain();
    CHECK(run.succeeded());
    CHECK(world.policy().counters().shared_loads == 0);
    CHECK(reads_in(world.take_log()) == 3);
  }
  SUBCASE("the other is there already") {
    World world({.limits = limit(Domain::device, 2 * kPage)});
    SessionState& a = world.bind(both_sides(Recipe::pack_upload));
    SessionState& b = world.bind(make_plan({{.bytes = 2 * kPage, .recipe = Recipe::pack_upload}}, {{0}}, {0}));
    for (SessionState* const session : {&a, &b, &a}) {
      const Handle run = world.run(*session);
      world.drain();
      CHECK(run.succeeded());
    }
    CHECK(a.store->generation(0) == 1);
    CHECK(a.store->generation(1) == 2);
    CHECK(world.policy().counters().shared_loads == 1);
  }
}

TEST_CASE("nobody wants either form any more: both are absent, and a later run reads again") {
  World world;
  SessionState& a = world.bind(both_sides(Recipe::pack_upload));
  const Handle prepared = world.prepare(a);
  world.read(a, 0, 0);
  world.cancel(prepared);
  CHECK(prepared.done());
  world.drain();
  CHECK(world.state(a, 0) == Residency::absent);
  CHECK(world.state(a, 1) == Residency::absent);
  CHECK(live(world, Domain::device) == 0);
  const Handle run = world.run(a);
  world.drain();
  CHECK(run.succeeded());
  CHECK(a.store->generation(1) == 2);
}

TEST_CASE("every order of events ends well, with failures anywhere") {
  for (const Recipe recipe : {Recipe::pack_upload, Recipe::upload_pack}) {
    uint64_t fallbacks = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      World world({.limits = limit(Domain::device, 8 * kPage), .device_batches = 2});
      SessionState& a = world.bind(
          make_plan({{.bytes = 2 * kPage, .chunks = 2, .aux_reads = 0, .recipe = recipe}, {}, {.recipe = recipe}, {}},
                    {{0}, {0, 2}, {1}, {2, 3}}, {0, 1}));
      std::vector<Handle> handles;
      for (int i = 0; i < 3; ++i) handles.push_back(world.run(a, {.device_bytes = kPage}));
      if (seed % 3 == 0) handles.push_back(world.prepare(a));
      for (std::vector<Event> events = world.possible(); !events.empty(); events = world.possible()) {
        const Event event = events[random() % events.size()];
        const bool fails = seed % 4 == 1 && event.kind == Event::Kind::device && random() % 8 == 0;
        world.apply(event, fails ? std::optional(device_error()) : std::nullopt);
        if (seed % 5 == 2 && random() % 16 == 0) world.cancel(handles[random() % handles.size()]);
      }
      for (const Handle& handle : handles) {
        REQUIRE(handle.done());
        if (seed % 4 != 1 && seed % 5 != 2) CHECK(handle.succeeded());
      }
      fallbacks += world.policy().counters().fallbacks;
    }
    CHECK((fallbacks > 0) == (recipe == Recipe::upload_pack));
  }
}

TEST_CASE("a lowered limit of the device: what lies there goes, and nothing of the CPU's") {
  World world;
  SessionState& a = world.bind(
      make_plan({{.recipe = Recipe::pack_upload}, {.recipe = Recipe::pack_upload}, {}}, {{0}, {1}, {2}}, {0, 1}));
  const Handle run = world.run(a);
  world.drain();
  REQUIRE(run.succeeded());
  CHECK(live(world, Domain::device) == 2 * kPage);
  CHECK(world.set_limits(limit(Domain::device, 0)).error().kind == ErrorKind::cannot_fit);
  const Handle lowered = world.set_limits(limit(Domain::device, kPage));
  CHECK(lowered.succeeded());
  CHECK(live(world, Domain::device) == kPage);
  CHECK(world.state(a, 0) == Residency::absent);
  CHECK(world.state(a, 2) == Residency::resident);
  const Handle again = world.run(a);
  world.drain();
  CHECK(again.succeeded());
}

TEST_CASE("a speculative load makes way for a refused gang on the device") {
  World world({.limits = limit(Domain::device, 3 * kPage)});
  const ObjectSpec there{.recipe = Recipe::pack_upload};
  SessionState& a = world.bind(make_plan({there, there, there}, {{0}, {1}, {2}}, {0, 1, 2}));
  SessionState& b = world.bind(make_plan({there}, {{0}}, {0}));
  const Handle elder = world.run(a);
  CHECK(world.state(a, 2) == Residency::loading);
  world.take_log();
  const Handle younger = world.run(b);
  CHECK(world.take_log() == Log{"withdraw a2.0", "open a2.0 noop"});
  world.drain();
  CHECK(elder.succeeded());
  CHECK(younger.succeeded());
}

TEST_SUITE_END();

}  // namespace ompipe::session::script
