// runexp resume

#include <cstdio>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/execute_run.h"
#include "experiments/results/files/run_names.h"

namespace paceline {
namespace {

struct ResumeCommand {
  RunCommand run;
  std::string name = "last";
  std::vector<std::string> axis;
  bool keep_failed = false;
  bool allow_mixed_build = false;
};

/// "tp1_pp1_none_c1 and 11 others have all their repetitions, …": where the run stands, before it goes on.
std::string standing(const RunResult& run) {
  const CellCounts counts = count_cells(run.cells);
  return fmt::format("{} of {} complete, {} begun, {} failed, {} not run", counts.done - counts.partial,
                     counted(counts.planned(), "cell"), counts.partial, counts.failed, counts.not_run);
}

ExitCode resume_command(const ResumeCommand& command) {
  const std::filesystem::path folder = find_run(command.run.results_root, command.name);
  const int failures_accepted = command.keep_failed ? count_cells(read_record(folder).run.cells).failed : 0;
  return in_a_process(
             command.run,
             [&](const SupervisedTask& task) {
               ResumeOptions resume(folder);
               resume.failed = command.keep_failed || task.is_restart ? FailedCells::keep : FailedCells::retry;
               resume.failures_accepted = failures_accepted;
               resume.restart = task.is_restart ? Restart::yes : Restart::no;
               resume.mixed = command.allow_mixed_build ? MixedBuilds::allow : MixedBuilds::refuse;
               if (!task.is_restart) {
                 const RunResult& run = resume.recorded.run;
                 std::fputs(fmt::format("resuming {}: {}\n", run.info.id, standing(run)).c_str(), stderr);
               }
               // The folder holds the grown sweep once a process began it.
               return resume_run(command.run, task, std::move(resume),
                                 task.is_restart ? std::vector<std::string>() : command.axis);
             },
             folder)
      .code;
}

}  // namespace

void add_resume_command(const Command& program) {
  const auto resume = std::make_shared<ResumeCommand>();
  const Command command =
      program.below("resume", "go on with a run that was interrupted or killed: what is recorded is not run again");
  command.option("run", resume->name, "last, last~N, @TAG, the beginning of an id, or a folder", {.shown = true})
      .repeated("--axis", resume->axis, "more values of an axis, or a new axis; the cells that there are stay",
                "KEY=VALUES")
      .flag("--keep-failed", resume->keep_failed,
            "do not try failed cells again, and go on although a sweep stopped at them")
      .flag("--allow-mixed-build", resume->allow_mixed_build,
            "go on although the program is another build; the report says so");
  add_output_options(command, resume->run);
  add_process_option(command, resume->run);
  command.calls([resume, command] {
    resume->run.argv = command.argv();
    return resume_command(*resume);
  });
}

}  // namespace paceline
