// The C API of sessions, exports, imports and events.
#include <chrono>
#include <optional>

#include "base/result.hpp"
#include "c_support.hpp"

namespace {

using imex::c::failed;
using imex::c::from_scope;
using imex::c::give;
using imex::c::missing;
using imex::c::options_or_default;
using imex::c::to_scope;

std::optional<imex::AbortScope> optional_scope(imex_scope scope) {
  if (scope.cell == nullptr) return std::nullopt;
  return to_scope(scope);
}

imex_event to_event(const imex::SessionEvent& event) {
  imex_event result{};
  result.struct_size = sizeof result;
  result.id = event.id;
  result.kind = static_cast<uint32_t>(event.kind);
  result.rank = event.rank;
  result.reason = static_cast<uint32_t>(event.reason);
  result.silent_importers = event.silent_importers;
  return result;
}

}  // namespace

int imex_session_open(const imex_session_options* options, imex_session** out) {
  if (out == nullptr) return missing("out");
  auto chosen = options_or_default(imex_session_options IMEX_SESSION_OPTIONS_INIT, options);
  if (!chosen) return failed(std::move(chosen).error());
  if (chosen->channel == nullptr) return missing("channel");
  return give(imex::Session::open({.channel = chosen->channel,
                                   .gpu_index = chosen->gpu_index,
                                   .gpu_uid = chosen->gpu_uid,
                                   .timeout = std::chrono::milliseconds(chosen->timeout_ms)}),
              out);
}

void imex_session_close(imex_session* session) { delete session; }
uint32_t imex_session_channel(const imex_session* session) { return session->value.channel(); }
uint16_t imex_session_node_id(const imex_session* session) { return session->value.node_id(); }
uint32_t imex_session_gpu_index(const imex_session* session) { return session->value.gpu_index(); }
uint64_t imex_session_gpu_uid(const imex_session* session) { return session->value.gpu_uid(); }

imex_scope imex_default_scope(const imex_session* session) {
  return from_scope(session->value.default_scope());
}

int imex_scope_create(imex_session* session, imex_scope* out) {
  if (session == nullptr) return missing("session");
  if (out == nullptr) return missing("out");
  auto scope = session->value.create_scope();
  if (!scope) return failed(std::move(scope).error());
  *out = from_scope(*scope);
  return IMEX_OK;
}

void imex_scope_release(imex_session* session, imex_scope scope) {
  session->value.release_scope(to_scope(scope));
}

// ---- exports ----

int imex_export_memory(imex_session* session, imex_allocation* allocation,
                       const imex_export_options* options, imex_export** out) {
  if (session == nullptr) return missing("session");
  if (allocation == nullptr) return missing("allocation");
  if (out == nullptr) return missing("out");
  auto chosen = options_or_default(imex_export_options IMEX_EXPORT_OPTIONS_INIT, options);
  if (!chosen) return failed(std::move(chosen).error());
  return give(
      session->value.export_memory(allocation->value,
                                   {.rank = chosen->rank, .scope = optional_scope(chosen->scope)}),
      out);
}

void imex_export_end(imex_export* exported) { delete exported; }

imex_handle imex_export_handle(const imex_export* exported) {
  imex_handle handle;
  std::memcpy(handle.bytes, exported->value.handle().bytes.data(), sizeof handle.bytes);
  return handle;
}

uint64_t imex_export_id(const imex_export* exported) { return exported->value.id(); }
uint32_t imex_export_generation(const imex_export* exported) {
  return exported->value.generation();
}

int imex_re_export(imex_session* session, imex_export* exported) {
  if (session == nullptr) return missing("session");
  if (exported == nullptr) return missing("exported");
  auto done = session->value.re_export(exported->value);
  return done ? IMEX_OK : failed(std::move(done).error());
}

// ---- imports ----

int imex_import_memory(imex_session* session, const imex_handle* handle,
                       const imex_import_options* options, imex_import** out) {
  if (session == nullptr) return missing("session");
  if (handle == nullptr) return missing("handle");
  if (out == nullptr) return missing("out");
  auto chosen = options_or_default(imex_import_options IMEX_IMPORT_OPTIONS_INIT, options);
  if (!chosen) return failed(std::move(chosen).error());
  if (chosen->on_loss > IMEX_ON_LOSS_KEEP) {
    return failed({imex::Errc::kInvalidArgument,
                   "import memory: on_loss " + std::to_string(chosen->on_loss) + " is no policy",
                   "set it to one of imex_loss_policy", imex::kNoRank});
  }
  imex::Handle name;
  std::memcpy(name.bytes.data(), handle->bytes, sizeof handle->bytes);
  return give(session->value.import_memory(
                  name, {.rank = chosen->rank,
                         .scope = optional_scope(chosen->scope),
                         .on_loss = static_cast<imex::LossPolicy>(chosen->on_loss)}),
              out);
}

void imex_import_end(imex_import* imported) { delete imported; }
void* imex_import_data(const imex_import* imported) {
  return const_cast<std::byte*>(imported->value.data());
}
size_t imex_import_size(const imex_import* imported) { return imported->value.size(); }
uint64_t imex_import_id(const imex_import* imported) { return imported->value.id(); }
uint32_t imex_import_exporter_rank(const imex_import* imported) {
  return imported->value.exporter_rank();
}
uint32_t imex_import_generation(const imex_import* imported) {
  return imported->value.generation();
}

int imex_operation_begin(imex_import* imported, imex_operation** out) {
  if (imported == nullptr) return missing("imported");
  if (out == nullptr) return missing("out");
  return give(imported->value.begin_operation(), out);
}

void imex_operation_end(imex_operation* operation) { delete operation; }

// ---- events ----

int imex_event_fd(const imex_session* session) { return session->value.event_fd(); }

int imex_next_event(imex_session* session, imex_event* out) {
  if (session == nullptr) return missing("session");
  if (out == nullptr) return missing("out");
  if (out->struct_size < sizeof(imex_event)) {
    return failed({imex::Errc::kInvalidArgument, "next event: struct_size is too small",
                   "set it to sizeof(imex_event)", imex::kNoRank});
  }
  const auto event = session->value.next_event();
  if (!event) return failed({imex::Errc::kNotFound, "no event waits"});
  // A structure that grew keeps what this release does not know.
  const size_t bytes = out->struct_size;
  *out = to_event(*event);
  out->struct_size = bytes;
  return IMEX_OK;
}

uint64_t imex_events_dropped(const imex_session* session) {
  return session->value.events_dropped();
}

void imex_on_event(imex_session* session, imex_event_callback callback, void* user) {
  if (callback == nullptr) return session->value.on_event(nullptr);
  session->value.on_event([callback, user](const imex::SessionEvent& event) {
    const imex_event told = to_event(event);
    callback(&told, user);
  });
}
