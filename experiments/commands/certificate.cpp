// runexp certificate --self-test

#include <cstdio>

#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/workload/requests.h"
#include "kernels/cuda/cuda_backend.h"
#include "speculative/selftest/self_test.h"

namespace paceline {
namespace {

constexpr size_t kPromptsOfEach = 6;  // built-in workloads

std::vector<std::vector<int32_t>> self_test_prompts(const std::filesystem::path& builtin,
                                                    const std::filesystem::path& target) {
  const auto tokenizer = Tokenizer::load(target);
  std::vector<std::vector<int32_t>> tokens;
  for (const char* const name : {"builtin:reading_qa", "builtin:code_prompts"}) {
    std::vector<Prompt> prompts = load_dataset(name, builtin / "workloads");
    prompts.resize(std::min(prompts.size(), kPromptsOfEach));
    for (EncodedPrompt& prompt : encode_prompts(prompts, *tokenizer, target, ChatFormat::template_of_model))
      tokens.push_back(std::move(prompt.tokens));
  }
  return tokens;
}

ExitCode self_test_command(const std::string& device, int clean_runs) {
  const std::filesystem::path builtin = find_builtin_root("config.json");
  if (builtin.empty()) fail_without_builtin_root("builtin:target-7m");
  if (device == "cuda" && num_cuda_devices() == 0)
    fail(ExitCode::device, "--device cuda: this build has no CUDA backend, or the machine no GPU; use cpu");
  install_interrupt_handler();
  const std::filesystem::path target = builtin / "models" / "target-7m";
  const SelfTestReport report =
      run_self_test({.target = target,
                     .draft = builtin / "models" / "draft-600k",
                     .head = builtin / "models" / "eagle3-target-7m",
                     .prompts = self_test_prompts(builtin, target),
                     .device = device,
                     .clean_runs = clean_runs,
                     .progress = [](const std::string& line) { fmt::print(stderr, "  {}\n", line); },
                     .stop_now = [] { return num_interrupts() > 0; }});
  fmt::print("{}", self_test_text(report));
  if (report.was_stopped) return interrupt_exit_code();
  return report.passed() ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace

void add_certificate_command(const Command& program) {
  struct Certificate {
    bool self_test = false;
    std::string device = "cpu";
    int clean_runs = 200;
  };
  const auto certificate = std::make_shared<Certificate>();
  program.below("certificate", "plant known faults in the engine and look whether certificates find them")
      .flag("--self-test", certificate->self_test, "do it; takes one to five minutes", {.required = true})
      .option("--device", certificate->device, "", {.shown = true, .words = {"cpu", "cuda"}})
      .option("--clean-runs", certificate->clean_runs, "runs without a fault, in which nothing may be found",
              {.shown = true, .least = 0, .most = 100000})
      .calls([certificate] { return self_test_command(certificate->device, certificate->clean_runs); });
}

}  // namespace paceline
