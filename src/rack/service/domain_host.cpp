#include "domain_host.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "nmxc_handlers.hpp"
#include "os/file.hpp"
#include "os/process.hpp"
#include "state_file.hpp"
#include "tray_files.hpp"

namespace imex::rack {

DomainHost::DomainHost(DomainOptions options, HostFiles files, log::Logger& log,
                       std::function<void()> wake)
    : domain(std::move(options), random, os::now()),
      files_(std::move(files)),
      log_(log),
      wake_(std::move(wake)) {}

Result<void> DomainHost::open() {
  MutexLock lock(mutex);
  tray_texts_.resize(domain.shape().tray_count());
  if (!files_.tray_dir.empty()) IMEX_CHECK_OK(os::make_directories(files_.tray_dir, 0755));
  if (!files_.state.empty()) {
    IMEX_TRY(const auto state, read_state_file(files_.state));
    if (state) IMEX_CHECK_OK(domain.restore(*state, os::now()));
  }
  save();
  write_trays();
  settled_ = domain.revision();
  static_cast<void>(domain.take_events());
  return {};
}

void DomainHost::settle(const ::nmx_c::ServerNotification* change, const std::string& gateway) {
  if (change != nullptr) {
    for (const auto& subscriber : subscribers_) {
      if (subscriber->gateway != gateway || subscriber->own_changes) subscriber->tell(*change);
    }
  }
  tell_events(change != nullptr);
  if (domain.revision() == settled_) return;
  settled_ = domain.revision();
  save();
  write_trays();
  wake_();
}

void DomainHost::tell_all(const ::nmx_c::ServerNotification& note) {
  for (const auto& subscriber : subscribers_) subscriber->tell(note);
}

void DomainHost::tell_events(bool without_partitions) {
  for (const Event& event : domain.take_events()) {
    if (event.kind == Event::Kind::kRestarted) {
      end_streams();
      continue;
    }
    if (subscribers_.empty() || (without_partitions && event.kind == Event::Kind::kPartition))
      continue;
    ::nmx_c::ServerNotification note;
    ::nmx_c::ServerHeader header;
    nmxc::fill_header(domain, domain.instance(), ReturnCode::kSuccess, header);
    switch (event.kind) {
      case Event::Kind::kHealth:
        *note.mutable_health_state_changed()->mutable_server_header() = header;
        break;
      case Event::Kind::kInitDone:
        *note.mutable_init_done()->mutable_server_header() = header;
        break;
      case Event::Kind::kControlPlane:
        *note.mutable_fm_event()->mutable_server_header() = header;
        note.mutable_fm_event()->mutable_fm_event_control_plane_state_change();
        break;
      case Event::Kind::kTopology:
        *note.mutable_fm_event()->mutable_server_header() = header;
        note.mutable_fm_event()->mutable_fm_event_topology_change();
        break;
      default:
        *note.mutable_fm_event()->mutable_server_header() = header;
        note.mutable_fm_event()
            ->mutable_fm_event_partition_change()
            ->mutable_partition_id()
            ->set_partition_id(event.partition);
        break;
    }
    tell_all(note);
  }
}

void DomainHost::subscribe(std::shared_ptr<Subscriber> subscriber) {
  subscribers_.push_back(std::move(subscriber));
  wake_();
}

void DomainHost::unsubscribe(const Subscriber* subscriber) {
  std::erase_if(subscribers_, [&](const auto& known) { return known.get() == subscriber; });
}

void DomainHost::end_streams() {
  for (const auto& subscriber : subscribers_) subscriber->end();
}

Time DomainHost::pulse(Time now) {
  MutexLock lock(mutex);
  domain.advance(now);
  settle(nullptr, {});
  Time next = domain.next_change();
  for (const auto& subscriber : subscribers_) {
    if (subscriber->beat.count() == 0) continue;
    if (subscriber->next_beat <= now) {
      ::nmx_c::ServerNotification note;
      ::nmx_c::DomainStateInfo& state = *note.mutable_domain_state_info();
      const ReturnCode code = nmxc::handle(domain, ::nmx_c::GetDomainStateInfoRequest(), state,
                                           {now, std::chrono::system_clock::now()});
      nmxc::fill_header(domain, domain.instance(), code, *state.mutable_server_header());
      subscriber->tell(note);
      subscriber->next_beat = now + subscriber->beat;
    }
    next = std::min(next, subscriber->next_beat);
  }
  return next;
}

void DomainHost::save() {
  if (files_.state.empty()) return;
  std::string text = state_text(domain.save(os::now()));
  if (text == saved_text_) return;  // a link went down: shown, but not kept
  const auto written = write_state_file(files_.state, text);
  if (written) {
    saved_text_ = std::move(text);
    return;
  }
  log_.limited(log::Level::kError, "the state of a domain could not be saved",
               {{"domain", domain.options().name}, {"reason", written.error().to_string()}});
}

void DomainHost::forget() {
  if (!files_.state.empty()) os::remove_file(files_.state);
  saved_text_.clear();
}

void DomainHost::write_trays() {
  if (files_.tray_dir.empty()) return;
  for (unsigned tray = 0; tray < domain.shape().tray_count(); ++tray) {
    std::string text = tray_file_text(domain, tray);
    if (text == tray_texts_[tray]) continue;
    const std::string path = fmt::format("{}/tray-{:02}.toml", files_.tray_dir, tray);
    const auto written = write_tray_file(path, text);
    if (!written) {
      log_.limited(log::Level::kError, "a tray file could not be written",
                   {{"file", path}, {"reason", written.error().to_string()}});
      continue;
    }
    tray_texts_[tray] = std::move(text);
  }
}

}  // namespace imex::rack
