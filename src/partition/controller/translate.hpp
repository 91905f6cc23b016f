/// Between the words of the store, of fabric managers and of the reconciler.
#pragma once

#include <span>
#include <string>

#include "fabric/manager.hpp"
#include "partition/controller/metrics.hpp"
#include "partition/controller/settings.hpp"
#include "partition/model/reconciliation.hpp"
#include "partition/reconciler/domain_reconciler.hpp"

namespace imex::partition {

[[nodiscard]] reconciler::Desired desired_of(const DesiredDomain& wanted,
                                             const ControllerSettings& settings);

[[nodiscard]] reconciler::Observed observed_of(const fabric::Snapshot& snapshot, Time begun);
[[nodiscard]] DomainObservation observation_of(const fabric::Snapshot& snapshot,
                                               const DomainObservation& former, WallTime at);

/// A line of the journal as begun; `key` is that of this attempt.
[[nodiscard]] OperationRecord record_of(const Uuid& domain, const reconciler::Operation& operation,
                                        const std::string& key);
/// The operation of a line that was begun and never finished.
[[nodiscard]] reconciler::Operation operation_of(const OperationRecord& record,
                                                 const ControllerSettings& settings);

[[nodiscard]] reconciler::Outcome outcome_of(const fabric::Failure& failure);

/// What is to be written after comparing; only differences from `wanted`.
[[nodiscard]] WriteBack write_back_of(const DesiredDomain& wanted, const reconciler::Report& report,
                                      WallTime at);

[[nodiscard]] DomainCounts counts_of(const DesiredDomain& wanted, const fabric::Snapshot& snapshot,
                                     const reconciler::Report& report);

}  // namespace imex::partition
