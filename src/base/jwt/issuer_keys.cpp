#include "issuer_keys.hpp"

#include <utility>

#include <fmt/format.h>

#include "os/file.hpp"

namespace imex::jwt {

namespace {

/// "https://host:port/path" to the origin and the path.
std::pair<std::string, std::string> split_url(const std::string& url) {
  const auto slash = url.find('/', url.find("://") + 3);
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

}  // namespace

IssuerKeys::SteadyTime IssuerKeys::now() const {
  return options_.clock ? options_.clock() : std::chrono::steady_clock::now();
}

Result<std::string> IssuerKeys::fetch_text() {
  if (options_.fetch) return options_.fetch(issuer_);
  const std::string& from = issuer_.key_set;
  if (!from.starts_with("http://") && !from.starts_with("https://")) {
    return os::read_file(from, KeySet::kBytesMax);
  }
  const auto [origin, path] = split_url(from);
  net::http::ClientOptions client_options{.url = origin, .tls = issuer_.tls};
  client_options.body_bytes_max = KeySet::kBytesMax;
  IMEX_TRY(const auto client, net::http::Client::make(std::move(client_options)));
  IMEX_TRY(auto answer,
           client->send({.path = path}, std::chrono::steady_clock::now() + options_.fetch_timeout));
  if (answer.status != 200) {
    return fail(Errc::kUnavailable, fmt::format("{}: status {}", from, answer.status));
  }
  return std::move(answer.body);
}

void IssuerKeys::fetch() {
  fetching_ = true;
  tried_ = true;
  tried_at_ = now();
  mutex_.unlock();
  auto text = fetch_text();
  auto parsed = text ? KeySet::parse(*text) : Result<KeySet>(fail(std::move(text).error()));
  if (!parsed && options_.on_problem) {
    Error problem = parsed.error();
    options_.on_problem(std::move(problem).context("keys of issuer " + issuer_.name));
  }
  mutex_.lock();
  fetching_ = false;
  if (parsed) {
    now_ = {std::make_shared<const KeySet>(std::move(*parsed)), now_.generation + 1};
    good_at_ = now();
  } else {
    last_problem_ = std::move(parsed).error();
  }
  fetched_.notify_all();
}

void IssuerKeys::wait_for_other() {
  const auto deadline = std::chrono::steady_clock::now() + options_.fetch_timeout;
  while (fetching_ && fetched_.wait_until(mutex_, deadline)) {
  }
}

Result<KeysNow> IssuerKeys::current() {
  const MutexLock lock(mutex_);
  const SteadyTime at = now();
  if (now_.keys && at - good_at_ >= options_.keys_age_max) now_.keys.reset();
  const bool old = !now_.keys || at - good_at_ >= options_.refresh_interval;
  const bool rested = !tried_ || at - tried_at_ >= options_.retry_interval;
  if (old && !fetching_ && rested) {
    fetch();
  } else if (!now_.keys && fetching_) {
    wait_for_other();
  }
  if (now_.keys) return now_;
  return fail(Errc::kUnavailable,
              fmt::format("no keys of issuer {}: {}", issuer_.name, last_problem_.message),
              "check its key set's path or URL");
}

std::optional<KeysNow> IssuerKeys::newer_than(const KeysNow& seen) {
  const MutexLock lock(mutex_);
  if (now_.generation == seen.generation) {
    if (fetching_) {
      wait_for_other();
    } else if (now() - tried_at_ >= options_.unknown_key_interval) {
      fetch();
    }
  }
  if (now_.generation == seen.generation || !now_.keys) return std::nullopt;
  return now_;
}

}  // namespace imex::jwt
