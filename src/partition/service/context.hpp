/// What all operations share: roles, entities of the caller, lists and pages, transactions.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partition/model/json_writer.hpp"
#include "partition/service/service.hpp"
#include "refusal.hpp"

namespace imex::partition {

// ---- Roles. Each refuses with 403.
[[nodiscard]] Checked<void> need_tenant_admin(const Caller& caller);
[[nodiscard]] Checked<void> need_provider_admin(const Caller& caller);
[[nodiscard]] Checked<void> need_provider(const Caller& caller);
[[nodiscard]] Checked<void> need_anyone(const Caller& caller);
[[nodiscard]] bool is_provider(const Caller& caller);
[[nodiscard]] bool is_tenant(const Caller& caller);

// ---- Transactions
using ReadWork = std::function<Checked<Answer>(ReadTransaction&)>;
using WriteWork = std::function<Checked<Answer>(WriteTransaction&)>;
[[nodiscard]] Answer answer_of(Checked<Answer> checked);
[[nodiscard]] Answer reading(Store& store, const ReadWork& work);
/// With `dryRun=true` in the query nothing stays, and the answer is 200 with what would have been:
/// {dryRun, status, object, operations}.
[[nodiscard]] Answer writing(Store& store, const Request& request, const WriteWork& work);
/// Steps on the fabric between what is wanted and what is there; for dry runs.
[[nodiscard]] std::vector<OperationRecord> planned_operations(const DesiredDomain& desired);

[[nodiscard]] Answer json_answer(int status, JsonWriter&& json);
/// DELETE answers in plain text.
[[nodiscard]] Answer deletion_accepted();

// ---- Entities
/// The caller's tenant; `status` if the org never made one.
[[nodiscard]] Checked<Tenant> own_tenant(ReadTransaction& t, const Caller& caller,
                                         int status = 400);
[[nodiscard]] Checked<Provider> own_provider(ReadTransaction& t, const Caller& caller,
                                             int status = 400);
[[nodiscard]] Checked<Uuid> uuid_of(std::string_view text, std::string_view what);
template <class T>
[[nodiscard]] Checked<typename KeyOf<T>::Type> path_id(const Request& request,
                                                       std::string_view what) {
  IMEX_GET(const Uuid id, uuid_of(request.path.at(0), what));
  return typename KeyOf<T>::Type{id};
}
/// Refuses with 404 if absent and 403 if another tenant's.
template <class T>
[[nodiscard]] Checked<T> own(ReadTransaction& t, const Tenant& tenant,
                             const typename KeyOf<T>::Type& id, std::string_view what) {
  IMEX_GET(std::optional<T> found, t.find<T>(id));
  if (!found) return refuse(404, std::string(what) + " " + id.to_string() + " does not exist");
  if (found->tenant != tenant.id)
    return refuse(403, std::string(what) + " " + id.to_string() + " belongs to another tenant");
  return std::move(*found);
}
[[nodiscard]] Checked<bool> has_allocation(ReadTransaction& t, const Tenant& tenant,
                                           const SiteId& site);

// ---- Lists
struct Ordering {
  std::string_view name;  ///< "NAME": NAME_ASC, NAME_DESC
  Field field;
};
struct ListRequest {
  ListQuery query;
  std::uint64_t page_number = 1;
  std::uint64_t page_size = 20;
  std::optional<std::string> order_by;
};
/// pageNumber, pageSize, orderBy, query. Refuses with 400.
[[nodiscard]] Checked<ListRequest> list_request(const Query& query,
                                                std::initializer_list<Ordering> orderings);
/// Adds a repeatable filter of UUIDs, of names of a status, or of any text. Refuses with 400.
[[nodiscard]] Checked<void> filter_ids(ListRequest& list, const Query& query,
                                       std::string_view parameter, Field field);
[[nodiscard]] Checked<void> filter_status(ListRequest& list, const Query& query, Kind kind);
[[nodiscard]] Checked<void> filter_text(ListRequest& list, const Query& query,
                                        std::string_view parameter, Field field);
[[nodiscard]] Checked<bool> flag(const Query& query, std::string_view parameter);
/// What is asked for with includeRelation; each must be in `allowed`.
class Relations {
 public:
  [[nodiscard]] static Checked<Relations> of(const Query& query,
                                             std::initializer_list<std::string_view> allowed);
  [[nodiscard]] bool has(std::string_view relation) const;

 private:
  std::vector<std::string> asked_;
};
[[nodiscard]] std::string pagination_of(const ListRequest& list, std::uint64_t total);

/// Runs a list: `render` writes one row.
template <class T, class Render>
[[nodiscard]] Checked<Answer> answer_list(ReadTransaction& t, const ListRequest& list,
                                          const Render& render) {
  IMEX_GET(const Page<T> page, t.page<T>(list.query));
  JsonWriter json;
  json.begin_array();
  for (const T& row : page.rows) IMEX_PASS(render(json, row));
  json.end_array();
  Answer answer = json_answer(200, std::move(json));
  answer.pagination = pagination_of(list, page.total);
  return answer;
}

}  // namespace imex::partition
