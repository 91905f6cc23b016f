# One call declares a room: its library, its public headers, its tests, and its place in the layers.
#
#   imex_module(memory LAYER 40
#     HEADERS include/memory/segment.hpp        # for other rooms; each is compiled alone
#     SOURCES segment.cpp
#     DEPS    base os                           # rooms; each must lie in a lower layer
#     LIBS    PkgConfig::sodium                 # third-party, private to the room
#     TESTS   segment_test.cpp                  # one executable memory_test, label "unit"
#     OPTIMISED_TESTS                           # if these compute much themselves; see imex_test
#     COMPUTES                                  # optimised under sanitizers, too: its tests would take minutes else
#     NO_THREADS                                # no threads and no locks: nothing for TSan and lock analysis
#     NO_TSAN)                                  # tests run under TSan only with -DIMEX_TSAN_ALL=ON: much code for
#                                               # what the exchange's own tests show
#
# Makes targets imex_memory (static, position independent) and imex_memory_test. Include folders
# belong to targets, so the header of a room that is not in DEPS is not found.

function(imex_module name)
  cmake_parse_arguments(M "OPTIMISED_TESTS;COMPUTES;NO_THREADS;NO_TSAN" "LAYER" "HEADERS;SOURCES;DEPS;LIBS;PUBLIC_LIBS;TESTS;TEST_LIBS;TEST_DEPS" ${ARGN})
  if(M_UNPARSED_ARGUMENTS OR NOT DEFINED M_LAYER)
    message(FATAL_ERROR "imex_module(${name}): needs LAYER; unknown arguments: '${M_UNPARSED_ARGUMENTS}'")
  endif()
  set(target imex_${name})
  if(M_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${M_SOURCES})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${target} PRIVATE imex_warnings ${M_LIBS})
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    if(IMEX_SANITIZE AND NOT M_COMPUTES)
      target_compile_options(${target} PRIVATE -O0)  # halves the time of an instrumented build
    endif()
    imex_lint(${target})
    if(NOT M_NO_THREADS)
      set_property(GLOBAL APPEND PROPERTY IMEX_ROOMS ${target})
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  if(M_HEADERS)
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${M_HEADERS})
  else()
    target_include_directories(${target} ${scope} ${CMAKE_CURRENT_SOURCE_DIR}/include)
  endif()
  target_compile_features(${target} ${scope} cxx_std_20)
  set_property(TARGET ${target} PROPERTY IMEX_LAYER ${M_LAYER})
  set_property(TARGET ${target} PROPERTY IMEX_DEPS ${M_DEPS})
  foreach(dep IN LISTS M_DEPS)
    imex_check_layer(${name} ${M_LAYER} ${dep})
    target_link_libraries(${target} ${scope} imex_${dep})
  endforeach()
  target_link_libraries(${target} ${scope} ${M_PUBLIC_LIBS})
  set(under_tsan OFF)
  if(IMEX_SANITIZE MATCHES thread AND NOT IMEX_TSAN_ALL)
    set(under_tsan ON)
  endif()
  if(M_TESTS AND IMEX_TESTS AND NOT (under_tsan AND (M_NO_THREADS OR M_NO_TSAN)))
    set(optimised)
    if(M_OPTIMISED_TESTS)
      set(optimised OPTIMISED)
    endif()
    imex_test(${name}_test LABEL unit ${optimised} SOURCES ${M_TESTS} DEPS ${name} ${M_TEST_DEPS} LIBS ${M_TEST_LIBS})
    target_include_directories(${name}_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
endfunction()

function(imex_check_layer name layer dep)
  if(NOT TARGET imex_${dep})
    message(FATAL_ERROR "imex_module(${name}): no room '${dep}' (declared later, or misspelt)")
  endif()
  get_target_property(dep_layer imex_${dep} IMEX_LAYER)
  if(NOT dep_layer LESS layer)
    message(FATAL_ERROR "layer order: '${name}' (layer ${layer}) may not depend on '${dep}' "
                        "(layer ${dep_layer}); a room uses only rooms of lower layers")
  endif()
endfunction()

# imex_test(name LABEL unit|sim|integration|e2e SOURCES ... DEPS rooms... LIBS third-party...
#           [TIMEOUT seconds] [NO_MAIN] [OPTIMISED])
# A GoogleTest executable in test/, compiled without optimisation, which costs matchers more time than it
# saves, unless OPTIMISED says that the tests themselves compute. LABEL decides which aggregate target builds it (unit_tests, ...)
# and which runs include it: unit and sim also run under the sanitizers.
function(imex_test name)
  cmake_parse_arguments(T "NO_MAIN;OPTIMISED" "LABEL;TIMEOUT" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT DEFINED T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(IMEX_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 5")  # instrumented code is that much slower
  endif()
  add_executable(${name} ${T_SOURCES})
  list(TRANSFORM T_DEPS PREPEND imex_)
  target_link_libraries(${name} PRIVATE imex_warnings ${T_DEPS} ${T_LIBS} GTest::gmock)
  if(NOT T_NO_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  if(IMEX_SANITIZE OR NOT T_OPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  imex_lint(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT})
  set_property(GLOBAL APPEND PROPERTY IMEX_TESTS_${T_LABEL} ${name})
endfunction()

# imex_soak_test(exchange_soak_test "SoakTest.*" IMEX_SOAK_SECONDS=600)
# The same tests for long: label "soak", which no preset runs; `make soak` does.
function(imex_soak_test executable filter environment)
  add_test(NAME ${executable}.soak COMMAND ${executable} --gtest_filter=${filter})
  set_tests_properties(${executable}.soak PROPERTIES LABELS soak TIMEOUT 1800 RUN_SERIAL ON
    ENVIRONMENT ${environment})
endfunction()

# imex_app(imexd SOURCES main.cpp DEPS rooms... LIBS third-party...): an executable in bin/, installed.
function(imex_app name)
  cmake_parse_arguments(A "NO_INSTALL" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  list(TRANSFORM A_DEPS PREPEND imex_)
  target_link_libraries(${name} PRIVATE imex_warnings ${A_DEPS} ${A_LIBS})
  imex_lint(${name})
  if(NOT A_NO_INSTALL)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

# imex_fuzz(frame SOURCES frame_fuzz.cpp DEPS domain LIBS ... CORPUS data/frame)
# A fuzz target frame_fuzz from a file with LLVMFuzzerTestOneInput, label "fuzz". Preset fuzz: libFuzzer
# for one second in each test run, new inputs go to the build tree. Elsewhere the same target is linked
# with tests/fuzz/replay_main.cpp, which replays the kept corpus and mutates it for one second.
function(imex_fuzz name)
  cmake_parse_arguments(F "" "CORPUS" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target ${name}_fuzz)
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${F_CORPUS})
  list(TRANSFORM F_DEPS PREPEND imex_)
  add_executable(${target} ${F_SOURCES})
  target_link_libraries(${target} PRIVATE imex_warnings ${F_DEPS} ${F_LIBS})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  imex_lint(${target})
  if(IMEX_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(grown ${CMAKE_BINARY_DIR}/fuzz/corpus/${name})
    file(MAKE_DIRECTORY ${grown})
    add_test(NAME fuzz.${name} COMMAND ${target} -max_total_time=1 -max_len=65536 -rss_limit_mb=1024
                                       -timeout=5 -print_final_stats=1 ${grown} ${corpus})
  else()
    target_link_libraries(${target} PRIVATE imex_fuzz_replay)
    target_compile_options(${target} PRIVATE -O0)  # what it tests is in the rooms
    add_test(NAME fuzz.${name} COMMAND ${target} --seconds 1 ${corpus})
  endif()
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 60)
  set_property(GLOBAL APPEND PROPERTY IMEX_TESTS_fuzz ${target})
endfunction()

# Targets over everything declared so far; called once, at the end of the top CMakeLists.txt.
#   unit_tests, sim_tests, integration_tests, e2e_tests, fuzz_tests   executables of that label
#   rooms                                                             the libraries of all rooms that have threads or locks
#   format                                                            clang-format in place
#   docs                                                              docs/reference from the programs
function(imex_aggregate_targets)
  foreach(label unit sim integration e2e fuzz)
    get_property(targets GLOBAL PROPERTY IMEX_TESTS_${label})
    add_custom_target(${label}_tests DEPENDS ${targets})
  endforeach()
  get_property(rooms GLOBAL PROPERTY IMEX_ROOMS)
  add_custom_target(rooms DEPENDS ${rooms})
  add_custom_target(format COMMAND ${PROJECT_SOURCE_DIR}/scripts/format
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "clang-format" VERBATIM)
  add_custom_target(docs COMMAND ${PROJECT_SOURCE_DIR}/scripts/docs $<TARGET_FILE:imex>
                    DEPENDS imex COMMENT "Writing docs/reference from the programs" VERBATIM)
endfunction()
