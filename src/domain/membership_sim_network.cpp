// The network between the hosts: streams that are delayed, held by cuts, and broken.

#include "membership_sim_cluster.hpp"

namespace imex::domain::membership_sim {

using namespace std::chrono_literals;

namespace {

constexpr Nanos kConnectTimeout = 2s;

}  // namespace

void Cluster::retire(const std::shared_ptr<Stream>& s) {
  s->open = false;
  for (auto& way : s->ways) way.clear();
  streams_.erase(s);
}

void Cluster::close(const std::shared_ptr<Stream>& s, bool by_dialler, bool notify) {
  retire(s);
  if (notify) at(delay(), [this, s, by_dialler] { tell_closed(s, by_dialler); });
}

void Cluster::tell_closed(const std::shared_ptr<Stream>& s, bool by_dialler) {
  const std::size_t speaker = by_dialler ? s->from : s->to, hearer = by_dialler ? s->to : s->from;
  const std::uint64_t run = by_dialler ? s->to_run : s->from_run;
  if (!hosts_[hearer].daemon || hosts_[hearer].daemon->run != run) return;
  if (cut(speaker, hearer)) return at(100ms, [this, s, by_dialler] { tell_closed(s, by_dialler); });
  if (by_dialler)
    step(hearer, InboundClosed{s->inbound});
  else
    step(hearer, StreamLost{s->target, s->attempt, true});
}

void Cluster::send(const std::shared_ptr<Stream>& s, bool to_acceptor,
                   std::function<void()> deliver) {
  auto& way = s->ways[to_acceptor ? 0 : 1];
  way.push_back(std::move(deliver));
  if (way.size() == 1) at(delay(), [this, s, to_acceptor] { pump(s, to_acceptor); });
}

void Cluster::pump(const std::shared_ptr<Stream>& s, bool to_acceptor) {
  auto& way = s->ways[to_acceptor ? 0 : 1];
  if (!s->open || way.empty()) return;
  const std::size_t a = to_acceptor ? s->from : s->to, b = to_acceptor ? s->to : s->from;
  if (!cut(a, b)) {
    auto deliver = std::move(way.front());
    way.pop_front();
    deliver();
  }
  if (!way.empty())
    at(cut(a, b) ? 50ms : delay(), [this, s, to_acceptor] { pump(s, to_acceptor); });
}

void Cluster::connect(std::size_t from, const Dial& d) {
  const std::uint64_t run = hosts_[from].daemon->run;
  std::size_t to = 0;
  while (to < hosts_.size() && hosts_[to].address != d.address) ++to;
  const auto failed = [this, from, run, d](bool refused) {
    if (alive(from, run))
      step(from, DialFailed{d.node, d.attempt, refused ? "refused" : "time-out", refused});
  };
  if (to == hosts_.size() || !hosts_[to].powered || cut(from, to) || cut(to, from)) {
    return at(kConnectTimeout, [failed] { failed(false); });
  }
  if (!hosts_[to].daemon) return at(delay(), [failed] { failed(true); });
  auto s = std::make_shared<Stream>();
  s->from = from;
  s->to = to;
  s->from_run = run;
  s->to_run = hosts_[to].daemon->run;
  s->attempt = d.attempt;
  s->inbound = ++inbounds_;
  s->target = d.node;
  s->from_node = d.hello.node;
  s->from_instance = d.hello.instance;
  streams_.insert(s);
  send(s, true, [this, s, hello = d.hello] { step(s->to, HelloReceived{s->inbound, hello}); });
}

bool Cluster::alive(std::size_t host, std::uint64_t run) const {
  return hosts_[host].daemon && hosts_[host].daemon->run == run;
}

std::shared_ptr<Stream> Cluster::dialled(std::size_t host, std::uint64_t attempt) {
  for (const auto& s : streams_) {
    if (s->from == host && s->attempt == attempt && alive(host, s->from_run)) return s;
  }
  return nullptr;
}

std::shared_ptr<Stream> Cluster::accepted(std::size_t host, std::uint64_t inbound) {
  for (const auto& s : streams_) {
    if (s->to == host && s->inbound == inbound) return s;
  }
  return nullptr;
}

}  // namespace imex::domain::membership_sim
