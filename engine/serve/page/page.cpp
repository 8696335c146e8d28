#include "engine/serve/page/page.h"

#include <fmt/format.h>

#include "engine/serve/page/parts.h"

namespace paceline {
namespace {

const char* const kBody = R"html(<main>
<header><h1>Paceline</h1><p id="model"></p><p id="state" role="status">connecting</p></header>
<section class="gauges" id="gauges" aria-label="What the engine does"></section>
<noscript><p>This page needs its script; the figures are at /metrics.</p></noscript>
<section aria-labelledby="h-chat">
<h2 id="h-chat">Chat</h2>
<p class="note" id="legend"><mark>Underlined</mark>: a drafted token that the model kept. Plain: a token that the model
drew itself.</p>
<div id="log" role="log" aria-live="polite" aria-label="Conversation" tabindex="0" data-empty="Nothing said yet."></div>
<form id="form">
<label for="prompt" id="prompt-label">Message</label>
<textarea id="prompt" rows="3" aria-describedby="keys" autocomplete="off"></textarea>
<p class="note" id="keys">Enter sends, Shift+Enter begins a new line.</p>
<div class="row">
<label>Tokens at most <input id="max-tokens" type="number" min="1" value="256" required></label>
<label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" value="0" required></label>
<div class="buttons"><button type="submit" id="send">Send</button>
<button type="button" id="stop" disabled>Stop</button>
<button type="button" id="clear">New chat</button></div>
</div>
</form>
</section>
</main>
)html";

}  // namespace

HttpReply page_reply(std::string_view nonce) {
  HttpReply reply{.content_type = "text/html; charset=utf-8"};
  reply.body = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">"
      "<title>Paceline</title>\n<style nonce=\"{0}\">{1}</style></head>\n<body>{2}<script nonce=\"{0}\">{3}</script>\n"
      "</body></html>\n",
      nonce, serve_page_style(), kBody, serve_page_script());
  reply.fields = {{"Content-Security-Policy",
                   fmt::format("default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                               nonce)},
                  {"Cache-Control", "no-store"},
                  {"Referrer-Policy", "no-referrer"},
                  {"X-Content-Type-Options", "nosniff"}};
  return reply;
}

}  // namespace paceline
