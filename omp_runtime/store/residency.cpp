#include "ompipe/store/residency.h"

#include "ompipe/arenas/error.h"

namespace ompipe::store {
namespace {

bool leads_to(Residency from, Residency to) {
  using enum Residency;
  switch (to) {
    case loading:
      return from == absent || from == failed || from == preparing;
    case preparing:
      return from == loading;
    case resident:
      return from == preparing || from == evicting;
    case evicting:
      return from == resident;
    case absent:
      return from == evicting || from == loading || from == preparing;
    case failed:
      return from == loading || from == preparing;
  }
  return false;
}

}  // namespace

const char* residency_name(Residency state) {
  switch (state) {
    case Residency::absent:
      return "absent";
    case Residency::loading:
      return "loading";
    case Residency::preparing:
      return "preparing";
    case Residency::resident:
      return "resident";
    case Residency::evicting:
      return "evicting";
    case Residency::failed:
      return "failed";
  }
  return "?";
}

void transition(Residency& state, Residency to) {
  OMPIPE_CHECK(leads_to(state, to), residency_name(state));
  state = to;
}

}  // namespace ompipe::store
