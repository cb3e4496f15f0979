#include "tuner/report/escape.h"

#include <array>
#include <cstdio>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

TEST(Escape, OrdinarySentencesStayReadable) {
  EXPECT_EQ(markdown_text("tpot_ms (ms per token): 1.23 - 2.5, n=40."),
            "tpot_ms (ms per token): 1.23 - 2.5, n=40.");
  EXPECT_EQ(markdown_text(""), "");
}

TEST(Escape, NoMarkupTakesEffect) {
  EXPECT_EQ(markdown_text("a|b"), "a\\|b");
  EXPECT_EQ(markdown_text("a\nb\r\n| c |"), "a b  \\| c \\|");
  EXPECT_EQ(markdown_text("<script>&amp;"), "\\<script\\>&amp;amp;");
  EXPECT_EQ(markdown_text("*b* _i_ __x__ `c` ~s~"), "\\*b\\* \\_i\\_ \\_\\_x\\_\\_ \\`c\\` \\~s\\~");
  EXPECT_EQ(markdown_text("![x](http://e) \\"), "\\!\\[x\\](http\\://e) \\\\");
  EXPECT_EQ(markdown_text("# head"), "\\# head");
  EXPECT_EQ(markdown_text("- item"), "\\- item");
  EXPECT_EQ(markdown_text("1. item"), "1\\. item");
  EXPECT_EQ(markdown_text("0.1.0 abc"), "0.1.0 abc");
  EXPECT_EQ(markdown_text("\x1b[2J\xff"), " \\[2J?");
}

TEST(Escape, CodeSpansCannotBeLeft) {
  EXPECT_EQ(markdown_code("top_k=7"), "`top_k=7`");
  EXPECT_EQ(markdown_code("a`b"), "``a`b``");
  EXPECT_EQ(markdown_code("`a``"), "``` `a`` ```");
  EXPECT_EQ(markdown_code("a|b||c"), "`a\\|b\\|\\|c`");
  EXPECT_EQ(markdown_code("a\nb"), "`a b`");
  EXPECT_EQ(markdown_code(""), "");
}

TEST(Escape, FencesCannotBeEnded) {
  EXPECT_EQ(fenced_line("moetune tune"), "moetune tune");
  EXPECT_EQ(fenced_line("```"), "\\```");
  EXPECT_EQ(fenced_line("  ````x"), "  \\````x");
  EXPECT_EQ(fenced_line("a\n```"), "a ```") << "not at the start of a line any more";
}

TEST(Escape, CsvFieldsAreQuotedAndNoFormulas) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_field("a\r\nb"), "a  b");
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("+1"), "'+1");
  EXPECT_EQ(csv_field("-1"), "'-1");
  EXPECT_EQ(csv_field("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_field("\t=1"), "\" =1\"") << "a blank keeps it from being a formula, quotes keep the blank";
  EXPECT_EQ(csv_field("=HYPERLINK(\"x\",\"y\")"), "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"");
}

TEST(Escape, AShellReadsTheWordAsItWas) {
  for (const std::string word : {"plain", "", "two words", "it's", "$HOME `id` \\ \"q\"", "--run", "*"}) {
    std::FILE* shell = ::popen(("printf '<%s>' " + shell_word(word)).c_str(), "r");
    ASSERT_NE(shell, nullptr);
    std::array<char, 100> read{};
    const std::size_t count = std::fread(read.data(), 1, read.size(), shell);
    ::pclose(shell);
    EXPECT_EQ(std::string(read.data(), count), "<" + word + ">");
  }
}

TEST(Escape, HtmlTextIsNoMarkup) {
  EXPECT_EQ(html_text("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(html_text("line\nend"), "line end");
}

TEST(Escape, JsonInAScriptElementCannotEndIt) {
  const nlohmann::json document = {{"name", "</script><!--<script>&amp;"}, {"bytes", "bad \xff"}};
  const std::string text = script_json(document);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(text).at("name"), document.at("name"));
}

TEST(Escape, AShellCommandQuotesEachWord) {
  EXPECT_EQ(shell_command(std::vector<std::string>{"moetune", "--set", "a=$(b)", ""}),
            "moetune --set 'a=$(b)' ''");
}

}  // namespace
}  // namespace moetune
