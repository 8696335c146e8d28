#include <algorithm>
#include <map>
#include <zlib.h>

#include <fmt/format.h>

#include "engine/util/bytes.h"
#include "engine/util/json_io.h"
#include "experiments/report/html/html.h"
#include "experiments/report/html/parts.h"
#include "experiments/results/files/store.h"
#include "kernels/error.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxValueBytes = 2000;          // of a value in the table
constexpr size_t kMaxDownloadBytes = 200 << 10;  // of a file within the page, as a URL

std::string compact(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What a list says of a name; empty where there is nothing to say.
std::string fact(const std::string& name, const std::string& text) {
  return text.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(name), html_escaped(text));
}

std::string environment_fact(std::string name, const nlohmann::json& value) {
  std::string text;
  for (const nlohmann::json& each : value.is_array() ? value : nlohmann::json::array({value}))
    if (!each.is_null()) text += (text.empty() ? "" : " ") + bare_text(each);
  if (name.ends_with("_bytes") && value.is_number()) text = fmt::format("{:.2f} GiB", value.get<double>() / kGiB);
  std::replace(name.begin(), name.end(), '_', ' ');
  return fact(name, text);
}

/// RFC 2397, for an attribute in single quotes. What has no meaning in a URL or in HTML stays as it is: base64 is
/// longer.
std::string data_url(const char* type, std::string_view bytes) {
  const auto is_plain = [](char c) {
    return c >= 0x20 && c < 0x7F && std::string_view("%#&<>'").find(c) == std::string_view::npos;
  };
  return fmt::format("data:{},{}", type, percent_encoded(bytes, is_plain));
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

/// Links to those files of a folder that are there.
std::string links(const Report& report, const std::string& folder, std::initializer_list<const char*> names) {
  std::string out;
  for (const char* const name : names)
    if (const std::string link = report.linked(folder + name, name); link != name)
      out += (out.empty() ? "" : " ") + link;
  return out;
}

/// What else lies in the run's folder, as far as it is there.
std::string files_of_run(const Report& report) {
  const std::string of_run = links(report, "",
                                   {"summary.json", "summary.csv", "summary.md", "manifest.json", "experiment.json",
                                    "config.resolved.json", "environment.json", "samples.json", "journal.log"});
  if (of_run.empty()) return "";
  std::string of_cells;
  for (const CellSummary& s : report.summary.cells) {
    const CellResult& cell = report.cell(s);
    const std::string files =
        links(report, fmt::format("cells/{}/", cell.folder), {"cell.json", "requests.jsonl", "ranks.json", "log.txt"});
    if (!files.empty()) of_cells += fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(axes_label(cell.axes)), files);
  }
  return "<p class=\"downloads\">Files of the run: " + of_run + "</p>" +
         (of_cells.empty()
              ? ""
              : "<details class=\"files\"><summary>Files of each cell</summary><dl>" + of_cells + "</dl></details>");
}

/// Whether table_of() has it in each row anyway.
bool is_of_row(std::string_view key) {
  return key == "tp" || key == "pp" || key == "proposer" || key == "num_speculative_tokens";
}

/// What the engine said it ran: once what all cells share, then a column for each setting that differs.
std::string effective_settings(const Report& report) {
  const auto cells = report.cells(
      [&](const CellSummary& s) { return report.cell(s).effective.is_object() && !report.cell(s).effective.empty(); });
  if (cells.empty()) return "";
  std::vector<std::pair<std::string, std::map<const CellSummary*, std::string>>> settings;
  for (const CellSummary* s : cells)
    for (const auto& [key, value] : report.cell(*s).effective.items())
      group_of(settings, std::string(key))[s] = value.is_string() ? value.get<std::string>() : compact(value);
  std::string shared;
  CellColumns differing;
  for (const auto& [key, values] : settings) {
    const auto text = [&values = values](const CellSummary& s) {
      const auto found = values.find(&s);
      return found == values.end() ? "–" : found->second;
    };
    const bool is_shared =
        std::all_of(cells.begin(), cells.end(), [&](const CellSummary* s) { return text(*s) == text(*cells.front()); });
    if (is_shared)
      shared += fact(key, text(*cells.front()));
    else if (!is_of_row(key))
      differing.push_back({key, "", text, true});
  }
  return "<details><summary>Effective settings, as the engine ran them</summary>" +
         (shared.empty() ? "" : "<dl>" + shared + "</dl>") +
         (differing.empty()
              ? ""
              : html_table(table_of(report, "What differs between cells.", cells, differing), "sortable")) +
         "</details>";
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
  std::string shown = "<pre>" + html_escaped(dump_json(run.config_resolved)) + "</pre>";
  if (run.config_origins.is_object()) {
    std::vector<std::pair<std::string, const nlohmann::json*>> values;
    collect_values(run.config_resolved, "", values);
    Table table{.title = "Each value and where it was written.",
                .columns = {{"key", true}, {"value", true}, {"written at", true}},
                .rows = {}};
    for (const auto& [path, value] : values) {
      const std::string text = compact(*value);
      const auto origin = run.config_origins.find(path);
      const bool is_written = origin != run.config_origins.end() && origin->is_string();
      const Table::Cell cell(text.size() > kMaxValueBytes ? "(long; in config.resolved.json)" : text, "", "why");
      table.rows.push_back({.cells = {path, cell, is_written ? origin->get<std::string>() : "default"},
                            .css = is_written ? "" : "muted"});
    }
    std::stable_partition(table.rows.begin(), table.rows.end(), [](const Table::Row& row) { return row.css.empty(); });
    shown = html_table(table, "sortable");
  }
  return "<details><summary>Resolved configuration</summary>" + shown + "</details>";
}

}  // namespace

Section setup_section(const Report& report) {
  const RunResult& run = report.run;
  Section section{"setup", "Set-up and data"};
  std::string facts;
  if (run.environment.is_object())
    for (const auto& [key, value] : run.environment.items()) facts += environment_fact(key, value);
  if (!facts.empty()) section.body += "<details open><summary>Environment</summary><dl>" + facts + "</dl></details>";
  // As plain text summary.json would be a third of the page.
  const std::string packed = base64(gzip(compact(summary_to_json(run, report.summary))));
  section.body +=
      effective_settings(report) + resolved_configuration(run) + "<p class=\"downloads\">In this page: " +
      download(report, "summary.csv", data_url("text/csv;charset=utf-8", summary_to_csv(run, report.summary))) + " " +
      download(report, "summary.json.gz", "data:application/gzip;base64," + packed) + " " +
      download(report, "config.resolved.json", data_url("application/json", compact(run.config_resolved))) + "</p>" +
      files_of_run(report) +
      note(fmt::format("{}Run {}, configuration {}.",
                       report.has_data() ? ""
                                         : "In the run's folder lie summary.json, summary.csv, cells/*/cell.json and "
                                           "requests.jsonl, environment.json and config.resolved.json. ",
                       html_escaped(run.info.id), html_escaped(run.info.config_hash)));
  return section;
}

}  // namespace paceline::html

namespace paceline {

std::string gzip(std::string_view bytes) {
  constexpr int kWindowBits = 15, kGzipHeader = 16, kMemoryLevel = 8;
  z_stream stream{};
  const int begun = deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits + kGzipHeader, kMemoryLevel,
                                 Z_DEFAULT_STRATEGY);
  PACELINE_CHECK(begun == Z_OK, "zlib {}", begun);
  std::string out(deflateBound(&stream, uLong(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  PACELINE_CHECK(status == Z_STREAM_END, "zlib {}, {} of {} bytes", status, stream.total_in, bytes.size());
  return out;
}

}  // namespace paceline
