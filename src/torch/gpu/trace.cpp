// Which operation is under way, in a file: it is there when the process is not any more. Behind it, on a line of its own,
// the one that took longest, with its kernels where launches block: microseconds and name.

#include "shim.h"

#include <ATen/record_function.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr size_t WIDTH = 200;

int file = -1;
// The first operation that ended by an error: what is computed after it only asks what is left.
std::atomic<bool> failed{false};
using Clock = std::chrono::steady_clock;

struct Operation {
  std::string name;
  Clock::time_point begun;
  // What it called took so long.
  Clock::duration within{};
};

thread_local std::vector<Operation> under_way;
std::atomic<int64_t> longest{0};

// Over the one before, as wide as all.
void note(const std::string& name) {
  if (failed) return;
  std::string line = name.substr(0, WIDTH);
  line.resize(WIDTH, ' ');
  (void)!pwrite(file, line.data(), line.size(), 0);
}

std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& function) {
  under_way.push_back({function.name(), Clock::now()});
  note(under_way.back().name);
  return nullptr;
}

void took(const Operation& operation, Clock::duration time) {
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  auto known = longest.load();
  while (micros > known && !longest.compare_exchange_weak(known, micros)) {
  }
  if (micros <= known) return;
  std::string line = "\n" + std::to_string(micros) + " " + operation.name;
  line.resize(WIDTH, ' ');
  (void)!pwrite(file, line.data(), line.size(), WIDTH);
}

void ended(const at::RecordFunction&, at::ObserverContext*) {
  if (!under_way.empty()) {
    Operation last = std::move(under_way.back());
    under_way.pop_back();
    auto time = Clock::now() - last.begun;
    took(last, time - last.within);
    if (!under_way.empty()) under_way.back().within += time;
  }
  if (std::uncaught_exceptions() > 0) failed = true;
  if (!under_way.empty()) note(under_way.back().name);
}

}  // namespace

// Has every operation of the process noted in the file `path` before it is begun.
extern "C" int tune_trace_operations(const char* path, char* message, size_t capacity) {
  return tune::guarded(message, capacity, [&] {
    file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    TORCH_CHECK(file >= 0, path, ": ", std::strerror(errno));
    at::addGlobalCallback(
        at::RecordFunctionCallback(begun, ended).scopes({at::RecordScope::FUNCTION}));
  });
}
