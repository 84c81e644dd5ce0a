// A step log for simtool (docs/step-log.md there), written by the worker of rank 0; the standard library is all it needs.
//
// Off unless XLLM_STEP_LOG names a file. One stamp closes an op and opens the next, so the host's ops tile the step. With
// XLLM_STEP_LOG_MSTX each op is an MSTX range too, which msprof draws into the timeline. The range is the host's: unlike
// MstxRange in mspti_helper.h it does not synchronise the stream, which would change what it measures.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef XLLM_STEP_LOG_MSTX
#include "mstx/ms_tools_ext.h"
#endif

namespace xllm {
namespace step_log {

inline int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline int64_t unix_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Text as a JSON string.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || letter == '"' || letter == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", code);
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

// One sequence of a decode step, after verification.
struct Row {
  std::string request;
  int64_t anchor = 0;  // index of the last committed token in prompt + output
  int64_t prefix_len = 0;
  int64_t accepted = 0;
  int64_t emitted = 0;
};

// The log of one worker thread. Every call does nothing while no log is open, or no step is.
class Log {
 public:
  static Log& of_this_thread() {
    thread_local Log log;
    return log;
  }

  ~Log() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }

  // A step begins. writes: of the ranks of one model, one does.
  void begin(bool writes, int32_t sl, const char* algorithm) {
    const char* path = std::getenv("XLLM_STEP_LOG");
    open_ = writes && path != nullptr && (file_ >= 0 || open_file(path, sl, algorithm));
    sl_ = sl;
    ops_.clear();
    confidence_.clear();
    start_ns_ = now_ns();
  }

  // The op before ends here, and this one begins. Names are those of `simtool placements`.
  void op(const char* name) {
    if (!open_) {
      return;
    }
    close_op();
    ops_.push_back({name, now_ns(), 0, 0, 0});
#ifdef XLLM_STEP_LOG_MSTX
    range_ = mstxRangeStartA(name, nullptr);
#endif
  }

  void wait_begins() {
    if (open_ && !ops_.empty()) {
      ops_.back().wait_start_ns = now_ns();
    }
  }

  void wait_ends() {
    if (open_ && !ops_.empty()) {
      ops_.back().wait_end_ns = now_ns();
    }
  }

  // What the decision read, on the host already: [batch, sl].
  void confidence(const double* values, int64_t batch, int64_t drafts) {
    if (open_ && drafts == sl_) {
      confidence_.assign(values, values + batch * drafts);
    }
  }

  // The step is over: one line.
  void end(const std::vector<Row>& rows) {
    if (!open_) {
      return;
    }
    std::vector<std::string> names;
    for (const Row& row : rows) {
      names.push_back(row.request);
    }
    std::string line = begun(names);
    add(line, "anchor", rows, &Row::anchor);
    add(line, "prefix_len", rows, &Row::prefix_len);
    add(line, "accepted", rows, &Row::accepted);
    add(line, "emitted", rows, &Row::emitted);
    line += ']';
    add_confidence(line, rows.size());
    finish(line);
  }

  // A prefill step is over: one line. rows: of the prompts, cumulative, one a request.
  void end_prefill(const std::vector<std::string>& names, const std::vector<int32_t>& rows) {
    if (!open_ || names.empty() || rows.size() != names.size()) {
      open_ = false;
      return;
    }
    std::string line = begun(names) + "],\"kind\":\"prefill\",\"prompt_tokens\":[";
    for (size_t i = 0; i < rows.size(); ++i) {
      line += (i ? "," : "") + std::to_string(rows[i] - (i ? rows[i - 1] : 0));
    }
    line += ']';
    finish(line);
  }

 private:
  struct Op {
    const char* name;
    int64_t start_ns, end_ns, wait_start_ns, wait_end_ns;
  };

  // The line up to its names, whose list is left open.
  std::string begun(const std::vector<std::string>& names) {
    close_op();
    std::string line = "{\"line\":\"step\",\"step\":" + std::to_string(step_++);
    line += ",\"start_ns\":" + std::to_string(start_ns_) + ",\"end_ns\":" + std::to_string(now_ns());
    line += ",\"request\":[";
    for (size_t i = 0; i < names.size(); ++i) {
      line += (i ? "," : "") + quoted(names[i]);
    }
    return line;
  }

  void finish(std::string& line) {
    add_ops(line);
    line += "}\n";
    write(line);
    open_ = false;
  }

  bool open_file(const char* path, int32_t sl, const char* algorithm) {
    file_ = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) {
      std::perror("xLLM step log");
      ::unsetenv("XLLM_STEP_LOG");  // said once; the engine goes on
      return false;
    }
    if (::lseek(file_, 0, SEEK_END) > 0) {
      write("\n");  // after half a line that a killed process left
    }
    write("{\"line\":\"header\",\"version\":1,\"engine\":\"xLLM\",\"device\":\"npu\",\"clock\":\"monotonic\",\"sl\":" +
          std::to_string(sl) + ",\"algorithm\":" + quoted(algorithm) +
          ",\"unix_offset_ns\":" + std::to_string(unix_ns() - now_ns()) + "}\n");
    return true;
  }

  void close_op() {
    if (ops_.empty() || ops_.back().end_ns != 0) {
      return;
    }
    ops_.back().end_ns = now_ns();
#ifdef XLLM_STEP_LOG_MSTX
    mstxRangeEnd(range_);
#endif
  }

  static void add(std::string& line, const char* name, const std::vector<Row>& rows, int64_t Row::*value) {
    line += std::string("],\"") + name + "\":[";
    for (size_t i = 0; i < rows.size(); ++i) {
      line += (i ? "," : "") + std::to_string(rows[i].*value);
    }
  }

  void add_confidence(std::string& line, size_t batch) const {
    if (confidence_.empty() || confidence_.size() != batch * static_cast<size_t>(sl_)) {
      return;
    }
    line += ",\"confidence\":[";
    for (size_t i = 0; i < confidence_.size(); ++i) {
      char number[32];
      std::snprintf(number, sizeof(number), "%.6g", confidence_[i]);
      line += i % sl_ ? "," : (i ? "],[" : "[");
      line += number;
    }
    line += "]]";
  }

  void add_ops(std::string& line) const {
    line += ",\"ops\":[";
    for (size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      line += (i ? ",[" : "[") + quoted(op.name) + "," + std::to_string(op.start_ns) + "," + std::to_string(op.end_ns);
      line += op.wait_end_ns == 0
                  ? ",null,null]"
                  : "," + std::to_string(op.wait_start_ns) + "," + std::to_string(op.wait_end_ns) + "]";
    }
    line += ']';
  }

  void write(const std::string& line) {
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::perror("xLLM step log");
    }
  }

  int file_ = -1;
  bool open_ = false;
  int64_t step_ = 0;
  int32_t sl_ = 0;
  int64_t start_ns_ = 0;
  std::vector<Op> ops_;
  std::vector<double> confidence_;
#ifdef XLLM_STEP_LOG_MSTX
  uint64_t range_ = 0;
#endif
};

// Shorthand: the op before ends here, and this one begins.
inline void op(const char* name) { Log::of_this_thread().op(name); }

}  // namespace step_log
}  // namespace xllm
