#pragma once
// Metrics as text for Prometheus (exposition format 0.0.4).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

/// Counts of observations by upper bound. One thread.
class Histogram {
 public:
  /// bounds: ascending; outlive the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void observe(double value);

  std::span<const double> bounds() const { return bounds_; }
  std::span<const int64_t> counts() const { return counts_; }  // [bounds + 1]: of each gap, the last above all bounds
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

/// One metric under two names: ours, and vLLM's for the dashboards and clients that ask for it.
struct MetricName {
  const char* ours;  // "paceline_..."
  const char* vllm;  // "vllm:..."; null: vLLM has none
  const char* help;  // one line
};

class PrometheusText {
 public:
  /// model: the value of the label model_name of all vLLM's metrics.
  explicit PrometheusText(std::string_view model);

  void counter(const MetricName& name, double value);
  void gauge(const MetricName& name, double value);
  void histogram(const MetricName& name, const Histogram& histogram);
  /// A counter with one sample for each value of `label`.
  void counters(const MetricName& name, std::string_view label,
                std::span<const std::pair<std::string, double>> samples);

  const std::string& text() const { return text_; }

 private:
  template <class Write>
  void each_name(const MetricName& name, const char* type, const Write& write);
  std::string labels_of(bool is_vllm, std::string_view label, std::string_view value) const;

  const std::string model_;
  std::string text_;
};

}  // namespace paceline
