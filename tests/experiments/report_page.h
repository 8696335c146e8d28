#pragma once
// What tests of report.html share.

#include <set>
#include <string>
#include <vector>

#include "experiments/report/html/html.h"

namespace paceline::test {

/// Walks the tags; returns the first nesting error, "" when every element is closed in order.
inline std::string nesting_error(const std::string& html) {
  const std::set<std::string> empty = {"meta", "br", "input", "!DOCTYPE", "!doctype"};
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "unfinished tag";
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "raw < in tag " + tag;
    const bool closes = tag.starts_with("/");
    const std::string name = tag.substr(closes ? 1 : 0, tag.find_first_of(" /\n", closes ? 1 : 0) - (closes ? 1 : 0));
    at = end + 1;
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes <" + (open.empty() ? "" : open.back());
      open.pop_back();
    } else if (!tag.ends_with("/") && !empty.contains(name)) {
      open.push_back(name);
      if (name == "style" || name == "script") at = html.find("</" + name, at);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

inline std::string report_of(const RunResult& run) { return report_html(run, summarize(run)); }

/// The section with this id, "" without one.
inline std::string section_of(const std::string& html, const std::string& id) {
  const size_t begin = html.find("<section id=\"" + id + "\"");
  return begin == std::string::npos ? "" : html.substr(begin, html.find("</section>", begin) - begin);
}

}  // namespace paceline::test
