// Stand-in for libascendcl: devices, memory, streams, events, copies and graphs, on the host. See standin.h.
//
// One lock serves everything: the point is that order and waiting are right, not that they are quick.

#include "standin.h"

#include <acl/acl_op_compiler.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace standin {
namespace {

constexpr size_t kCapacity = size_t{8} << 30;
constexpr size_t kAlignment = 512;
constexpr auto kLongestWait = std::chrono::seconds(60);

struct Event {
  uint64_t asked = 0;   // records that were called for
  uint64_t passed = 0;  // the last of them that a stream has reached
  int64_t ns = 0;       // when it did
};

struct Model;

// One piece of work, on a stream once or in a graph for every replay. ready: what its stream waits for, asked under the lock.
// note: what it leaves behind, under the lock too. work: the rest.
struct Task {
  std::function<bool()> ready;
  std::function<void()> note;
  std::function<void()> work;
};

using TaskPtr = std::shared_ptr<Task>;

// A captured graph. running: replays that are enqueued and not yet done.
struct Model {
  uint32_t id = 0;
  std::vector<TaskPtr> tasks;
  int running = 0;
};

// The tasks of a graph between TaskGrpBegin and TaskGrpEnd: what an update overwrites.
struct Group {
  Model* model;
  std::vector<TaskPtr> tasks;
};

struct Stream {
  int32_t id = 0;
  std::deque<TaskPtr> queue;
  bool busy = false;
  bool closed = false;
  std::condition_variable more;  // there is work, or the stream is closed
  std::thread thread;
  Model* captured_in = nullptr;
  Group* group = nullptr;     // being filled
  Group* updating = nullptr;  // being overwritten
  size_t next = 0;            // its next task to overwrite
};

std::mutex lock;
std::condition_variable changed;  // something on a stream is done
std::map<void*, std::shared_ptr<Event>> events;
std::map<void*, std::unique_ptr<Stream>> streams;
std::map<void*, std::unique_ptr<Model>> models;
std::map<void*, std::unique_ptr<Group>> groups;
std::map<uintptr_t, size_t> device_memory, pinned_memory;
size_t allocated = 0;
uint32_t models_made = 0;
int32_t streams_made = 0;
uint64_t counts[static_cast<int>(Kind::kCount)];
uint64_t events_made = 0, events_destroyed = 0;
bool logging = false;
std::vector<Call> calls;
std::string complaint;
bool kernel_failed = false;
thread_local int32_t device = -1;

int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void note(Kind kind, const void* object) {
  ++counts[static_cast<int>(kind)];
  if (logging) {
    calls.push_back({kind, static_cast<int32_t>(syscall(SYS_gettid)), now_ns(), reinterpret_cast<uint64_t>(object)});
  }
}

bool contains(const std::map<uintptr_t, size_t>& ranges, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = ranges.upper_bound(address);
  return after != ranges.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

// A wait that never ends is a deadlock of whoever drives this: say so and stop, rather than hang a test run.
template <class Done>
void wait_until(std::unique_lock<std::mutex>& held, const char* what, Done done) {
  if (!changed.wait_for(held, kLongestWait, done)) {
    std::fprintf(stderr, "stand-in: waited 60 s for %s, which nothing will bring about\n", what);
    std::abort();
  }
}

void run(Task& task, std::unique_lock<std::mutex>& held) {
  if (task.ready) {
    wait_until(held, "an event or a value", task.ready);
  }
  if (task.note) {
    task.note();
  }
  if (auto work = task.work) {  // a copy: an update may overwrite it meanwhile
    held.unlock();
    work();
    held.lock();
  }
}

void serve(Stream* stream) {
  std::unique_lock<std::mutex> held(lock);
  while (true) {
    stream->more.wait(held, [&] { return stream->closed || !stream->queue.empty(); });
    if (stream->queue.empty()) {
      return;
    }
    TaskPtr task = stream->queue.front();
    stream->queue.pop_front();
    stream->busy = true;
    run(*task, held);
    stream->busy = false;
    changed.notify_all();
  }
}

Stream* find(aclrtStream handle) {
  auto found = streams.find(handle);
  if (found != streams.end()) {
    return found->second.get();
  }
  if (handle != nullptr) {
    return nullptr;
  }
  auto& made = streams[nullptr];  // the default stream
  made = std::make_unique<Stream>();
  return made.get();
}

void push(Stream* stream, TaskPtr task) {
  if (!stream->thread.joinable()) {
    stream->thread = std::thread(serve, stream);
  }
  stream->queue.push_back(std::move(task));
  stream->more.notify_one();
}

// On a stream: enqueue. On a captured stream: into the graph. Between UpdateBegin and UpdateEnd: enqueue the overwriting of
// the graph's next task.
int enqueue(Stream* stream, TaskPtr task) {
  if (stream->captured_in != nullptr) {
    stream->captured_in->tasks.push_back(task);
    if (stream->group != nullptr) {
      stream->group->tasks.push_back(task);
    }
    return ACL_SUCCESS;
  }
  if (stream->updating != nullptr) {
    if (stream->next >= stream->updating->tasks.size()) {
      complaint = "an update launches more tasks than were captured";
      return ACL_ERROR_INVALID_PARAM;
    }
    TaskPtr old = stream->updating->tasks[stream->next++];
    auto overwrite = std::make_shared<Task>();
    overwrite->work = [old, task] {
      std::lock_guard<std::mutex> held(lock);
      old->work = task->work;
    };
    push(stream, overwrite);
    return ACL_SUCCESS;
  }
  push(stream, std::move(task));
  return ACL_SUCCESS;
}

bool idle(const Stream& stream) { return stream.queue.empty() && !stream.busy; }

int status() { return kernel_failed ? ACL_ERROR_RT_AICORE_EXCEPTION : ACL_SUCCESS; }

int sync_stream(aclrtStream handle) {
  std::unique_lock<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  if (stream->captured_in != nullptr) {
    return ACL_ERROR_RT_STREAM_CAPTURED;
  }
  note(Kind::kSyncStream, handle);
  wait_until(held, "a stream", [&] { return idle(*stream); });
  return status();
}

int sync_device() {
  std::unique_lock<std::mutex> held(lock);
  note(Kind::kSyncDevice, nullptr);
  wait_until(held, "the device", [] {
    return std::all_of(streams.begin(), streams.end(), [](const auto& one) { return idle(*one.second); });
  });
  return status();
}

std::shared_ptr<Event> event_of(aclrtEvent handle) {
  auto found = events.find(handle);
  return found == events.end() ? nullptr : found->second;
}

int make_event(aclrtEvent* handle) {
  std::lock_guard<std::mutex> held(lock);
  auto event = std::make_shared<Event>();
  *handle = event.get();
  events[event.get()] = event;
  ++events_made;
  return ACL_SUCCESS;
}

// A record, or a wait for the latest record that was called for.
int with_event(aclrtEvent handle, aclrtStream on, Kind kind) {
  std::lock_guard<std::mutex> held(lock);
  auto event = event_of(handle);
  Stream* stream = find(on);
  if (event == nullptr || stream == nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  if (stream->captured_in != nullptr) {
    complaint = "the stand-in captures one stream: its graphs have no edges between streams";
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  }
  note(kind, handle);
  auto task = std::make_shared<Task>();
  if (kind == Kind::kRecord) {
    task->note = [event, record = ++event->asked] {
      event->ns = now_ns();
      event->passed = std::max(event->passed, record);
    };
  } else {
    task->ready = [event, record = event->asked] { return event->passed >= record; };
  }
  push(stream, task);
  return ACL_SUCCESS;
}

// A wait for a word of device memory, or a write of it: how the wheel makes events that may be waited for first.
int with_value(void* word, aclrtStream on, uint64_t value, bool waits) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(on);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  auto* place = static_cast<uint64_t*>(word);
  auto task = std::make_shared<Task>();
  if (waits) {
    task->ready = [place, value] { return *place == value; };
  } else {
    task->note = [place, value] { *place = value; };
  }
  return enqueue(stream, task);
}

int allocate(std::map<uintptr_t, size_t>& ranges, void** pointer, size_t size) {
  if (size == 0) {
    return ACL_ERROR_INVALID_PARAM;
  }
  std::lock_guard<std::mutex> held(lock);
  const bool on_device = &ranges == &device_memory;
  if (on_device && allocated + size > kCapacity) {
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  *pointer = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(*pointer, 0xA5, size);  // neither is initialised: zeros would hide a read of what nobody wrote
  ranges[reinterpret_cast<uintptr_t>(*pointer)] = size;
  allocated += on_device ? size : 0;
  return ACL_SUCCESS;
}

int release(std::map<uintptr_t, size_t>& ranges, void* pointer) {
  std::lock_guard<std::mutex> held(lock);
  auto found = ranges.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == ranges.end()) {
    return ACL_ERROR_INVALID_PARAM;
  }
  allocated -= &ranges == &device_memory ? found->second : 0;
  ranges.erase(found);
  std::free(pointer);
  return ACL_SUCCESS;
}

}  // namespace

int launch(aclrtStream handle, const char* name, std::function<void()> kernel) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  note(Kind::kKernel, handle);
  auto task = std::make_shared<Task>();
  task->work = [name = std::string(name), kernel = std::move(kernel)] {
    try {
      kernel();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stand-in: %s failed: %s\n", name.c_str(), error.what());
      complain(name + ": " + error.what());
      std::lock_guard<std::mutex> held(lock);
      kernel_failed = true;
    }
  };
  return enqueue(stream, task);
}

void complain(const std::string& text) {
  std::lock_guard<std::mutex> held(lock);
  complaint = text;
}

}  // namespace standin

using namespace standin;  // NOLINT: the C interface below is all of this file's outside

extern "C" {

// --- what a test reads ------------------------------------------------------------------------------------------------

uint64_t standin_count(int32_t kind) {
  std::lock_guard<std::mutex> held(lock);
  return counts[kind];
}

const char* standin_kind_name(int32_t kind) {
  static const char* const names[] = {"sync_stream", "sync_event",    "sync_device", "copy_unpinned", "copy_pinned",
                                      "copy_blocking", "record",      "wait",        "kernel",        "replay",
                                      "update",      "update_in_flight", "query"};
  return kind < static_cast<int32_t>(Kind::kCount) ? names[kind] : nullptr;
}

uint64_t standin_events_alive() {
  std::lock_guard<std::mutex> held(lock);
  return events_made - events_destroyed;
}

void standin_log(int32_t on) {
  std::lock_guard<std::mutex> held(lock);
  logging = on != 0;
  calls.clear();
}

uint64_t standin_read_log(Call* out, uint64_t room) {
  std::lock_guard<std::mutex> held(lock);
  if (out != nullptr) {
    std::copy_n(calls.begin(), std::min<uint64_t>(room, calls.size()), out);
  }
  return calls.size();
}

// --- start and devices ------------------------------------------------------------------------------------------------

// The wheel asks for the chip's name to choose its kernels, once, and knows none of ours. Whoever asks for another reason, for
// a trace or a table, is told the truth: so the first call lets the wheel settle its choice before it answers.
const char* aclrtGetSocName() {
  static thread_local bool settling = false;
  if (settling) {
    return "Ascend910B3";
  }
  settling = true;
  void* wheel = dlopen("libtorch_npu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (auto* chooses = wheel == nullptr ? nullptr : dlsym(wheel, "_ZN7c10_npu9GetDeviceEPi")) {
    int32_t current = 0;
    reinterpret_cast<int (*)(int32_t*)>(chooses)(&current);
  }
  settling = false;
  return "stand-in on the host (no NPU)";
}

aclError aclInit(const char*) { return ACL_SUCCESS; }

aclError aclFinalize() {
  std::unique_lock<std::mutex> held(lock);
  for (auto& one : streams) {
    one.second->closed = true;
    one.second->more.notify_one();
  }
  for (auto& one : streams) {
    if (one.second->thread.joinable()) {
      held.unlock();
      one.second->thread.join();
      held.lock();
    }
  }
  return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() {
  static thread_local std::string text;
  std::lock_guard<std::mutex> held(lock);
  text = complaint;
  return text.empty() ? nullptr : text.c_str();
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  *count = 1;
  return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t id) {
  device = id;
  return id == 0 ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_DEVICEID;
}

aclError aclrtGetDevice(int32_t* id) {
  *id = device;
  return device < 0 ? ACL_ERROR_RT_CONTEXT_NULL : ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }

aclError aclrtGetPrimaryCtxState(int32_t, uint32_t* flags, int32_t* active) {
  if (flags != nullptr) *flags = 0;
  *active = 1;
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  *context = &device;
  return device < 0 ? ACL_ERROR_RT_CONTEXT_NULL : ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext) {
  device = 0;
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo, int64_t* value) {
  *value = 1;
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) { return ACL_SUCCESS; }
aclError aclrtSetOpExecuteTimeOut(uint32_t) { return ACL_SUCCESS; }
aclError aclrtSetOpWaitTimeout(uint32_t) { return ACL_SUCCESS; }
aclError aclrtGetLastError(aclrtLastErrLevel) { return ACL_SUCCESS; }
aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return ACL_SUCCESS; }

// The newest that the wheel's own table names. It decides which calls the wheel makes, so it must be one of CANN's.
aclError aclsysGetVersionStr(char*, char* version) {
  std::strcpy(version, "9.1.0");
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion* version) {
  *version = {};
  return aclsysGetVersionStr(nullptr, version->version);
}

aclError aclSetCompileopt(aclCompileOpt, const char*) { return ACL_SUCCESS; }
size_t aclGetCompileoptSize(aclCompileOpt) { return sizeof("disable"); }
aclError aclGetCompileopt(aclCompileOpt, char* value, size_t length) {
  std::strncpy(value, "disable", length);
  return ACL_SUCCESS;
}
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt, int64_t) { return ACL_SUCCESS; }
aclError aclrtSetSysParamOpt(aclSysParamOpt, int64_t) { return ACL_SUCCESS; }
aclError aclrtGetSysParamOpt(aclSysParamOpt, int64_t* value) {
  *value = 0;
  return ACL_SUCCESS;
}

// --- ops of before aclnn: none is here, and the error names the one that was wanted -----------------------------------

aclDataBuffer* aclCreateDataBuffer(void* data, size_t) { return static_cast<aclDataBuffer*>(data); }
aclError aclDestroyDataBuffer(const aclDataBuffer*) { return ACL_SUCCESS; }

aclError aclopCompileAndExecute(const char* op, int, const aclTensorDesc* const[], const aclDataBuffer* const[], int,
                                const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*, aclopEngineType,
                                aclopCompileType, const char*, aclrtStream) {
  std::fprintf(stderr, "stand-in: %s has no kernel here\n", op);
  complain(std::string("the stand-in has no kernel for the op ") + op);
  return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError aclopCompileAndExecuteV2(const char* op, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
                                  aclDataBuffer*[], aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return aclopCompileAndExecute(op, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, ACL_ENGINE_SYS, ACL_COMPILE_SYS,
                                nullptr, nullptr);
}

// --- memory and copies ------------------------------------------------------------------------------------------------

aclError aclrtMalloc(void** pointer, size_t size, aclrtMemMallocPolicy) {
  return allocate(device_memory, pointer, size);
}
aclError aclrtMallocAlign32(void** pointer, size_t size, aclrtMemMallocPolicy) {
  return allocate(device_memory, pointer, size);
}
aclError aclrtFree(void* pointer) { return release(device_memory, pointer); }
aclError aclrtMallocHost(void** pointer, size_t size) { return allocate(pinned_memory, pointer, size); }
aclError aclrtFreeHost(void* pointer) { return release(pinned_memory, pointer); }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  std::lock_guard<std::mutex> held(lock);
  *total = kCapacity;
  *free = kCapacity - allocated;
  return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void* pointer, aclrtPtrAttributes* attributes) {
  std::lock_guard<std::mutex> held(lock);
  *attributes = {};
  attributes->location.type = contains(device_memory, pointer)   ? ACL_MEM_LOCATION_TYPE_DEVICE
                              : contains(pinned_memory, pointer) ? ACL_MEM_LOCATION_TYPE_HOST
                                                                 : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  return ACL_SUCCESS;
}

// Blocks, but waits for no stream.
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t size, aclrtMemcpyKind) {
  if (size > room) {
    return ACL_ERROR_INVALID_PARAM;
  }
  {
    std::lock_guard<std::mutex> held(lock);
    note(Kind::kCopyBlocking, to);
  }
  std::memcpy(to, from, size);
  return ACL_SUCCESS;
}

// From and to page-locked host memory it only enqueues; with other host memory it returns when the copy is done.
aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t size, aclrtMemcpyKind kind, aclrtStream on) {
  if (size > room) {
    return ACL_ERROR_INVALID_PARAM;
  }
  if (kind == ACL_MEMCPY_HOST_TO_HOST) {
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  }
  std::unique_lock<std::mutex> held(lock);
  Stream* stream = find(on);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  const void* host = kind == ACL_MEMCPY_HOST_TO_DEVICE ? from : kind == ACL_MEMCPY_DEVICE_TO_HOST ? to : nullptr;
  const bool pinned = host == nullptr || contains(pinned_memory, host) || contains(device_memory, host);
  if (!pinned && stream->captured_in != nullptr) {
    return ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC;
  }
  if (host != nullptr) {
    note(pinned ? Kind::kCopyPinned : Kind::kCopyUnpinned, on);
  }
  auto task = std::make_shared<Task>();
  task->work = [=] { std::memcpy(to, from, size); };
  const int code = enqueue(stream, task);
  if (code == ACL_SUCCESS && !pinned) {
    wait_until(held, "a copy", [&] { return idle(*stream); });
  }
  return code;
}

aclError aclrtMemset(void* to, size_t, int32_t value, size_t size) {
  std::memset(to, value, size);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* to, size_t, int32_t value, size_t size, aclrtStream stream) {
  return launch(stream, "memset", [=] { std::memset(to, value, size); });
}

// --- streams ----------------------------------------------------------------------------------------------------------

aclError aclrtCreateStreamWithConfig(aclrtStream* handle, uint32_t, uint32_t) {
  std::lock_guard<std::mutex> held(lock);
  auto stream = std::make_unique<Stream>();
  stream->id = ++streams_made;
  *handle = stream.get();
  streams[*handle] = std::move(stream);
  return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream* handle) { return aclrtCreateStreamWithConfig(handle, 0, 0); }

aclError aclrtDestroyStream(aclrtStream handle) {
  std::unique_lock<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  stream->closed = true;
  stream->more.notify_one();
  if (stream->thread.joinable()) {
    held.unlock();
    stream->thread.join();
    held.lock();
  }
  streams.erase(handle);
  return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream handle) { return aclrtDestroyStream(handle); }
aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) { return ACL_SUCCESS; }
aclError aclrtSetStreamAttribute(aclrtStream, aclrtStreamAttr, aclrtStreamAttrValue*) { return ACL_SUCCESS; }

aclError aclrtStreamGetId(aclrtStream handle, int32_t* id) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  *id = stream == nullptr ? -1 : stream->id;
  return stream == nullptr ? ACL_ERROR_RT_STREAM_CONTEXT : ACL_SUCCESS;
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* out) {
  std::lock_guard<std::mutex> held(lock);
  note(Kind::kQuery, handle);
  Stream* stream = find(handle);
  if (stream == nullptr) {
    return ACL_ERROR_RT_STREAM_CONTEXT;
  }
  *out = idle(*stream) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return status();
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return sync_stream(stream); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return sync_stream(stream); }
aclError aclrtSynchronizeDevice() { return sync_device(); }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return sync_device(); }

// --- events -----------------------------------------------------------------------------------------------------------

aclError aclrtCreateEvent(aclrtEvent* event) { return make_event(event); }
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return make_event(event); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) { return make_event(event); }

// Tasks under way keep theirs.
aclError aclrtDestroyEvent(aclrtEvent event) {
  std::lock_guard<std::mutex> held(lock);
  events_destroyed += events.count(event);
  return events.erase(event) ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) { return with_event(event, stream, Kind::kRecord); }
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) { return with_event(event, stream, Kind::kWait); }

aclError aclrtValueWait(void* word, uint64_t value, uint32_t compare, aclrtStream stream) {
  return compare == ACL_STREAM_WAIT_VALUE_EQ ? with_value(word, stream, value, true) : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

aclError aclrtValueWrite(void* word, uint64_t value, uint32_t, aclrtStream stream) {
  return with_value(word, stream, value, false);
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* out) {
  std::lock_guard<std::mutex> held(lock);
  note(Kind::kQuery, handle);
  auto event = event_of(handle);
  if (event == nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  *out = event->passed >= event->asked ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent, aclrtEventWaitStatus* out) {
  *out = ACL_EVENT_WAIT_STATUS_COMPLETE;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) {
  std::unique_lock<std::mutex> held(lock);
  auto event = event_of(handle);
  if (event == nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  note(Kind::kSyncEvent, handle);
  const uint64_t record = event->asked;
  wait_until(held, "an event", [&] { return event->passed >= record; });
  return status();
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  std::lock_guard<std::mutex> held(lock);
  auto first = event_of(start), last = event_of(end);
  if (first == nullptr || last == nullptr || first->passed == 0 || last->passed == 0) {
    return ACL_ERROR_INVALID_PARAM;
  }
  *ms = static_cast<float>(static_cast<double>(last->ns - first->ns) / 1e6);
  return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent handle, uint64_t* us) {
  std::lock_guard<std::mutex> held(lock);
  auto event = event_of(handle);
  if (event == nullptr || event->passed == 0) {
    return ACL_ERROR_INVALID_PARAM;
  }
  *us = static_cast<uint64_t>(event->ns / 1000);
  return ACL_SUCCESS;
}

// --- graphs -----------------------------------------------------------------------------------------------------------

aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->captured_in != nullptr) {
    return ACL_ERROR_RT_STREAM_CAPTURED;
  }
  auto model = std::make_unique<Model>();
  model->id = ++models_made;
  stream->captured_in = model.get();
  models[model.get()] = std::move(model);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* out, aclmdlRI* model) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  const bool active = stream != nullptr && stream->captured_in != nullptr;
  *out = active ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  *model = active ? stream->captured_in : nullptr;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI* model) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->captured_in == nullptr) {
    return ACL_ERROR_RT_STREAM_NOT_CAPTURED;
  }
  *model = stream->captured_in;
  stream->captured_in = nullptr;
  return ACL_SUCCESS;
}

aclError aclmdlRIGetId(aclmdlRI model, uint32_t* id) {
  *id = static_cast<Model*>(model)->id;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode*) { return ACL_SUCCESS; }

aclError aclmdlRIExecuteAsync(aclmdlRI handle, aclrtStream on) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(on);
  auto found = models.find(handle);
  if (stream == nullptr || found == models.end()) {
    return ACL_ERROR_INVALID_PARAM;
  }
  Model* model = found->second.get();
  note(Kind::kReplay, handle);
  ++model->running;
  for (const TaskPtr& task : model->tasks) {
    push(stream, task);
  }
  auto done = std::make_shared<Task>();
  done->work = [model] {
    std::lock_guard<std::mutex> held(lock);
    --model->running;
  };
  push(stream, done);
  return ACL_SUCCESS;
}

aclError aclmdlRIDestroy(aclmdlRI handle) {
  std::unique_lock<std::mutex> held(lock);
  auto found = models.find(handle);
  if (found == models.end()) {
    return ACL_ERROR_INVALID_PARAM;
  }
  Model* model = found->second.get();
  wait_until(held, "a graph", [&] { return model->running == 0; });
  for (auto one = groups.begin(); one != groups.end();) {
    one = one->second->model == model ? groups.erase(one) : std::next(one);
  }
  models.erase(handle);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->captured_in == nullptr || stream->group != nullptr) {
    return ACL_ERROR_RT_STREAM_NOT_CAPTURED;
  }
  auto group = std::make_unique<Group>(Group{stream->captured_in, {}});
  stream->group = group.get();
  groups[group.get()] = std::move(group);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream handle, aclrtTaskGrp* out) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->group == nullptr) {
    return ACL_ERROR_RT_STREAM_NOT_CAPTURED;
  }
  *out = stream->group;
  stream->group = nullptr;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream handle, aclrtTaskGrp group) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  auto found = groups.find(group);
  if (stream == nullptr || found == groups.end() || stream->updating != nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  Model* model = found->second->model;
  note(Kind::kUpdate, model);
  if (model->running > 0) {
    note(Kind::kUpdateInFlight, model);  // the replay under way may run with the new task or the old
  }
  stream->updating = found->second.get();
  stream->next = 0;
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle) {
  std::lock_guard<std::mutex> held(lock);
  Stream* stream = find(handle);
  if (stream == nullptr || stream->updating == nullptr) {
    return ACL_ERROR_INVALID_PARAM;
  }
  const bool whole = stream->next == stream->updating->tasks.size();
  stream->updating = nullptr;
  if (!whole) {
    complaint = "an update launches fewer tasks than were captured";
  }
  return whole ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

}  // extern "C"
