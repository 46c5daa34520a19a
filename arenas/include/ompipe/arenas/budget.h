// Byte budgets: one global bound and one a domain; objects that grant a gang of bytes, all or none, or refuse, and
// never wait.
//
// What is counted where, for each domain:
//   live      bytes granted and not yet returned: reservations, and the allocations drawn from them, as the arenas
//   round them drawn     the part of live that an arena has turned into memory retained  memory an arena holds beyond
//   what is live: pooled blocks, what a huge page adds to the objects in it counted   max(live, drawn + pooled): what
//   the global budget counts. A pooled block that a reservation will reuse counts once.
// A domain's limit binds live; the global limit binds the sum of counted over the domains of in_global(). Memory held
// never exceeds counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/arenas/mutex.h"

namespace ompipe::arenas {

enum class Domain : uint8_t { preparation, prepared, mapped, execution, io, device };
inline constexpr std::array kDomains{Domain::preparation, Domain::prepared, Domain::mapped,
                                     Domain::execution,   Domain::io,       Domain::device};

// Whether the global limit counts it. Mapped bytes are clean file memory, a device's are no memory of the host: each
// has a figure and a limit of its own.
constexpr bool in_global(Domain domain) { return domain != Domain::mapped && domain != Domain::device; }

inline constexpr uint64_t kUnlimited = UINT64_MAX;
inline constexpr uint64_t kPageBytes = 4096;

// As report and command line spell it: "preparation", "prepared", "mapped", "execution", "io", "device".
const char* domain_name(Domain domain);

// Bytes a domain: a gang, a plan's need, a row of limits.
struct DomainBytes {
  std::array<uint64_t, kDomains.size()> bytes{};

  DomainBytes() = default;
  DomainBytes(std::initializer_list<std::pair<Domain, uint64_t>> parts);
  static DomainBytes filled(uint64_t bytes);
  uint64_t& operator[](Domain domain) { return bytes[size_t(domain)]; }
  uint64_t operator[](Domain domain) const { return bytes[size_t(domain)]; }
  bool operator==(const DomainBytes&) const = default;
};

// Of the domains of in_global(), saturating.
uint64_t global_sum(const DomainBytes& bytes);

struct BudgetLimits {
  uint64_t global_bytes = kUnlimited;
  DomainBytes domain_bytes = DomainBytes::filled(kUnlimited);
  uint64_t critical_reserve_bytes = 0;  // of global: speculative reservations leave this much free
};

enum class Urgency : uint8_t { critical, speculative };

// One domain's line of the report.
struct DomainUsage {
  uint64_t limit_bytes = 0, live_bytes = 0, peak_bytes = 0, retained_bytes = 0;  // peak: of live
};

struct BudgetUsage {
  std::array<DomainUsage, kDomains.size()> domains;
  uint64_t global_limit_bytes = 0, global_bytes = 0, global_peak_bytes = 0;  // live and retained, of in_global()

  const DomainUsage& operator[](Domain domain) const { return domains[size_t(domain)]; }
  DomainBytes live_bytes() const;
};

class Budget;

// Bytes granted and not yet drawn. Movable; returns what is left when destroyed. One thread at a time; must not outlive
// its budget.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  uint64_t left_bytes(Domain domain) const { return left_[domain]; }
  // Cuts `part` off, for a member of the gang. All of it must be left.
  Reservation split(const DomainBytes& part);
  // Takes over what is left in `other`, which is of the same budget.
  void merge(Reservation&& other);
  // Returns what is left now.
  void release();

 private:
  friend class Budget;
  Reservation(Budget& budget, const DomainBytes& bytes) : budget_(&budget), left_(bytes) {}
  Budget* budget_ = nullptr;
  DomainBytes left_;
};

// An arena's side of trimming. Called with no lock of the budget's ledger held; must not reserve.
class Trimmer {
 public:
  // Gives at least `bytes` of pooled memory back to the system and tells Budget::drop_pooled, or all there is. Any
  // thread.
  virtual void trim(uint64_t bytes) = 0;

 protected:
  ~Trimmer() = default;
};

// The bounds. Every function may be called from any thread. Must outlive its reservations and arenas.
class Budget {
 public:
  explicit Budget(const BudgetLimits& limits = {}) : limits_(limits) {}
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Grants the whole gang, or nothing. Pooled memory is trimmed before anything is refused.
  std::optional<Reservation> reserve(const DomainBytes& gang, Urgency urgency);
  // Whether `need` fits the limits when nothing else is live; if not, ErrorKind::cannot_fit with the numbers.
  Status fits_limits(const DomainBytes& need, const std::string& phase, const std::string& subject) const;
  // The same under other limits. Any thread.
  static Status fits_limits(const BudgetLimits& limits, const DomainBytes& need, const std::string& phase,
                            const std::string& subject);
  // The error for a gang that has been refused: what was asked, what is live, what the limits are.
  Error refusal(const DomainBytes& gang, const std::string& phase, const std::string& subject) const;

  // Takes effect at once for what is asked next: live bytes above a lowered limit stay until they are returned, pooled
  // ones go.
  void set_limits(const BudgetLimits& limits);
  BudgetLimits limits() const;
  BudgetUsage usage() const;
  // Gives back pooled memory of every arena.
  void trim();
  // Gives back pooled memory until at most so many bytes are counted globally, or none is pooled.
  void trim_to(uint64_t global_bytes);
  // Empty if nothing is live; else names each domain that leaks, and how many bytes. For the teardown of every test.
  std::string audit() const;

  // For arenas. They keep `pooled` right under their own lock, which is taken before the ledger's.
  void add_trimmer(Trimmer* trimmer, Domain domain);
  void remove_trimmer(Trimmer* trimmer);
  // Draws from a reservation that has them left: bytes become memory. From the pool, or fresh; fresh may first trim the
  // domain, so no lock of an arena may be held for it, and afterwards always succeeds.
  void draw_pooled(Reservation& reservation, Domain domain, uint64_t bytes);
  void draw_fresh(Reservation& reservation, Domain domain, uint64_t bytes);
  // Undoes a draw for which the system had no memory: the bytes are left in the reservation again.
  void undo_draw(Reservation& reservation, Domain domain, uint64_t bytes);
  // Returns drawn bytes whose memory is gone.
  void release_drawn(Domain domain, uint64_t bytes);
  // Returns drawn bytes whose memory stays in the arena's pool, unless more is counted than the global limit: false, no
  // change.
  bool try_pool(Domain domain, uint64_t bytes);
  // Counts memory that is pooled without having been live (what a huge page adds), if the global limit has room for it.
  bool add_pooled(Domain domain, uint64_t bytes);
  void drop_pooled(Domain domain, uint64_t bytes);

 private:
  friend class Reservation;
  struct Account {
    uint64_t live = 0, drawn = 0, pooled = 0, peak = 0;
    uint64_t counted() const { return std::max(live, drawn + pooled); }
  };
  struct Registered {
    Trimmer* trimmer;
    Domain domain;
  };
  enum class Verdict : uint8_t { granted, refused, trim_first };

  Verdict try_reserve(const DomainBytes& gang, Urgency urgency, DomainBytes* surplus) OMPIPE_REQUIRES(mutex_);
  bool try_hold(Domain domain, uint64_t drawn, uint64_t pooled) OMPIPE_REQUIRES(mutex_);
  DomainBytes surplus_over(uint64_t global_bytes) const OMPIPE_REQUIRES(mutex_);
  void trim_pools(const DomainBytes& bytes) OMPIPE_EXCLUDES(mutex_);
  void give_back(const DomainBytes& bytes) OMPIPE_EXCLUDES(mutex_);
  uint64_t global_counted() const OMPIPE_REQUIRES(mutex_);
  void note_peaks() OMPIPE_REQUIRES(mutex_);
  Account& account(Domain domain) OMPIPE_REQUIRES(mutex_) { return accounts_[size_t(domain)]; }
  const Account& account(Domain domain) const OMPIPE_REQUIRES(mutex_) { return accounts_[size_t(domain)]; }

  // Lock order: registry, an arena's, ledger.
  Mutex registry_mutex_;
  std::vector<Registered> trimmers_ OMPIPE_GUARDED_BY(registry_mutex_);
  mutable Mutex mutex_;
  BudgetLimits limits_ OMPIPE_GUARDED_BY(mutex_);
  std::array<Account, kDomains.size()> accounts_ OMPIPE_GUARDED_BY(mutex_);
  uint64_t global_peak_ OMPIPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace ompipe::arenas
