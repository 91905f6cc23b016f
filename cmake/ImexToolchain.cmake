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
