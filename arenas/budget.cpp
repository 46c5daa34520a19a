#include "ompipe/arenas/budget.h"

namespace ompipe::arenas {
namespace {

uint64_t saturating_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
uint64_t saturating_sub(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// No machine has more, and the sum of all domains still fits in 64 bits: beyond it every request is refused.
constexpr uint64_t kMostBytes = uint64_t{1} << 60;

std::string limit_text(uint64_t bytes) { return bytes == kUnlimited ? "unlimited" : std::to_string(bytes); }

}  // namespace

uint64_t global_sum(const DomainBytes& bytes) {
  uint64_t sum = 0;
  for (Domain d : kDomains) sum = in_global(d) ? saturating_add(sum, bytes[d]) : sum;
  return sum;
}

DomainBytes BudgetUsage::live_bytes() const {
  DomainBytes live;
  for (Domain d : kDomains) live[d] = (*this)[d].live_bytes;
  return live;
}

const char* domain_name(Domain domain) {
  switch (domain) {
    case Domain::preparation:
      return "preparation";
    case Domain::prepared:
      return "prepared";
    case Domain::mapped:
      return "mapped";
    case Domain::execution:
      return "execution";
    case Domain::io:
      return "io";
    case Domain::device:
      return "device";
  }
  fail_check("domain", __FILE__, __LINE__, "is not one of Domain");
}

DomainBytes::DomainBytes(std::initializer_list<std::pair<Domain, uint64_t>> parts) {
  for (const auto& [domain, size] : parts) (*this)[domain] = saturating_add((*this)[domain], size);
}

DomainBytes DomainBytes::filled(uint64_t bytes) {
  DomainBytes all;
  all.bytes.fill(bytes);
  return all;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  budget_ = std::exchange(other.budget_, nullptr);
  left_ = std::exchange(other.left_, {});
  return *this;
}

void Reservation::merge(Reservation&& other) {
  if (!other.budget_) return;
  OMPIPE_CHECK(!budget_ || budget_ == other.budget_);
  budget_ = other.budget_;
  for (Domain domain : kDomains) left_[domain] += std::exchange(other.left_[domain], 0);
}

Reservation Reservation::split(const DomainBytes& part) {
  OMPIPE_CHECK(budget_, "split of an empty reservation");
  for (Domain d : kDomains) {
    OMPIPE_CHECK(part[d] <= left_[d], "split of more than is left");
    left_[d] -= part[d];
  }
  return Reservation(*budget_, part);
}

void Reservation::release() {
  if (budget_) budget_->give_back(left_);
  budget_ = nullptr;
  left_ = {};
}

Budget::~Budget() {
  const std::string leaks = audit();
  OMPIPE_CHECK(leaks.empty(), leaks.c_str());
  MutexLock lock(registry_mutex_);
  OMPIPE_CHECK(trimmers_.empty(), "a budget must outlive its arenas");
}

uint64_t Budget::global_counted() const {
  uint64_t sum = 0;
  for (Domain d : kDomains) sum += in_global(d) ? account(d).counted() : 0;
  return sum;
}

void Budget::note_peaks() {
  for (Account& a : accounts_) a.peak = std::max(a.peak, a.live);
  global_peak_ = std::max(global_peak_, global_counted());
}

// The gang as it would count beside what there is. `surplus`: the pooled bytes whose return would make it fit.
Budget::Verdict Budget::try_reserve(const DomainBytes& gang, Urgency urgency, DomainBytes* surplus) {
  const uint64_t kept_free = urgency == Urgency::critical ? 0 : limits_.critical_reserve_bytes;
  const uint64_t limit =
      limits_.global_bytes == kUnlimited ? kUnlimited : saturating_sub(limits_.global_bytes, kept_free);
  DomainBytes live, counted;
  for (Domain d : kDomains) {
    live[d] = saturating_add(account(d).live, gang[d]);
    counted[d] = std::max(live[d], account(d).drawn + account(d).pooled);
    if (gang[d] && live[d] > std::min(limits_.domain_bytes[d], kMostBytes)) return Verdict::refused;
  }
  // A gang of what isn't in global alone is never held up by it.
  const bool asks_global = global_sum(gang) > 0;
  if (asks_global && global_sum(live) > limit) return Verdict::refused;
  uint64_t excess = asks_global ? saturating_sub(global_sum(counted), limit) : 0;
  if (excess) {
    for (Domain d : kDomains) {
      (*surplus)[d] = in_global(d) ? std::min(excess, counted[d] - live[d]) : 0;
      excess -= (*surplus)[d];
    }
    return Verdict::trim_first;
  }
  for (Domain d : kDomains) account(d).live = live[d];
  note_peaks();
  return Verdict::granted;
}

std::optional<Reservation> Budget::reserve(const DomainBytes& gang, Urgency urgency) {
  for (;;) {
    DomainBytes surplus;
    {
      MutexLock lock(mutex_);
      const Verdict verdict = try_reserve(gang, urgency, &surplus);
      if (verdict == Verdict::granted) return Reservation(*this, gang);
      if (verdict == Verdict::refused) return std::nullopt;
    }
    // A pass gives back what was pooled; it is repeated only if another thread has pooled more meanwhile.
    trim_pools(surplus);
  }
}

Status Budget::fits_limits(const DomainBytes& need, const std::string& phase, const std::string& subject) const {
  return fits_limits(limits(), need, phase, subject);
}

Status Budget::fits_limits(const BudgetLimits& limits, const DomainBytes& need, const std::string& phase,
                           const std::string& subject) {
  for (Domain d : kDomains) {
    if (need[d] <= limits.domain_bytes[d]) continue;
    return Error{ErrorKind::cannot_fit, phase, subject,
                 "needs " + std::to_string(need[d]) + " bytes of " + domain_name(d) + ", the limit is " +
                     limit_text(limits.domain_bytes[d])};
  }
  if (global_sum(need) > limits.global_bytes)
    return Error{ErrorKind::cannot_fit, phase, subject,
                 "needs " + std::to_string(global_sum(need)) + " bytes in all, the budget is " +
                     limit_text(limits.global_bytes)};
  return ok_status();
}

Error Budget::refusal(const DomainBytes& gang, const std::string& phase, const std::string& subject) const {
  const BudgetUsage now = usage();
  std::string reason = "the budgets refuse";
  for (Domain d : kDomains)
    if (gang[d])
      reason += " " + std::to_string(gang[d]) + " bytes of " + domain_name(d) + " (live " +
                std::to_string(now[d].live_bytes) + " of " + limit_text(now[d].limit_bytes) + ")";
  reason += ", global " + std::to_string(now.global_bytes) + " of " + limit_text(now.global_limit_bytes);
  return Error{ErrorKind::cannot_fit, phase, subject, reason};
}

void Budget::set_limits(const BudgetLimits& limits) {
  {
    MutexLock lock(mutex_);
    limits_ = limits;
  }
  trim_to(limits.global_bytes);
}

void Budget::trim_to(uint64_t global_bytes) {
  DomainBytes surplus;
  {
    MutexLock lock(mutex_);
    surplus = surplus_over(global_bytes);
  }
  trim_pools(surplus);
}

// Pooled bytes, a domain after the other, whose return brings what is counted down to that.
DomainBytes Budget::surplus_over(uint64_t global_bytes) const {
  DomainBytes surplus;
  uint64_t excess = saturating_sub(global_counted(), global_bytes);
  for (Domain d : kDomains) {
    surplus[d] = in_global(d) ? std::min(excess, account(d).counted() - account(d).live) : 0;
    excess -= surplus[d];
  }
  return surplus;
}

BudgetLimits Budget::limits() const {
  MutexLock lock(mutex_);
  return limits_;
}

BudgetUsage Budget::usage() const {
  MutexLock lock(mutex_);
  BudgetUsage usage;
  for (Domain d : kDomains) {
    const Account& a = account(d);
    usage.domains[size_t(d)] = {limits_.domain_bytes[d], a.live, a.peak, a.counted() - a.live};
  }
  usage.global_limit_bytes = limits_.global_bytes;
  usage.global_bytes = global_counted();
  usage.global_peak_bytes = global_peak_;
  return usage;
}

std::string Budget::audit() const {
  MutexLock lock(mutex_);
  std::string leaks;
  for (Domain d : kDomains) {
    const Account& a = account(d);
    if (a.live == 0 && a.drawn == 0) continue;
    leaks += std::string(leaks.empty() ? "" : ", ") + domain_name(d) + ": " + std::to_string(a.live) + " bytes live, " +
             std::to_string(a.drawn) + " of them drawn";
  }
  return leaks;
}

void Budget::give_back(const DomainBytes& bytes) {
  MutexLock lock(mutex_);
  for (Domain d : kDomains) {
    OMPIPE_CHECK(account(d).live - account(d).drawn >= bytes[d], "more bytes returned than reserved");
    account(d).live -= bytes[d];
  }
}

void Budget::draw_pooled(Reservation& reservation, Domain domain, uint64_t bytes) {
  OMPIPE_CHECK(reservation.budget_ == this && reservation.left_[domain] >= bytes, "drawn beyond the reservation");
  MutexLock lock(mutex_);
  OMPIPE_CHECK(account(domain).pooled >= bytes, "more drawn from the pool than it holds");
  reservation.left_[domain] -= bytes;
  account(domain).drawn += bytes;
  account(domain).pooled -= bytes;
}

void Budget::draw_fresh(Reservation& reservation, Domain domain, uint64_t bytes) {
  OMPIPE_CHECK(reservation.budget_ == this && reservation.left_[domain] >= bytes, "drawn beyond the reservation");
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (try_hold(domain, bytes, 0)) break;
    }
    trim_pools({{domain, bytes}});
  }
  reservation.left_[domain] -= bytes;
}

void Budget::undo_draw(Reservation& reservation, Domain domain, uint64_t bytes) {
  MutexLock lock(mutex_);
  account(domain).drawn -= bytes;
  reservation.left_[domain] += bytes;
}

void Budget::release_drawn(Domain domain, uint64_t bytes) {
  MutexLock lock(mutex_);
  Account& a = account(domain);
  OMPIPE_CHECK(a.drawn >= bytes, "more bytes released than drawn");
  a.live -= bytes;
  a.drawn -= bytes;
}

bool Budget::try_pool(Domain domain, uint64_t bytes) {
  MutexLock lock(mutex_);
  Account& a = account(domain);
  OMPIPE_CHECK(a.drawn >= bytes, "more bytes released than drawn");
  if (global_counted() > limits_.global_bytes) return false;
  a.live -= bytes;
  a.drawn -= bytes;
  a.pooled += bytes;
  return true;
}

bool Budget::add_pooled(Domain domain, uint64_t bytes) {
  MutexLock lock(mutex_);
  return try_hold(domain, 0, bytes);
}

void Budget::drop_pooled(Domain domain, uint64_t bytes) {
  MutexLock lock(mutex_);
  OMPIPE_CHECK(account(domain).pooled >= bytes, "more dropped from the pool than it holds");
  account(domain).pooled -= bytes;
}

// More memory in a domain, if what it adds to the global figure fits. Within what is reserved it adds nothing and
// always fits.
bool Budget::try_hold(Domain domain, uint64_t drawn, uint64_t pooled) {
  Account& a = account(domain);
  Account grown = a;
  grown.drawn += drawn;
  grown.pooled += pooled;
  const uint64_t growth = grown.counted() - a.counted();
  if (growth && in_global(domain) && saturating_add(global_counted(), growth) > limits_.global_bytes) return false;
  a = grown;
  note_peaks();
  return true;
}

void Budget::add_trimmer(Trimmer* trimmer, Domain domain) {
  MutexLock lock(registry_mutex_);
  trimmers_.push_back({trimmer, domain});
}

void Budget::remove_trimmer(Trimmer* trimmer) {
  MutexLock lock(registry_mutex_);
  std::erase_if(trimmers_, [&](const Registered& r) { return r.trimmer == trimmer; });
}

void Budget::trim_pools(const DomainBytes& bytes) {
  MutexLock lock(registry_mutex_);
  for (const Registered& r : trimmers_)
    if (bytes[r.domain]) r.trimmer->trim(bytes[r.domain]);
}

void Budget::trim() { trim_pools(DomainBytes::filled(kUnlimited)); }

}  // namespace ompipe::arenas
