#include "experiments/doctor/doctor.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

#include "experiments/report/text/text.h"
#include "kernels/cpu/mapped_memory.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

/// Two GPUs of a healthy machine, measured.
DoctorFacts healthy() {
  DoctorFacts facts;
  facts.environment = {{"build_type", "release"}, {"compiler", "12.2.0"},       {"cpu_model", "Example CPU"},
                       {"load_average", "0.10"},  {"memory_total_bytes", 64e9}, {"memory_available_bytes", 60e9}};
  facts.built = {Isa::scalar, Isa::avx2, Isa::avx512};
  facts.of_machine = {Isa::scalar, Isa::avx2};
  facts.used = Isa::avx2;
  facts.cores = {.affinity = 8, .quota = {}};
  facts.usable_cores = 8;
  facts.memory_limit_bytes = size_t(32e9);
  facts.models = {{"builtin:target-7m", ""}};
  facts.datasets = {{"builtin:reading_qa", ""}};
  facts.results = {.folder = "results", .error = "", .free_bytes = uint64_t(50e9)};
  facts.cpu = {.threads = 8, .read_bytes_s = 50e9, .fma_flops_s = 900e9, .dot_flops_s = 0};
  facts.nccl = "2.28.3";
  facts.cuda.driver = {.state = DriverState::works, .toolkit = 13000, .supports = 13000, .release = "580.65.06"};
  facts.cuda.architectures = "90a-real";
  for (int index = 0; index < 2; ++index) {
    CudaDeviceFacts device{.index = index, .name = "Example GPU", .pci = "0000:1b:00.0", .major = 9};
    device.num_sms = 132;
    device.sm_clock_mhz = 1980;
    device.total_bytes = size_t{140} << 30;
    device.free_bytes = size_t{139} << 30;
    facts.cuda.devices.push_back(device);
    facts.gpus.push_back(
        {.memory = {4.1e12, 4.3e12}, .matrix_flops_s = 610e12, .fast_matrix_flops_s = 750e12, .matrix_size = 8192});
  }
  facts.cuda.reaches = {1, 1, 1, 1};
  facts.links = {{.from = 0, .to = 1, .rate = {370e9, 1.6e-6}}, {.from = 1, .to = 0, .rate = {370e9, 1.6e-6}}};
  return facts;
}

const Check* find(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const Check& check) { return check.name == name; });
  return found == checks.end() ? nullptr : &*found;
}

/// The only check that is not well, and every check in order: a fix where there is something to fix, a code where a run
/// would end.
Check only_cross(const DoctorFacts& facts) {
  std::vector<Check> crosses;
  for (const Check& check : doctor_checks(facts)) {
    const bool cross = check.finding == Finding::weak || check.finding == Finding::broken;
    EXPECT_EQ(check.fix.empty(), !cross) << check.name << ": " << check.text;
    EXPECT_EQ(check.code == ExitCode::ok, check.finding != Finding::broken) << check.name;
    EXPECT_EQ((check.text + check.fix).find('\n'), std::string::npos) << check.text;
    if (cross) crosses.push_back(check);
  }
  EXPECT_EQ(crosses.size(), 1u);
  return crosses.empty() ? Check{} : crosses.front();
}

void expect_cross(const DoctorFacts& facts, Finding finding, ExitCode code, const std::string& text,
                  const std::string& fix) {
  const Check cross = only_cross(facts);
  EXPECT_EQ(to_string(cross.finding), std::string(to_string(finding))) << cross.text;
  EXPECT_EQ(int(cross.code), int(code));
  EXPECT_NE(cross.text.find(text), std::string::npos) << cross.text;
  EXPECT_NE(cross.fix.find(fix), std::string::npos) << cross.fix;
  EXPECT_EQ(int(doctor_exit_code(doctor_checks(facts))), int(code));
}

TEST(Doctor, AHealthyMachineHasNothingToMend) {
  const DoctorFacts facts = healthy();
  const std::vector<Check> checks = doctor_checks(facts);
  for (const Check& check : checks) EXPECT_EQ(int(check.finding), int(Finding::good)) << check.name << check.text;
  EXPECT_EQ(int(doctor_exit_code(checks)), 0);
  EXPECT_EQ(find(checks, "processor")->text, "Example CPU, uses avx2");
  EXPECT_EQ(find(checks, "arithmetic")->text, "900 GFLOP/s of float32 FMAs with 8 threads");
  EXPECT_EQ(find(checks, "cuda:1 memory")->text, "reads 4.10 TB/s, copies 4.30 TB/s (read + written)");
  EXPECT_EQ(find(checks, "cuda:0 matrices")->text, "610 TFLOP/s in our bfloat16 GEMM of 8192³");
  EXPECT_EQ(find(checks, "cuda:0 matrices, fast")->text, "750 TFLOP/s in cuBLASLt's bfloat16 GEMM of 8192³");
  EXPECT_EQ(find(checks, "cuda:0 to cuda:1")->text, "370 GB/s, 1.6 µs a small copy");
  EXPECT_EQ(find(checks, "peer access")->text, "all 2 reach each other's memory");
  EXPECT_TRUE(doctor_text(checks, 0).ends_with("\nnothing to fix\n"));
}

TEST(Doctor, WithoutGpusThatIsOneCalmLine) {
  for (const DriverState state : {DriverState::not_built, DriverState::absent, DriverState::no_device}) {
    DoctorFacts facts = healthy();
    facts.cuda = {};
    facts.cuda.driver.state = state;
    facts.gpus.clear();
    facts.links.clear();
    const std::vector<Check> checks = gpu_checks(facts);
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_EQ(int(checks[0].finding), int(Finding::note)) << checks[0].text;
    EXPECT_TRUE(checks[0].text.starts_with("not used: ")) << checks[0].text;
    EXPECT_EQ(int(doctor_exit_code(doctor_checks(facts))), 0);
  }
}

TEST(Doctor, ADriverThatCannotCarryTheBuildIsBroken) {
  DoctorFacts facts = healthy();
  facts.cuda = {};
  facts.cuda.driver = {.state = DriverState::too_old, .toolkit = 13000, .supports = 12000, .release = "525.105.17"};
  facts.gpus.clear();
  facts.links.clear();
  expect_cross(facts, Finding::broken, ExitCode::device,
               "driver 525.105.17 (CUDA 12.0) is older than the toolkit's 13.0", "install driver 580 or newer");
  facts.cuda.driver = {.state = DriverState::no_device, .toolkit = 13000, .supports = 13000, .visible = "4"};
  expect_cross(facts, Finding::weak, ExitCode::ok, "CUDA_VISIBLE_DEVICES is \"4\"", "nvidia-smi -L");
}

TEST(Doctor, EachThingThatIsWrongHasOneFix) {
  DoctorFacts facts = healthy();
  facts.cuda.reaches = {1, 0, 1, 1};
  expect_cross(facts, Finding::weak, ExitCode::ok, "none between cuda:0 and cuda:1: sums go over NCCL",
               "set NCCL_P2P_DISABLE=1 only if NCCL hangs");
  facts = healthy();
  facts.nccl.clear();
  expect_cross(facts, Finding::broken, ExitCode::device, "several ranks cannot run on GPUs", "libnccl-dev");
  facts = healthy();
  facts.cuda.devices[1].error = "device cuda: cudaSetDevice failed: an illegal memory access was encountered";
  expect_cross(facts, Finding::broken, ExitCode::device, "illegal memory access", "engine.devices");
  facts = healthy();
  facts.cuda.devices[0].prohibited = true;
  expect_cross(facts, Finding::broken, ExitCode::device, "compute mode", "nvidia-smi -i 0000:1b:00.0 -c DEFAULT");
  facts = healthy();
  facts.cuda.devices[0].major = 7;
  expect_cross(facts, Finding::broken, ExitCode::device, "8.0 or newer is needed", "backend cpu");
  facts = healthy();
  facts.cuda.architectures = "80-real";
  for (CudaDeviceFacts& device : facts.cuda.devices) device.major = 8;
  facts.cuda.devices[1].major = 12;
  facts.gpus[1].error = "no kernel image is available for execution on the device";
  expect_cross(facts, Finding::broken, ExitCode::device, "has compute capability 12.", "CMAKE_CUDA_ARCHITECTURES");
  facts = healthy();
  facts.cuda.devices[0].free_bytes = size_t{100} << 30;
  expect_cross(facts, Finding::weak, ExitCode::ok, "100.0 of 140.0 GiB free: others use it", "nvidia-smi");
  facts = healthy();
  facts.gpus[1].error = "device cuda:1: its work did not end within 5 s";
  expect_cross(facts, Finding::broken, ExitCode::device, "did not end within 5 s", "engine.devices");
  facts = healthy();
  facts.results.error = "results: / cannot be written: Read-only file system";
  expect_cross(facts, Finding::broken, ExitCode::store, "Read-only file system", "--results DIR");
  facts = healthy();
  facts.results.free_bytes = 1000;
  expect_cross(facts, Finding::weak, ExitCode::ok, "0.0 GB free", "make room");
  facts = healthy();
  facts.models.clear();
  expect_cross(facts, Finding::weak, ExitCode::ok, "none found", "run in the repository");
  facts = healthy();
  facts.models.push_back({"builtin:cut", "config.json: unexpected end"});
  expect_cross(facts, Finding::weak, ExitCode::ok, "unexpected end", "fetch it again");
  facts = healthy();
  facts.of_machine.push_back(Isa::avx512_bf16);
  expect_cross(facts, Finding::weak, ExitCode::ok, "this machine has avx512-bf16 too", "newer compiler");
  facts = healthy();
  facts.environment["build_type"] = "with assertions";
  expect_cross(facts, Finding::weak, ExitCode::ok, "its times mean nothing", "preset release");
  facts = healthy();
  facts.environment["load_average"] = "4.50";
  expect_cross(facts, Finding::weak, ExitCode::ok, "4.50 runnable over the last minute, 8 cores", "measure later");
  facts = healthy();
  facts.memory_limit_bytes = size_t{512} << 20;
  expect_cross(facts, Finding::weak, ExitCode::ok, "0.5 GiB may be used (cgroup)", "raise the container's limit");
  facts = healthy();
  facts.cores.quota = 0.5;
  expect_cross(facts, Finding::weak, ExitCode::ok, "less than one core", "one whole core");
}

TEST(Doctor, TheFirstBrokenThingGivesTheCode) {
  DoctorFacts facts = healthy();
  facts.results.error = "results: gone";
  facts.nccl.clear();
  EXPECT_EQ(int(doctor_exit_code(doctor_checks(facts))), int(ExitCode::store));
  const std::string text = doctor_text(doctor_checks(facts), 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::ptrdiff_t(doctor_checks(facts).size()) + 2 + 3 + 4 + 2)
      << "a line a check, two fixes, three blank lines, four sections, the last two lines\n"
      << text;
  EXPECT_TRUE(text.ends_with("\n2 problems to fix\n")) << text;
}

TEST(Doctor, ItsLinesFitANarrowTerminal) {
  DoctorFacts facts = healthy();
  facts.results.error =
      "results: gone, and with it what stood there of runs that took a whole night to come to their end";
  const std::string text = doctor_text(doctor_checks(facts), 60);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) EXPECT_LE(display_width(line), 60) << line;
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'), std::ptrdiff_t(doctor_checks(facts).size()) + 10);
}

// Strict runs need no library.
TEST(Doctor, AMissingLibraryOfFastNumericsIsANote) {
  DoctorFacts facts = healthy();
  facts.gpus[0].fast_matrix_flops_s = 0;
  facts.gpus[0].fast_error = "device cuda: fast numerics need cuBLASLt: no such file; install libcublas";
  const std::vector<Check> checks = doctor_checks(facts);
  const Check* const check = find(checks, "cuda:0 matrices, fast");
  ASSERT_TRUE(check);
  EXPECT_EQ(check->finding, Finding::note);
  EXPECT_EQ(check->text, "engine.numerics fast does not run: " + facts.gpus[0].fast_error);
  EXPECT_EQ(doctor_exit_code(checks), ExitCode::ok);
  EXPECT_EQ(doctor_json(facts, checks)["gpus"][0]["fast_error"], facts.gpus[0].fast_error);
  EXPECT_TRUE(doctor_json(facts, checks)["gpus"][0]["fast_matrix_flops_s"].is_null());
}

TEST(Doctor, JsonHoldsFactsAndChecks) {
  DoctorFacts facts = healthy();
  facts.cuda.reaches = {1, 0, 1, 1};
  facts.gpus[1].matrix_flops_s = 0;
  const std::vector<Check> checks = doctor_checks(facts);
  const nlohmann::json document = doctor_json(facts, checks);
  EXPECT_EQ(document["schema"], "paceline.doctor");
  EXPECT_EQ(document["exit_code"], 0);
  EXPECT_EQ(document["checks"].size(), checks.size());
  EXPECT_EQ(document["peer_access"], nlohmann::json::parse("[[true, false], [true, true]]"));
  EXPECT_EQ(document["gpus"][0]["read_bytes_s"], 4.1e12);
  EXPECT_TRUE(document["gpus"][1]["matrix_flops_s"].is_null()) << "not measured is not zero";
  EXPECT_EQ(document["links"][1]["from"], 1);
  EXPECT_EQ(document["driver"]["cuda"], "13.0");
  EXPECT_EQ(document["build"]["nccl"], "2.28.3");
  EXPECT_EQ(document["cores"]["cgroup_quota"], nullptr);
}

TEST(Doctor, WhatIsNotThereIsNullInJson) {
  DoctorFacts facts = healthy();
  facts.nccl = facts.cuda.architectures = facts.cuda.driver.release = "";
  const nlohmann::json document = doctor_json(facts, doctor_checks(facts));
  EXPECT_EQ(document["build"]["nccl"], nullptr);
  EXPECT_EQ(document["build"]["cuda_architectures"], nullptr);
  EXPECT_EQ(document["driver"]["release"], nullptr);
}

TEST(DoctorFacts, AreThoseOfThisMachine) {
  const test::TempDir folder;
  const DoctorFacts facts = collect_doctor_facts(folder / "results");
  EXPECT_EQ(facts.results.error, "");
  EXPECT_GT(facts.results.free_bytes, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it leaves nothing behind";
  EXPECT_GE(facts.models.size(), 3u);  // a head among them
  for (const FoundFile& model : facts.models) EXPECT_EQ(model.error, "") << model.name;
  EXPECT_EQ(facts.usable_cores, usable_cores());
  EXPECT_EQ(facts.cpu.threads, usable_cores());
  EXPECT_EQ(facts.built.front(), Isa::scalar);
  EXPECT_EQ(facts.of_machine.back() >= best_isa(), true);
  EXPECT_TRUE(make_backend("cpu", {})->describe().starts_with("cpu " + isa_name(facts.used) + " "));
  if (best_isa() >= ceilings::kReadNeeds) {
    EXPECT_GT(facts.cpu.read_bytes_s, 1e8);
    EXPECT_LT(facts.cpu.read_bytes_s, 1e13);
  }
  const DoctorFacts none = collect_doctor_facts("/proc/results");
  EXPECT_NE(none.results.error.find("cannot be written"), std::string::npos) << none.results.error;
  const DoctorFacts file = collect_doctor_facts("/proc/version/results");
  EXPECT_NE(file.results.error.find("is no folder"), std::string::npos) << file.results.error;
}

TEST(Ceilings, MatrixRateCountsTwoOperationsAProduct) {
  const auto backend = make_backend("cpu", {.threads = usable_cores()});
  const Traffic before = backend->traffic();
  const auto begin = ceilings::Clock::now();
  const double rate = measure_matrix_rate(*backend, 1024);
  const double seconds = ceilings::seconds_since(begin);
  const uint64_t flops = backend->traffic().flops - before.flops;
  EXPECT_EQ(flops, uint64_t{6} * 2 * 1024 * 1024 * 1024) << "a round to warm up and five";
  EXPECT_GT(rate, double(flops) / seconds) << "of the rounds, not of filling the matrices";
  EXPECT_LT(rate, 1e15);
  EXPECT_EQ(backend->memory().buffers, 0u);
  EXPECT_EQ(backend->memory().weights, 0u);
}

TEST(Ceilings, MatrixRateIsThatOfTheNumerics) {
  EXPECT_GT(measure_matrix_rate("cpu", Numerics::strict, 1024), 0);
  test::expect_error(ExitCode::device, {"found fast numerics"},
                     [] { measure_matrix_rate("cpu", Numerics::fast, 1024); });
}

TEST(Ceilings, ReadAndArithmeticRates) {
  ThreadPool pool(1);
  const MappedMemory memory(size_t{4} << 20);
  const ceilings::Region region{static_cast<const char*>(memory.data()), memory.bytes()};
  const CpuRates rates = measure_cpu(pool, {&region, 1}, 2);
  EXPECT_EQ(rates.threads, 1);
  EXPECT_EQ(rates.fma_flops_s > 0, best_isa() >= Isa::avx2);
  EXPECT_EQ(rates.dot_flops_s > 0, best_isa() >= Isa::avx512_bf16);
}

}  // namespace
}  // namespace paceline
