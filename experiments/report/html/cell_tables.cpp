// Sections that are a table of the cells: drafts, ranks, devices, memory, forecasts.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/metrics/forecast_ratio.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/text/text.h"

namespace paceline::html {

namespace {

using Fields = CellSummary;
using Cell = const CellSummary&;

constexpr double kMebi = 1 << 20, kKibi = 1 << 10, kMega = 1e6, kGiga = 1e9;

std::optional<double> in_units(const std::optional<double>& value, double unit) {
  return value && *value > 0 ? std::optional(*value / unit) : std::nullopt;
}

/// Of the steps whose drafts were the stage's own.
Table::Row stage_row(const CellResult& cell, const CellSummary& s, const StageCounters& stage) {
  CellAxes axes = cell.axes;
  axes.proposer = "↳ " + stage.name;
  const double drafts = double(stage.drafts), accepted = double(stage.accepted);
  Table::Row row{.cells = axes_cells(axes)};
  row.cells.emplace_back(number(ratio(drafts, double(s.counters.verify_steps)), 2));
  row.cells.emplace_back(number(ratio(drafts + accepted, drafts), 2));
  row.cells.insert(row.cells.end(), 2, "–");
  row.cells.emplace_back(number(ratio(double(stage.drafted), accepted), 2));
  row.cells.insert(row.cells.end(), 2, "–");
  return row;
}

int num_ranks(const CellAxes& axes) { return axes.tp * axes.pp; }

/// tok/s over those of the same cell on one rank.
std::optional<RatioInterval> over_one_rank(const Report& report, const CellSummary& s) {
  if (const Claim* const gain = report.view.claim(ClaimKind::over_one_rank, s)) return gain->ratio;
  if (num_ranks(report.cell(s).axes) != 1 || s.open_loop) return std::nullopt;
  return RatioInterval{};
}

std::string busy_chart(const Report& report) {
  constexpr size_t kMaxRankBars = 96;
  BarChart chart{.title = "Busy share of each rank's device", .x_label = "share of the wall time", .scale_to = 1.0};
  for (const CellSummary* s : report.fastest()) {
    const CellAxes& axes = report.cell(*s).axes;
    const std::vector<double>& busy = s->devices.busy;
    if (num_ranks(axes) == 1 || chart.rows.size() + busy.size() > kMaxRankBars) continue;
    for (size_t rank = 0; rank < busy.size(); ++rank)
      chart.rows.push_back({.group = report.label(axes),
                            .label = rank_name(rank, int(rank) / axes.tp, axes.pp > 1),
                            .value = busy[rank],
                            .color = report.color(*s),
                            .faded = !s->rankable,
                            .text = fmt::format("{:.2f}", busy[rank])});
  }
  return chart.rows.empty() ? "" : "<h3>Busy share of each rank</h3>" + wide(chart.title, svg_bar_chart(chart));
}

}  // namespace

Section drafts_section(const Report& report) {
  const auto cells = report.cells([&](Cell s) { return report.is_done(s) && s.rows_per_step; });
  const auto draft_ms = [](Cell s) {
    return s.passes && s.passes->decode.pass_ms ? std::optional(s.passes->decode.phase_ms.draft_ms) : std::nullopt;
  };
  const auto draft_share = [&](Cell s) {
    return draft_ms(s) ? ratio(*draft_ms(s), *s.passes->decode.pass_ms) : std::nullopt;
  };
  const CellColumns columns = {
      {"coverage", "share of verify steps with drafts", field(&Fields::draft_coverage, 2)},
      {"AL", "mean acceptance length: 1 + accepted tokens / verify steps with drafts",
       field(&Fields::mean_acceptance_length, 2)},
      {"target rows", "of a sequence, mean over all verify steps: 1 + draft tokens", field(&Fields::rows_per_step, 2)},
      {"draft depth", "length of the draft (of a tree: its longest path), mean over verify steps with drafts",
       field(&Fields::mean_draft_depth, 2)},
      {"drafted / accepted", "draft tokens per accepted one", field(&Fields::drafted_per_kept, 2)},
      {"drafting ms", "per decode pass", [&](Cell s) { return number(draft_ms(s), 3); }},
      {"drafting share", "of the time of a decode pass", [&](Cell s) { return number(draft_share(s), 2); }}};
  Table table = table_of(report, "Means over all repetitions.", cells, columns);
  std::vector<Table::Row> rows;
  for (size_t i = 0; i < cells.size(); ++i) {
    rows.push_back(std::move(table.rows[i]));
    for (const StageCounters& stage : cells[i]->counters.stages)
      rows.push_back(stage_row(report.cell(*cells[i]), *cells[i], stage));
  }
  table.rows = std::move(rows);
  const bool has_stages = table.rows.size() > cells.size();
  return {
      "drafts", "What drafts cost and bring",
      cells.empty()
          ? ""
          : html_table(table, has_stages ? "" : "sortable") +
                note(std::string(
                         "target rows: rows that the target computes for a sequence, 1 + draft tokens, mean over all "
                         "verify steps. draft depth: length of the draft (of a tree: its longest path), mean over "
                         "verify steps with drafts. drafted / accepted: draft tokens per accepted one. drafting ms and "
                         "share: of a decode pass.") +
                     (has_stages ? " ↳: a stage of the row above, in the verify steps it drafted for." : ""))};
}

Section parallel_section(const Report& report) {
  Section section{"ranks", "What more ranks give"};
  const std::vector<const CellSummary*>& cells = report.fastest();
  const auto ranks = [&](Cell s) { return num_ranks(report.cell(s).axes); };
  if (std::none_of(cells.begin(), cells.end(), [&](const CellSummary* s) { return ranks(*s) > 1; })) return section;
  const auto efficiency = [&](Cell s) {
    const auto over_one = over_one_rank(report, s);
    return percent(over_one ? std::optional(over_one->ratio / ranks(s)) : std::nullopt);
  };
  const auto of_pass = [](double PhaseTimes::*phase) {
    return [phase](Cell s) { return percent(ratio(s.phase_ms_per_step.*phase, s.step_ms.value_or(0))); };
  };
  const auto communicate_ms = [](Cell s) { return s.step_ms ? number(s.phase_ms_per_step.communicate_ms, 3) : "–"; };
  const CellColumns columns = {
      {"tok/s", "", field(&Fields::output_tok_s, 1)},
      {"over one rank", "tok/s over those of the same proposer and k on one rank, with the 95 % interval",
       [&](Cell s) { return speedup_text(over_one_rank(report, s)); }},
      {"efficiency", "that ratio over the number of ranks; 100 % is perfect scaling", efficiency},
      {"communicate", "share of the sampling rank's time, prefill included", of_pass(&PhaseTimes::communicate_ms)},
      {"bubble", "share of the sampling rank's time, prefill included", of_pass(&PhaseTimes::bubble_ms)},
      {"communicate ms", "of the sampling rank, per pass, prefill included", communicate_ms},
      {"sent KiB", "per pass, prefill included, of the rank that sends most",
       [](Cell s) { return number(in_units(s.devices.communicate.bytes, kKibi), 1); }},
      {"device busy", "share of the wall time, by rank", [](Cell s) { return busy_text(s.devices.busy); }, true}};
  section.body =
      html_table(table_of(report,
                          "Each proposer at its fastest k, compared with the same proposer and the same k on one rank. "
                          "If that one-rank cell is not in this table, it is in the table of all cells.",
                          cells, columns),
                 "sortable") +
      busy_chart(report) +
      note(
          "communicate and bubble: waiting for other ranks in collectives, and for the previous pipeline stage, over "
          "all passes, prefill included; the section on the time of a pass has decode passes only. With fewer requests "
          "than pipeline stages, stages wait for each other. –: not recorded, no messages between "
          "ranks, or not meaningful (in an open loop the arrival rate sets tok/s).");
  return section;
}

Section device_section(const Report& report) {
  using Phase = Roofline DeviceSummary::*;
  using Value = std::optional<double> Roofline::*;
  using D = DeviceSummary;
  using R = Roofline;
  const auto cells = report.cells([&](Cell s) { return report.is_done(s) && !s.devices.busy.empty(); });
  const auto ms = [](Phase phase, Value value) {
    return [phase, value](Cell s) { return number(s.devices.*phase.*value, 3); };
  };
  const auto share = [](Phase phase, Value value) {
    return [phase, value](Cell s) { return percent(s.devices.*phase.*value); };
  };
  const auto ceiling = [&](std::optional<double> DeviceCeilings::*rate) {
    return [&report, rate](Cell s) { return number(in_units(report.cell(s).ceilings.*rate, kGiga), 0); };
  };
  const CellColumns columns = {
      {"device busy", "share of the wall time, by rank", [](Cell s) { return busy_text(s.devices.busy); }},
      {"target ms", "the target's forward pass", ms(&D::verify, &R::ms)},
      {"target bandwidth", "share of the peak", share(&D::verify, &R::read_share)},
      {"target FLOP/s", "share of the peak", share(&D::verify, &R::matrix_share)},
      {"target roofline", "lower bound over measured time", share(&D::verify, &R::floor_share)},
      {"draft ms", "", ms(&D::draft, &R::ms)},
      {"draft bandwidth", "share of the peak", share(&D::draft, &R::read_share)},
      {"draft FLOP/s", "share of the peak", share(&D::draft, &R::matrix_share)},
      {"draft roofline", "lower bound over measured time", share(&D::draft, &R::floor_share)},
      {"sample ms", "", ms(&D::sample, &R::ms)},
      {"sample bandwidth", "share of the peak", share(&D::sample, &R::read_share)},
      {"attention min ms", "a part of target ms, not timed by itself: its time at the measured peaks",
       ms(&D::attention, &R::floor_ms)},
      {"sent KiB", "of the rank that sends most",
       [](Cell s) { return number(in_units(s.devices.communicate.bytes, kKibi), 1); }},
      {"comm wait ms", "waits for other ranks: communicate + bubble", ms(&D::communicate, &R::ms)},
      {"link min ms", "time to send the bytes at the measured peak of the link", ms(&D::communicate, &R::floor_ms)},
      {"read GB/s", "", ceiling(&DeviceCeilings::read_bytes_s)},
      {"matrix GFLOP/s", "", ceiling(&DeviceCeilings::matrix_flops_s)},
      {"link GB/s", "", ceiling(&DeviceCeilings::link_bytes_s)}};
  std::set<std::string> matrix;
  for (const CellSummary* s : cells)
    if (const std::string& kind = report.cell(*s).ceilings.matrix; !kind.empty()) matrix.insert(html_escaped(kind));
  const std::string explained = fmt::format(
      "All columns are of the sampling rank, except device busy (each rank) and sent KiB (the rank that sends most). "
      "Prefill passes are included, so times exceed those per decode pass. comm wait: communicate + bubble, waits in "
      "collectives and for the previous pipeline stage. Percentages are shares of the measured peaks. bandwidth: "
      "weights, KV and logits read. FLOP/s: share of the matrix peak{}. roofline: the time that the reads or the FLOPs "
      "take at their peak, whichever is longer, over the measured time. min ms: a lower bound, the time at the "
      "measured peaks. read, matrix, link: the peaks. CPU ranks share the memory bandwidth, whose peak was "
      "measured with one rank.",
      matrix.empty() ? "" : fmt::format(" ({})", fmt::join(matrix, " or ")));
  return {"devices", "Roofline: devices against their peaks",
          cells.empty() ? ""
                        : html_table(table_of(report, "Per pass, prefill included.", cells, columns), "sortable") +
                              note(explained)};
}

Section memory_section(const Report& report) {
  const auto cells = report.done_cells();
  const auto count = [](int64_t RunCounters::*counter, int digits) {
    return
        [counter, digits](Cell s) { return number(double(s.counters.*counter) / std::max(1, s.repetitions), digits); };
  };
  const auto mib = [&](int64_t CellMemory::*bytes, int digits) {
    return [&, bytes, digits](Cell s) { return number(in_units(double(report.cell(s).memory.*bytes), kMebi), digits); };
  };
  const char* const planned =
      "planned once for the placement: all its ranks, and every draft model that one of its cells uses";
  const CellColumns columns = {
      {"batch", "sequences of a pass, mean", field(&Fields::sequences_per_forward, 2)},
      {"KV peak", "blocks of the target in use at most",
       [](Cell s) { return number(double(s.counters.kv_blocks_peak), 0); }},
      {"preemptions", "", count(&RunCounters::preemptions, 1)},
      {"swapped", "blocks copied to host memory", count(&RunCounters::swapped_blocks, 1)},
      {"prefix hits", "prompt tokens found in the cache", count(&RunCounters::prefix_hit_tokens, 0)},
      {"weights MiB", planned, mib(&CellMemory::weights_bytes, 1)},
      {"KV MiB", planned, mib(&CellMemory::kv_bytes, 1)},
      {"RSS MiB", "the process's peak so far: it never falls from cell to cell", mib(&CellMemory::rss_peak_bytes, 0)}};
  int64_t preemptions = 0;
  for (const CellSummary* s : cells) preemptions += s->counters.preemptions;
  const std::string sentence =
      preemptions == 0 ? "No request was preempted."
                       : fmt::format(
                             "{} preemptions: the KV cache was too small for the load, and what a preempted "
                             "request had computed was computed again or swapped.",
                             preemptions);
  return {"memory", "Preemptions and memory",
          cells.empty()
              ? ""
              : "<p>" + sentence + "</p>" +
                    folded(table_of(report, "Counts per repetition (mean; KV peak: maximum).", cells, columns))};
}

Section forecast_section(const Report& report) {
  Section section{"forecast", "Predicted time of a pass against median ITL"};
  const std::vector<ForecastRatio> ratios = forecast_ratios(report.run, report.summary);
  if (ratios.empty()) return section;
  std::map<size_t, ForecastRatio> ratio_of;
  for (const ForecastRatio& each : ratios) ratio_of[each.cell] = each;
  const auto cells = report.cells([&](Cell s) { return ratio_of.contains(s.cell); });
  const auto forecast = [&](Cell s) -> const StepForecast& { return *report.cell(s).forecast; };
  const CellColumns columns = {
      {"target MB", "weights over all ranks", [&](Cell s) { return number(forecast(s).target_bytes / kMega, 1); }},
      {"draft MB", "of the draft model, read k times for each pass",
       [&](Cell s) { return number(in_units(forecast(s).draft_bytes, kMega), 1); }},
      {"GB/s", "read bandwidth of all usable cores for so many bytes, measured when the run began",
       [&](Cell s) { return number(forecast(s).read_bytes_s / kGiga, 1); }},
      {"predicted ms", "to read the weights", [&](Cell s) { return number(ratio_of[s.cell].predicted_ms, 3); }},
      {"median ITL ms", "measured; without prefill", [&](Cell s) { return number(ratio_of[s.cell].measured_ms, 3); }},
      {"ratio", "median ITL over predicted", [&](Cell s) { return number(ratio_of[s.cell].ratio(), 2) + "×"; }}};
  const auto [least, most] = std::ranges::minmax_element(ratios, {}, &ForecastRatio::ratio);
  const auto told = [&](const ForecastRatio& of) {
    return fmt::format("{:.2f}× ({})", of.ratio(), report.label(report.run.cells[of.cell].axes));
  };
  const std::string sentence =
      fmt::format("Measured over predicted: from {} to {}; median of {}: {:.2f}×.", told(*least), told(*most),
                  counted(int64_t(ratios.size()), "cell"), *median_ratio(ratios));
  section.body =
      "<p>" + html_escaped(sentence) + "</p>" +
      html_table(table_of(report, "Predicted time of a decode pass and median ITL.", cells, columns), "sortable") +
      note(
          "The prediction is a lower bound of a decode pass: reading the target's weights from memory once, and the "
          "draft model's once per draft position, unless others may draft in its place, as in a cascade. The measured "
          "value is the median ITL: the time between two moments at which a sequence gets tokens. With one sequence at "
          "a time that is one target pass, its drafting and the time until the next pass; with more sequences the ITL "
          "is longer. GB/s is the bandwidth of all cores together, measured as the run begins. A ratio below 1 means "
          "that weights come from the CPU cache, or that the machine was busier then than later. Oversubscribed cells "
          "are left out.");
  return section;
}

}  // namespace paceline::html
