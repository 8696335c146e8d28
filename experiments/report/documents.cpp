#include "experiments/report/documents.h"

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/html/html.h"
#include "experiments/report/text/text.h"

namespace paceline {

std::vector<RunDocument> run_documents(const RunResult& run) {
  const RunSummary summary = summarize(run);
  return {{.name = "summary.json", .content = dump_json(summary_to_json(run, summary))},
          {.name = "summary.csv", .content = summary_to_csv(run, summary)},
          {.name = "summary.md", .content = summary_markdown(run, summary)},
          {.name = "report.html", .content = report_html(run, summary, ".")}};
}

}  // namespace paceline
