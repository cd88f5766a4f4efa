// What only C++ can do of the faults that drills and tests make. The first two end the process by
// std::terminate.

#include <c10/core/AllocatorConfig.h>

#include <stdexcept>
#include <thread>

// An exception that nobody catches, on a thread of its own.
extern "C" void tune_fault_terminate() {
  std::thread([] { throw std::runtime_error("a kernel was launched on a stream that is gone"); }).join();
}

namespace {

// A destructor that throws, as that of a guard does whose device is lost.
struct Guard {
  ~Guard() noexcept(false) { throw std::runtime_error("the guard could not set the device back"); }
};

}  // namespace

// The destructor throws while another exception unwinds the stack.
extern "C" void tune_fault_destructor() {
  try {
    Guard guard;
    throw std::runtime_error("the step failed");
  } catch (...) {
  }
}

// From now on, memory of the GPU is taken without expandable segments.
extern "C" void tune_fault_plain_segments() {
  try {
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:False");
  } catch (...) {
  }
}
