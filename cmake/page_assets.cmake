# Writes page_assets.cpp: the style and the scripts of report.html as texts in the program, so that it needs no file beside
# itself. The order of the scripts is the order in which they run. The list of files is tuner/report/page itself.
function(moetune_page_assets variable)
  set(folder ${CMAKE_SOURCE_DIR}/tuner/report/page)
  set(style page.css)
  set(shared_script base.js svg.js table.js points.js)
  set(report_script trials.js pick.js front.js knobs.js cache.js tax.js history.js predicted.js report.js)
  set(compare_script compare.js)
  set(output ${CMAKE_BINARY_DIR}/generated/page_assets.cpp)
  set(inputs "")
  set(parts "")
  foreach(part style shared_script report_script compare_script)
    list(TRANSFORM ${part} PREPEND ${folder}/ OUTPUT_VARIABLE paths)
    list(APPEND inputs ${paths})
    string(REPLACE ";" "," names "${${part}}")
    list(APPEND parts -D ${part}=${names})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${folder} -D OUTPUT=${output} ${parts} -P ${CMAKE_SOURCE_DIR}/cmake/write_page_assets.cmake
    DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/cmake/write_page_assets.cmake
    COMMENT "page_assets.cpp" VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
