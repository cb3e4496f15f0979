// Traces of other servers. The files and what is in them: tests/traces/make_traces.py; all events of a GPU
// are made up there.
#include "engine/sync_tax/imported_trace.h"

#include <sqlite3.h>

#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/sync_tax/kernel_names.h"
#include "engine/sync_tax/nsys_reader.h"
#include "engine/sync_tax/torch_reader.h"
#include "engine/sync_tax/trace_ranges.h"
#include "tests/support/message_of.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

std::int64_t us(const Account& account, Part part) {
  return account.exposed_ns[static_cast<std::size_t>(part)] / 1000;
}
std::int64_t row_us(const Account& account, Row row) {
  return account.row_ns[static_cast<std::size_t>(row)] / 1000;
}
std::string trace_file(const std::string& name) { return source_dir() + "/tests/traces/" + name; }

void expect_the_made_up_step(const ImportedTrace& trace) {
  EXPECT_EQ(trace.kernels, 12);
  EXPECT_EQ(trace.copies, 4);
  ASSERT_EQ(trace.unmatched_ns.size(), 1U);
  EXPECT_EQ(trace.unmatched_ns.begin()->first, "a_kernel_that_nobody_knows");
  EXPECT_DOUBLE_EQ(trace.unmatched_ns.begin()->second, 4'000.0);
  const std::vector<ImportedAccount> accounts = imported_accounts(trace);
  ASSERT_EQ(accounts.size(), 1U);
  const Account& account = accounts[0].account;
  EXPECT_EQ(account.length_ns, 276'000);
  EXPECT_EQ(accounts[0].idle_ns, 0);
  EXPECT_EQ(us(account, Part::compute), 132);
  EXPECT_EQ(us(account, Part::router), 10);
  // Not from the begin of the waits: the copy was still to run; until what was launched begins.
  EXPECT_EQ(us(account, Part::synchronisation), 24);
  EXPECT_EQ(us(account, Part::expert_loading), 80);
  EXPECT_EQ(us(account, Part::communication), 16);
  EXPECT_EQ(us(account, Part::launch_gaps), 14);
  EXPECT_EQ(account.hidden_ns[static_cast<std::size_t>(Part::expert_loading)], 20'000);
  EXPECT_EQ(row_us(account, Row::attention), 40);
  EXPECT_EQ(row_us(account, Row::gate_up), 80);
  EXPECT_EQ(row_us(account, Row::down_combine), 8);
  EXPECT_EQ(row_us(account, Row::other), 4);
}

TEST(TraceImport, OfNsys) { expect_the_made_up_step(read_nsys_export(trace_file("nsys.sqlite"))); }
TEST(TraceImport, OfTorchCompressed) {
  expect_the_made_up_step(read_torch_trace(trace_file("torch_cuda.json.gz")));
}

TEST(TraceImport, ARealTraceOfACpuHasNoKernels) {
  EXPECT_NE(message_of<InputError>([] {
              read_torch_trace(trace_file("torch_cpu.json"));
            }).find("no kernel of a GPU"),
            std::string::npos);
}

TEST(TraceImport, RefusesWhatIsNoTrace) {
  const TemporaryDirectory folder;
  const std::string path = folder / "file";
  EXPECT_THROW(read_torch_trace(path), InputError);
  EXPECT_THROW(read_nsys_export(path), InputError);
  std::ofstream(path) << "not a trace";
  EXPECT_THROW(read_torch_trace(path), InputError);
  EXPECT_THROW(read_nsys_export(path), InputError);
  for (const char* text : {"", "{}", "[]", "3", R"({"traceEvents":3})",
                           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","dur":1}]})",
                           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-1}]})",
                           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1e300,"dur":1}]})",
                           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":0,"dur":1e400}]})",
                           R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":"1","dur":1}]})"})
    EXPECT_THROW(parse_torch_trace(text, "trace"), InputError) << text;
  EXPECT_THROW(parse_torch_trace(std::string(1000, '['), "trace"), InputError);
}

TEST(TraceImport, ABareListOfEventsIsATraceToo) {
  const ImportedTrace trace =
      parse_torch_trace(R"([{"ph":"X","cat":"kernel","name":"gemm","ts":1.5,"dur":2}])", "trace");
  EXPECT_EQ(imported_accounts(trace).at(0).account.length_ns, 2'000);
}

TEST(TraceImport, LongStretchesWithoutWorkAreLeftOut) {
  TraceBuilder builder;
  builder.kernel(0, 1, "gemm", 0, 1'000);
  builder.host_call(1, 1, "cudaStreamSynchronize", 500, 1'000);
  builder.kernel(0, 1, "gemm", kIdleNs, kIdleNs + 1'000);          // close enough
  builder.kernel(0, 1, "gemm", 3 * kIdleNs, 3 * kIdleNs + 1'000);  // too far
  builder.host_call(1, 1, "cudaLaunchKernel", 3 * kIdleNs - 5, 3 * kIdleNs - 1);
  const std::vector<ImportedAccount> accounts = imported_accounts(builder.finish());
  ASSERT_EQ(accounts.size(), 1U);
  EXPECT_EQ(accounts[0].idle_ns, 2 * kIdleNs - 1'000);
  EXPECT_EQ(accounts[0].account.length_ns, kIdleNs + 2'000);
  EXPECT_EQ(us(accounts[0].account, Part::synchronisation), (kIdleNs - 1'000) / 1000);
}

TEST(TraceImport, DevicesAreApart) {
  TraceBuilder builder;
  builder.kernel(0, 10, "gemm", 0, 10);
  builder.kernel(0, 10, "gemm", 30, 40);
  builder.kernel(1, 11, "ncclDevKernel_AllReduce", 0, 40);
  builder.host_call(10, 1, "cudaDeviceSynchronize", 5, 20);
  builder.host_call(10, 1, "cudaGraphLaunch", 25, 28);
  const std::vector<ImportedAccount> accounts = imported_accounts(builder.finish());
  ASSERT_EQ(accounts.size(), 2U);
  EXPECT_EQ(accounts[0].account.exposed_ns[static_cast<std::size_t>(Part::synchronisation)], 20);
  EXPECT_EQ(accounts[1].account.exposed_ns[static_cast<std::size_t>(Part::communication)], 40);
  EXPECT_EQ(accounts[1].account.exposed_ns[static_cast<std::size_t>(Part::synchronisation)], 0);
}

// The same step, of kernels that all have one name, replayed from a graph: tests/traces/make_traces.py.
TEST(TraceImport, KernelsOfAGraphBelongToTheRangeTheirNodesWereCapturedIn) {
  const ImportedTrace trace = read_nsys_export(trace_file("nsys_ranges.sqlite"));
  EXPECT_TRUE(trace.unmatched_ns.empty());
  const Account one = imported_accounts(trace).at(0).account;
  EXPECT_EQ(one.length_ns, 100'000);
  EXPECT_EQ(row_us(one, Row::attention), 20);
  EXPECT_EQ(us(one, Part::router), 5);
  EXPECT_EQ(us(one, Part::expert_loading), 20);
  EXPECT_EQ(row_us(one, Row::gate_up), 30);
  EXPECT_EQ(row_us(one, Row::down_combine), 10);
  EXPECT_EQ(row_us(one, Row::head), 5);
  EXPECT_EQ(us(one, Part::launch_gaps), 10);
}

TEST(TraceRanges, TheInnermostRangeOfOursCounts) {
  TraceRanges ranges;
  EXPECT_TRUE(ranges.empty());
  ranges.range(1, "somebody's", 0, 1'000);
  EXPECT_TRUE(ranges.empty());
  ranges.range(1, "moetune: gate_up", 100, 200);
  ranges.range(1, "moetune: router", 0, 500);
  ranges.range(1, "moetune: head", 100, 110);
  ranges.range(1, "moetune: dense", 9, 5);  // ends before it begins
  ranges.range(2, "moetune: attention", 0, 10);
  const auto row_at = [&](std::int64_t thread, std::int64_t at_ns) {
    static std::int64_t correlation = 0;
    ranges.call(7, ++correlation, thread, at_ns);
    const auto is = ranges.of(7, 0, correlation);
    return is ? std::optional(is->row) : std::nullopt;
  };
  EXPECT_EQ(row_at(1, 50), Row::router);
  EXPECT_EQ(row_at(1, 100), Row::head);
  EXPECT_EQ(row_at(1, 110), Row::gate_up);
  EXPECT_EQ(row_at(1, 200), Row::router);
  EXPECT_EQ(row_at(1, 500), std::nullopt);
  EXPECT_EQ(row_at(1, -1), std::nullopt);
  EXPECT_EQ(row_at(2, 9), Row::attention);
  EXPECT_EQ(row_at(3, 9), std::nullopt);
}

TEST(TraceRanges, CopiesOfANodeAreWhatItIs) {
  TraceRanges ranges;
  ranges.range(1, "moetune: router", 0, 10);
  ranges.node(7, 100, 0, 1, 5);
  ranges.node(7, 200, 100, 1, 50);  // made outside of any range
  ranges.node(7, 300, 200, 1, 60);
  ranges.node(7, 400, 500, 1, 5);  // a ring
  ranges.node(7, 500, 400, 1, 5);
  EXPECT_EQ(ranges.of(7, 300, 0)->row, Row::router);
  EXPECT_EQ(ranges.of(8, 300, 0), std::nullopt);  // another process
  EXPECT_EQ(ranges.of(7, 400, 0), std::nullopt);
  EXPECT_EQ(ranges.of(7, 600, 0), std::nullopt);
}

TEST(KernelNames, OfServers) {
  const auto is = [](const char* name) { return class_of_kernel(name); };
  EXPECT_EQ(is("void cross_device_reduce_1stage<half, 2>(RankData*)")->activity, Activity::collective);
  EXPECT_EQ(is("void topk_moe_cuda<128, true>(float const*)")->row, Row::router);
  EXPECT_EQ(is("void vllm::moe::topkGatingSoftmax<8>(float*)")->row, Row::router);
  EXPECT_EQ(is("void deep_ep::intranode::dispatch<8>()")->activity, Activity::collective);
  EXPECT_EQ(is("void moetune::(anonymous namespace)::gate_up_few<1>()")->row, Row::gate_up);
  EXPECT_EQ(is("void moetune::(anonymous namespace)::rms_norm()")->row, Row::other);
  EXPECT_EQ(is("void dispatch()"), std::nullopt);
  EXPECT_EQ(is(""), std::nullopt);
  for (const KernelName& one : kernel_names()) {
    EXPECT_FALSE(one.pattern.empty());
    EXPECT_FALSE(one.source.empty());
  }
}

// A run of ours, written as Nsight would write it, and read again: the parts are the same.
class NsysFile {
 public:
  explicit NsysFile(const std::string& path) {
    sqlite3_open(path.c_str(), &base_);
    run("CREATE TABLE StringIds (id INTEGER, value TEXT)");
    run("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, globalPid "
        "INTEGER, demangledName INTEGER)");
    run("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, globalPid "
        "INTEGER, copyKind INTEGER, bytes INTEGER)");
    run("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, nameId "
        "INTEGER)");
  }
  ~NsysFile() { sqlite3_close(base_); }
  NsysFile(const NsysFile&) = delete;
  NsysFile& operator=(const NsysFile&) = delete;

  void run(const std::string& statement) {
    ASSERT_EQ(sqlite3_exec(base_, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(base_);
  }
  int name(const std::string& text) {
    run(fmt::format("INSERT INTO StringIds VALUES ({}, '{}')", ++names_, text));
    return names_;
  }

 private:
  sqlite3* base_ = nullptr;
  int names_ = 0;
};

TEST(TraceImport, OurOwnRunComesBackAsItWas) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int64_t> length(1'000, 50'000);
  std::uniform_int_distribution<std::int64_t> gap(0, 2'000);
  std::vector<StepInterval> run;
  std::int64_t now = 1'000'000;
  const std::int64_t begin = now;
  const TemporaryDirectory folder;
  const std::string path = folder / "run.sqlite";
  {
    NsysFile file(path);
    const int router = file.name("void moetune::(anonymous namespace)::router<float>()");
    const int gate_up = file.name("void moetune::(anonymous namespace)::gate_up<float>()");
    const int down = file.name("void moetune::(anonymous namespace)::down<float>()");
    const int reduce = file.name("ncclDevKernel_AllReduce_Sum_bf16()");
    const int wait = file.name("cudaStreamSynchronize_v3020");
    const int launch = file.name("cudaLaunchKernel_v7000");
    const auto add = [&](Activity activity, Row row, const std::string& table, const auto& values) {
      const std::int64_t from = now;
      now += length(random);
      run.push_back({from, now, activity, row, -1});
      file.run(fmt::format("INSERT INTO {} VALUES ({}, {}, {})", table, from, now, values));
      now += gap(random);
    };
    file.run("BEGIN");
    for (int layer = 0; layer < 50; ++layer) {
      add(Activity::compute, Row::router, "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("0, 0, {}", router));
      const std::int64_t waits_from = now;
      now += length(random);
      run.push_back({waits_from, now, Activity::host_wait, Row::other, -1});
      file.run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 1, {})", waits_from,
                           now - 500, wait));
      file.run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 1, {})", now - 100, now,
                           launch));
      add(Activity::expert_copy, Row::other, "CUPTI_ACTIVITY_KIND_MEMCPY", std::string("0, 0, 1, 4194304"));
      add(Activity::compute, Row::gate_up, "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("0, 0, {}", gate_up));
      add(Activity::compute, Row::down_combine, "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("0, 0, {}", down));
      add(Activity::collective, Row::other, "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("0, 0, {}", reduce));
    }
    file.run("COMMIT");
  }
  const Account ours = account(begin, run.back().end_ns, run);
  const Account theirs = imported_accounts(read_nsys_export(path)).at(0).account;
  EXPECT_EQ(theirs.exposed_ns, ours.exposed_ns);
  EXPECT_EQ(theirs.row_ns, ours.row_ns);
}

TEST(TraceImport, AnImpossibleRowIsNamed) {
  const TemporaryDirectory folder;
  const std::string path = folder / "bad.sqlite";
  {
    NsysFile file(path);
    file.run("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 0, 1), (7, 6, 0, 0, 1)");
  }
  const std::string message = message_of<InputError>([&] { read_nsys_export(path); });
  EXPECT_NE(message.find("CUPTI_ACTIVITY_KIND_KERNEL, row 2: start 7, end 6"), std::string::npos) << message;
}

}  // namespace
}  // namespace moetune
