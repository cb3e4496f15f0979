// Pieces of HTML that pages of ours share. Texts are escaped here; arguments named html are markup already.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace moetune {

// One cell is markup already: make it with html_text() or html_code().
using HtmlRow = std::vector<std::string>;

std::string html_code(std::string_view text);
std::string html_paragraph(std::string_view text, std::string_view css_class = "");
// Without rows: empty. caption: read out before the table.
std::string html_table(std::string_view caption, const std::vector<std::string>& headings,
                       const std::vector<HtmlRow>& rows);
// <section> with a heading; id: for links and scripts, a word.
std::string html_section(std::string_view id, std::string_view heading, std::string_view html);
// Where a script draws: a figure with a caption, and the chart's table folded below it.
std::string html_chart(std::string_view id, std::string_view caption);

// A whole page: style, script and data embedded, and a policy that forbids every request.
// script: "report" or "compare", the page's own part beside the shared ones.
std::string html_page(std::string_view title, std::string_view html, std::string_view script,
                      const nlohmann::json& data);

}  // namespace moetune
