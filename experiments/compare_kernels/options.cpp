#include "options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>

namespace ompipe::bench {
namespace {

struct IntegerOption {
  const char* name;
  int64_t Options::* member;
  int64_t least, most;
  bool of_nbits;
  const char* help;
};

constexpr IntegerOption kIntegers[] = {
    {"--bits", &Options::bits, 1, 8, true, "of a weight"},
    {"--block", &Options::block, 1, 1024, true, "elements of k that share a scale"},
    {"--level", &Options::level, 0, 4, true, "accuracy_level, 0 or 4"},
    {"--m", &Options::m, 1, 1 << 20, false, "rows of A"},
    {"--k", &Options::k, 1, 1 << 20, false, "columns of A, rows of B"},
    {"--n", &Options::n, 1, 1 << 20, false, "columns of B"},
    {"--pairs", &Options::pairs, 1, 1 << 20, false, "of calls that are measured"},
    {"--copies", &Options::copies, 1, 1 << 16, false, "of the weights, in turn, so that they come from memory"},
};

void print_help() {
  std::printf(
      "compare_kernels LIBRARY_A LIBRARY_B [options]\n"
      "Makes one product with both builds of libompipe_kernels.so in turn, on one thread, and prints the median of "
      "the\n"
      "pairs' ratios. Exit status: 0 measured, also where the results differ; 2 wrong usage.\n\n"
      "  --format f32|nbits       of the weights (default f32)\n"
      "  --half-scales            nbits: pack the scales as float16\n"
      "  --tuning-a NAME=VALUE    a tile size of A's; repeatable\n"
      "  --tuning-b NAME=VALUE    the same of B's\n");
  for (const IntegerOption& option : kIntegers) {
    std::printf("  %-10s N             %s%s (default %lld)\n", option.name, option.of_nbits ? "nbits: " : "",
                option.help, static_cast<long long>(Options().*option.member));
  }
}

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

TuningValue tuning_value(const std::string& option, const std::string& text) {
  const size_t at = text.find('=');
  const auto value = at == std::string::npos ? std::nullopt : integer(text.substr(at + 1));
  if (!value) refuse(option, "'" + text + "'", "expected NAME=VALUE with a whole number");
  return {text.substr(0, at), *value};
}

bool is_nbits(const std::string& format) {
  if (format != "f32" && format != "nbits") refuse("--format", "'" + format + "'", "expected f32 or nbits");
  return format == "nbits";
}

void set_integer(Options& options, const IntegerOption& option, const std::string& text) {
  const std::optional<int64_t> value = integer(text);
  if (!value || *value < option.least || *value > option.most) {
    refuse(option.name, "'" + text + "'",
           "expected a whole number from " + std::to_string(option.least) + " to " + std::to_string(option.most));
  }
  options.*option.member = *value;
}

class Parser {
 public:
  explicit Parser(std::vector<std::string> words) : words_(std::move(words)) {}

  Options parse() {
    while (at_ < words_.size()) word(words_[at_++]);
    if (libraries_.size() != 2) {
      refuse("command line", std::to_string(libraries_.size()) + " libraries", "expected two paths; see --help");
    }
    if (!options_.nbits && !of_nbits_.empty()) refuse(of_nbits_, "weights are float32", "expected --format nbits");
    options_.a.library = libraries_[0];
    options_.b.library = libraries_[1];
    return std::move(options_);
  }

 private:
  std::string value_of(const std::string& option) {
    if (at_ == words_.size()) refuse(option, "nothing follows", "expected a value");
    return words_[at_++];
  }

  void word(const std::string& word) {
    if (!word.starts_with("--")) {
      libraries_.push_back(word);
    } else if (word == "--help") {
      print_help();
      std::exit(0);
    } else if (word == "--format") {
      options_.nbits = is_nbits(value_of(word));
    } else if (word == "--half-scales") {
      options_.half_scales = true;
      of_nbits_ = word;
    } else if (word == "--tuning-a" || word == "--tuning-b") {
      Side& side = word.ends_with('a') ? options_.a : options_.b;
      side.tuning.push_back(tuning_value(word, value_of(word)));
    } else {
      const auto* const option = std::ranges::find(kIntegers, word, &IntegerOption::name);
      if (option == std::end(kIntegers)) refuse(word, "unknown option", "expected one that --help names");
      set_integer(options_, *option, value_of(word));
      if (option->of_nbits) of_nbits_ = word;
    }
  }

  std::vector<std::string> words_, libraries_;
  size_t at_ = 0;
  std::string of_nbits_;  // an option that was given and concerns those weights only
  Options options_;
};

}  // namespace

void refuse(const std::string& where, const std::string& what, const std::string& expected) {
  std::fprintf(stderr, "compare_kernels: %s: %s: %s\n", where.c_str(), what.c_str(), expected.c_str());
  std::exit(2);
}

Options parse_options(int count, char** words) { return Parser({words + 1, words + count}).parse(); }

}  // namespace ompipe::bench
