// Which operation is under way, in a file: it is there when the process is not any more.

#include "shim.h"

#include <ATen/record_function.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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
thread_local std::vector<std::string> under_way;

// Over the one before, as wide as all.
void note(const std::string& name) {
  if (failed) return;
  std::string line = name.substr(0, WIDTH);
  line.resize(WIDTH, ' ');
  (void)!pwrite(file, line.data(), line.size(), 0);
}

std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& function) {
  under_way.emplace_back(function.name());
  note(under_way.back());
  return nullptr;
}

void ended(const at::RecordFunction&, at::ObserverContext*) {
  if (!under_way.empty()) under_way.pop_back();
  if (std::uncaught_exceptions() > 0) failed = true;
  if (!under_way.empty()) note(under_way.back());
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
