// How --help looks: two columns within 80, whatever length the words have.
#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace moetune {

// For CLI::App::formatter(), before subcommands are added: they take it over. Paragraphs of descriptions and
// footers are broken here; a line of them that begins with a blank is an example and stays as it is.
std::shared_ptr<CLI::Formatter> help_formatter();

}  // namespace moetune
