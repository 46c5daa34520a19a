#include "ompipe/arenas/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "ompipe/arenas/memory_binding.h"

namespace ompipe::arenas {
namespace {

struct BitmapFree {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<std::remove_pointer_t<hwloc_bitmap_t>, BitmapFree>;

Bitmap bitmap_of(const std::vector<int>& indices) {
  Bitmap bitmap(hwloc_bitmap_alloc());
  for (int i : indices) hwloc_bitmap_set(bitmap.get(), unsigned(i));
  return bitmap;
}

std::vector<int> indices_of(hwloc_const_bitmap_t bitmap) {
  std::vector<int> indices;
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) indices.push_back(i);
  return indices;
}

Error topology_error(const std::string& subject, const std::string& reason, int errno_value) {
  return Error{
      .kind = ErrorKind::usage, .phase = "topology", .subject = subject, .reason = reason, .errno_value = errno_value};
}

// Nodes with CPUs, as Linux lists them ("0-1,3"); null when it doesn't say.
Bitmap nodes_with_cpus() {
  std::ifstream file("/sys/devices/system/node/has_cpu");
  std::string list;
  Bitmap nodes(hwloc_bitmap_alloc());
  if (!std::getline(file, list) || hwloc_bitmap_list_sscanf(nodes.get(), list.c_str()) != 0) return nullptr;
  return nodes;
}

}  // namespace

struct Topology::Impl {
  ~Impl() {
    if (topology) hwloc_topology_destroy(topology);
  }
  hwloc_topology_t topology = nullptr;
  std::string source;
  std::vector<int> allowed;
  std::vector<Core> cores;
  std::vector<MemoryNode> nodes;

  bool is_this_system() const { return hwloc_topology_is_thissystem(topology); }

  // The mask of the calling thread; in a topology of another system, all CPUs.
  void find_allowed() {
    Bitmap mask(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
    if (is_this_system()) {
      Bitmap own(hwloc_bitmap_alloc());
      if (hwloc_get_cpubind(topology, own.get(), HWLOC_CPUBIND_THREAD) == 0)
        hwloc_bitmap_and(mask.get(), mask.get(), own.get());
    }
    allowed = indices_of(mask.get());
  }

  // In a topology of another system the first node of several with the same CPUs is the one they belong to.
  void find_nodes() {
    const Bitmap with_cpus = is_this_system() ? nodes_with_cpus() : nullptr;
    for (hwloc_obj_t n = nullptr; (n = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, n));) {
      bool has_cpus = !hwloc_bitmap_iszero(n->cpuset);
      if (with_cpus)
        has_cpus = hwloc_bitmap_isset(with_cpus.get(), n->os_index);
      else if (n->parent && n->parent->memory_first_child != n)
        has_cpus = false;
      nodes.push_back({int(n->os_index), n->attr->numanode.local_memory, has_cpus});
    }
  }

  // The nearest node: one that has the object's CPUs, and CPUs at all if there is such a one.
  int nearest_node(hwloc_obj_t object) const {
    int nearest = -1;
    for (hwloc_obj_t n = nullptr; (n = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, n));) {
      if (!hwloc_bitmap_isincluded(object->cpuset, n->cpuset)) continue;
      if (nodes[n->logical_index].has_cpus) return int(n->os_index);
      if (nearest < 0) nearest = int(n->os_index);
    }
    return nearest;
  }

  // A topology without cores (a synthetic one of PUs only) has one a PU.
  void find_cores() {
    const Bitmap mask = bitmap_of(allowed);
    const hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    for (hwloc_obj_t c = nullptr; (c = hwloc_get_next_obj_by_type(topology, type, c));) {
      Bitmap own(hwloc_bitmap_dup(c->cpuset));
      hwloc_bitmap_and(own.get(), own.get(), mask.get());
      if (hwloc_bitmap_iszero(own.get())) continue;
      const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, c);
      cores.push_back(
          {int(c->logical_index), package ? int(package->os_index) : -1, nearest_node(c), indices_of(own.get())});
    }
  }

  // Loads what `choose` has set as the source.
  template <class Choose>
  static Result<std::shared_ptr<Impl>> load(const std::string& source, const std::string& subject, Choose choose) {
    auto impl = std::make_shared<Impl>();
    impl->source = source;
    if (hwloc_topology_init(&impl->topology) != 0) return topology_error(subject, "hwloc does not start", errno);
    if (choose(impl->topology) != 0) return topology_error(subject, "hwloc does not accept this description", errno);
    if (hwloc_topology_load(impl->topology) != 0)
      return topology_error(subject, "hwloc can't load this topology", errno);
    impl->find_allowed();
    impl->find_nodes();
    impl->find_cores();
    if (impl->cores.empty()) return topology_error(subject, "no CPU in it may be used by this process", 0);
    return impl;
  }
};

Result<Topology> Topology::native() {
  auto loaded = Impl::load("this system", "native", [](hwloc_topology_t) { return 0; });
  if (!loaded) return loaded.error();
  if (!(*loaded)->is_this_system()) (*loaded)->source = "another system (HWLOC_* in the environment)";
  return Topology(std::move(*loaded));
}

Result<Topology> Topology::from_xml(const std::string& path) {
  // hwloc's own answer to a missing file differs between its two XML readers.
  if (std::ifstream file(path); !file || file.peek() == std::ifstream::traits_type::eof())
    return Error{.kind = ErrorKind::environment,
                 .phase = "topology",
                 .reason = "can't read it",
                 .file = path,
                 .errno_value = errno};
  auto loaded =
      Impl::load("xml " + path, path, [&](hwloc_topology_t t) { return hwloc_topology_set_xml(t, path.c_str()); });
  if (!loaded) return loaded.error();
  return Topology(std::move(*loaded));
}

Result<Topology> Topology::from_synthetic(const std::string& description) {
  auto loaded = Impl::load("synthetic " + description, description,
                           [&](hwloc_topology_t t) { return hwloc_topology_set_synthetic(t, description.c_str()); });
  if (!loaded) return loaded.error();
  return Topology(std::move(*loaded));
}

bool Topology::is_this_system() const { return impl_->is_this_system(); }
const std::string& Topology::source() const { return impl_->source; }
const std::vector<Core>& Topology::cores() const { return impl_->cores; }
const std::vector<MemoryNode>& Topology::nodes() const { return impl_->nodes; }
const std::vector<int>& Topology::allowed_cpus() const { return impl_->allowed; }

BindOutcome Topology::bind_current_thread(const std::vector<int>& cpus) const {
  if (!is_this_system()) return {false, "the topology is not this system"};
  if (!hwloc_topology_get_support(impl_->topology)->cpubind->set_thisthread_cpubind)
    return {false, "threads can't be bound on this system"};
  if (cpus.empty()) return {false, "no CPU given"};
  for (int cpu : cpus)
    if (!std::binary_search(impl_->allowed.begin(), impl_->allowed.end(), cpu))
      return {false, "CPU " + std::to_string(cpu) + " is outside the process's mask"};
  const Bitmap wanted = bitmap_of(cpus);
  if (hwloc_set_cpubind(impl_->topology, wanted.get(), HWLOC_CPUBIND_THREAD) != 0)
    return {false, std::string("the system refuses: ") + std::strerror(errno)};
  const Bitmap found(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(impl_->topology, found.get(), HWLOC_CPUBIND_THREAD) != 0 ||
      !hwloc_bitmap_isequal(found.get(), wanted.get()))
    return {false, "the thread's mask reads back otherwise"};
  return {true, {}};
}

BindOutcome Topology::bind_memory(std::byte* base, size_t bytes, int node) const {
  if (!is_this_system()) return {false, "the topology is not this system"};
  const auto* support = hwloc_topology_get_support(impl_->topology)->membind;
  if (!support->set_area_membind || !support->bind_membind) return {false, "memory can't be bound on this system"};
  if (std::none_of(impl_->nodes.begin(), impl_->nodes.end(), [&](const MemoryNode& n) { return n.node == node; }))
    return {false, "there is no memory node " + std::to_string(node)};
  const Bitmap wanted = bitmap_of({node});
  if (hwloc_set_area_membind(impl_->topology, base, bytes, wanted.get(), HWLOC_MEMBIND_BIND,
                             HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_STRICT | HWLOC_MEMBIND_MIGRATE) != 0)
    return {false, std::string("the system refuses: ") + std::strerror(errno)};
  const Bitmap found(hwloc_bitmap_alloc());
  hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
  if (hwloc_get_area_membind(impl_->topology, base, bytes, found.get(), &policy, HWLOC_MEMBIND_BYNODESET) != 0 ||
      policy != HWLOC_MEMBIND_BIND || !hwloc_bitmap_isequal(found.get(), wanted.get()))
    return {false, "the range's policy reads back otherwise"};
  return {true, {}};
}

int Topology::memory_node_of(const std::byte* base, size_t bytes) const {
  if (!is_this_system() || !hwloc_topology_get_support(impl_->topology)->membind->get_area_memlocation) return -1;
  const Bitmap nodes(hwloc_bitmap_alloc());
  if (hwloc_get_area_memlocation(impl_->topology, base, bytes, nodes.get(), HWLOC_MEMBIND_BYNODESET) != 0) return -1;
  return hwloc_bitmap_weight(nodes.get()) == 1 ? hwloc_bitmap_first(nodes.get()) : -1;
}

Status MemoryBinding::apply(std::byte* base, uint64_t bytes) const {
  if (!topology) return ok_status();
  const BindOutcome outcome = topology->bind_memory(base, bytes, node);
  if (outcome.applied) return ok_status();
  return Error{.kind = ErrorKind::environment,
               .phase = "bind memory",
               .subject = "node " + std::to_string(node),
               .reason = outcome.reason};
}

}  // namespace ompipe::arenas
