# Compiles nccl_program.c against the header of NVIDIA and runs it with our library: what was built
# for NCCL runs on it unchanged. The library also has every function that the header of its level
# declares.
#   cmake -D HEADERS=FOLDER -D SOURCE=... -D LIBRARY=libnccl.so.2 -D CC=... -D WORK=... -P real_header.cmake
if(NOT EXISTS ${HEADERS}/nccl.h)
  message("skipped: no ${HEADERS}/nccl.h; scripts/fetch-nccl-header gets it from PyPI (300 MB)")
  return()
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\n${output}\nexit status: ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${WORK})
get_filename_component(folder ${LIBRARY} DIRECTORY)
run(${CC} -std=c11 -O1 -I ${HEADERS} -I ${SOURCE}/cuda_types ${SOURCE}/nccl_program.c
    ${SOURCE}/nccl_abi.c -o ${WORK}/program -L ${folder} -lnccl -Wl,-rpath,${folder})
foreach(ranks 1 2 4)
  run(${WORK}/program ${ranks} all)
  message("${output}")
endforeach()

file(READ ${HEADERS}/nccl.h header)
run(nm -D --defined-only ${LIBRARY})
string(REGEX MATCH "NCCL_VERSION_CODE ([0-9]+)" version "${header}")
if(CMAKE_MATCH_1 LESS 22800)
  string(REGEX MATCHALL "[ \n]p?nccl[A-Z][A-Za-z0-9]+\\(" declared "${header}")
  foreach(function IN LISTS declared)
    string(REGEX REPLACE "[ \n(]" "" function "${function}")
    if(NOT output MATCHES " ${function}\n")
      message(FATAL_ERROR "${LIBRARY} lacks ${function}, which the header declares")
    endif()
  endforeach()
  list(LENGTH declared count)
  message("${count} functions of the header, all there")
endif()
message("agrees with the header of NVIDIA")
