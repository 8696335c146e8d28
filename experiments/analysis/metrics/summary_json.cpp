// summary.json and summary.csv. Field names are a contract: results/README.md.

#include <fmt/format.h>

#include "experiments/analysis/claims/claim.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/metrics/csv.h"
#include "experiments/analysis/metrics/forecast_ratio.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/published_rows.h"
#include "experiments/analysis/verdict/verdict.h"
#include "experiments/client/openai_client.h"

namespace paceline {

using nlohmann::json;

namespace {

/// Null in place of what the server of a cell did not state.
void clear_unknown_counters(const CellResult& cell, json& counters) {
  if (cell.repetitions.empty() || !cell.repetitions.front().client) return;
  const bool states_drafts = cell.repetitions.front().client->acceptance_from != name_of(SpeculationSource::none);
  for (auto& [name, value] : counters.items())
    if (!states_drafts || !is_told_by_servers(name)) value = nullptr;
}

json cell_summary_to_json(const CellResult& cell, const CellSummary& s) {
  json out = cell_to_json(cell);
  for (const char* key : {"schema", "schema_version", "repetitions", "requested", "logit_checks", "timeline"})
    out.erase(key);
  out.update(fields_to_json(s));
  clear_unknown_counters(cell, out["counters"]);
  out["label"] = axes_label(cell.axes);
  out["log"] = cell.folder.empty() ? json(nullptr) : json("cells/" + cell.folder + "/log.txt");
  return out;
}

/// How the predictions of steps held: what `plan` calibrates by.
json forecast_to_json(const RunResult& run, const RunSummary& summary) {
  const std::vector<ForecastRatio> ratios = forecast_ratios(run, summary);
  if (ratios.empty()) return nullptr;
  const ForecastRatio& farthest = *farthest_off(ratios);
  return {{"cells", ratios.size()},
          {"median_ratio", json_number(median_ratio(ratios))},
          {"time_ratio", json_number(time_ratio(run, ratios))},
          {"farthest", {{"id", run.cells[farthest.cell].id}, {"ratio", json_number(farthest.ratio())}}}};
}

constexpr std::string_view kCsvColumns =
    "id status tp=axes/tp pp=axes/pp proposer=axes/proposer variant=axes/variant "
    "num_speculative_tokens=axes/num_speculative_tokens concurrency=axes/concurrency output_tok_s "
    "requests_per_device_minute speedup "
    "speedup_ci95_low=speedup_ci95/0 speedup_ci95_high=speedup_ci95/1 decode_speedup mean_acceptance_length "
    "draft_acceptance_rate draft_coverage tokens_per_target_forward ttft_ms_p50=ttft_ms/p50 "
    "ttft_ms_p99=ttft_ms/p99 tpot_ms_p50=tpot_ms/p50 tpot_ms_p99=tpot_ms/p99 itl_ms_p50=itl_ms/p50 "
    "itl_ms_p99=itl_ms/p99 degenerate_share step_ms busy device_busy "
    "verify_read_share=roofline/verify/read_share verify_matrix_share=roofline/verify/matrix_share "
    "verify_floor_share=roofline/verify/floor_share draft_floor_share=roofline/draft/floor_share "
    "certificate=certificate/status tokens_checked=certificate/tokens_checked numerics "
    "flips=certificate/flips/found flips_explained=certificate/flips/explained "
    "logit_noise=certificate/flips/noise oversubscribed outcome reason load "
    "offered_rate_per_s=open_loop/offered_rate_per_s achieved_rate_per_s=open_loop/achieved_rate_per_s "
    "saturated=open_loop/saturated goodput_share=goodput/share goodput_rate_per_s=goodput/rate_per_s "
    "ttft_ms_p90=ttft_ms/p90 tpot_ms_p90=tpot_ms/p90 noisy";

}  // namespace

json summary_to_json(const RunResult& run, const RunSummary& summary) {
  json cells = json::array();
  for (const CellSummary& s : summary.cells) cells.push_back(cell_summary_to_json(run.cells[s.cell], s));
  const VerdictView view(run, summary);
  const RunVerdict verdict = make_verdict(view);
  json details = json::array();
  for (const VerdictSentence& v : verdict.details) details.push_back({{"kind", to_string(v.kind)}, {"text", v.text}});
  json published = json::array();
  for (const PublishedRow& row : published_rows(run, summary))
    published.push_back({{"label", row.label},
                         {"over", row.over},
                         {"measured", json_number(row.measured)},
                         {"published", row.published},
                         {"source", row.source},
                         {"why", row.why}});
  return {{"schema", "paceline.summary"},
          {"schema_version", 1},
          {"name", run.info.name},
          {"id", run.info.id},
          {"profile", run.info.profile.empty() ? json(nullptr) : json(run.info.profile)},
          {"status", run.info.status},
          {"numerics", run.info.numerics},
          {"config_hash", run.info.config_hash},
          {"argv", run.info.argv},
          {"started_at", run.info.started_at},
          {"devices", devices_used(run)},
          {"cuda_visible_devices", run.environment.is_object() && run.environment.contains("cuda_visible_devices")
                                       ? run.environment["cuda_visible_devices"]
                                       : json(nullptr)},
          {"workload", fields_to_json(run.workload)},
          {"slo", run.slo.empty() ? json(nullptr)
                                  : json{{"ttft_ms", json_number(run.slo.ttft_ms)},
                                         {"tpot_ms", json_number(run.slo.tpot_ms)},
                                         {"attainment", run.slo.attainment}}},
          {"wall_s", json_number(run.wall_s)},
          {"num_cells", run.cells.size()},
          {"num_done", summary.done},
          {"num_partial", summary.partial},
          {"num_failed", summary.failed},
          {"num_skipped", summary.skipped},
          {"num_not_run", summary.not_run},
          {"valid", verdict.validity.is_valid()},
          {"invalid_reasons", verdict.validity.reasons},
          {"headline", verdict.headline},
          {"verdict", details},
          {"claims", claims_to_json(view)},
          {"published", published},
          {"forecast", forecast_to_json(run, summary)},
          {"cells", cells}};
}

std::string summary_to_csv(const RunResult& run, const RunSummary& summary) {
  std::vector<json> rows;
  for (const CellSummary& s : summary.cells) {
    const CellResult& cell = run.cells[s.cell];
    rows.push_back(cell_summary_to_json(cell, s));
    rows.back()["numerics"] = has_fast_numerics(cell) ? "fast" : "strict";
  }
  return to_csv(kCsvColumns, rows);
}

}  // namespace paceline
