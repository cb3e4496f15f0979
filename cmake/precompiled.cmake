# moetune_precompile(target [header...]): what most files of the target include is read once: a fifth of a cold build's time. A file that
# forgets one of these includes is not found out here, but by every build that has ccache, which compiles without, and by 'make tidy'.
if(MOETUNE_CCACHE)
  set(precompiles OFF)  # it would have to be told to trust the files' times
else()
  set(precompiles ON)
endif()
option(MOETUNE_PRECOMPILE "Precompile the standard library's headers and those of fmt, GoogleTest and nlohmann_json" ${precompiles})

set(moetune_standard_headers <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
    <stdexcept> <string> <string_view> <utility> <vector>)

function(moetune_precompile target)
  get_target_property(type ${target} TYPE)
  if(NOT MOETUNE_PRECOMPILE OR type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  foreach(header IN LISTS moetune_standard_headers ARGN)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
  # g++ 12 forgets with them that std::string is a system header, and warns of its own code.
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>")
endfunction()
