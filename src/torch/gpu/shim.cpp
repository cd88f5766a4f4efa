// What tch lacks. What the functions answer: see shim.h.

#include "shim.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace {

using tune::guarded;

void (*on_terminate)(const char*) = nullptr;

// Tells what the exception was, if there is one, and aborts as the default handler does.
[[noreturn]] void terminated() {
  if (on_terminate != nullptr) {
    char text[4096] = "no exception";
    if (auto exception = std::current_exception()) {
      guarded(text, sizeof text, [&] { std::rethrow_exception(exception); });
    }
    on_terminate(text);
  }
  std::abort();
}

c10::DeviceAllocator* cuda_allocator() {
  TORCH_CHECK(at::globalContext().hasCUDA(), "libtorch's CUDA part is not loaded");
  return at::getDeviceAllocator(at::kCUDA);
}

}  // namespace

// The first functions of c10::cuda::CUDACachingAllocator::CUDAAllocator, in their order. The header
// that declares it needs CUDA's own headers, which do not come with libtorch; a version of libtorch
// that has another order is refused here. Not in the unnamed namespace: there the compiler would see
// that nothing is derived from it, and that its functions can never be called.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "compare CudaAllocator with c10/cuda/CUDACachingAllocator.h of this libtorch");
namespace tune {
struct CudaAllocator : c10::DeviceAllocator {
  virtual void* raw_alloc(size_t) = 0;
  virtual void* raw_alloc_with_stream(size_t, void*) = 0;
  virtual void raw_delete(void*) = 0;
  virtual void init(int) = 0;
  virtual double getMemoryFraction(c10::DeviceIndex) = 0;
  virtual void setMemoryFraction(double, c10::DeviceIndex) = 0;
};
}  // namespace tune

// Has `handler` called with the exception's text by std::terminate.
extern "C" void tune_on_terminate(void (*handler)(const char*)) {
  on_terminate = handler;
  std::set_terminate(terminated);
}

// How libtorch computes on GPUs in this process; makes no context.
//
// Attention without cuDNN's kernels, which are the first choice on Hopper: they are planned anew for
// each shape of a batch, which takes longer than to train on it, and batches have many lengths. What
// is left gives the same sums in each run where it is told to; memory that is not filled yet needs no
// filling for that, because nothing reads it.
extern "C" int tune_compute_on_gpus(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto& context = at::globalContext();
    context.setSDPUseCuDNN(false);
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
  });
}

// Gives cached device memory back to the driver, where an accelerator is loaded.
extern "C" int tune_empty_cache(char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    if (at::globalContext().hasCUDA()) at::getDeviceAllocator(at::kCUDA)->emptyCache();
  });
}

// Statistics of the CUDA allocator on a device: allocated, reserved and inactive split bytes, each
// now and at its peak; allocations that needed the cache emptied, and those that failed.
extern "C" int tune_memory_stats(int device, int64_t* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto stats = cuda_allocator()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    for (const auto* bytes :
         {&stats.allocated_bytes, &stats.reserved_bytes, &stats.inactive_split_bytes}) {
      *out++ = (*bytes)[0].current;
      *out++ = (*bytes)[0].peak;
    }
    *out++ = stats.num_alloc_retries;
    *out++ = stats.num_ooms;
  });
}

// Lets peaks and counts of the CUDA allocator on a device start anew.
extern "C" int tune_reset_memory_stats(int device, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto index = static_cast<c10::DeviceIndex>(device);
    cuda_allocator()->resetPeakStats(index);
    cuda_allocator()->resetAccumulatedStats(index);
  });
}

// The device's memory in bytes: free, and in all.
extern "C" int tune_memory_info(int device, uint64_t* out, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto info = cuda_allocator()->getMemoryInfo(static_cast<c10::DeviceIndex>(device));
    out[0] = info.first;
    out[1] = info.second;
  });
}

// Limits what the CUDA allocator may take of a device, as a part of its memory in all.
extern "C" int tune_set_memory_fraction(int device, double fraction, char* message,
                                        size_t capacity) {
  return guarded(message, capacity, [&] {
    // Not linked: the library is loaded only where there is a GPU.
    void* symbol = dlsym(RTLD_DEFAULT, "_ZN3c104cuda20CUDACachingAllocator9allocatorE");
    TORCH_CHECK(symbol != nullptr, "libtorch's CUDA allocator is not loaded");
    auto* allocator = static_cast<std::atomic<tune::CudaAllocator*>*>(symbol)->load();
    TORCH_CHECK(allocator != nullptr, "libtorch's CUDA allocator is not initialised");
    auto index = static_cast<c10::DeviceIndex>(device);
    allocator->setMemoryFraction(fraction, index);
    // It keeps whole bytes, and answers with those.
    auto taken = allocator->getMemoryFraction(index);
    TORCH_CHECK(std::abs(taken - fraction) < 1e-6, "the allocator took ", taken);
  });
}

// Seeds the default generators of the CPU and of every accelerator.
extern "C" int tune_seed(uint64_t seed, char* message, size_t capacity) {
  return guarded(message, capacity, [&] { at::manual_seed(seed); });
}

// Whether operations on the CPU or on CUDA devices compute in 16-bit brain floats where that is safe
// (autocast), on this thread. Weights that were cast are forgotten.
extern "C" int tune_autocast(int cuda, int enabled, char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    auto device = cuda ? at::kCUDA : at::kCPU;
    at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::set_autocast_enabled(device, enabled != 0);
  });
}

// One AdamW step over `count` parameters, in `groups` groups that follow one another: `sizes` says how
// many parameters each has, `lrs` and `decays` its learning rate and decoupled weight decay.
// `max_norm` > 0 clips the global L2 norm of all gradients, without synchronising. `step` is a float
// scalar on the parameters' device that counts the steps. The gradients are released.
extern "C" int tune_adamw_step(at::Tensor** params, at::Tensor** means, at::Tensor** squares,
                               size_t count, at::Tensor* step, const size_t* sizes,
                               const double* lrs, const double* decays, size_t groups,
                               double beta1, double beta2, double eps, double max_norm,
                               char* message, size_t capacity) {
  return guarded(message, capacity, [&] {
    c10::AutoGradMode no_grad(false);
    std::vector<at::Tensor> grads;
    grads.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      TORCH_CHECK(params[i]->grad().defined(), "parameter ", i, " has no gradient");
      grads.push_back(params[i]->grad());
    }
    std::optional<at::Tensor> scale;
    if (max_norm > 0) {
      auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads, 2)), 2);
      // The fused kernel divides the gradients by this.
      scale = norm.add(1e-6).div(max_norm).clamp_min(1.0).to(at::kFloat);
    }
    step->add_(1);
    size_t from = 0;
    for (size_t group = 0; group < groups; ++group) {
      std::vector<at::Tensor> p, g, m, v, s;
      for (size_t i = from; i < from + sizes[group]; ++i) {
        p.push_back(*params[i]);
        g.push_back(grads[i]);
        m.push_back(*means[i]);
        v.push_back(*squares[i]);
        s.push_back(*step);
      }
      from += sizes[group];
      if (p.empty()) continue;
      at::_fused_adamw_(p, g, m, v, {}, s, lrs[group], beta1, beta2, decays[group], eps, false,
                        false, scale);
    }
    for (size_t i = 0; i < count; ++i) params[i]->mutable_grad() = at::Tensor();
  });
}
