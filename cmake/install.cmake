# Installed layout: bin/moetune and share/moetune/{models,search_spaces,profiles,...}; the program finds its data beside itself
# (../share/moetune). Component "moetune" is what users install; "tests" goes into bundles only (cmake/bundle.sh).
if(TARGET moetune)
  install(TARGETS moetune RUNTIME DESTINATION bin COMPONENT moetune)
endif()
if(MOETUNE_HAS_CUDA)
  install(TARGETS moetune_kernels LIBRARY DESTINATION lib COMPONENT moetune)
endif()
install(DIRECTORY engine/models/ DESTINATION share/moetune/models COMPONENT moetune OPTIONAL
        PATTERN "*.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY search_spaces profiles DESTINATION share/moetune COMPONENT moetune OPTIONAL)
install(DIRECTORY tuner/export/flags/ DESTINATION share/moetune/server_flags COMPONENT moetune FILES_MATCHING PATTERN "*.json")
install(FILES reports/claims.json DESTINATION share/moetune COMPONENT moetune)
install(FILES LICENSE NOTICE README.md DESTINATION share/doc/moetune COMPONENT moetune)

# Man page and completions are what the program prints of itself, so that they cannot be stale.
if(TARGET moetune AND NOT CMAKE_CROSSCOMPILING)
  foreach(pair "share/man/man1/moetune.1|man" "share/bash-completion/completions/moetune|completions;bash"
               "share/zsh/site-functions/_moetune|completions;zsh" "share/fish/vendor_completions.d/moetune.fish|completions;fish")
    string(REPLACE "|" ";" pair "${pair}")
    list(POP_FRONT pair file)
    list(JOIN pair " " arguments)
    install(CODE "
      get_filename_component(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:moetune>\" ${arguments} OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\" COMMAND_ERROR_IS_FATAL ANY)"
            COMPONENT moetune)
  endforeach()
endif()

get_property(test_programs GLOBAL PROPERTY moetune_test_programs)
# Plain data and pure logic: what holds on one machine holds on the next, and the bundle has a limit.
list(REMOVE_ITEM test_programs facts_tests tuner_tests)
if(test_programs)
  install(TARGETS ${test_programs} RUNTIME DESTINATION tests COMPONENT tests)
  install(TARGETS fake_nvml fake_driver LIBRARY DESTINATION tests COMPONENT tests)
endif()
install(DIRECTORY tests/golden tests/traces tests/flows DESTINATION tests COMPONENT tests OPTIONAL)
