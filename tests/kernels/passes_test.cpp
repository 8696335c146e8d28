// Passes: what a device remembers of them changes nothing that ops, copies and errors do.

#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

constexpr int kTimes = 5;  // the first ones are watched, later ones remembered

class Passes : public BackendOps {
 protected:
  /// x[2][kCols] · wᵀ by an op of its own.
  static constexpr int kCols = 64;
  std::vector<float> product_of(const std::vector<float>& x) {
    GuardedRows in(backend(), 2, kCols, x), out(backend(), 2, kCols);
    backend().gemm({.x = in.view(), .w = weight().get(), .y = out.view()});
    return out.read();
  }
  double seconds() {
    backend().sync();
    return backend().work(WorkKind::draft).seconds;
  }
  const Weight& weight() {
    if (!weight_) {
      const StoredMatrix w(kCols, kCols, DType::bf16, 1);
      const HostWeight part = w.host();
      weight_ = backend().pack({&part, 1}, {});
    }
    return weight_;
  }

 private:
  Weight weight_;
};

TEST_P(Passes, KeepCopiesInTheirPlace) {
  const size_t bytes = 2 * kCols * sizeof(float);
  void* const x = backend().alloc(bytes);
  void* const y = backend().alloc(bytes);
  const auto view = [](void* data) { return f32_view(static_cast<float*>(data), 2, kCols); };
  for (int time = 0; time < kTimes; ++time) {
    const std::vector<float> first = random_values(2 * kCols, uint32_t(time)),
                             second = random_values(2 * kCols, uint32_t(time) + 100);
    std::vector<float> of_first(2 * kCols), of_second(2 * kCols);
    backend().run(7, [&] {
      backend().upload(x, first.data(), bytes);
      backend().gemm({.x = view(x), .w = weight().get(), .y = view(y)});
      backend().gemm({.x = view(x), .w = weight().get(), .y = view(y)});
      backend().download(of_first.data(), y, bytes);
      backend().upload(x, second.data(), bytes);
      backend().gemm({.x = view(x), .w = weight().get(), .y = view(y)});
      backend().gemm({.x = view(x), .w = weight().get(), .y = view(y)});
    });
    backend().download(of_second.data(), y, bytes);
    EXPECT_EQ(of_first, product_of(first)) << time;
    EXPECT_EQ(of_second, product_of(second)) << time;
  }
  backend().free(x);
  backend().free(y);
}

TEST_P(Passes, AreRememberedByDevicesThatCan) {
  for (const bool graphs : {true, false}) {
    BackendOptions options = GetParam().options();
    options.graphs = graphs;
    const auto device = make_backend(GetParam().device, options);
    const StoredMatrix w(kCols, kCols, DType::bf16, 1);
    const HostWeight part = w.host();
    const Weight packed = device->pack({&part, 1}, {});
    for (int time = -1; time < kTimes; ++time) {
      const std::vector<float> x = random_values(2 * kCols, uint32_t(time));
      GuardedRows in(*device, 2, kCols, x), once(*device, 2, kCols), twice(*device, 2, kCols);
      const auto give_out = [&] {
        device->gemm({.x = in.view(), .w = packed.get(), .y = once.view()});
        device->gemm({.x = once.view(), .w = packed.get(), .y = twice.view()});
      };
      time < 0 ? give_out() : device->run(6, give_out);  // memory that the device takes at first would cut the pass
      EXPECT_EQ(twice.read(), product_of(product_of(x))) << time;
    }
    const bool remembers = GetParam().device != "cpu" && graphs;
    EXPECT_EQ(cuda_graphs_launched(*device), remembers ? uint64_t(kTimes - 2) : 0u);
  }
}

TEST_P(Passes, ArePiecesOfWorkFromTheirFirstLaunchOn) {
  constexpr auto kRest = std::chrono::milliseconds(80);  // many times what the products take, under sanitizers, too
  const std::vector<float> x = random_values(2 * kCols, 1);
  GuardedRows in(backend(), 2, kCols, x), out(backend(), 2, kCols);
  const auto multiply = [&] {
    for (int i = 0; i < 3; ++i) backend().gemm({.x = in.view(), .w = weight().get(), .y = out.view()});
  };
  multiply();
  for (int time = 0; time < kTimes; ++time) {
    const double before = seconds();
    backend().begin_work(WorkKind::draft);
    backend().run(5, [&] {
      std::this_thread::sleep_for(kRest);
      multiply();
    });
    backend().end_work(0.0);
    const double counted = seconds() - before;
    EXPECT_GT(counted, 0.0);
    if (GetParam().device != "cpu") {
      EXPECT_LT(counted, std::chrono::duration<double>(kRest / 2).count())
          << "a device with a clock of its own had nothing to do";
    }
  }
  const double before = seconds();
  backend().run(4, [&] {
    backend().begin_work(WorkKind::draft);
    multiply();
    backend().end_work(0.0);
  });
  EXPECT_GT(seconds(), before) << "a piece within a pass";
}

TEST_P(Passes, LeaveWhatWasGivenOutBeforeAnError) {
  for (int time = 0; time < kTimes; ++time) {
    const std::vector<float> x = random_values(2 * kCols, uint32_t(time));
    GuardedRows in(backend(), 2, kCols, x), once(backend(), 2, kCols), twice(backend(), 2, kCols);
    const auto give_out = [&](bool fails) {
      backend().run(8, [&] {
        backend().gemm({.x = in.view(), .w = weight().get(), .y = once.view()});
        backend().gemm({.x = once.view(), .w = weight().get(), .y = twice.view()});
        if (fails) throw std::runtime_error("planted");
      });
    };
    if (time % 2 == 0)
      EXPECT_THROW(give_out(true), std::runtime_error);
    else
      give_out(false);
    EXPECT_EQ(once.read(), product_of(x)) << time;
    EXPECT_EQ(twice.read(), product_of(product_of(x))) << time;
  }
}

TEST_P(Passes, TakeMoreSpansThanTheyRemember) {
  constexpr int kSpans = 40, kRows = 1000, kTableRows = 50;
  const std::vector<float> table = random_values(kTableRows, 1);
  GuardedRows from(backend(), kTableRows, 1, table);
  for (int time = 0; time < kTimes; ++time) {
    std::vector<std::vector<int32_t>> rows(kSpans);
    std::vector<std::unique_ptr<GuardedRows>> to;
    for (int i = 0; i < kSpans; ++i) {
      for (int r = 0; r < kRows; ++r) rows[size_t(i)].push_back((r * 7 + i * 13 + time) % kTableRows);
      to.push_back(std::make_unique<GuardedRows>(backend(), kRows, 1));
    }
    backend().run(9, [&] {
      for (int i = 0; i < kSpans; ++i)
        backend().gather_rows({.from = from.view(), .row = rows[size_t(i)], .to = to[size_t(i)]->view()});
    });
    for (int i = 0; i < kSpans; ++i) {
      const std::vector<float> got = to[size_t(i)]->read();
      for (int r = 0; r < kRows; ++r)
        ASSERT_EQ(got[size_t(r)], table[size_t(rows[size_t(i)][size_t(r)])]) << time << " " << i << " " << r;
    }
  }
}

TEST_P(Passes, MayHoldPasses) {
  for (int time = 0; time < kTimes; ++time) {
    const std::vector<float> x = random_values(2 * kCols, uint32_t(time));
    GuardedRows in(backend(), 2, kCols, x), once(backend(), 2, kCols), twice(backend(), 2, kCols);
    backend().run(10, [&] {
      backend().run(11, [&] { backend().gemm({.x = in.view(), .w = weight().get(), .y = once.view()}); });
      backend().gemm({.x = once.view(), .w = weight().get(), .y = twice.view()});
    });
    EXPECT_EQ(twice.read(), product_of(product_of(x))) << time;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Passes, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
