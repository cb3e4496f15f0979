#include "tuner/commands/tax_reading.h"

#include <algorithm>

#include <fmt/format.h>

namespace moetune {
namespace {

std::string added_text(const DeviceRecordingCost& cost) {
  if (cost.kernels.empty()) return "not known";
  const auto [least, most] = std::ranges::minmax(cost.kernels, {}, &DeviceRecordingCost::Point::added_ns);
  return fmt::format("{:.0f} to {:.0f} ns, by their length", least.added_ns, most.added_ns);
}

// Has the model shared experts without kernels of their own?
bool shares_kernels(const TaxResult& tax, const ModelSpec& model) {
  const Breakdown& decode = tax.decode.typical;
  return model.shared_experts > 0 && decode.refused.empty() &&
         decode.row_ns[static_cast<std::size_t>(Row::gate_up)] > 0.0 &&
         decode.row_ns[static_cast<std::size_t>(Row::shared)] == 0.0;
}

}  // namespace

std::string tax_conclusion(const TaxResult& tax, const std::optional<TaxResult>& dense) {
  const auto words = [](const Breakdown& one) {
    return fmt::format("{:.1f} % of a token ({:.4f} of {:.4f} ms)", 100.0 * one.tax_share(),
                       one.tax_ns() / 1e6, one.token_ns / 1e6);
  };
  if (!tax.decode.typical.refused.empty()) return "";
  std::string text = "tax_share: " + words(tax.decode.typical);
  if (dense && dense->decode.typical.refused.empty())
    text += fmt::format("; the dense twin pays {}, and its token takes {:.2f} times as long",
                        words(dense->decode.typical),
                        dense->decode.typical.token_ns / tax.decode.typical.token_ns);
  return text + ".";
}

std::string how_to_read_tax(const TaxResult& tax, const ModelSpec& model, const std::string& dense_name) {
  std::string text = fmt::format(
      "Means over the middle half of the steps of {} recorded runs, against as many that were not; {} taken "
      "out. ",
      tax.recorded_runs,
      tax.is_of_kernels
          ? fmt::format("what recording adds to kernels ({}), and to graphs' launches beyond {:.1f} us,",
                        added_text(tax.device_cost), tax.device_cost.launch_call_ns / 1e3)
          : fmt::format("{:.0f} ns per record", tax.cost.inside_ns + tax.cost.outside_ns));
  text +=
      tax.is_of_kernels
          ? "On a GPU a launch gap is time in which it has nothing to do although the host does not hold it "
            "up, synchronisation time in which it has run out of work because the host waits or decides, and "
            "expert loading looking up and bringing in experts that are not resident."
          : "On a CPU a launch gap is the time between two ops, synchronisation what the host does with the "
            "router's choice before the experts can start, and expert loading the reading of experts that "
            "are not resident.";
  if (tax.use.busy_percent || tax.use.link_gb_per_s)
    text += fmt::format(
        " By the driver's counters, without recording: a kernel runs {} of the time, {} come over the link.",
        tax.use.busy_percent ? fmt::format("{:.0f} %", *tax.use.busy_percent) : "an unknown part",
        tax.use.link_gb_per_s ? fmt::format("{:.2f} GB/s", *tax.use.link_gb_per_s) : "unknown GB/s");
  if (tax.unlabelled_kernels > 0)
    text += fmt::format(" {} kernels could not be told apart and count as other compute.",
                        tax.unlabelled_kernels);
  if (shares_kernels(tax, model))
    text +=
        " While decoding, shared experts are part of the routed ones' kernels and of their lines: alone they "
        "take what 'moetune measure --op shared' says.";
  if (!dense_name.empty())
    text += " Beside it: " + dense_name +
            ", generated weights, as many parameters at work per token, all of them dense.";
  return text;
}

}  // namespace moetune
