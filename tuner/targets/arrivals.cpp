#include "tuner/targets/arrivals.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "tuner/counter_rng.h"
#include "tuner/statistics.h"
#include "tuner/targets/reference_store.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr int capacity_runs = 3;

struct Request {
  double arrived_ms = 0.0;
  std::vector<std::int32_t> window;  // prompt and what it is fed afterwards
};

// What runs on one of the engine's sequences.
struct Running {
  const Request* request = nullptr;  // null: the sequence is free
  std::int32_t position = 0;         // of the next token to feed
  int left = 0;                      // tokens still to come
  double last_token_ms = 0.0;
};

class ArrivalRun {
 public:
  ArrivalRun(TimedEngine engine, const Workload& workload, const TokenSource& text, std::uint64_t run)
      : engine_(std::move(engine)),
        workload_(workload),
        running_(static_cast<std::size_t>(workload.sequences)) {
    const auto count = 2 * static_cast<std::uint64_t>(workload.sequences);
    RngSequence random(CounterRng(workload.seed, RngStage::arrivals, static_cast<std::uint32_t>(run)));
    double at_ms = 0.0;
    for (std::uint64_t i = 0; i < count; ++i) {
      requests_.push_back(
          {.arrived_ms = at_ms, .window = text.window(run * count + i, workload.context_tokens())});
      at_ms -= 1e3 * std::log1p(-random.uniform()) / workload.arrivals_per_s;
    }
  }

  RunTimes operator()() {
    while (next_ < requests_.size() || is_busy()) {
      admit();
      if (is_busy())
        step_all();
      else if (next_ < requests_.size())
        engine_.wait_until(requests_[next_].arrived_ms);
    }
    times_.seconds = 1e-3 * engine_.now_ms();
    times_.output_tokens = std::ssize(requests_) * workload_.output_tokens;
    return std::move(times_);
  }

 private:
  bool is_busy() const {
    return std::ranges::any_of(running_, [](const Running& one) { return one.request != nullptr; });
  }

  // Prompts of those that have arrived, while there are free sequences.
  void admit() {
    for (std::size_t sequence = 0; sequence < running_.size(); ++sequence) {
      if (running_[sequence].request != nullptr) continue;
      if (next_ == requests_.size() || requests_[next_].arrived_ms > engine_.now_ms()) return;
      const Request& request = requests_[next_++];
      read_prompt(request, static_cast<int>(sequence));
      times_.first_token_ms.push_back(engine_.now_ms() - request.arrived_ms);
      if (workload_.output_tokens > 1)
        running_[sequence] = {.request = &request,
                              .position = workload_.prompt_tokens,
                              .left = workload_.output_tokens - 1,
                              .last_token_ms = engine_.now_ms()};
    }
  }

  void read_prompt(const Request& request, int sequence) {
    const int most = engine_.engine().limits().step_tokens;
    for (int begin = 0; begin < workload_.prompt_tokens; begin += most) {
      const int end = std::min(begin + most, workload_.prompt_tokens);
      step_.clear();
      for (int i = begin; i < end; ++i)
        step_.push_back({.id = request.window[static_cast<std::size_t>(i)],
                         .sequence = sequence,
                         .position = i,
                         .wants_logits = i + 1 == workload_.prompt_tokens});
      engine_.forward(step_);
    }
  }

  // As many steps as nobody's arrival or end can be missed by, as far as the last steps tell.
  int steps_ahead() const {
    int steps = workload_.output_tokens;
    bool has_free = false;
    for (const Running& one : running_) {
      if (one.request != nullptr)
        steps = std::min(steps, one.left);
      else
        has_free = true;
    }
    if (!has_free || next_ == requests_.size()) return steps;
    if (step_ms_ == 0.0) return 1;
    const double until = (requests_[next_].arrived_ms - engine_.now_ms()) / step_ms_;
    return std::clamp(static_cast<int>(std::min(until, 1e6)), 1, steps);
  }

  void step_all() {
    const int steps = steps_ahead();
    step_.clear();
    std::vector<Running*> stepping;
    for (std::size_t sequence = 0; sequence < running_.size(); ++sequence) {
      Running& one = running_[sequence];
      if (one.request == nullptr) continue;
      stepping.push_back(&one);
      step_.push_back({.id = one.request->window[static_cast<std::size_t>(one.position)],
                       .sequence = static_cast<int>(sequence),
                       .position = one.position});
    }
    forced_.clear();
    for (int done = 1; done <= steps; ++done)
      for (const Running* one : stepping)
        forced_.push_back(one->request->window[static_cast<std::size_t>(one->position + done)]);
    const double start_ms = engine_.now_ms();
    for (const double after_ms :
         engine_.decode({.first = step_, .steps = steps, .forced = forced_, .sampling = {}}))
      for (Running* one : stepping)
        times_.token_ms.push_back(after_ms - std::exchange(one->last_token_ms, after_ms));
    step_ms_ = (engine_.now_ms() - start_ms) / steps;
    for (Running* one : stepping) {
      one->position += steps;
      one->left -= steps;
      if (one->left == 0) *one = {};
    }
  }

  TimedEngine engine_;
  const Workload& workload_;
  std::vector<Running> running_;  // by sequence
  std::vector<Request> requests_;
  std::size_t next_ = 0;  // request that has not been taken yet
  double step_ms_ = 0.0;  // of the last steps; 0: there were none
  std::vector<StepToken> step_;
  std::vector<std::int32_t> forced_;
  RunTimes times_;
};

std::string file_of(const std::string& folder, const std::string& key) { return folder + "/" + key + ".txt"; }

}  // namespace

RunTimes run_arrivals(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price) {
  return ArrivalRun(TimedEngine(engine, price), workload, text, run)();
}

double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price) {
  Workload at_once = workload;
  at_once.poisson_arrivals = false;
  std::vector<double> seconds;
  for (int run = 0; run <= capacity_runs; ++run) {
    const RunTimes times = run_workload(engine, at_once, text, static_cast<std::uint64_t>(run), price);
    if (run > 0) seconds.push_back(times.seconds);  // the first one warms up
  }
  return workload.sequences / median(seconds);
}

std::string arrival_rate_folder() {
  const std::string reference = ReferenceStore::default_folder();
  return reference.empty() ? "" : (fs::path(reference).parent_path() / "arrivals").string();
}

double read_arrival_rate(const std::string& folder, const std::string& key) {
  double per_s = 0.0;
  if (folder.empty()) return 0.0;
  std::ifstream file(file_of(folder, key));
  return file >> per_s && std::isfinite(per_s) && per_s > 0.0 ? per_s : 0.0;
}

std::string write_arrival_rate(const std::string& folder, const std::string& key, double per_s) {
  if (folder.empty()) return "there is no cache folder";
  std::error_code failed;
  fs::create_directories(folder, failed);
  const std::string part = fmt::format("{}.{}", file_of(folder, key), ::getpid());
  std::ofstream(part) << fmt::format("{:.17g}\n", per_s);
  fs::rename(part, file_of(folder, key), failed);
  return failed ? failed.message() : "";
}

}  // namespace moetune
