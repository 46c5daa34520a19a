#include "ompipe/cli/options.h"

#include <doctest/doctest.h>

#include "ompipe/cli/byte_size.h"
#include "ompipe/cli/commands.h"

namespace {

using namespace ompipe;

cli::RunCommand run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", "m.onnx"});
  const auto command = cli::parse_command_line(arguments);
  REQUIRE_MESSAGE(command.ok(), (command.ok() ? "" : command.error().message()));
  return std::get<cli::RunCommand>(*command);
}

std::string refusal(const std::vector<std::string>& arguments) {
  const auto command = cli::parse_command_line(arguments);
  REQUIRE(!command.ok());
  CHECK(command.error().kind == ErrorKind::usage);
  CHECK(cli::exit_status(command.error()) == 2);
  const std::string line = command.error().message();
  CHECK(line.find('\n') == std::string::npos);
  return line;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_SUITE("options") {
  TEST_CASE("byte sizes") {
    CHECK(*cli::parse_bytes("0", "--x") == 0);
    CHECK(*cli::parse_bytes("4096", "--x") == 4096);
    CHECK(*cli::parse_bytes("64K", "--x") == 65536);
    CHECK(*cli::parse_bytes("5M", "--x") == 5242880);
    CHECK(*cli::parse_bytes("2G", "--x") == 2147483648);
    CHECK(*cli::parse_bytes("18446744073709551615", "--x") == UINT64_MAX);
    for (const char* bad :
         {"", "K", "-1", "1.5G", "1k", "1KB", " 1", "1 ", "0x10", "18446744073709551616", "17179869184G", "+1"}) {
      CHECK_MESSAGE(!cli::parse_bytes(bad, "--x").ok(), bad);
    }
  }

  TEST_CASE("look-ahead counts segments without a suffix, bytes with one") {
    CHECK(cli::parse_look_ahead("4")->segments == 4);
    CHECK(cli::parse_look_ahead("0")->segments == 0);
    CHECK(!cli::parse_look_ahead("4")->bytes);
    CHECK(cli::parse_look_ahead("64M")->bytes == 67108864);
    CHECK(!cli::parse_look_ahead("-1").ok());
    CHECK(!cli::parse_look_ahead("many").ok());
  }

  TEST_CASE("a run's defaults are the contract's") {
    const cli::RunCommand command = run({});
    CHECK(command.choices.runtime.scheduler == "omp-tasks");
    CHECK(command.choices.runtime.fallback.empty());
    CHECK(command.choices.runtime.io_threads == 2);
    CHECK(command.choices.session.mode == session::Mode::streaming);
    CHECK(command.choices.session.verify == session::Verify::once);
    CHECK(command.choices.session.inheritance);
    CHECK(command.runs == 1);
    CHECK(command.choices.runtime.limits.global_bytes == session::kUnlimited);
    CHECK(command.choices.runtime.limits.retained_bytes == session::kUnlimited);
  }

  TEST_CASE("a run's options arrive where they belong") {
    const cli::RunCommand command = run({"--input",
                                         "a=b.npy",
                                         "--input",
                                         "x=y=z.pb",
                                         "--fill",
                                         "random:7",
                                         "--dim",
                                         "batch=2",
                                         "--dim",
                                         "sequence=3",
                                         "--prompt",
                                         "1,2,3",
                                         "--generate",
                                         "4",
                                         "--mode",
                                         "eager",
                                         "--fill-to-limit",
                                         "--scheduler",
                                         "sequential",
                                         "--fallback",
                                         "sequential",
                                         "--threads",
                                         "3",
                                         "--io-threads",
                                         "1",
                                         "--read",
                                         "direct",
                                         "--chunk",
                                         "4M",
                                         "--budget",
                                         "1G",
                                         "--prepared-limit",
                                         "5M",
                                         "--io-inflight",
                                         "8M",
                                         "--look-ahead",
                                         "2",
                                         "--no-inheritance",
                                         "--evict-order",
                                         "lru",
                                         "--isa",
                                         "scalar",
                                         "--tuning",
                                         "rows=48",
                                         "--tuning",
                                         "quantised-bytes=64K",
                                         "--verify",
                                         "never",
                                         "--retain",
                                         "0",
                                         "--quiet",
                                         "--json"});
    CHECK(command.inputs == std::vector<std::pair<std::string, std::string>>{{"a", "b.npy"}, {"x", "y=z.pb"}});
    CHECK(command.fill.mode == cli::FillMode::random);
    CHECK(command.fill.seed == 7);
    CHECK(command.choices.dims == std::vector<std::pair<std::string, int64_t>>{{"batch", 2}, {"sequence", 3}});
    CHECK(command.choices.prompt == std::vector<int64_t>{1, 2, 3});
    CHECK(command.choices.generate == 4);
    CHECK(command.choices.session.mode == session::Mode::eager);
    CHECK(command.choices.session.fill_to_limit);
    CHECK(command.choices.runtime.scheduler == "sequential");
    CHECK(command.choices.runtime.fallback == "sequential");
    CHECK(command.choices.runtime.threads == 3);
    CHECK(command.choices.runtime.io_threads == 1);
    CHECK(command.choices.session.read == session::ReadMode::direct);
    CHECK(command.choices.session.chunk_bytes == 4u << 20);
    CHECK(command.choices.runtime.limits.global_bytes == 1u << 30);
    CHECK(command.choices.runtime.limits.prepared_bytes == 5u << 20);
    CHECK(command.choices.runtime.limits.io_inflight_bytes == 8u << 20);
    CHECK(command.choices.runtime.limits.retained_bytes == 0);
    CHECK(command.choices.session.look_ahead.segments == 2);
    CHECK(!command.choices.session.inheritance);
    CHECK(command.choices.session.evict_order == session::EvictOrder::lru);
    CHECK(command.choices.session.isa == kernels::Isa::scalar);
    CHECK(command.choices.session.tuning.rows == 48);
    CHECK(command.choices.session.tuning.quantised_bytes == 64 << 10);
    CHECK(command.choices.session.verify == session::Verify::never);
    CHECK(command.output.quiet);
    CHECK(command.output.json);
  }

  TEST_CASE("what is unknown is refused") {
    CHECK(has(refusal({}), "subcommand"));
    CHECK(!refusal({"fly"}).empty());
    CHECK(!refusal({"run"}).empty());
    CHECK(has(refusal({"run", "m", "--isa", "mmx"}), "'mmx' is unknown; known are scalar, avx2"));
    const bool x86 = kernels::isa_available(kernels::Isa::avx2);
    CHECK(has(refusal({"run", "m", "--isa", x86 ? "neon" : "avx512"}), "this CPU has no "));
    CHECK(has(refusal({"run", "m", "--tuning", "rows=25"}), "'rows=25': rows must be a multiple of 6 from 24 to 192"));
    CHECK(has(refusal({"run", "m", "--tuning", "columns=8"}), "'columns=8': the names are tile-us, rows"));
    CHECK(has(refusal({"run", "m", "--tuning", "rows"}), "'rows' is not NAME=VALUE"));
    CHECK(has(refusal({"run", "m", "--scheduler", "magic"}), "'magic' is not a scheduler"));
    CHECK(has(refusal({"run", "m", "--mode", "fast"}), "'fast' is not one of eager|on-demand|streaming"));
    CHECK(has(refusal({"run", "m", "--budget", "lots"}), "'lots'"));
    CHECK(has(refusal({"run", "m", "--input", "a"}), "'a' is not NAME=VALUE"));
    CHECK(has(refusal({"run", "m", "--dim", "a=b"}), "'b' is not a whole number"));
    CHECK(has(refusal({"run", "m", "--fill", "ones"}), "'ones' is not zeros or random:SEED"));
    CHECK(!refusal({"run", "m", "--threads", "0"}).empty());
    CHECK(!refusal({"run", "m", "--runs", "0"}).empty());
    CHECK(!refusal({"run", "m", "--prompt", "1,x"}).empty());
    CHECK(!refusal({"run", "m", "extra"}).empty());
  }

  TEST_CASE("what is not built yet is refused by name") {
    for (const char* scheduler : {"omp-naive", "omp-forkjoin", "phased", "pool", "tbb"}) {
      CHECK(has(refusal({"run", "m", "--scheduler", scheduler}), std::string(scheduler) + "' is not built yet"));
      CHECK(has(refusal({"run", "m", "--fallback", scheduler}), "not built yet"));
    }
    CHECK(has(refusal({"run", "m", "--companion", "c.onnx"}), "not built yet"));
    CHECK(has(refusal({"run", "m", "--policy", "read-only"}), "not built yet"));
    CHECK(has(refusal({"run", "m", "--evict-policy", "persist"}), "not built yet"));
    CHECK(has(refusal({"prepare", "m", "--companion", "c.onnx"}), "prepare: not built yet"));
  }

  TEST_CASE("every command has help with an example") {
    for (const char* name : {"generate", "inspect", "run", "verify", "topology"}) {
      const auto command = cli::parse_command_line({name, "--help"});
      REQUIRE(command.ok());
      const std::string text = std::get<cli::PrintText>(*command).text;
      CHECK_MESSAGE(has(text, std::string("ompipe ") + name + " "), name);
      CHECK(has(text, "Example:"));
    }
  }

  TEST_CASE("a line for stderr has no control character") {
    const Error error = {.kind = ErrorKind::bad_model, .phase = "resolve", .subject = "a\nb\x1b[31m", .reason = "c\td"};
    CHECK(error.message() == "resolve: a\\x0ab\\x1b[31m: c\\x09d");
  }
}
