/// All of the C++ API: memory that processes share, across the nodes of an IMEX domain.
///
///     session.hpp     a process's place on a channel: export, import, events
///     allocation.hpp  memory that can be shared
///     handle.hpp      the 64 bytes that name an export
///     signal.hpp      counters in shared memory, to wait on
///     wait.hpp        deadlines, abort words, how to wait
///     communicator.hpp  ranks that swap data: all_reduce and the other collectives
///     data_type.hpp   element types and reductions
///     result.hpp      errors
///     version.h       which release
#pragma once

#include <imex/allocation.hpp>
#include <imex/communicator.hpp>
#include <imex/data_type.hpp>
#include <imex/handle.hpp>
#include <imex/result.hpp>
#include <imex/session.hpp>
#include <imex/signal.hpp>
#include <imex/version.h>
#include <imex/wait.hpp>
