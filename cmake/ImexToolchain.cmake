# Compiler, linker and warning set-up. Everything hangs on the interface target imex_warnings, which
# each of our own targets links privately; nothing is set globally except sanitizers (all or nothing).

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(imex_warnings INTERFACE)
target_compile_options(imex_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast -Wnon-virtual-dtor>
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wnull-dereference>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-Wmissing-declarations>
  # GCC 12 sees overlapping copies where std::string inserts at the front (its bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  # In a batch a source sees the names of those before it, and takes their anonymous namespaces for those
  # of a header; a build without batches still warns.
  $<$<BOOL:${CMAKE_UNITY_BUILD}>:-Wno-shadow>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-subobject-linkage;-Wno-mismatched-new-delete>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety;-Werror=thread-safety>
  $<$<BOOL:${IMEX_WERROR}>:-Werror>)

# mold links in a fraction of the time of ld; the sanitizer runtimes link with it as well.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(IMEX_SANITIZE)
  add_compile_options(-fsanitize=${IMEX_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IMEX_SANITIZE})
  if(IMEX_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# libFuzzer wants its counters in the code under test too; sanitizers make what it finds visible.
if(IMEX_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "IMEX_FUZZ needs clang: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
                      -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()

if(IMEX_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

# Our own targets only: imex_module, imex_test and imex_app call this.
function(imex_lint target)
  if(IMEX_TIDY)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "clang-tidy-19;--quiet")
  endif()
endfunction()
