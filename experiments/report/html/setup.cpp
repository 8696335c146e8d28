#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/util/bytes.h"
#include "engine/util/json_io.h"
#include "experiments/report/html/gzip.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"
#include "experiments/results/files/store.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxJsonBytes = 64 << 10;       // of the config shown
constexpr size_t kMaxValueBytes = 2000;          // of a value in the table
constexpr size_t kMaxDownloadBytes = 200 << 10;  // of a file within the page, as a URL

std::string fact(const std::string& name, const nlohmann::json& value) {
  if (value.is_null()) return "";
  std::string text = bare_text(value);
  if (value.is_array()) {
    text.clear();
    for (const auto& v : value) {
      if (!text.empty()) text += ' ';
      text += bare_text(v);
    }
  }
  if (name.ends_with("_bytes") && value.is_number()) text = fmt::format("{:.2f} GiB", value.get<double>() / kGiB);
  if (text.empty()) return "";
  std::string label = name;
  std::replace(label.begin(), label.end(), '_', ' ');
  return fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(label), html_escaped(text));
}

std::string json_block(const nlohmann::json& value, size_t limit) {
  std::string text = dump_json(value);
  if (text.size() > limit) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;  // not inside a character
    text = text.substr(0, limit) + "\n… (cut; the whole is in the run's folder)";
  }
  return "<pre>" + html_escaped(text) + "</pre>";
}

/// RFC 2397, for an attribute in single quotes. What has no meaning in a URL or in HTML stays as it is: base64 is
/// longer.
std::string data_url(const char* type, std::string_view bytes) {
  constexpr std::string_view kEscaped = "%#&<>'";
  std::string out = fmt::format("data:{},", type);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || kEscaped.find(c) != std::string_view::npos)
      out += fmt::format("%{:02X}", byte);
    else
      out += c;
  }
  return out;
}

/// RFC 4648.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kLetters[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

/// A link that holds the file as `url`; where that is too long, its name, as a link where there is one.
std::string download(const Report& report, const std::string& name, const std::string& url) {
  const std::string file = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
  if (url.size() > kMaxDownloadBytes)
    return fmt::format("<span class=\"sub\">{} in the run's folder</span>", report.linked(file, file));
  return fmt::format("<a class=\"button\" download=\"{0}\" href='{1}'>{0} ({2} KB)</a>", name, url,
                     (url.size() + 999) / 1000);
}

/// What else lies in the run's folder, as far as it is there.
std::string files_of_run(const Report& report) {
  std::string run, rows;
  const auto add = [&report](std::string& out, const std::string& file, const std::string& name) {
    if (const std::string link = report.linked(file, name); link != name) out += (out.empty() ? "" : " ") + link;
  };
  for (const char* const name : {"summary.json", "summary.csv", "summary.md", "manifest.json", "experiment.json",
                                 "config.resolved.json", "environment.json", "samples.json", "journal.log"})
    add(run, name, name);
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    std::string files;
    for (const char* const name : {"cell.json", "requests.jsonl", "ranks.json", "log.txt"})
      add(files, fmt::format("cells/{}/{}", cell.folder, name), name);
    if (!files.empty())
      rows += "<tr>" + text_cell(axes_label(cell.axes)) + fmt::format("<td class=\"s\">{}</td></tr>\n", files);
  }
  if (run.empty()) return "";
  return "<p class=\"downloads\">Files of the run: " + run + "</p>" +
         (rows.empty()
              ? ""
              : "<details class=\"files\"><summary>Files of each cell</summary>" +
                    table("What was recorded of each cell.", {{"cell", true}, {"files", true}}, rows) + "</details>");
}

/// What the engine said it ran: once what all cells share, then a column for each setting that differs.
std::string effective_settings(const Report& report) {
  std::vector<std::string> keys;
  std::map<std::string, std::vector<std::string>> values;  // of a key, by cell
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    if (!cell.effective.is_object() || cell.effective.empty()) continue;
    cells.push_back(&s);
    for (const auto& [key, value] : cell.effective.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  if (cells.empty()) return "";
  for (const std::string& key : keys)
    for (const CellSummary* s : cells) {
      const nlohmann::json& effective = report.cell(*s).effective;
      const auto found = effective.find(key);
      const auto text = [](const nlohmann::json& value) {
        return value.is_string() ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      };
      values[key].push_back(found == effective.end() ? "–" : text(*found));
    }
  std::string shared;
  std::vector<TableColumn> columns = axes_columns();
  std::vector<std::string> differing;
  for (const std::string& key : keys) {
    const auto& of_key = values[key];
    if (std::all_of(of_key.begin(), of_key.end(), [&](const auto& v) { return v == of_key.front(); }))
      shared += fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(key), html_escaped(of_key.front()));
    else
      differing.push_back(key);
  }
  for (const std::string& key : differing) columns.push_back({key.c_str(), true});
  std::string rows;
  for (size_t i = 0; i < cells.size(); ++i) {
    const CellResult& cell = report.cell(*cells[i]);
    rows += row_open(cell, *cells[i]) + axes_cells(cell.axes);
    for (const std::string& key : differing) rows += text_cell(values[key][i]);
    rows += "</tr>\n";
  }
  return "<details><summary>Effective settings, as the engine ran them</summary>" +
         (shared.empty() ? "" : "<dl>" + shared + "</dl>") +
         (differing.empty() ? "" : table("What differs between cells.", columns, rows, "sortable")) + "</details>";
}

/// Values of a configuration by path; what is no object is one, and so is an empty object.
void collect_values(const nlohmann::json& tree, const std::string& path,
                    std::vector<std::pair<std::string, const nlohmann::json*>>& values) {
  if (!tree.is_object() || tree.empty()) {
    values.emplace_back(path, &tree);
    return;
  }
  for (const auto& [name, value] : tree.items()) collect_values(value, path.empty() ? name : path + "." + name, values);
}

/// Every value with the place where it was written, those that have one first; as JSON where no places were recorded.
std::string resolved_configuration(const RunResult& run) {
  if (run.config_resolved.is_null()) return "";
  std::string out = "<details><summary>Resolved configuration</summary>";
  if (!run.config_origins.is_object()) return out + json_block(run.config_resolved, kMaxJsonBytes) + "</details>";
  std::vector<std::pair<std::string, const nlohmann::json*>> values;
  collect_values(run.config_resolved, "", values);
  std::string written, defaults;
  for (const auto& [path, value] : values) {
    std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > kMaxValueBytes) text = "(long; in config.resolved.json)";
    const auto origin = run.config_origins.find(path);
    const bool is_written = origin != run.config_origins.end() && origin->is_string();
    const std::string place = is_written ? origin->get<std::string>() : "default";
    (is_written ? written : defaults) += fmt::format("<tr{}>", is_written ? "" : " class=\"muted\"") + text_cell(path) +
                                         text_cell(text, "s why") + text_cell(place) + "</tr>\n";
  }
  return out +
         table("Each value and where it was written.", {{"key", true}, {"value", true}, {"written at", true}},
               written + defaults, "sortable") +
         "</details>";
}

}  // namespace

Section setup_section(const Report& report) {
  Section section{"setup", "Set-up and data", ""};
  std::string facts;
  if (report.run.environment.is_object()) {
    for (const auto& [key, value] : report.run.environment.items()) facts += fact(key, value);
  }
  if (!facts.empty()) section.body += "<details open><summary>Environment</summary><dl>" + facts + "</dl></details>";
  section.body += effective_settings(report);
  section.body += resolved_configuration(report.run);
  const auto compact = [](const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  section.body +=
      "<p class=\"downloads\">In this page: " +
      download(report, "summary.csv", data_url("text/csv;charset=utf-8", summary_to_csv(report.run, report.summary))) +
      " " +
      // It would be a third of the page.
      download(report, "summary.json.gz",
               "data:application/gzip;base64," + base64(gzip(compact(summary_to_json(report.run, report.summary))))) +
      " " +
      download(report, "config.resolved.json", data_url("application/json", compact(report.run.config_resolved))) +
      "</p>" + files_of_run(report);
  section.body +=
      fmt::format("<p class=\"note\">{}Run {}, configuration {}.</p>",
                  report.has_data() ? ""
                                    : "In the run's folder lie summary.json, summary.csv, cells/*/cell.json "
                                      "and requests.jsonl, environment.json and config.resolved.json. ",
                  html_escaped(report.run.info.id), html_escaped(report.run.info.config_hash));
  return section;
}

}  // namespace paceline::html
