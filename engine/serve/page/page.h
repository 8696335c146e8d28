#pragma once
// The page at `/`: what the engine does just now, and a chat whose tokens say where they come from.

#include <string_view>

#include "engine/serve/http_message.h"

namespace paceline {

/// One HTML file with its style and its script; it asks this server's own paths and nobody else. nonce: letters and
/// digits that nobody can guess, others at each call: its policy lets run only what carries them.
HttpReply page_reply(std::string_view nonce);

}  // namespace paceline
