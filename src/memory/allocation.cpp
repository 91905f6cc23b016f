#include <utility>

#include <imex/allocation.hpp>

#include "base/result.hpp"
#include "memory/host_allocation.hpp"

namespace imex {

Allocation::Allocation(std::shared_ptr<memory::HostAllocation> impl) noexcept
    : impl_(std::move(impl)) {}
Allocation::Allocation(Allocation&&) noexcept = default;
Allocation& Allocation::operator=(Allocation&&) noexcept = default;
Allocation::~Allocation() = default;

Result<Allocation> Allocation::create(std::size_t size_bytes, const AllocationOptions& options) {
  IMEX_TRY(auto impl, memory::HostAllocation::create(size_bytes, options));
  return Allocation(std::move(impl));
}

std::byte* Allocation::data() noexcept { return impl_->data(); }
const std::byte* Allocation::data() const noexcept { return impl_->data(); }
std::size_t Allocation::size() const noexcept { return impl_->size(); }
std::size_t Allocation::page_bytes() const noexcept { return impl_->page_bytes(); }

}  // namespace imex
