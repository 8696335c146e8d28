# Writes OUT, the definition of build_info() (experiments/results/build_info.h), when it is not what it was.
# cmake -DSOURCE=<checkout> -DOUT=<file> -DCOMPILER=<name and version> -DFLAGS=<flags> -DUNITY=<true or false> -P build_info.cmake

set(commit "")
set(dirty false)
find_program(GIT_PROGRAM git)
if(GIT_PROGRAM AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT_PROGRAM} -C ${SOURCE} rev-parse HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT_PROGRAM} -C ${SOURCE} status --porcelain --untracked-files=no
                  OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(changes)
    set(dirty true)
  endif()
endif()
set(text "#include \"experiments/results/build_info.h\"

namespace paceline {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo{R\"(${commit})\", ${dirty}, R\"(${COMPILER})\", R\"(${FLAGS})\", ${UNITY}};
  return kInfo;
}

}  // namespace paceline
")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
