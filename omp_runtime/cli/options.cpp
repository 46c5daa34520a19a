#include "ompipe/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "ompipe/cli/byte_size.h"
#include "ompipe/cli/version.h"
#include "ompipe/io/limits.h"
#include "ompipe/kernels/isa.h"

namespace ompipe::cli {

namespace {

// CLI11 reports a bad value by an exception of its own; these turn our values into it.
[[noreturn]] void refuse(const std::string& option, const std::string& reason) {
  throw CLI::ValidationError(option, reason);
}
template <class T>
T value_or_refuse(const std::string& option, Result<T> result) {
  if (!result) refuse(option, result.error().reason);
  return *std::move(result);
}

void add_bytes(CLI::App& app, const std::string& name, uint64_t& target, const std::string& help) {
  app.add_option_function<std::string>(
         name, [&target, name](const std::string& text) { target = value_or_refuse(name, parse_bytes(text, name)); },
         help)
      ->type_name("BYTES");
}

template <class T>
void add_choice(CLI::App& app, const std::string& name, T& target, std::map<std::string, T> choices,
                const std::string& help) {
  std::string names;
  for (const auto& [key, value] : choices) names += (names.empty() ? "" : "|") + key;
  app.add_option_function<std::string>(
         name,
         [&target, name, choices, names](const std::string& text) {
           const auto found = choices.find(text);
           if (found == choices.end()) refuse(name, "'" + text + "' is not one of " + names);
           target = found->second;
         },
         help)
      ->type_name(names);
}

// An option of the contract whose issue is still open.
void add_unbuilt(CLI::App& app, const std::string& name, const std::string& help) {
  app.add_option_function<std::string>(
      name, [name](const std::string&) { refuse(name, "not built yet"); }, help + " (not built yet)");
}

void add_output(CLI::App& app, Output& output) {
  app.add_flag("--json", output.json, "Print JSON instead of a table");
  app.add_flag("--quiet", output.quiet, "Print results only");
}

// NAME=VALUE; the first '=' parts them: paths hold another more often than names of tensors do.
std::pair<std::string, std::string> split_pair(const std::string& option, const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) refuse(option, "'" + text + "' is not NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

void add_dims(CLI::App& app, std::vector<std::pair<std::string, int64_t>>& dims) {
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&dims](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto [name, number] = split_pair("--dim", text);
             const int64_t value = value_or_refuse("--dim", parse_integer(number, "--dim"));
             if (value < 0) refuse("--dim", "'" + text + "' is negative");
             dims.emplace_back(name, value);
           }
         },
         "Value of a symbolic dimension; repeatable")
      ->type_name("NAME=N")
      ->expected(1, -1)
      ->allow_extra_args(false);
}

void check_scheduler(const std::string& option, const std::string& name) {
  static const std::vector<std::string> kBuilt = {"omp-tasks", "sequential"};
  static const std::vector<std::string> kLater = {"omp-naive", "omp-forkjoin", "phased", "pool", "tbb"};
  if (std::find(kBuilt.begin(), kBuilt.end(), name) != kBuilt.end()) return;
  if (std::find(kLater.begin(), kLater.end(), name) != kLater.end()) refuse(option, "'" + name + "' is not built yet");
  refuse(option, "'" + name + "' is not a scheduler: omp-tasks|sequential|omp-naive|omp-forkjoin|phased|pool|tbb");
}

void add_scheduler(CLI::App& app, const std::string& option, std::string& target, const std::string& help) {
  app.add_option_function<std::string>(
         option,
         [&target, option](const std::string& name) {
           check_scheduler(option, name);
           target = name;
         },
         help)
      ->type_name("NAME");
}

std::string isa_names() {
  std::string names;
  for (kernels::Isa isa : kernels::kIsas) names += (names.empty() ? "" : ", ") + std::string(kernels::isa_name(isa));
  return names;
}

void add_isa(CLI::App& app, std::optional<kernels::Isa>& target) {
  app.add_option_function<std::string>(
         "--isa",
         [&target](const std::string& name) {
           target = kernels::parse_isa(name);
           if (!target) refuse("--isa", "'" + name + "' is unknown; known are " + isa_names());
           if (!kernels::isa_available(*target)) refuse("--isa", "this CPU has no " + name);
         },
         "Instruction set of the kernels: " + isa_names() + "; default: the best that this CPU has")
      ->type_name("NAME");
}

void add_prompt(CLI::App& app, RunChoices& choices) {
  app.add_option("--prompt", choices.prompt, "Token ids for a decoder: 1,2,3")->delimiter(',')->type_name("IDS");
  app.add_option("--prompt-length", choices.prompt_length, "A made-up prompt of N tokens")->check(CLI::PositiveNumber);
  app.add_option("--generate", choices.generate, "Tokens to generate, greedily")->check(CLI::PositiveNumber);
}

void add_tuning(CLI::App& app, kernels::Tuning& tuning) {
  app.add_option_function<std::vector<std::string>>(
         "--tuning",
         [&tuning](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto [name, number] = split_pair("--tuning", text);
             const auto value = static_cast<int64_t>(value_or_refuse("--tuning", parse_bytes(number, "--tuning")));
             if (const char* expected = kernels::set_tuning(tuning, name, value)) {
               refuse("--tuning", "'" + text + "': " + expected);
             }
           }
         },
         "Tile sizes of matrix products, in place of this CPU's profile: tile-us (microseconds of work, 1 to 10000), "
         "rows (24 to 192, a multiple of 6), quantised-bytes (4K to 1G), strip-k (64 to 4096, a multiple of 32)")
      ->type_name("NAME=VALUE");
}

void add_device(CLI::App& app, RunChoices& choices) {
  CLI::Option* const device = app.add_option_function<std::string>(
      "--device",
      [&choices](const std::string& name) {
        if (name != "emulated") refuse("--device", "'" + name + "' is not one of emulated");
        choices.device = true;
      },
      "An accelerator to run nodes on; default: none");
  device->type_name("emulated");
  app.add_option("--device-nodes", choices.session.device.nodes,
                 "What runs there: operators, and names of nodes with *; default: products with a constant weight")
      ->delimiter(',')
      ->type_name("NAMES")
      ->needs(device);
  add_choice<plan::DevicePack>(app, "--device-pack", choices.session.device.pack,
                               {{"cpu", plan::DevicePack::on_cpu}, {"device", plan::DevicePack::on_device}},
                               "Where the device's weights are packed; default: cpu");
  add_bytes(app, "--device-limit", choices.runtime.limits.device_bytes, "Limit of the device's memory");
  add_bytes(app, "--device-bandwidth", choices.emulated.bytes_per_second,
            "Bytes a second of emulated transfers; default: as fast as they are copied");
  app.add_option_function<int64_t>(
         "--device-latency-us", [&choices](int64_t us) { choices.emulated.latency_ns = uint64_t(us) * 1000; },
         "Of each emulated transfer; default 0")
      ->check(CLI::Range(0, 1'000'000));
  for (const char* name : {"--device-pack", "--device-limit", "--device-bandwidth", "--device-latency-us"})
    app.get_option(name)->needs(device);
}

// The options that the plan's accounting depends on.
void add_choices(CLI::App& app, RunChoices& choices) {
  session::RuntimeOptions& runtime = choices.runtime;
  session::SessionOptions& session = choices.session;
  add_dims(app, choices.dims);
  add_prompt(app, choices);
  app.add_option("--threads", runtime.threads, "Compute threads; default: the cores that the process may use")
      ->check(CLI::Range(1, 1024));
  app.add_option("--io-threads", runtime.io_threads, "I/O threads; default 2")
      ->check(CLI::Range(1, int(io::kMaxThreads)));
  add_choice<session::ReadMode>(app, "--read", session.read,
                                {{"buffered", session::ReadMode::buffered},
                                 {"mapped", session::ReadMode::mapped},
                                 {"direct", session::ReadMode::direct}},
                                "How bytes are read");
  add_bytes(app, "--chunk", session.chunk_bytes, "Unit of reading and packing, a multiple of 1M; default 2M");
  add_bytes(app, "--budget", runtime.limits.global_bytes, "Limit of all domains together");
  add_bytes(app, "--preparation-limit", runtime.limits.preparation_bytes, "Limit of staging and scratch");
  add_bytes(app, "--prepared-limit", runtime.limits.prepared_bytes, "Limit of resident prepared objects");
  add_bytes(app, "--mapped-limit", runtime.limits.mapped_bytes, "Limit of mapped payloads used in place");
  add_bytes(app, "--execution-limit", runtime.limits.execution_bytes, "Limit of activations and workspaces");
  add_bytes(app, "--io-limit", runtime.limits.io_bytes, "Limit of outputs and staged inputs");
  add_bytes(app, "--retain", runtime.limits.retained_bytes,
            "What staging, execution and outputs may each keep for the next use; default: no limit");
  add_isa(app, session.isa);
  add_tuning(app, session.tuning);
  add_device(app, choices);
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& what, const std::string& example) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer("Example:\n  " + example);
  return command;
}

void add_generate(CLI::App& app, GenerateCommand& generate) {
  CLI::App& command = *add_command(app, "generate", "Write a synthetic model",
                                   "ompipe generate tiny-int4 /tmp/tiny --seed 7 --accuracy-level 0");
  std::string presets;
  for (const std::string& name : preset_names()) presets += (presets.empty() ? "" : "|") + name;
  command.add_option("PRESET", generate.options.preset, presets)->required();
  command
      .add_option("DIR", generate.options.directory, "Directory to write model.onnx, model.data and model.digests into")
      ->required();
  command.add_option("--seed", generate.options.seed, "Same seed, same bytes; default 1");
  command.add_option("--accuracy-level", generate.options.accuracy_level, "Of 4-bit products: 0 or 4; default 4");
  command.add_flag("--quiet", generate.quiet, "Print nothing");
}

void add_inspect(CLI::App& app, InspectCommand& inspect) {
  CLI::App& command = *add_command(app, "inspect", "Show a model and its plan; never reads a weight byte",
                                   "ompipe inspect /tmp/tiny/model.onnx --plan");
  command.add_option("MODEL", inspect.model, "The .onnx file")->required();
  command.add_flag("--plan", inspect.plan, "The plan's table with the predicted memory");
  command.add_flag("--manifest", inspect.manifest, "Every payload, why it is read or not");
  command.add_flag("--dot", inspect.dot, "The plan's graph for Graphviz");
  add_unbuilt(command, "--companion", "A packed companion model");
  add_choices(command, inspect.choices);
  add_output(command, inspect.output);
}

void add_run_inputs(CLI::App& command, RunCommand& run) {
  command
      .add_option_function<std::vector<std::string>>(
          "--input",
          [&run](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) run.inputs.push_back(split_pair("--input", text));
          },
          "An input's value, from a .npy or ONNX TensorProto .pb file; repeatable")
      ->type_name("NAME=FILE")
      ->expected(1, -1)
      ->allow_extra_args(false);
  command
      .add_option_function<std::string>(
          "--fill",
          [&run](const std::string& text) {
            if (text == "zeros") {
              run.fill.mode = FillMode::zeros;
            } else if (text.starts_with("random:")) {
              const int64_t seed = value_or_refuse("--fill", parse_integer(text.substr(7), "--fill"));
              run.fill = {FillMode::random, uint64_t(seed)};
            } else {
              refuse("--fill", "'" + text + "' is not zeros or random:SEED");
            }
          },
          "Value of the inputs that are not given")
      ->type_name("zeros|random:SEED");
  command.add_option("--output", run.output_directory, "Directory for each output as NAME.npy");
}

void add_run_behaviour(CLI::App& command, RunCommand& run) {
  session::RuntimeOptions& runtime = run.choices.runtime;
  session::SessionOptions& session = run.choices.session;
  command.add_option("--runs", run.runs, "Repeats the whole, with a fresh KV-cache")->check(CLI::PositiveNumber);
  command.add_option("--concurrency", run.concurrency, "Invocations at once")->check(CLI::Range(1, 64));
  add_choice<session::Mode>(command, "--mode", session.mode,
                            {{"streaming", session::Mode::streaming},
                             {"eager", session::Mode::eager},
                             {"on-demand", session::Mode::on_demand}},
                            "When weights are prepared");
  command.add_flag("--fill-to-limit", session.fill_to_limit, "Eager: prepare as much as fits");
  add_scheduler(command, "--scheduler", runtime.scheduler, "omp-tasks (default) or sequential");
  add_scheduler(command, "--fallback", runtime.fallback,
                "Scheduler to use when the environment forbids the one asked for");
  command.add_flag("--drop-page-cache", run.drop_page_cache,
                   "Drop the model's files from the page cache first, and check it");
  command.add_flag("--page-cache-dropped", run.page_cache_dropped)->group("");
  add_bytes(command, "--io-inflight", runtime.limits.io_inflight_bytes, "Limit of speculative reads");
  add_bytes(command, "--critical-reserve", runtime.limits.critical_reserve_bytes,
            "Part of the budget for critical work only");
  command
      .add_option_function<std::string>(
          "--look-ahead",
          [&session](const std::string& text) {
            session.look_ahead = value_or_refuse("--look-ahead", parse_look_ahead(text));
          },
          "How far ahead weights are prefetched: segments, or bytes with a suffix")
      ->type_name("N|BYTES");
  command.add_flag("!--no-inheritance", session.inheritance,
                   "Don't raise the priority of what an invocation waits for");
  add_choice<session::EvictOrder>(command, "--evict-order", session.evict_order,
                                  {{"next-use", session::EvictOrder::next_use}, {"lru", session::EvictOrder::lru}},
                                  "Which object goes first");
  command
      .add_option_function<std::string>(
          "--evict-policy",
          [](const std::string& text) {
            if (text == "persist") refuse("--evict-policy", "'persist' is not built yet");
            if (text != "rebuild") refuse("--evict-policy", "'" + text + "' is not one of persist|rebuild");
          },
          "What happens to an evicted object that is not persisted")
      ->type_name("persist|rebuild");
  add_choice<session::Verify>(
      command, "--verify", session.verify,
      {{"once", session::Verify::once}, {"always", session::Verify::always}, {"never", session::Verify::never}},
      "When digests are checked");
}

void add_run(CLI::App& app, RunCommand& run) {
  CLI::App& command = *add_command(app, "run", "Load and run a model",
                                   "ompipe run /tmp/tiny/model.onnx --prompt 1,2,3 --generate 8 --report report.json");
  command.add_option("MODEL", run.model, "The .onnx file")->required();
  add_choices(command, run.choices);
  add_run_inputs(command, run);
  add_run_behaviour(command, run);
  command.add_option("--placement", run.choices.runtime.placement, "compact|spread|none, with ,ARENA=NODE");
  command.add_option("--digests", run.choices.session.digests_path, "A trusted list of payload digests");
  add_unbuilt(command, "--companion", "A packed companion model");
  add_unbuilt(command, "--policy", "What to do with the companion");
  command.add_option("--bound-from", run.bound_from,
                     "Report of a sequential run of the same command, for the overlap's bound");
  command.add_option("--report", run.report, "Write the report as JSON");
  command.add_option("--trace", run.trace, "Write a Chrome/Perfetto trace");
  add_output(command, run.output);
}

void add_verify(CLI::App& app, VerifyCommand& verify) {
  CLI::App& command =
      *add_command(app, "verify", "Check the digest of every payload", "ompipe verify /tmp/tiny/model.onnx --json");
  command.add_option("MODEL", verify.model, "The .onnx file")->required();
  command.add_option("--digests", verify.digests, "A trusted list of payload digests");
  add_unbuilt(command, "--companion", "A packed companion model");
  add_output(command, verify.output);
}

void add_topology(CLI::App& app, TopologyCommand& topology) {
  CLI::App& command =
      *add_command(app, "topology", "Show which thread and which arena goes where",
                   "ompipe topology --placement spread --threads 4 --synthetic \"package:2 core:2 pu:1\"");
  command.add_option("--placement", topology.placement, "compact|spread|none, with ,ARENA=NODE");
  CLI::Option* xml = command.add_option("--topology-xml", topology.xml, "A topology as lstopo writes it");
  command.add_option("--synthetic", topology.synthetic, "An hwloc synthetic topology")->excludes(xml);
  command.add_option("--threads", topology.threads, "Compute threads; default: one a core")->check(CLI::Range(1, 1024));
  command.add_option("--io-threads", topology.io_threads, "I/O threads; default 2")
      ->check(CLI::Range(1, int(io::kMaxThreads)));
  add_output(command, topology.output);
}

Error usage_error(const std::string& subject, std::string reason) {
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return {.kind = ErrorKind::usage, .phase = "command line", .subject = subject, .reason = std::move(reason)};
}

}  // namespace

Result<Command> parse_command_line(const std::vector<std::string>& arguments) {
  CLI::App app("Loads the weights of an ONNX model, prepacks them and runs the first inference, all at the same time.",
               "ompipe");
  app.set_version_flag("--version", std::string("ompipe ") + version());
  app.footer("Exit status: 0 done, 2 wrong usage, 3 bad model, 4 cannot fit, 130 interrupted, 1 everything else.");
  app.require_subcommand(1);
  GenerateCommand generate;
  InspectCommand inspect;
  RunCommand run;
  VerifyCommand verify;
  TopologyCommand topology;
  add_generate(app, generate);
  add_inspect(app, inspect);
  add_run(app, run);
  add_verify(app, verify);
  add_topology(app, topology);
  if (!arguments.empty() && arguments[0] == "prepare") return usage_error("prepare", "not built yet");

  std::string subject;
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Command(PrintText{app.help()});
  } catch (const CLI::CallForAllHelp&) {
    return Command(PrintText{app.help("", CLI::AppFormatMode::All)});
  } catch (const CLI::CallForVersion&) {
    return Command(PrintText{std::string("ompipe ") + version() + "\n"});
  } catch (const CLI::ParseError& error) {
    return usage_error(subject, error.what());
  }
  if (app.got_subcommand("generate")) return Command(generate);
  if (app.got_subcommand("inspect")) return Command(inspect);
  if (app.got_subcommand("run")) return Command(run);
  if (app.got_subcommand("verify")) return Command(verify);
  return Command(topology);
}

}  // namespace ompipe::cli
