#include "refusal.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "json/json.hpp"

namespace imex::partition::client {
namespace {

/// Longest part of a stranger's text that goes into a message.
constexpr std::size_t kShownMax = 512;

struct ErrorBody {
  std::string message;
  std::string details;  ///< "field: problem; field: problem"
  bool names_existing = false;
};

/// The API's own errors are {source, message, data}; a proxy's may be anything.
ErrorBody read_body(const net::http::ClientResponse& answer) {
  ErrorBody body;
  const auto parsed = json::parse(answer.body, "error");
  if (!parsed || !parsed->is_object()) return body;
  if (const auto message = json::optional_string(*parsed, "message"); message && *message)
    body.message = (*message)->substr(0, kShownMax);
  const nlohmann::json* const data = json::find(*parsed, "data");
  if (data == nullptr || !data->is_object()) return body;
  for (const auto& [key, value] : data->items()) {
    body.names_existing = body.names_existing || key == "id";
    if (body.details.size() > kShownMax) break;
    if (!body.details.empty()) body.details += "; ";
    body.details += fmt::format(
        "{}: {}", key, value.is_string() ? value.get<std::string>() : json::text_of(value));
  }
  return body;
}

Errc code_of(unsigned status, net::http::Method method, bool names_existing) {
  switch (status) {
    // A delete says nothing that could be malformed: it was refused for what needs the object.
    case 400:
    case 422:
      return method == net::http::Method::kDelete ? Errc::kFailedPrecondition
                                                  : Errc::kInvalidArgument;
    case 401:
    case 403:
      return Errc::kPermissionDenied;
    case 404:
      return Errc::kNotFound;
    case 409:
      return names_existing ? Errc::kAlreadyExists : Errc::kFailedPrecondition;
    case 412:
      return Errc::kFailedPrecondition;
    case 429:
      return Errc::kResourceExhausted;
    case 501:
      return Errc::kUnsupported;
    case 502:
    case 503:
      return Errc::kUnavailable;
    case 504:
      return Errc::kDeadlineExceeded;
    default:
      return status < 500 ? Errc::kFailedPrecondition : Errc::kInternal;
  }
}

std::string_view hint_of(unsigned status) {
  switch (status) {
    case 401:
      return "the token is missing, expired or of an issuer that the controller does not "
             "know: give another with --token-file";
    case 403:
      return "the token's org or roles do not reach that far: check --org, and that the "
             "token has the role TENANT_ADMIN";
    case 429:
      return "too many requests: wait a moment";
    case 502:
    case 503:
      return "the controller cannot work now: its /readyz says why";
    default:
      return {};
  }
}

}  // namespace

Error refusal(const net::http::ClientResponse& answer, net::http::Method method,
              std::string_view what) {
  const ErrorBody body = read_body(answer);
  std::string text = body.message.empty() ? std::string(net::http::status_text(answer.status))
                                          : printable(body.message);
  if (!body.details.empty()) text += fmt::format(" ({})", printable(body.details));
  return {code_of(answer.status, method, body.names_existing),
          fmt::format("{}: the controller answers {}: {}", what, answer.status, text),
          std::string(hint_of(answer.status))};
}

}  // namespace imex::partition::client
