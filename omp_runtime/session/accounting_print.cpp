#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ompipe/plan/print.h"
#include "ompipe/session/accounting.h"

namespace ompipe::session {

using arenas::Domain;
using arenas::DomainBytes;

namespace {

using Json = nlohmann::ordered_json;

// What objects and segments are called.
struct Names {
  explicit Names(const plan::PreparedExecutionPlan& plan)
      : objects(plan::object_names(plan)), segments(plan::segment_names(plan)) {}
  std::string work(const AccountingStep& step) const {
    if (step.published != plan::kNone) {
      const std::string& name = objects[size_t(step.published)];
      return fmt::format("S.{}.read_source -> S.{}.prepack", name, name);
    }
    return step.segment != plan::kNone ? "I." + segments[size_t(step.segment)] : "done";
  }
  std::string object(plan::ObjectId id) const { return "P." + objects[size_t(id)]; }

  const std::vector<std::string> objects, segments;
};

std::string residency_action(const Names& names, const AccountingStep& step) {
  std::vector<std::string> parts;
  parts.reserve(step.evicted.size() + step.rows_of.size() + 1);
  for (plan::ObjectId id : step.evicted) parts.push_back("evict " + names.object(id));
  for (plan::ObjectId id : step.rows_of) parts.push_back("rows of " + names.object(id));
  if (step.published != plan::kNone) parts.push_back("publish " + names.object(step.published));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "; "));
}

double mib(uint64_t bytes) { return double(bytes) / double(1u << 20); }

std::string limit_text(uint64_t bytes) { return bytes == kUnlimited ? "-" : fmt::format("{:.3f}", mib(bytes)); }

Json domains_json(const DomainBytes& bytes) {
  Json json = Json::object();
  for (Domain domain : arenas::kDomains) json[arenas::domain_name(domain)] = bytes[domain];
  return json;
}

Json objects_json(const Names& names, const std::vector<plan::ObjectId>& ids) {
  Json json = Json::array();
  for (plan::ObjectId id : ids) json.push_back(names.object(id));
  return json;
}

Json step_json(const Names& names, const AccountingStep& step) {
  Json json = {{"work", names.work(step)}};
  json["published"] = step.published == plan::kNone ? Json() : Json(names.object(step.published));
  json["evicted"] = objects_json(names, step.evicted);
  json["rows_of"] = objects_json(names, step.rows_of);
  json["live"] = domains_json(step.live_bytes);
  json["peak"] = domains_json(step.peak_bytes);
  return json;
}

}  // namespace

std::string accounting_table(const plan::PreparedExecutionPlan& plan, const Accounting& accounting) {
  constexpr const char* kRow = "{:>4} | {:<{}} | {:>11} | {:>10} | {:>10} | {:>10} | {:>10} | {}\n";
  const Names names(plan);
  size_t width = 4;
  for (const AccountingStep& step : accounting.steps) width = std::max(width, names.work(step).size());
  std::string text = fmt::format(fmt::runtime(kRow), "Step", "Work", width, "Preparation", "Prepared", "Execution",
                                 "IO", "Mapped", "Residency action (MiB; Preparation and Mapped: peak of the step)");
  const auto number = [](uint64_t bytes) { return fmt::format("{:.3f}", mib(bytes)); };
  for (size_t i = 0; i < accounting.steps.size(); ++i) {
    const AccountingStep& step = accounting.steps[i];
    text += fmt::format(fmt::runtime(kRow), i + 1, names.work(step), width,
                        number(step.peak_bytes[Domain::preparation]), number(step.live_bytes[Domain::prepared]),
                        number(step.live_bytes[Domain::execution]), number(step.live_bytes[Domain::io]),
                        number(step.peak_bytes[Domain::mapped]), residency_action(names, step));
  }
  const auto totals = [&](const char* name, const std::string& what, auto value) {
    text += fmt::format(fmt::runtime(kRow), "", name, width, value(Domain::preparation), value(Domain::prepared),
                        value(Domain::execution), value(Domain::io), value(Domain::mapped), what);
  };
  const arenas::BudgetUsage& usage = accounting.usage;
  totals("peak",
         fmt::format("{} evictions, {} loaded again; all domains with what they retain: {:.3f}", accounting.evictions,
                     accounting.rematerialised, mib(usage.global_peak_bytes)),
         [&](Domain domain) { return number(usage[domain].peak_bytes); });
  totals("limit", "all domains: " + limit_text(usage.global_limit_bytes),
         [&](Domain domain) { return limit_text(usage[domain].limit_bytes); });
  return text;
}

std::string accounting_json(const plan::PreparedExecutionPlan& plan, const Accounting& accounting) {
  const Names names(plan);
  Json steps = Json::array();
  for (const AccountingStep& step : accounting.steps) steps.push_back(step_json(names, step));
  Json domains = Json::object();
  for (Domain domain : arenas::kDomains) {
    const arenas::DomainUsage& usage = accounting.usage[domain];
    Json line = {{"live", usage.live_bytes}, {"peak", usage.peak_bytes}, {"retained", usage.retained_bytes}};
    if (usage.limit_bytes != kUnlimited) line["limit"] = usage.limit_bytes;
    domains[arenas::domain_name(domain)] = std::move(line);
  }
  const Json json = {{"steps", std::move(steps)},
                     {"arenas", std::move(domains)},
                     {"global_peak", accounting.usage.global_peak_bytes},
                     {"evictions", accounting.evictions},
                     {"rematerialised", accounting.rematerialised}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ompipe::session
