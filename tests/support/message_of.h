// What an error says: messages are part of the product and are tested like any other output.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace moetune {

// Runs the function, insists that it throws an Error and returns its text.
template <typename Error, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

// EXPECT_TRUE(has_text(message, "accepted: 1 to 8"))
inline ::testing::AssertionResult has_text(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace moetune
