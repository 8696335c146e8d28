#pragma once
// What the page is made of.

namespace paceline {

const char* serve_page_style();
const char* serve_page_script();

}  // namespace paceline
