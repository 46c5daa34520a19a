#include "ompipe/arenas/placement.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace ompipe::arenas {
namespace {

constexpr std::array<const char*, 3> kPolicyNames = {"compact", "spread", "none"};

Error unknown(const std::string& text, const std::string& reason) {
  return Error{.kind = ErrorKind::usage, .phase = "placement", .subject = text, .reason = reason};
}

Status parse_arena(const std::string& part, PlacementSpec* spec) {
  const size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  for (Domain d : kDomains) {
    if (!in_global(d) || equals == std::string::npos || name != domain_name(d)) continue;
    int& node = spec->arena_node[size_t(d)];
    const char *begin = part.data() + equals + 1, *end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(begin, end, node);
    if (error == std::errc() && rest == end && node >= 0) return ok_status();
    return unknown(part, "a memory node is a number");
  }
  return unknown(part, "expected preparation=N, prepared=N, execution=N or io=N");
}

// "0-3,8": ascending CPUs.
std::string cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) last++;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

// Cores in the order in which compute threads take them.
std::vector<const Core*> core_order(const Topology& topology, PlacementPolicy policy) {
  std::vector<std::vector<const Core*>> groups;  // of spread: by memory node and package; of compact: one
  for (const Core& core : topology.cores()) {
    auto same = [&](const auto& group) {
      return policy != PlacementPolicy::spread || (group[0]->node == core.node && group[0]->package == core.package);
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(&core);
  }
  std::vector<const Core*> order;
  for (size_t round = 0; order.size() < topology.cores().size(); round++)
    for (const auto& group : groups)
      if (round < group.size()) order.push_back(group[round]);
  return order;
}

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text + " ";
}

std::string number_or_dash(int number) { return number < 0 ? "-" : std::to_string(number); }

std::string line(const ThreadPlace& place) {
  const Core* core = place.core;
  return padded(place.thread, 14) + padded(place.bind ? "bound" : "left alone", 12) +
         padded(core ? number_or_dash(core->package) : "any", 9) +
         padded(core ? std::to_string(core->core) : "any", 6) + padded(core ? number_or_dash(core->node) : "any", 6) +
         cpu_list(place.cpus) + "\n";
}

}  // namespace

Result<PlacementSpec> PlacementSpec::parse(const std::string& text) {
  PlacementSpec spec;
  std::stringstream parts(text);
  std::string part;
  std::getline(parts, part, ',');
  const auto name = std::find(kPolicyNames.begin(), kPolicyNames.end(), part);
  if (name == kPolicyNames.end()) return unknown(text, "expected compact, spread or none");
  spec.policy = PlacementPolicy(name - kPolicyNames.begin());
  if (text.back() == ',') return unknown(text, "ends in a comma");
  while (std::getline(parts, part, ','))
    if (Status status = parse_arena(part, &spec); !status) return status.error();
  return spec;
}

std::string PlacementSpec::text() const {
  std::string text = kPolicyNames[size_t(policy)];
  for (Domain d : kDomains)
    if (int node = arena_node[size_t(d)]; node >= 0)
      text += std::string(",") + domain_name(d) + "=" + std::to_string(node);
  return text;
}

Result<Placement> place_threads(const Topology& topology, const PlacementSpec& spec, int compute_threads,
                                int io_threads) {
  for (int node : spec.arena_node)
    if (node >= 0 && std::none_of(topology.nodes().begin(), topology.nodes().end(),
                                  [&](const MemoryNode& n) { return n.node == node; }))
      return unknown(spec.text(), "there is no memory node " + std::to_string(node));
  const bool bind = spec.policy != PlacementPolicy::none;
  const auto free_place = [&](const std::string& thread) {
    return ThreadPlace{thread, bind, nullptr, topology.allowed_cpus()};
  };
  Placement placement{.spec = spec, .topology = topology, .coordinator = free_place("coordinator")};
  const std::vector<const Core*> order = core_order(topology, spec.policy);
  for (int t = 0; t < compute_threads; t++) {
    placement.compute.push_back(free_place("compute " + std::to_string(t)));
    if (!bind) continue;
    placement.compute.back().core = order[size_t(t) % order.size()];
    placement.compute.back().cpus = placement.compute.back().core->cpus;
  }
  for (int t = 0; t < io_threads; t++) placement.io.push_back(free_place("io " + std::to_string(t)));
  placement.shares_cores = size_t(compute_threads) > order.size();
  return placement;
}

MemoryBinding Placement::binding(Domain domain) const {
  const int node = spec.arena_node[size_t(domain)];
  return node < 0 ? MemoryBinding{} : MemoryBinding{topology, node};
}

std::string Placement::text() const {
  std::string text = "placement " + spec.text() + " on " + topology.source() + ": " +
                     std::to_string(topology.cores().size()) + " cores, CPUs " + cpu_list(topology.allowed_cpus()) +
                     "\n";
  text += padded("thread", 14) + padded("binding", 12) + padded("package", 9) + padded("core", 6) + padded("node", 6) +
          "CPUs\n";
  for (const ThreadPlace& place : compute) text += line(place);
  for (const ThreadPlace& place : io) text += line(place);
  text += line(coordinator);
  text += padded("arena", 14) + "memory node\n";
  for (Domain d : kDomains) {
    const int node = spec.arena_node[size_t(d)];
    if (d == Domain::device) continue;
    const std::string where = d == Domain::mapped ? "page cache" : node < 0 ? "first touch" : std::to_string(node);
    text += padded(domain_name(d), 14) + where + "\n";
  }
  text += padded("node", 14) + padded("bytes", 16) + "CPUs\n";
  for (const MemoryNode& n : topology.nodes())
    text += padded(std::to_string(n.node), 14) + padded(std::to_string(n.bytes), 16) +
            (n.has_cpus ? "yes" : "memory only") + "\n";
  if (shares_cores) text += "compute threads outnumber the cores and share them\n";
  if (!topology.is_this_system()) text += "not this system: nothing of it can be applied here\n";
  return text;
}

BindOutcome bind_current_thread(const Topology& topology, const ThreadPlace& place) {
  return place.bind ? topology.bind_current_thread(place.cpus) : BindOutcome{true, {}};
}

}  // namespace ompipe::arenas
