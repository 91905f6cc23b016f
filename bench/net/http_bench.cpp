// How many requests a second the HTTP server answers, and how long one takes while many watchers
// are idle:
//
//     http_bench [--seconds 5] [--connections 64] [--watchers 1000] [--body 1024]
//
// The clients run in the same process, a thread for each connection, so that both sides share
// the machine's cores: a lower bound. JSON lines; times in microseconds.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/mutex.hpp"
#include "net/http/client.hpp"
#include "net/http/server.hpp"
#include "os/stream.hpp"

namespace imex::net::http {
namespace {

using BenchClock = std::chrono::steady_clock;

struct Settings {
  int seconds = 5;
  std::size_t connections = 64, watchers = 1000, body_bytes = 1024;
};

struct Samples {
  std::vector<double> microseconds;

  [[nodiscard]] double at(double quantile) {
    if (microseconds.empty()) return 0;
    std::ranges::sort(microseconds);
    const auto last = static_cast<double>(microseconds.size() - 1);
    return microseconds[static_cast<std::size_t>(quantile * last)];
  }
};

BenchClock::time_point far() { return BenchClock::now() + std::chrono::seconds(30); }

std::string url_of(const Server& server) {
  return fmt::format("http://127.0.0.1:{}", server.port());
}

/// Asks as fast as answers come, over one connection.
Samples ask_for(const std::string& url, BenchClock::time_point end, std::size_t body_bytes) {
  Samples samples;
  auto client = Client::make({.url = url});
  if (!client) return samples;
  while (BenchClock::now() < end) {
    const auto begin = BenchClock::now();
    const auto answer = (*client)->send({.path = "/object/17"}, far());
    if (!answer || answer->status != 200 || answer->body.size() != body_bytes) {
      std::fputs("a wrong answer\n", stderr);
      std::exit(1);
    }
    samples.microseconds.push_back(
        std::chrono::duration<double, std::micro>(BenchClock::now() - begin).count());
  }
  return samples;
}

void measure_rate(const Server& server, const Settings& settings) {
  std::vector<std::thread> threads;
  std::vector<Samples> parts(settings.connections);
  const auto begin = BenchClock::now();
  const auto end = begin + std::chrono::seconds(settings.seconds);
  for (Samples& part : parts) {
    threads.emplace_back(
        [&, out = &part] { *out = ask_for(url_of(server), end, settings.body_bytes); });
  }
  for (std::thread& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(BenchClock::now() - begin).count();
  Samples all;
  for (const Samples& part : parts) {
    all.microseconds.insert(all.microseconds.end(), part.microseconds.begin(),
                            part.microseconds.end());
  }
  fmt::print(
      "{{\"benchmark\":\"http_requests\",\"connections\":{},\"body_bytes\":{},\"n\":{},"
      "\"per_second\":{:.0f},\"p50_us\":{:.0f},\"p99_us\":{:.0f},\"max_us\":{:.0f}}}\n",
      settings.connections, settings.body_bytes, all.microseconds.size(),
      static_cast<double>(all.microseconds.size()) / took, all.at(0.5), all.at(0.99), all.at(1));
}

/// Connections that watch and say nothing.
std::vector<os::UniqueFd> open_watchers(const Server& server, std::size_t count) {
  std::vector<os::UniqueFd> sockets;
  for (std::size_t i = 0; i < count; ++i) {
    auto socket = os::begin_connect("127.0.0.1", server.port());
    if (!socket) break;
    while (!os::finish_connect(socket->get())) {
    }
    const std::string_view ask = "GET /watch HTTP/1.1\r\nHost: a\r\n\r\n";
    std::size_t sent = 0;
    while (sent < ask.size()) {
      const auto some = os::send_some(socket->get(), ask.substr(sent));
      if (some) sent += *some;
    }
    sockets.push_back(std::move(*socket));
  }
  while (server.counts().streams < sockets.size()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return sockets;
}

long resident_kib() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

void measure_watchers(const Server& server, const Settings& settings) {
  const long before = resident_kib();
  const auto watchers = open_watchers(server, settings.watchers);
  const long each =
      watchers.empty() ? 0 : (resident_kib() - before) * 1024 / static_cast<long>(watchers.size());
  Samples samples =
      ask_for(url_of(server), BenchClock::now() + std::chrono::seconds(settings.seconds),
              settings.body_bytes);
  const auto count = samples.microseconds.size();
  fmt::print(
      "{{\"benchmark\":\"http_behind_watchers\",\"watchers\":{},\"bytes_each\":{},\"n\":{},"
      "\"p50_us\":{:.0f},\"p99_us\":{:.0f},\"max_us\":{:.0f}}}\n",
      watchers.size(), each, count, samples.at(0.5), samples.at(0.99), samples.at(1));
}

int run(const Settings& settings) {
  Mutex mutex;
  std::vector<ResponseStream> streams;
  Router router;
  const std::string body(settings.body_bytes, 'x');
  router.add(Method::kGet, "/object/{id}",
             [&](const Request&) { return Response::json(200, body); });
  router.add(Method::kGet, "/watch", [&](const Request&) {
    auto stream = ResponseStream::create();
    const MutexLock lock(mutex);
    streams.push_back(stream);
    return Response::streamed("text/event-stream", std::move(stream));
  });
  auto server = Server::start({.listeners = {{.address = "127.0.0.1:0"}}}, std::move(router));
  if (!server) {
    fmt::print(stderr, "{}\n", server.error().to_string());
    return 1;
  }
  measure_rate(**server, settings);
  measure_watchers(**server, settings);
  return 0;
}

}  // namespace
}  // namespace imex::net::http

int main(int argc, char** argv) {
  imex::net::http::Settings settings;
  CLI::App app{"Requests a second and latency of the HTTP server"};
  app.add_option("--seconds", settings.seconds)->check(CLI::Range(1, 600));
  app.add_option("--connections", settings.connections)->check(CLI::Range(1, 1000));
  app.add_option("--watchers", settings.watchers)->check(CLI::Range(0, 20000));
  app.add_option("--body", settings.body_bytes)->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  return imex::net::http::run(settings);
}
