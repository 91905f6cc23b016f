// What a program outside the tree can do without a daemon: memory, signals, and a clear refusal.
#include <cstdio>

#include <imex/imex.hpp>

/// A communicator of one rank: linked, and its vector code found.
bool sums() {
  const auto rendezvous = imex::Rendezvous::create();
  if (!rendezvous) return false;
  auto alone = imex::Communicator::create(rendezvous->id(), 0, 1);
  float value = 3;
  return alone &&
         alone->all_reduce(&value, &value, 1, imex::DataType::kFloat32, imex::ReduceOp::kSum) &&
         value == 3;
}

int main() {
  if (!sums()) return 4;
  auto memory = imex::Allocation::create(1 << 16);
  if (!memory) return 1;
  auto* cell = reinterpret_cast<imex::SignalCell*>(memory->data());
  imex::Signal(*cell).notify(2);
  if (!imex::Signal(*cell).wait_until(2, {}).ok()) return 2;
  const auto session = imex::Session::open({.channel = "/nonexistent/channel0"});
  if (session || session.error().code != imex::Errc::kNotFound) return 3;
  std::printf("consumer of %s: %s\n", IMEX_VERSION_STRING, session.error().to_string().c_str());
  return 0;
}
