#pragma once
// Python's str.format().

#include <string_view>

#include "engine/jinja/builtins.h"

namespace paceline::jinja {

/// text.format(arguments): fields "{}", "{0}" and "{name}" with [[fill]align][sign][#][0][width][,][.precision][type]
/// behind a colon, for texts (type s or none), integers (b, d, o, x, X) and numbers (e, E, f, F, g, G, %). An error for
/// zeros that would get commas, conversions ("!r"), attributes, nested fields, and for what Python refuses. Widths
/// count code points.
Value format_text(std::string_view text, const CallArguments& arguments, Context& context);

}  // namespace paceline::jinja
