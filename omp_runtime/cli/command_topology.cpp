#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ompipe/arenas/placement.h"
#include "ompipe/cli/commands.h"

namespace ompipe::cli {

namespace {

using Json = nlohmann::ordered_json;

Result<arenas::Topology> load(const TopologyCommand& command) {
  if (!command.xml.empty()) return arenas::Topology::from_xml(command.xml);
  if (!command.synthetic.empty()) return arenas::Topology::from_synthetic(command.synthetic);
  return arenas::Topology::native();
}

Json place_json(const arenas::ThreadPlace& place) {
  Json json = {{"thread", place.thread}, {"bind", place.bind}, {"cpus", place.cpus}};
  if (place.core) json["core"] = place.core->core;
  return json;
}

std::string placement_json(const arenas::Topology& topology, const arenas::Placement& placement) {
  Json threads = Json::array();
  for (const arenas::ThreadPlace& place : placement.compute) threads.push_back(place_json(place));
  for (const arenas::ThreadPlace& place : placement.io) threads.push_back(place_json(place));
  threads.push_back(place_json(placement.coordinator));
  Json arenas = Json::object();
  for (const arenas::Domain domain : arenas::kDomains) {
    if (domain == arenas::Domain::device) continue;
    const int node = placement.spec.arena_node[size_t(domain)];
    arenas[arenas::domain_name(domain)] = node < 0 ? Json("first touch") : Json(node);
  }
  Json cores = Json::array();
  for (const arenas::Core& core : topology.cores()) {
    cores.push_back({{"core", core.core}, {"package", core.package}, {"node", core.node}, {"cpus", core.cpus}});
  }
  const Json json = {{"topology", topology.source()},
                     {"placement", placement.spec.text()},
                     {"shares_cores", placement.shares_cores},
                     {"cores", cores},
                     {"threads", threads},
                     {"arenas", arenas}};
  return json.dump(2) + "\n";
}

}  // namespace

Status run_topology(const TopologyCommand& command) {
  const Result<arenas::PlacementSpec> spec = arenas::PlacementSpec::parse(command.placement);
  if (!spec) return spec.error();
  const Result<arenas::Topology> topology = load(command);
  if (!topology) return topology.error();
  const int threads = command.threads ? command.threads : int(topology->cores().size());
  const Result<arenas::Placement> placement = arenas::place_threads(*topology, *spec, threads, command.io_threads);
  if (!placement) return placement.error();
  if (command.output.json) {
    std::fputs(placement_json(*topology, *placement).c_str(), stdout);
    return ok_status();
  }
  if (!command.output.quiet)
    std::printf("topology: %s, %zu cores\n", topology->source().c_str(), topology->cores().size());
  std::fputs(placement->text().c_str(), stdout);
  return ok_status();
}

}  // namespace ompipe::cli
