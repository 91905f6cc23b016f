# cmake -D CASE=... -D EXPECT=... -D STEP=configure|build -P layer_test.cmake
# Configures (and builds) the small project in layers/ and requires it to fail with text EXPECT, or,
# with EXPECT empty, to succeed.
set(dir ${WORK}/${CASE})
file(REMOVE_RECURSE ${dir})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${dir} -G Ninja -D CASE=${CASE} -D IMEX_CMAKE=${IMEX_CMAKE}
          -D CMAKE_CXX_COMPILER=${CXX}
  RESULT_VARIABLE configured OUTPUT_VARIABLE out ERROR_VARIABLE out)
set(result ${configured})
if(configured EQUAL 0)
  if(STEP STREQUAL configure AND NOT EXPECT STREQUAL "")
    message(FATAL_ERROR "case ${CASE}: the configure should have failed:\n${out}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${dir} RESULT_VARIABLE result OUTPUT_VARIABLE out
                  ERROR_VARIABLE out)
elseif(STEP STREQUAL build)
  message(FATAL_ERROR "case ${CASE}: the configure failed:\n${out}")
endif()

if(EXPECT STREQUAL "")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "case ${CASE}: should build:\n${out}")
  endif()
  return()
endif()
if(result EQUAL 0)
  message(FATAL_ERROR "case ${CASE}: should have failed with '${EXPECT}'")
endif()
string(REGEX REPLACE "[ \n]+" " " flat "${out}")  # CMake wraps its messages
string(FIND "${flat}" "${EXPECT}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "case ${CASE}: failed, but not with '${EXPECT}':\n${out}")
endif()
