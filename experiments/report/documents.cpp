#include "experiments/report/documents.h"

#include <fmt/format.h>

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"

namespace paceline {

namespace {

std::string table(const char* title, const std::string& rows) {
  return fmt::format("### {}\n| field | meaning |\n|---|---|\n{}\n", title, rows);
}

template <class List>
std::string rows_of(const List& list) {
  std::string rows;
  list([&](const char* name, auto, const char* meaning, FieldRule = FieldRule::plain) {
    rows += fmt::format("| `{}` | {} |\n", name, meaning);
  });
  return rows;
}

template <class T>
std::string table_of(const char* title) {
  return table(title, rows_of([](auto&& visit) { FieldsOf<T>::visit(visit); }));
}

}  // namespace

std::vector<RunDocument> run_documents(const RunResult& run) {
  const RunSummary summary = summarize(run);
  return {{.name = "summary.json", .content = dump_json(summary_to_json(run, summary))},
          {.name = "summary.csv", .content = summary_to_csv(run, summary)},
          {.name = "summary.md", .content = summary_markdown(run, summary)},
          {.name = "report.html", .content = report_html(run, summary, ".")}};
}

std::string record_docs() {
  const std::string cell = rows_of([](auto&& visit) {
    CellResult::plan_fields(visit);
    CellResult::load_fields(visit);
    CellResult::result_fields(visit);
  });
  const std::string summarized = rows_of([](auto&& visit) { FieldsOf<CellSummary>::visit(visit); }) +
                                 "| `label` | what reports call the cell |\n"
                                 "| `log` | its log.txt, from the folder of the run; null: there is none |\n";
  return "## Fields\n" + table("A cell, in cell.json and summary.json", cell) +
         table("A cell in summary.json, besides", summarized) + table_of<CellAxes>("`axes`") +
         table_of<PublishedSpeedup>("`published`") + table_of<StepForecast>("`forecast` of a cell") +
         table_of<CellMemory>("`memory`") + table_of<DeviceCeilings>("`ceilings`") +
         table_of<CertificateResult>("`certificate`") + table_of<FlipCount>("`flips`") +
         table_of<RunCounters>("`counters`") + table_of<StageCounters>("`counters.stages[]`") +
         table_of<PhaseTimes>("`phase_ms`, `phase_ms_per_step`") +
         table_of<PassSummary>("`passes` in summary.json: of `prefill`, `decode` and `mixed`") +
         table_of<Roofline>("`roofline`: of `verify`, `draft`, `sample`, `attention` and `communicate`") +
         table_of<OpenLoopSummary>("`open_loop`") + table_of<Goodput>("`goodput`") +
         table_of<CategorySummary>("`by_category[]`") +
         table_of<RepetitionResult>("`repetitions[]` in cell.json and the journal") +
         table_of<PassTimes>("`passes` of a repetition: of `prefill`, `decode` and `mixed`") +
         table_of<RankWork>("`ranks[]` of a repetition") + table_of<Work>("`verify`, `draft`, `sample` of a rank") +
         table_of<Disturbance>("`disturbance`") + table_of<ClientRecord>("`client`") +
         table_of<TimelinePoint>("`timeline`, as columns") +
         table_of<LogitCheck>("`logit_checks[]`, in fast numerics") +
         table_of<RequestRecord>("requests.jsonl, with `repetition`") +
         table_of<LaneActivity>("A rank in ranks.json, as columns beside `stage`, `shard` and `device`") +
         table_of<WorkloadFacts>("`workload` of a run");
}

}  // namespace paceline
