// An answer of any bytes, streamed and whole, in pieces that the input chooses: what a client reads of it.

#include "experiments/client/openai_client.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

void read(std::string_view bytes, size_t piece, paceline::Delivery delivery) {
  paceline::AnswerReader reader(delivery, piece % 2 == 0, 64);
  double now_ms = 0;
  for (; !bytes.empty() && !reader.done(); bytes.remove_prefix(std::min(piece, bytes.size())))
    reader.feed(bytes.substr(0, piece), ++now_ms);
  reader.end_of_connection(now_ms);
  if (!reader.done()) __builtin_trap();
  const paceline::ServedAnswer answer = reader.take();
  if (!answer.failure && answer.num_tokens() <= 0) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  const size_t piece = 1 + data[0] % 64;
  read(bytes, piece, Delivery::streamed);
  read(bytes, piece, Delivery::whole);
  // Events alone, whatever stands around them.
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  read(head + std::string(bytes), piece, Delivery::streamed);
  SseReader whole(4096), cut(4096);
  std::string of_whole, of_cut;
  const bool fits = whole.feed(bytes, [&](std::string_view event) { of_whole += event; });
  bool fits_cut = true;
  for (std::string_view left = bytes; !left.empty(); left.remove_prefix(std::min(piece, left.size())))
    fits_cut = cut.feed(left.substr(0, piece), [&](std::string_view event) { of_cut += event; });
  if (fits && (!fits_cut || of_whole != of_cut || whole.has_half_event() != cut.has_half_event())) __builtin_trap();
  return 0;
}
