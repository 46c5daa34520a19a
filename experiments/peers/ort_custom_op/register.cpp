#include <initializer_list>

#include "mat_mul_nbits.h"

namespace {

// Made once: sessions keep pointers into it, so it lives as long as the library.
struct Domain {
  const OrtApi* api;
  OrtCustomOpDomain* made = nullptr;
  OrtStatus* status = nullptr;

  explicit Domain(const OrtApi* of) : api(of) {
    status = api->CreateCustomOpDomain("ompipe", &made);
    for (const OrtCustomOp* op : {ompipe_ort::mat_mul_nbits_f32(), ompipe_ort::mat_mul_nbits_f16()}) {
      if (status == nullptr) status = api->CustomOpDomain_Add(made, op);
    }
  }
  ~Domain() {
    if (made != nullptr) api->ReleaseCustomOpDomain(made);
    if (status != nullptr) api->ReleaseStatus(status);
  }
};

}  // namespace

// What the options of a session call in a library of operators.
extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* const api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return base->GetApi(1)->CreateStatus(ORT_FAIL, "libompipe_ort: this ONNX Runtime is too old");
  static Domain domain(api);
  if (domain.status != nullptr) return api->CreateStatus(ORT_FAIL, api->GetErrorMessage(domain.status));
  return api->AddCustomOpDomain(options, domain.made);
}
