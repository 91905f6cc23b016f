/// Lock rules that clang checks (preset thread-safety); nothing with other compilers.
///
///     imex::Mutex mutex_;
///     std::size_t waiting_ IMEX_GUARDED_BY(mutex_) = 0;
///     void drop_all() IMEX_REQUIRES(mutex_);
#pragma once

#if defined(__clang__)
#define IMEX_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define IMEX_THREAD_ANNOTATION(x)
#endif

/// On a type: it is a lock.
#define IMEX_CAPABILITY(name) IMEX_THREAD_ANNOTATION(capability(name))
/// On a type: it holds a lock from construction to destruction.
#define IMEX_SCOPED_CAPABILITY IMEX_THREAD_ANNOTATION(scoped_lockable)
/// On a field: touched only while the lock is held.
#define IMEX_GUARDED_BY(mutex) IMEX_THREAD_ANNOTATION(guarded_by(mutex))
/// On a pointer: what it points to is touched only while the lock is held.
#define IMEX_PT_GUARDED_BY(mutex) IMEX_THREAD_ANNOTATION(pt_guarded_by(mutex))
/// On a function: the caller holds the lock.
#define IMEX_REQUIRES(...) IMEX_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// On a function: the caller must not hold the lock (it is taken inside).
#define IMEX_EXCLUDES(...) IMEX_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define IMEX_ACQUIRE(...) IMEX_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define IMEX_TRY_ACQUIRE(...) IMEX_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define IMEX_RELEASE(...) IMEX_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
/// On a function: the lock is held here, for a reason the analysis cannot see; state the reason.
#define IMEX_ASSERT_HELD(...) IMEX_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
/// On a getter: returns that lock.
#define IMEX_RETURN_CAPABILITY(mutex) IMEX_THREAD_ANNOTATION(lock_returned(mutex))
