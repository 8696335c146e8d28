#include "engine/serve/prometheus.h"

#include <algorithm>

#include <fmt/format.h>

namespace paceline {
namespace {

/// A label's value between its quotes.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

}  // namespace

void Histogram::observe(double value) {
  ++counts_[size_t(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  sum_ += value;
}

PrometheusText::PrometheusText(std::string_view model) : model_(escaped(model)) {}

template <class Write>
void PrometheusText::each_name(const MetricName& name, const char* type, const Write& write) {
  for (const char* const one : {name.ours, name.vllm}) {
    if (!one) continue;
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", one, name.help, type);
    write(one, one == name.vllm);
  }
}

std::string PrometheusText::labels_of(bool is_vllm, std::string_view label, std::string_view value) const {
  std::string labels = is_vllm ? fmt::format("engine=\"0\",model_name=\"{}\"", model_) : "";
  if (!label.empty()) labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", label, escaped(value));
  return labels.empty() ? labels : "{" + labels + "}";
}

void PrometheusText::counter(const MetricName& name, double value) {
  each_name(name, "counter", [&](const char* one, bool is_vllm) {
    fmt::format_to(std::back_inserter(text_), "{}{} {}\n", one, labels_of(is_vllm, {}, {}), value);
  });
}

void PrometheusText::gauge(const MetricName& name, double value) {
  each_name(name, "gauge", [&](const char* one, bool is_vllm) {
    fmt::format_to(std::back_inserter(text_), "{}{} {}\n", one, labels_of(is_vllm, {}, {}), value);
  });
}

void PrometheusText::counters(const MetricName& name, std::string_view label,
                              std::span<const std::pair<std::string, double>> samples) {
  each_name(name, "counter", [&](const char* one, bool is_vllm) {
    for (const auto& sample : samples)
      fmt::format_to(std::back_inserter(text_), "{}{} {}\n", one, labels_of(is_vllm, label, sample.first),
                     sample.second);
  });
}

void PrometheusText::histogram(const MetricName& name, const Histogram& histogram) {
  each_name(name, "histogram", [&](const char* one, bool is_vllm) {
    int64_t count = 0;
    for (size_t i = 0; i < histogram.counts().size(); ++i) {
      count += histogram.counts()[i];
      const std::string bound = i < histogram.bounds().size() ? fmt::format("{}", histogram.bounds()[i]) : "+Inf";
      fmt::format_to(std::back_inserter(text_), "{}_bucket{} {}\n", one, labels_of(is_vllm, "le", bound), count);
    }
    fmt::format_to(std::back_inserter(text_), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", one, labels_of(is_vllm, {}, {}),
                   histogram.sum(), count);
  });
}

}  // namespace paceline
