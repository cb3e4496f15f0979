#include "tuner/serving/http_client.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/fake_server.h"
#include "tests/support/message_of.h"
#include "tests/support/raw_server.h"

namespace moetune {
namespace {

HttpClient client_of(const std::string& url, const HttpLimits& limits = {}) {
  return HttpClient(server_url("--url", url), "", limits);
}

TEST(ServerUrl, OriginAndBasePath) {
  EXPECT_EQ(server_url("--url", "http://127.0.0.1:8000").text(), "http://127.0.0.1:8000");
  EXPECT_EQ(server_url("--url", "http://127.0.0.1:8000/v1/").text(), "http://127.0.0.1:8000");
  EXPECT_EQ(server_url("--url", "https://[::1]:8000/llm/v1").origin, "https://[::1]:8000");
  EXPECT_EQ(server_url("--url", "https://[::1]:8000/llm/v1").base_path, "/llm");
}

TEST(ServerUrl, WhatIsNoUrlIsRefusedByName) {
  for (const char* const text :
       {"", "127.0.0.1:8000", "ftp://host", "http://", "http://:80", "http://host:0", "http://host:70000",
        "http://host:80x", "http://user:secret@host", "http://host/a?b=c", "http://host/a\r\nX: y",
        "http://ho st", "http://[::1", "http://[]:1"})
    EXPECT_NE(message_of<InputError>([&] { server_url("--url", text); }).find("--url: '"), std::string::npos)
        << text;
}

TEST(HttpClient, SilenceIsSaidWithItsLimit) {
  const RawServer server;  // takes connections and never looks at them
  HttpClient client = client_of(server.url(), {.silence_seconds = 0.05});
  const HttpReply reply = client.get("/v1/models");
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.failure, "GET " + server.url() + "/v1/models: nothing came for 0.05 s");
}

// llama-server does this after a streamed answer; here the close waits until the client has used the
// connection again.
TEST(HttpClient, AServerMayCloseAConnectionThatItPromisedToKeep) {
  const RawServer server([](RawServer::Connection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nContent-Length: 2\r\n\r\n[]");
    connection.wait_for_more();
  });
  HttpClient client = client_of(server.url());
  for (int again = 0; again < 3; ++again) {
    const HttpReply reply = client.get("/v1/models");
    EXPECT_EQ(reply.failure, "");
    EXPECT_EQ(reply.body, "[]");
  }
}

TEST(HttpClient, AClosedConnectionSaysWhetherAnythingHadCome) {
  const RawServer server([number = 0](RawServer::Connection& connection) mutable {
    connection.read_request();
    if (number++ > 0) connection.send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123456");
  });
  HttpClient client = client_of(server.url());
  EXPECT_EQ(client.get("/metrics").failure,
            "GET " + server.url() + "/metrics: the server closed the connection before any answer came");
  EXPECT_EQ(client.get("/metrics").failure,
            "GET " + server.url() + "/metrics: the answer ended early: status 200 and 7 bytes had come");
}

TEST(HttpClient, GetsWhatIsThere) {
  FakeServer server;
  server.on_get("/v1/models",
                [](auto&, auto&) { return FakeServer::Answer{.pieces = {"{\"data\":", "[]}"}}; });
  HttpClient client = client_of(server.start());
  for (int again = 0; again < 3; ++again) {
    const HttpReply reply = client.get("/v1/models");
    EXPECT_EQ(reply.failure, "");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "{\"data\":[]}");
  }
}

TEST(HttpClient, PassesPiecesOnAsTheyArrive) {
  FakeServer server;
  std::string sent;
  server.on_post("/v1/completions", [&](const std::string& body, auto&) {
    sent = body;
    return FakeServer::Answer{.type = "text/event-stream", .pieces = {"data: 1\n\n", "data: 2\n\n"}};
  });
  HttpClient client = client_of(server.start());
  std::vector<std::string> pieces;
  const HttpReply reply = client.post("/v1/completions", "{\"stream\":true}", [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  EXPECT_TRUE(reply.ok()) << reply.failure;
  EXPECT_EQ(sent, "{\"stream\":true}");
  EXPECT_EQ(pieces, (std::vector<std::string>{"data: 1\n\n", "data: 2\n\n"}));
  EXPECT_EQ(reply.body, "");
}

TEST(HttpClient, AnErrorStatusIsAFailureWithWhatTheServerSays) {
  FakeServer server;
  server.on_post("/v1/completions", [](auto&, auto&) {
    return FakeServer::Answer{.status = 400, .pieces = {"no such\nmodel \x1b[31m"}};
  });
  const std::string url = server.start();
  HttpClient client = client_of(url);
  bool received = false;
  const HttpReply reply =
      client.post("/v1/completions", "{}", [&](std::string_view) { return received = true; });
  EXPECT_FALSE(received);
  EXPECT_EQ(reply.failure, "POST " + url + "/v1/completions: status 400: no such model  [31m");
}

TEST(HttpClient, NobodyThereIsAFailure) {
  std::string url;
  {
    FakeServer gone;
    url = gone.start();
  }
  EXPECT_EQ(client_of(url).get("/metrics").failure, "GET " + url + "/metrics: nothing answers");
}

TEST(HttpClient, TooLongAnAnswerIsCutOff) {
  FakeServer server;
  server.on_get("/metrics", [](auto&, auto&) {
    return FakeServer::Answer{.pieces = std::vector<std::string>(64, std::string(1024, 'x'))};
  });
  const HttpReply reply = client_of(server.start(), {.body_bytes = 4096}).get("/metrics");
  EXPECT_NE(reply.failure.find("longer than 4096 bytes"), std::string::npos) << reply.failure;
}

TEST(HttpClient, TheTokenIsSentAndNeverShown) {
  FakeServer server;
  std::string authorization;
  server.on_get("/v1/models", [&](auto&, const std::string& given) {
    authorization = given;
    return FakeServer::Answer{.status = 401, .pieces = {"who are you"}};
  });
  HttpClient client(server_url("--url", server.start()), "sk-1234");
  const HttpReply reply = client.get("/v1/models");
  EXPECT_EQ(authorization, "Bearer sk-1234");
  EXPECT_EQ(reply.failure.find("sk-1234"), std::string::npos);
  EXPECT_THROW(HttpClient(server_url("--url", "http://host"), "a\r\nb"), InputError);
}

}  // namespace
}  // namespace moetune
