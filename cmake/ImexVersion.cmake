# Run with cmake -P at build time: fills the template of src/base/version.
find_package(Git QUIET)
set(IMEX_GIT "")
if(GIT_FOUND)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} --no-optional-locks describe --always --tags --dirty
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE IMEX_GIT OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()
if(IMEX_GIT STREQUAL "")
  set(IMEX_GIT unknown)
endif()
if(IMEX_BUILD_TYPE STREQUAL "")
  set(IMEX_BUILD_TYPE None)
endif()
if(NOT SANITIZE STREQUAL "")
  string(REPLACE "," "+" SANITIZE "${SANITIZE}")
  string(APPEND IMEX_BUILD_TYPE "+${SANITIZE}")
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)  # leaves the file alone when the content is the same
