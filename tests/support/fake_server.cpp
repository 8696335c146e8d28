#include "tests/support/fake_server.h"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline::test {
namespace {

using Json = nlohmann::json;

constexpr int kEventsBeforeFault = 2;
constexpr int kDrafted = 3, kAccepted = 2;  // of each step that is stated

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(size_t(sent));
  }
  return true;
}

bool send_whole(int fd, int status, const std::string& type, const std::string& body) {
  return send_all(
      fd, fmt::format("HTTP/1.1 {} Fake\r\nServer: fake/1\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status,
                      type, body.size(), body));
}

bool send_chunk(int fd, const std::string& piece) {
  return send_all(fd, fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

void reset_connection(int fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

std::string word_of(int32_t token) { return fmt::format(" w{}", token); }

}  // namespace

FakeServer::FakeServer(FakeServerOptions options) : options_(std::move(options)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(uint16_t(options_.port));
  socklen_t length = sizeof address;
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(listener_, 256) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error(fmt::format("no socket: {}", std::strerror(errno)));
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FakeServer::~FakeServer() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  ended_.notify_all();
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

std::vector<std::string> FakeServer::bodies() const {
  const std::lock_guard lock(mutex_);
  return bodies_;
}

void FakeServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (fd < 0 || ends_) {
      if (fd >= 0) ::close(fd);
      return;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++num_connections_;
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeServer::wait_for_end() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return ends_; });
}

void FakeServer::serve(int fd) {
  std::string bytes;
  char buffer[16384];
  bool is_kept = false;
  for (bool goes_on = true; goes_on;) {
    size_t end = bytes.find("\r\n\r\n");
    size_t length = 0;
    if (end != std::string::npos) {
      const std::string_view field = "Content-Length: ";
      const size_t at = bytes.find(field);
      if (at != std::string::npos && at < end) length = size_t(std::stoul(bytes.substr(at + field.size(), 12)));
    }
    if (end == std::string::npos || bytes.size() < end + 4 + length) {
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0 || (is_kept && options_.ends_when_asked_again)) break;
      bytes.append(buffer, size_t(count));
      continue;
    }
    end += 4;
    goes_on = answer(fd, bytes.substr(0, end), bytes.substr(end, length));
    bytes.erase(0, end + length);
    is_kept = true;
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

bool FakeServer::answer(int fd, const std::string& head, const std::string& body) {
  const std::string line = head.substr(0, head.find("\r\n"));
  const std::string path = line.substr(line.find(' ') + 1, line.rfind(' ') - line.find(' ') - 1);
  if (!options_.api_key.empty() && head.find("Bearer " + options_.api_key + "\r\n") == std::string::npos)
    return send_whole(fd, 401, "application/json", R"({"error":{"message":"no key","type":"auth"}})");
  if (path == "/health") {
    const bool is_up = options_.is_healthy && num_health_++ >= options_.healthy_after;
    return send_whole(fd, is_up ? 200 : 503, "text/plain", "");
  }
  if (path == "/v1/models")
    return send_whole(fd, 200, "application/json",
                      R"({"object":"list","data":[{"id":"fake-model","object":"model"}]})");
  if (path == "/reset_prefix_cache" && options_.honours_reset) {
    ++num_resets_;
    return send_whole(fd, 200, "application/json", "{}");
  }
  if (path == "/metrics" && options_.drafts == StatedDrafts::metrics) {
    const int64_t steps = draft_steps_;
    return send_whole(fd, 200, "text/plain; version=0.0.4",
                      fmt::format("# HELP vllm:spec_decode_num_drafts_total x\n"
                                  "vllm:spec_decode_num_drafts_total{{model_name=\"fake\"}} {}.0\n"
                                  "vllm:spec_decode_num_draft_tokens_total{{model_name=\"fake\"}} {}\n"
                                  "vllm:spec_decode_num_accepted_tokens_total{{model_name=\"fake\"}} {}\n"
                                  "vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"0\"}} {}\n"
                                  "vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"1\"}} {}\n"
                                  "vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"2\"}} 0\n",
                                  steps, steps * kDrafted, steps * kAccepted, steps, steps));
  }
  if (path != "/v1/completions" && path != "/v1/chat/completions")
    return send_whole(fd, 404, "application/json", R"({"error":{"message":"not found"}})");
  const int now = ++at_once_;
  for (int most = most_at_once_; most < now && !most_at_once_.compare_exchange_weak(most, now);) {
  }
  const bool goes_on = complete(fd, path, body);
  --at_once_;
  return goes_on && !options_.ends_connections;
}

bool FakeServer::complete(int fd, const std::string& path, const std::string& body) {
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = int(bodies_.size());
    bodies_.push_back(body);
  }
  const PlantedFault fault = number >= options_.fault_from ? options_.fault : PlantedFault::none;
  if (fault == PlantedFault::status_429)
    return send_whole(fd, 429, "application/json", R"({"error":{"message":"slow down","type":"rate_limit"}})");
  if (fault == PlantedFault::status_500)
    return send_whole(fd, 500, "application/json", R"({"error":{"message":"boom","type":"internal"}})");
  const Json request = Json::parse(body);
  const bool is_chat = path == "/v1/chat/completions";
  const bool is_stream = request.value("stream", false);
  const bool gives_ids =
      options_.with_ids && request.value("return_token_ids", false) && fault != PlantedFault::no_usage;
  const bool says_usage = fault != PlantedFault::no_usage;
  const std::string prompt = is_chat ? request.at("messages").dump() : request.at("prompt").dump();
  const int asked = request.value("max_tokens", 16);
  const int count = asked + (fault == PlantedFault::too_many_tokens ? 2 : 0);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(int32_t((std::hash<std::string>{}(prompt) % 97 + size_t(i) * 31) % 500) + options_.token_shift);
  const int steps = count / (kAccepted + 1);
  draft_steps_ += steps;
  const auto usage = [&](int completed) {
    return Json{{"prompt_tokens", 7}, {"completion_tokens", completed}, {"total_tokens", 7 + completed}};
  };
  const auto state = [&](Json& object) {
    if (options_.drafts == StatedDrafts::response)
      object["metrics"]["speculative_decoding"] = {{"mean_acceptance_length", 1.0 + kAccepted},
                                                   {"draft_acceptance_rate", double(kAccepted) / kDrafted},
                                                   {"acceptance_histogram", {0, 0, steps, 0}},
                                                   {"num_spec_steps", steps},
                                                   {"num_accepted_draft_tokens", steps * kAccepted},
                                                   {"num_draft_tokens", steps * kDrafted},
                                                   {"num_spec_tokens", kDrafted}};
    if (options_.drafts == StatedDrafts::timings)
      object["timings"] = {{"draft_n", steps * kDrafted}, {"draft_n_accepted", steps * kAccepted}};
  };
  const int counted = count + (fault == PlantedFault::wrong_usage ? 1 : 0);
  const Json reason = fault == PlantedFault::no_finish ? Json(nullptr) : Json("length");
  if (!is_stream) {
    std::string text;
    for (const int32_t token : tokens) text += word_of(token);
    Json choice = {{"index", 0}, {"finish_reason", reason}};
    if (is_chat)
      choice["message"] = {{"role", "assistant"}, {"content", text}};
    else
      choice["text"] = text;
    if (gives_ids) choice["token_ids"] = tokens;
    Json object = {{"id", "x"}, {"choices", {choice}}};
    if (says_usage) object["usage"] = usage(counted);
    state(object);
    std::string whole = object.dump();
    if (fault == PlantedFault::not_json) whole = whole.substr(0, whole.size() / 2);
    if (fault == PlantedFault::error_event) whole = R"({"error":{"message":"lost it"}})";
    if (fault == PlantedFault::stall || fault == PlantedFault::reset || fault == PlantedFault::ended_early) {
      send_all(fd, fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                               whole.size(), whole.substr(0, 20)));
      if (fault == PlantedFault::stall) wait_for_end();
      if (fault == PlantedFault::reset) reset_connection(fd);
      return false;
    }
    return send_whole(fd, 200, fault == PlantedFault::wrong_type ? "text/html" : "application/json", whole);
  }
  send_all(fd,
           fmt::format("HTTP/1.1 200 OK\r\nServer: fake/1\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
                       fault == PlantedFault::wrong_type ? "text/html" : "text/event-stream; charset=utf-8"));
  const auto event = [](const Json& object) { return "data: " + object.dump() + "\n\n"; };
  if (is_chat)
    send_chunk(fd, event({{"choices", {{{"index", 0}, {"delta", {{"role", "assistant"}, {"content", ""}}}}}}}));
  // Two tokens an event: the size of a chunk says nothing about drafts.
  for (size_t at = 0; at < tokens.size(); at += 2) {
    const size_t end = std::min(at + 2, tokens.size());
    if (at == 2 * kEventsBeforeFault) {
      if (fault == PlantedFault::stall) {
        wait_for_end();
        return false;
      }
      if (fault == PlantedFault::reset) {
        reset_connection(fd);
        return false;
      }
      if (fault == PlantedFault::ended_early) return false;
      if (fault == PlantedFault::error_event) send_chunk(fd, event({{"error", {{"message", "lost it"}}}}));
      if (fault == PlantedFault::not_json) send_chunk(fd, "data: {\"choices\": [\n\n");
    }
    std::string text;
    for (size_t i = at; i < end; ++i) text += word_of(tokens[i]);
    Json choice = {{"index", 0}, {"finish_reason", nullptr}};
    if (is_chat)
      choice["delta"] = {{"content", text}};
    else
      choice["text"] = text;
    if (gives_ids) choice["token_ids"] = std::vector<int32_t>(tokens.begin() + long(at), tokens.begin() + long(end));
    if (end == tokens.size()) choice["finish_reason"] = reason;
    Json object = {{"choices", {choice}}};
    if (says_usage && options_.continuous_usage) object["usage"] = usage(int(end));
    if (!send_chunk(fd, event(object))) return false;
  }
  Json last = {{"choices", Json::array()}};
  if (says_usage) last["usage"] = usage(counted);
  state(last);
  std::string text = event(last);
  if (fault == PlantedFault::half_event) text.resize(text.size() / 2);
  send_chunk(fd, text);
  if (fault != PlantedFault::no_done && fault != PlantedFault::half_event) send_chunk(fd, "data: [DONE]\n\n");
  return send_all(fd, "0\r\n\r\n");
}

}  // namespace paceline::test
