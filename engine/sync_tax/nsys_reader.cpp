#include "engine/sync_tax/nsys_reader.h"

#include <sqlite3.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "engine/facts/error.h"
#include "engine/sync_tax/trace_ranges.h"

namespace moetune {
namespace {

constexpr auto accepted = "an SQLite export of Nsight Systems: nsys export --type sqlite report.nsys-rep";
constexpr std::int64_t thread_bits = 0xFFFFFF;  // of a globalTid; the others are its globalPid

// CUPTI's kinds of copies (cupti_activity.h).
std::optional<CopyKind> copy_kind(std::int64_t kind) {
  switch (kind) {
    case 1:
      return CopyKind::to_device;
    case 2:
      return CopyKind::to_host;
    case 8:
      return CopyKind::within_device;
    case 10:
      return CopyKind::between_devices;
    default:
      return std::nullopt;
  }
}

class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    handle_.reset(opened);
    if (result != SQLITE_OK) fail();
    // A file may hold views and triggers: none of them may call functions or load anything.
    sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  }

  [[noreturn]] void fail() const { throw InputError(path_, sqlite3_errmsg(handle_.get()), accepted); }
  const std::string& path() const { return path_; }

  using Row = sqlite3_stmt*;
  void each(const std::string& query, const std::function<void(Row)>& take) const {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(handle_.get(), query.c_str(), -1, &prepared, nullptr) != SQLITE_OK) fail();
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared, sqlite3_finalize);
    int result = SQLITE_OK;
    while ((result = sqlite3_step(prepared)) == SQLITE_ROW) take(prepared);
    if (result != SQLITE_DONE) fail();
  }

  // Empty: there is no such table.
  std::set<std::string> columns_of(const std::string& table) const {
    std::set<std::string> columns;
    each("SELECT name FROM pragma_table_info('" + table + "')",
         [&](Row row) { columns.insert(text(row, 0)); });
    return columns;
  }

  static std::string text(Row row, int column) {
    const auto* const value = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    return value == nullptr ? "" : value;
  }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// Reads tables row by row.
class Reader {
 public:
  explicit Reader(const std::string& path) : database_(path) {}

  ImportedTrace read() {
    if (database_.columns_of("CUPTI_ACTIVITY_KIND_KERNEL").empty())
      throw InputError(database_.path(), "no table CUPTI_ACTIVITY_KIND_KERNEL",
                       fmt::format("{}, of a run that used a GPU", accepted));
    if (!database_.columns_of("StringIds").empty())
      database_.each("SELECT id, value FROM StringIds", [&](Database::Row row) {
        names_[sqlite3_column_int64(row, 0)] = Database::text(row, 1);
      });
    read_ranges();
    rows("CUPTI_ACTIVITY_KIND_RUNTIME", {"globalTid", "nameId", "correlationId"}, [&](const Record& record) {
      const std::int64_t thread = record.values[0];
      builder_.host_call(process_of(thread), thread & thread_bits, names_[record.values[1]], record.begin_ns,
                         record.end_ns);
      if (!ranges_.empty()) ranges_.call(process_of(thread), record.values[2], thread, record.begin_ns);
    });
    // Where each of them says what it belongs to: the last three columns asked for.
    const auto told = [&](const Record& record) {
      const std::size_t last = record.values.size() - 1;
      return ranges_.of(record.values[last - 2], record.values[last - 1], record.values[last]);
    };
    rows("CUPTI_ACTIVITY_KIND_KERNEL",
         {"deviceId", "demangledName", "shortName", "streamId", "globalPid", "graphNodeId", "correlationId"},
         [&](const Record& record) {
           const auto name = names_.find(record.values[1]);
           builder_.kernel(record.values[0], record.values[4],
                           name != names_.end() ? name->second : names_[record.values[2]], record.begin_ns,
                           record.end_ns, record.values[3], told(record));
         });
    rows("CUPTI_ACTIVITY_KIND_MEMCPY",
         {"deviceId", "copyKind", "bytes", "streamId", "globalPid", "graphNodeId", "correlationId"},
         [&](const Record& record) {
           if (const auto kind = copy_kind(record.values[1]))
             builder_.copy(record.values[0], record.values[4], *kind, record.values[2], record.begin_ns,
                           record.end_ns, record.values[3], told(record));
         });
    rows("CUPTI_ACTIVITY_KIND_MEMSET", {"deviceId", "streamId", "globalPid", "graphNodeId", "correlationId"},
         [&](const Record& record) {
           builder_.fill(record.values[0], record.values[2], record.begin_ns, record.end_ns, record.values[1],
                         told(record));
         });
    return builder_.finish();
  }

 private:
  static std::int64_t process_of(std::int64_t thread) { return thread & ~thread_bits; }

  // Of a recording with --trace=cuda,nvtx --cuda-graph-trace=node; without, kernels go by their names. What
  // happened before the recording's own zero has a time below it.
  void read_ranges() {
    const std::string ranges = query_of("NVTX_EVENTS", {"start", "end", "globalTid", "textId", "text"});
    if (ranges.empty()) return;
    database_.each(ranges, [&](Database::Row row) {
      const auto name = names_.find(sqlite3_column_int64(row, 3));
      ranges_.range(sqlite3_column_int64(row, 2),
                    name != names_.end() ? name->second : Database::text(row, 4),
                    sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
    });
    const std::string nodes =
        query_of("CUDA_GRAPH_NODE_EVENTS", {"start", "globalTid", "graphNodeId", "originalGraphNodeId"});
    if (ranges_.empty() || nodes.empty()) return;
    database_.each(nodes, [&](Database::Row row) {
      const std::int64_t thread = sqlite3_column_int64(row, 1);
      ranges_.node(process_of(thread), sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3), thread,
                   sqlite3_column_int64(row, 0));
    });
  }

  // Empty: there is no such table. A column that is not there is 0, a stream not known.
  std::string query_of(const std::string& table, const std::vector<std::string>& columns) const {
    const std::set<std::string> there = database_.columns_of(table);
    if (there.empty()) return "";
    std::string query;
    for (const std::string& column : columns) {
      query += query.empty() ? "SELECT " : ", ";
      query += there.contains(column) ? "\"" + column + "\"" : column == "streamId" ? "-1" : "0";
    }
    return query + " FROM " + table;
  }

  struct Record {
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::vector<std::int64_t> values;  // of the columns asked for
  };

  void rows(const std::string& table, const std::vector<std::string>& columns,
            const std::function<void(const Record&)>& take) {
    const std::set<std::string> there = database_.columns_of(table);
    if (there.empty()) return;
    if (!there.contains("start") || !there.contains("end"))
      throw InputError(database_.path() + ": " + table, "without start and end", accepted);
    std::vector<std::string> asked = {"start", "end"};
    asked.insert(asked.end(), columns.begin(), columns.end());
    std::int64_t number = 0;
    database_.each(query_of(table, asked), [&](Database::Row row) {
      ++number;
      Record record{sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1), {}};
      // An event that had not ended when recording did has no end.
      if (sqlite3_column_type(row, 1) == SQLITE_NULL) return;
      if (record.begin_ns < 0 || record.end_ns < record.begin_ns || record.end_ns > kLatestNs)
        throw InputError(fmt::format("{}: {}, row {}", database_.path(), table, number),
                         fmt::format("start {}, end {}", record.begin_ns, record.end_ns),
                         "nanoseconds, start not behind end");
      for (std::size_t i = 0; i < columns.size(); ++i)
        record.values.push_back(sqlite3_column_int64(row, static_cast<int>(i) + 2));
      take(record);
    });
  }

  Database database_;
  std::map<std::int64_t, std::string> names_;
  TraceRanges ranges_;
  TraceBuilder builder_;
};

}  // namespace

ImportedTrace read_nsys_export(const std::string& path) { return Reader(path).read(); }

}  // namespace moetune
