// What the two halves of the stand-in share, and what a test reads of it through ctypes.
//
// The stand-in is host code: memory is malloc's, a stream is a thread, a kernel is ATen on the CPU. It gives the wheel the
// calls it makes and the order and waiting that CANN documents for them. It says nothing of a real device's kernels or times.
#pragma once

#include <acl/acl.h>
#include <cstdint>
#include <functional>
#include <string>

namespace standin {

// What a call of the log was. The order is the order of standin_kind_name().
enum class Kind : int32_t {
  kSyncStream, kSyncEvent, kSyncDevice, kCopyUnpinned,  // these block the calling thread
  kCopyPinned, kCopyBlocking, kRecord, kWait, kKernel, kReplay, kUpdate, kUpdateInFlight, kQuery, kCount
};

// One call. object: the stream, event or graph; thread: of the caller; ns: CLOCK_MONOTONIC at its start.
struct Call {
  Kind kind;
  int32_t thread;
  int64_t ns;
  uint64_t object;
};

// Enqueue a kernel on a stream, or into the graph that the stream is captured in, or over a task of a graph that is being
// updated. It may run more than once, so it owns all it reads. Returns an ACL error.
int launch(aclrtStream stream, const char* name, std::function<void()> kernel);

// Keep a text for aclGetRecentErrMsg.
void complain(const std::string& text);

}  // namespace standin
