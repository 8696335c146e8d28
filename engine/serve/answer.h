#pragma once
// One request's answer under way: tokens of its choices to events of a stream (SSE), or to one body.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/serve/choice_text.h"
#include "engine/serve/http_server.h"
#include "engine/serve/request/api_request.h"
#include "engine/util/clock.h"

namespace paceline {

/// Whether an answer carries vLLM's metrics.speculative_decoding; detailed: with the drafts kept in each step.
enum class SpeculationReport : uint8_t { off, summary, detailed };

/// What all answers of a server have in common.
struct AnswerStyle {
  std::string model;               // its id
  int num_speculative_tokens = 0;  // 0: there is nothing to report
  SpeculationReport speculation = SpeculationReport::summary;
};

/// Tokens that the client was given, for usage.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

/// Of one thread, the HTTP server's. Choices are numbered prompt by prompt: choice i answers prompt i / num_choices.
class Answer {
 public:
  /// id: the answer's name for the client. prompts: the ids of each. The exchange has not been answered.
  Answer(std::string id, GenerationRequest request, std::vector<std::vector<int32_t>> prompts, const AnswerStyle& style,
         std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<HttpExchange> exchange);

  const GenerationRequest& request() const { return request_; }
  int num_choices() const { return int(choices_.size()); }

  enum class After : uint8_t { goes_on, ended };

  /// What the engine has made final for a choice. ended: no more tokens of this choice count; where emitted.finish is
  /// none, a stop string has ended it, and the caller cancels the rest. REQUIRES: the choice has not ended; finish is
  /// neither cancelled nor failed nor numerical_error (see fail).
  After take(int choice, const Emitted& emitted);

  /// Sends what there is to send, unless a write is on its way: then the caller flushes again when that has ended. A
  /// stream gets one event a choice, whatever has gathered; behind the last choice's end usage where asked for, and
  /// [DONE].
  void flush();

  /// Ends the answer with an error: of a stream that has begun an event, else a status.
  void fail(const ApiError& error);

  HttpExchange& exchange() const { return *exchange_; }
  bool has_begun() const { return has_begun_; }
  bool ended() const { return ended_; }  // nothing more will be sent
  Usage usage() const;
  Usage usage_of(int choice) const;
  Clock::time_point arrival() const { return arrival_; }

 private:
  /// One token of a choice: the text that became certain with it, and where the token comes from.
  struct DraftFlag {
    std::string text;
    bool is_kept_draft = false;  // else the target's own
  };
  struct Choice {
    ChoiceText text;
    std::string pending;                  // text not sent yet
    std::vector<int32_t> token_ids;       // not sent yet
    std::vector<DraftFlag> draft_flags;   // likewise
    std::vector<int32_t> logprob_ids;     // not sent yet, with the next
    std::vector<TokenLogprobs> logprobs;  // likewise
    int64_t text_offset = 0;              // characters of all tokens whose logprobs were sent
    const char* finish = nullptr;         // finish_reason, once it has ended
    bool finish_sent = false;
    bool has_begun = false;  // its first event was sent
    int64_t num_tokens = 0;
  };

  void note_speculation(const Emitted& emitted);
  void append_events(std::string& out);
  void append_event(std::string& out, int index, Choice& choice);
  std::string whole_body();
  static nlohmann::ordered_json draft_flags_json(const Choice& choice);
  /// Of the tokens not sent yet, in the form of the API; null where nobody asked. Forgets them.
  nlohmann::ordered_json take_logprobs(Choice& choice) const;
  nlohmann::ordered_json head() const;
  nlohmann::ordered_json usage_json(const Usage& usage) const;
  nlohmann::ordered_json speculation_json() const;
  bool reports_speculation() const;

  const GenerationRequest request_;
  const std::vector<std::vector<int32_t>> prompts_;
  const AnswerStyle style_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<HttpExchange> exchange_;
  const std::string id_;
  const int64_t created_;  // seconds since 1970
  const Clock::time_point arrival_ = Clock::now();
  std::string event_head_;  // of all events: what stands before the choice's index
  std::vector<Choice> choices_;
  int num_ended_ = 0;
  bool has_begun_ = false;
  bool ended_ = false;

  int64_t num_drafted_ = 0;
  std::vector<int64_t> accepted_counts_;  // [drafts kept]: steps
  std::vector<int> per_step_accepted_;    // detailed
};

}  // namespace paceline
