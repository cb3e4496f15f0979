#include "tuner/report/html_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tuner/report/escape.h"
#include "tuner/report/page_assets.h"

namespace moetune {

std::string html_code(std::string_view text) { return "<code>" + html_text(text) + "</code>"; }

std::string html_paragraph(std::string_view text, std::string_view css_class) {
  if (text.empty()) return "";
  return css_class.empty() ? "<p>" + html_text(text) + "</p>\n"
                           : fmt::format("<p class=\"{}\">{}</p>\n", css_class, html_text(text));
}

std::string html_table(std::string_view caption, const std::vector<std::string>& headings,
                       const std::vector<HtmlRow>& rows) {
  if (rows.empty()) return "";
  // A wide table scrolls by itself; the keyboard reaches it.
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
      html_text(caption));
  for (const std::string& heading : headings) html += "<th scope=\"col\">" + html_text(heading) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const HtmlRow& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      // Numbers with their interval stay on one line; words may break.
      const char* kind = row[i].size() > 40 ? " class=\"words\"" : "";
      html += i == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", kind, row[i])
                     : fmt::format("<td{}>{}</td>", kind, row[i]);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string html_section(std::string_view id, std::string_view heading, std::string_view html) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n<h2 "
      "id=\"{0}-heading\">{1}</h2>\n{2}</section>\n",
      id, html_text(heading), html);
}

std::string html_chart(std::string_view id, std::string_view caption) {
  return fmt::format(
      "<figure id=\"{0}\"><div class=\"controls\"></div><div class=\"legend\"></div><div "
      "class=\"chart\"></div>"
      "<figcaption>{1}</figcaption><details class=\"behind\"><summary>The numbers behind this chart</summary>"
      "<div class=\"numbers\"></div></details></figure>\n",
      id, html_text(caption));
}

std::string html_page(std::string_view title, std::string_view html, std::string_view script,
                      const nlohmann::json& data) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}"
      "<noscript><p class=\"caution\">Charts need JavaScript; everything else on this page does "
      "not.</p></noscript>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n\"use strict\";\n(() => "
      "{{\n{}{}}})();\n"
      "</script>\n</body>\n</html>\n",
      html_text(title), page_assets::style, html, script_json(data), page_assets::shared_script,
      script == "compare" ? page_assets::compare_script : page_assets::report_script);
}

}  // namespace moetune
