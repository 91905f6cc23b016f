// Tokens and key sets from strangers. The first byte chooses: a key set, a token against real keys.
// No token that this key did not sign is believed, and no input of a fuzzer is signed by it.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "jwt/key_set.hpp"
#include "jwt/signer.hpp"
#include "jwt/verifier.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

imex::jwt::Verifier& verifier() {
  using namespace imex;
  static const jwt::Signer signer = *jwt::Signer::generate(jwt::Algorithm::kEs256);
  static const std::string keys = signer.key_set();
  static jwt::Verifier made(
      {.issuers = {{.name = "fuzz", .issuer = "a"}},
       .fetch = [](const jwt::Issuer&) -> Result<std::string> { return keys; }});
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto set = jwt::KeySet::parse(text);
    IMEX_ASSERT(!set || set->size() <= jwt::KeySet::kKeysMax, "bounded");
    if (set) static_cast<void>(set->verify(jwt::Algorithm::kEs256, "", "a", std::string(64, 'b')));
  } else {
    IMEX_ASSERT(!verifier().verify(text), "only what the key has signed is believed");
  }
  return 0;
}
