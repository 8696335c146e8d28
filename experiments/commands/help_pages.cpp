#include <algorithm>
#include <string>
#include <vector>

#include "experiments/commands/command_line.h"
#include "experiments/commands/dispatch.h"
#include "kernels/error.h"

namespace paceline {
namespace {

struct HelpPage {
  std::vector<const char*> command;  // {"config", "show"}; empty: the program
  const char* text;
};

/// Lines that begin with "  runexp " are commands, and a test reads them.
const std::vector<HelpPage>& help_pages() {
  static const std::vector<HelpPage> kPages = {
      {{},
       "A configuration file alone means run:\n"
       "  runexp configs/ngram_tp2.json --profile quick\n\n"
       "From a question to an answer:\n"
       "  runexp doctor                          is this machine fit?\n"
       "  runexp init --list                     experiments to start from\n"
       "  runexp plan configs/ngram_tp2.json     what would run, how long, in how much memory\n"
       "  runexp run configs/ngram_tp2.json      run it; Ctrl-C once ends it in order, resume goes on\n"
       "  runexp show last                       the table and the verdict again\n"
       "  runexp compare last~1 last             two runs side by side\n\n"
       "Environment:\n"
       "  PACELINE_MODELS       folder of checkpoints, for \"runexp models\" and \"${env:PACELINE_MODELS}\" in files\n"
       "  CUDA_VISIBLE_DEVICES  the GPUs that may be used\n"
       "  NO_COLOR, TERM, CI    no colours; no live view on dumb terminals and in CI\n"
       "  COLUMNS               width of tables on a terminal that does not tell its own; files and pipes get all\n\n"
       "Exit codes: 0 ok, 1 some cells failed, 2 usage or configuration, 3 a file of model or data, 4 device or\n"
       "memory, 5 ranks, 6 results cannot be written, 7 a correctness gate, 8 a timing gate, 10 a bug, 130 and 143\n"
       "interrupted.\n"
       "Manual: README.md, docs/tutorial.md, docs/experiments.md (every key; also runexp explain KEY)."},
      {{"run"},
       "Examples:\n"
       "  runexp run configs/ngram_tp2.json --profile quick\n"
       "  runexp run configs/ngram_tp2.json --axis k=1..8 --only 'tp==1 && pp==1'\n"
       "  runexp run configs/ngram_tp2.json --set engine.target.path=builtin:draft-600k --set measure.repetitions=7\n\n"
       "Tokens of speculative cells are compared with those without speculation: a difference is exit code 7. Ctrl-C\n"
       "once ends after the pass under way and writes the report (130), twice at once; what is measured is kept, and\n"
       "\"runexp resume\" goes on. A config's keys: runexp explain."},
      {{"plan"},
       "Examples:\n"
       "  runexp plan configs/ngram_tp2.json --profile quick\n"
       "  runexp plan configs/tp_pp_speculative.json --axis tp=1,2,4\n\n"
       "The forecast is what reading weights takes at the bandwidth measured now, a lower bound; where --results "
       "holds\n"
       "a like run, it is scaled by what that run took."},
      {{"resume"},
       "Examples:\n"
       "  runexp resume                          the newest run\n"
       "  runexp resume last~2 --keep-failed     another, without trying its failed cells again\n"
       "  runexp resume last --axis k=7,9        with more cells"},
      {{"show"},
       "Examples:\n"
       "  runexp show last\n"
       "  runexp show @before tp2_pp1_ngram_k3_c1    all about one cell"},
      {{"compare"},
       "Examples:\n"
       "  runexp compare last~1 last\n"
       "  runexp compare @before @after --format html > difference.html\n\n"
       "Words: faster and slower by Holm-adjusted p < 0.05 and at least --min-effect; same where the whole 95 % "
       "interval\n"
       "lies within it; else inconclusive. docs/regression.md has the statistics."},
      {{"regress"},
       "Examples:\n"
       "  runexp regress configs/ngram_tp2.json --profile quick\n"
       "  runexp regress configs/ngram_tp2.json --profile quick --baseline last --junit regress.xml --github\n"
       "  runexp regress configs/ngram_tp2.json --profile quick --baseline-bin ../base/build/release/runexp\n\n"
       "Exit codes: 7 tokens or counters differ from the baseline, 8 slower than --baseline-bin, 2 a baseline of "
       "another\n"
       "experiment."},
      {{"generate"},
       "Examples:\n"
       "  runexp generate \"Say hello.\"\n"
       "  runexp generate --proposer draft -k 3 --tp 2 \"Say hello.\""},
      {{"trace"},
       "Example:\n"
       "  runexp trace last tp2_pp1_ngram_k3_c1 > trace.json    and open it in ui.perfetto.dev"},
      {{"import-flags"},
       "FLAGS: vLLM's own, in one quoted text or as they are.\n\n"
       "Example:\n"
       "  runexp import-flags \"--tensor-parallel-size 2 --num-speculative-tokens 5\" > configs/mine.json"},
      {{"init"},
       "Examples:\n"
       "  runexp init --list\n"
       "  runexp init tp-vs-pp > configs/mine.json"},
      {{"config", "diff"},
       "Examples:\n"
       "  runexp config diff configs/ngram_tp2.json configs/tp_pp_speculative.json --origin\n"
       "  runexp config diff configs/ngram_tp2.json --profile quick"},
  };
  return kPages;
}

}  // namespace

void add_help_pages(const Command& program) {
  for (const HelpPage& page : help_pages()) {
    Command command = program;
    for (const char* const name : page.command) {
      const std::vector<Command> below = command.commands();
      command = *std::find_if(below.begin(), below.end(), [&](const Command& one) { return one.name() == name; });
    }
    command.footer(page.text);
  }
}

}  // namespace paceline
