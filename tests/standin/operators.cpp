// True arithmetic for the stand-in's devices, whose memory is the host's and whose kernels do nothing.
//
// This library stands in the place of libtorch_cuda.so and brings the real one along. When it is
// loaded, it puts a wrapper before the CUDA kernel of each of ATen's operators:
//
//   1. The real CUDA kernel runs first: it allocates, launches, calls cuBLAS and meets the faults that
//      are asked for, all as on a machine with a GPU, and returns tensors with nothing in them.
//   2. The operator's CPU kernel runs on CPU tensors that lie in the device tensors' memory.
//   3. Its results are copied to where the real kernel's results lie. What an operator writes in place
//      needs no copy, it is the same memory.
//
// So a program computes on a device what it computes on the CPU, and which numbers a random operator
// draws depends only on the state of the device's generator, which moves on as the real kernel moves it.
//
// An index out of range is what a kernel would assert on the device: the CPU kernel's complaint becomes
// the assertion's line on stderr and a broken device (error 710).
//
// cuDNN is switched off, because its stand-in cannot compute: convolutions, batch norm and recurrent
// layers take libtorch's own kernels. Before a convolution, there or back, stands the launch of the kernel
// that cuDNN would have for it, as long as the program leaves cuDNN on: `cudnn_convolution`,
// `cudnn_convolution_backward`, with `_tf32` behind it where TF32 is allowed, so that rules can have
// such a kernel fail. Without arithmetic, and so with arbitrary results, are: sparse,
// quantized and nested tensors, the statistics of a batch norm over several devices, products with an
// explicit dtype of the result (mm.dtype), 4-bit and scaled (fp8) products, attention called past
// scaled_dot_product_attention (_flash_attention_forward and its like), the log-sum-exp that attention
// returns, and what a program launches by itself. Random numbers are not those that a GPU draws.
//
// STANDIN_COMPUTE=0 leaves all that out: operators run and compute nothing.

#include "operators.h"

#include "standin.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <vector>

// As libc10_cuda and libcudart export them; CUDA's headers are not needed for more.
namespace c10::cuda {
void c10_cuda_check_implementation(int32_t error, const char *file, const char *function, uint32_t line, bool);
}
extern "C" int cudaPeekAtLastError(void);

namespace standin {
namespace {

// Whether the program has cuDNN on, as it is from the beginning.
bool cudnn_wanted = true;

using c10::DispatchKey;
using c10::IValue;

constexpr int DEVICE_ASSERT = 710;
// By how much a kernel moves a generator on that draws a few numbers in each thread.
constexpr uint64_t DRAWS = 4;

void check(int error, const char *function) {
    c10::cuda::c10_cuda_check_implementation(error, __FILE__, function, __LINE__, true);
}

bool starts_with_any(std::string_view name, std::initializer_list<const char *> beginnings) {
    for (const char *beginning : beginnings)
        if (name.starts_with(beginning)) return true;
    return false;
}

// --- Which operators, and how ------------------------------------------------------------------------

// Without "aten::" and overload.
std::string_view base_name(const c10::OperatorHandle &op) {
    std::string_view name = op.operator_name().name;
    return name.substr(name.find("::") + 2);
}

std::string overload_name(const c10::OperatorHandle &op) {
    const auto &overload = op.operator_name().overload_name;
    return std::string(base_name(op)) + (overload.empty() ? "" : "." + overload);
}

bool returns_view(const c10::OperatorHandle &op) {
    for (const auto &result : op.schema().returns())
        if (result.alias_info() && !result.alias_info()->isWrite()) return true;
    return false;
}

// The real kernel is right as it is: it makes, shapes or reads memory and computes nothing; or its
// tensors have no counterpart on the CPU in the same memory.
bool right_as_it_is(const c10::OperatorHandle &op) {
    return returns_view(op) ||
           starts_with_any(base_name(op), {"empty", "_efficientzerotensor", "resize_", "set_", "is_set_to",
                                           "record_stream", "_local_scalar_dense", "_fused_sdp_choice", "_use_",
                                           "quantize_", "dequantize", "_make_per_", "_nested_", "_to_sparse"});
}

// The real kernel reads what it has just computed, for the size of a result or for a check: it would
// read nonsense. These skip it and only pretend a launch.
bool reads_back(std::string_view name) {
    if (starts_with_any(name, {"linalg_vector_norm", "linalg_cross", "linalg__powsum"})) return false;
    return starts_with_any(name, {"nonzero",
                                  "masked_select",
                                  "unique",
                                  "_unique",
                                  "equal",
                                  "bincount",
                                  "histc",
                                  "repeat_interleave",
                                  "isin",
                                  "mode",
                                  "searchsorted",
                                  "segment_reduce",
                                  "_segment_reduce",
                                  "multinomial",
                                  "normal.",
                                  "embedding_renorm_",
                                  "_fft_",
                                  "_linalg_",
                                  "linalg_",
                                  "cholesky",
                                  "_cholesky_solve_helper",
                                  "geqrf",
                                  "ormqr",
                                  "triangular_solve",
                                  "lu_unpack"});
}

// Among a boolean mask's indices the real kernel looks for those that are not zero.
bool has_mask(const Stack &args) {
    auto is_mask = [](const IValue &value) {
        return value.isTensor() && value.toTensor().defined() &&
               (value.toTensor().scalar_type() == at::kBool || value.toTensor().scalar_type() == at::kByte);
    };
    for (const IValue &arg : args)
        if (arg.isList() && !arg.isTensorList())
            for (const IValue &index : arg.toListRef())
                if (is_mask(index)) return true;
    return false;
}

bool has_cpu_kernel(const c10::OperatorHandle &op) {
    return op.hasKernelForDispatchKey(DispatchKey::CPU) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
}

// These have no kernel of their own for CUDA, but launch kernels past the dispatcher.
bool launches_past_the_dispatcher(const std::string &name) {
    return name == "copy_" || name == "convolution" || name == "convolution_backward";
}

// --- Between device and CPU --------------------------------------------------------------------------

IValue on_cpu(const IValue &value) {
    if (value.isTensor()) return host_view(value.toTensor());
    if (value.isDevice()) return c10::Device(c10::kCPU);
    if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(host_view(tensor));
        return list;
    }
    if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
        c10::List<std::optional<at::Tensor>> list;
        for (const IValue &element : value.toListRef())
            list.push_back(element.isTensor() ? std::optional(host_view(element.toTensor())) : std::nullopt);
        return list;
    }
    return value;
}

Stack on_cpu(const Stack &values) {
    Stack result;
    for (const IValue &value : values) result.push_back(on_cpu(value));
    return result;
}

// The device of the first tensor that has one, else the one asked for.
c10::Device device_of(const Stack &args) {
    c10::Device asked(c10::kCUDA, 0);
    for (const IValue &arg : args) {
        if (arg.isTensor() && arg.toTensor().defined() && arg.toTensor().is_cuda()) return arg.toTensor().device();
        if (arg.isTensorList())
            for (const at::Tensor &tensor : arg.toTensorVector())
                if (tensor.defined() && tensor.is_cuda()) return tensor.device();
        if (arg.isDevice() && arg.toDevice().has_index()) asked = arg.toDevice();
    }
    return asked;
}

void copy_to_device(const at::Tensor &cpu, const at::Tensor &device) {
    if (cpu.numel() && cpu.data_ptr() != device.data_ptr()) host_view(device).copy_(cpu);
}

// A device tensor with this value: the real kernel's, if it has the right shape and type.
at::Tensor on_device(const at::Tensor &cpu, const at::Tensor &real, c10::Device device) {
    if (!cpu.defined()) return real;
    bool fits =
        real.defined() && real.is_cuda() && real.sizes() == cpu.sizes() && real.scalar_type() == cpu.scalar_type();
    at::Tensor result = fits ? real : at::empty_like(cpu, cpu.options().device(device));
    copy_to_device(cpu, result);
    return result;
}

IValue on_device(const IValue &cpu, const IValue &real, c10::Device device) {
    if (cpu.isNone()) return real;
    if (cpu.isTensor()) return on_device(cpu.toTensor(), real.isTensor() ? real.toTensor() : at::Tensor(), device);
    if (!cpu.isTensorList()) return cpu;
    auto values = cpu.toTensorVector();
    auto places = real.isTensorList() ? real.toTensorVector() : std::vector<at::Tensor>();
    places.resize(values.size());
    c10::List<at::Tensor> list;
    for (size_t i = 0; i < values.size(); i++) list.push_back(on_device(values[i], places[i], device));
    return list;
}

// --- The wrapper -------------------------------------------------------------------------------------

// A wrapped operator that a wrapped operator calls goes straight to its real kernel.
thread_local bool inside = false;
struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
};

// Nothing that belongs above the kernels happens again below them.
const c10::DispatchKeySet ABOVE_KERNELS =
    c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({DispatchKey::ADInplaceOrView, DispatchKey::Python, DispatchKey::PythonTLSSnapshot});

// Does this complaint of a CPU kernel stand for an assertion in the CUDA kernel?
bool would_be_asserted(const std::string &complaint) {
    if (complaint.starts_with("Dimension")) return false;
    for (const char *part :
         {"out of bounds", "out of range", "between 0 and 1", "Expected Tensor with single nonzero value"})
        if (complaint.find(part) != std::string::npos) return true;
    return false;
}

class Wrapper : public c10::OperatorKernel {
public:
    explicit Wrapper(const c10::OperatorHandle &op)
        : real_(op.getComputedKernelForDispatchKey(DispatchKey::CUDA)), base_(base_name(op)),
          replacement_(replacement(overload_name(op))), reads_back_(reads_back(overload_name(op))),
          reads_masks_(base_.starts_with("index") || base_.starts_with("_index")),
          random_(op.hasTag(at::Tag::nondeterministic_seeded)) {
        const auto &arguments = op.schema().arguments();
        for (size_t i = 0; i < arguments.size(); i++) {
            if (arguments[i].type()->str().find("Generator") != std::string::npos) generator_ = static_cast<int>(i);
            if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite()) written_.push_back(i);
        }
        random_ = random_ || generator_ >= 0;
    }

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
        if (inside) return real_.callBoxed(op, keys, stack);
        Inside guard;
        size_t count = op.schema().arguments().size();
        Stack args(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
        stack->resize(stack->size() - count);

        Numbers numbers = random_ ? numbers_of(args) : Numbers();
        Stack real = run_real(op, keys, args, numbers);
        Call call{on_cpu(args), std::move(real), numbers};
        if (generator_ >= 0) call.args[generator_] = numbers.generator();
        Stack results;
        if (!compute(op, call, &results)) results = call.real;
        hand_back(op, args, call, results, stack);
    }

private:
    c10::SafeKernelFunction real_;
    std::string base_;
    Replacement replacement_;
    bool reads_back_, reads_masks_, random_;
    int generator_ = -1;            // which argument, if any
    std::vector<size_t> written_;   // arguments

    at::Generator generator_of(const Stack &args) const {
        if (generator_ >= 0 && args[generator_].isGenerator()) return args[generator_].toGenerator();
        return at::globalContext().defaultGenerator(device_of(args));
    }

    Numbers numbers_of(const Stack &args) const {
        at::Generator generator = generator_of(args);
        if (!generator.device().is_cuda()) return {};   // the real kernel will say what it thinks of that
        std::lock_guard<std::mutex> lock(generator.mutex());
        return {generator.current_seed(), generator.get_offset()};
    }

    // The kernel that cuDNN would have here, which computes nothing.
    void launch_cudnns(const Stack &args) const {
        if (!base_.starts_with("convolution") || !cudnn_wanted || args.empty() || !args[0].isTensor()) return;
        std::string name = "cudnn_" + base_;
        const char *override = getenv("NVIDIA_TF32_OVERRIDE");
        bool allowed = at::globalContext().allowTF32CuDNN(at::Float32Op::CONV);
        if (args[0].toTensor().scalar_type() == at::kFloat && (override ? atoi(override) != 0 : allowed)) name += "_tf32";
        check(standin_launch(name.c_str()), name.c_str());
    }

    // What the real kernel returns, or nothings.
    Stack run_real(const c10::OperatorHandle &op, c10::DispatchKeySet keys, const Stack &args, Numbers numbers) const {
        if (reads_back_ || (reads_masks_ && has_mask(args))) return pretend(op, args, numbers);
        launch_cudnns(args);
        Stack stack = args;
        try {
            real_.callBoxed(op, keys, &stack);
        } catch (const c10::Error &error) {
            // Some kernels are compiled when they are first called, and here is no compiler.
            if (std::string_view(error.what_without_backtrace()).find("NVRTC") == std::string_view::npos) throw;
            return pretend(op, args, numbers);
        }
        return stack;
    }

    Stack pretend(const c10::OperatorHandle &op, const Stack &args, Numbers numbers) const {
        check(standin_launch(base_.c_str()), base_.c_str());
        if (random_) {
            at::Generator generator = generator_of(args);
            std::lock_guard<std::mutex> lock(generator.mutex());
            generator.set_offset(numbers.offset + DRAWS);
        }
        return Stack(op.schema().returns().size());
    }

    // The results on the CPU; false: the device would have asserted, there are none.
    bool compute(const c10::OperatorHandle &op, const Call &call, Stack *results) const {
        c10::impl::ExcludeDispatchKeyGuard guard(ABOVE_KERNELS);
        try {
            if (replacement_) {
                *results = replacement_(call);
            } else {
                // Of several `out` arguments a boxed kernel returns references into the stack that it
                // has just dropped: call.args keeps the tensors alive.
                *results = call.args;
                op.callBoxed(results);
            }
            return true;
        } catch (const c10::Error &error) {
            bool pretended = !call.real.empty() && call.real[0].isNone();   // there is nothing to return
            if (pretended || !would_be_asserted(error.what_without_backtrace())) throw;
            assertion_failed(error.what_without_backtrace());
            return false;
        }
    }

    void assertion_failed(std::string complaint) const {
        for (char &c : complaint)
            if (c == '\n' || c == '`') c = ' ';
        fprintf(stderr, "%s:%d: %s: block: [0,0,0], thread: [0,0,0] Assertion `%s` failed.\n", "standin/operators.cu",
                __LINE__, base_.c_str(), complaint.c_str());
        standin_break(DEVICE_ASSERT);
        check(cudaPeekAtLastError(), base_.c_str());   // where launches block, this one says it
    }

    void hand_back(const c10::OperatorHandle &op, const Stack &args, const Call &call, const Stack &results,
                   Stack *stack) const {
        for (size_t i : written_)
            if (args[i].isTensor() && args[i].toTensor().defined())
                write_back(call.args[i].toTensor(), args[i].toTensor());
        const auto &returns = op.schema().returns();
        c10::Device device = device_of(args);
        for (size_t i = 0; i < returns.size(); i++) {
            if (const IValue *written = written_for(op, returns[i], args))
                stack->push_back(*written);
            else
                stack->push_back(on_device(results[i], call.real[i], device));
        }
    }

    // The CPU kernel may have resized what it wrote.
    static void write_back(const at::Tensor &cpu, const at::Tensor &device) {
        if (!device.is_cuda()) return;
        if (device.sizes() != cpu.sizes()) device.resize_(cpu.sizes());
        copy_to_device(cpu, device);
    }

    // The argument that this result is.
    const IValue *written_for(const c10::OperatorHandle &op, const c10::Argument &result, const Stack &args) const {
        if (!result.alias_info()) return nullptr;
        for (size_t i : written_)
            if (op.schema().arguments()[i].alias_info()->beforeSets() == result.alias_info()->beforeSets())
                return &args[i];
        return nullptr;
    }
};

// --- At load -----------------------------------------------------------------------------------------

// That a kernel is overridden is worth a warning to libtorch, once.
struct Silence : c10::WarningHandler {
    void process(const c10::Warning &) override {}
};

bool is_wanted(const c10::OperatorHandle &op) {
    if (!op.hasSchema() || !op.operator_name().name.starts_with("aten::") || right_as_it_is(op)) return false;
    std::string name = overload_name(op);
    if (!op.hasKernelForDispatchKey(DispatchKey::CUDA) && !launches_past_the_dispatcher(name)) return false;
    return replacement(name) || has_cpu_kernel(op);
}

void wrap_operators() {
    Silence silence;
    c10::WarningUtils::WarningHandlerGuard guard(&silence);
    auto &dispatcher = c10::Dispatcher::singleton();
    // Never given back: at exit nobody needs the real kernels in their places.
    auto *registrations = new std::vector<c10::RegistrationHandleRAII>;
    for (const auto &name : dispatcher.getAllOpNames()) {
        auto op = dispatcher.findOp(name);
        if (!op || !is_wanted(*op)) continue;
        auto kernel = c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Wrapper>(*op));
        registrations->push_back(
            dispatcher.registerImpl(name, DispatchKey::CUDA, std::move(kernel), std::nullopt, nullptr, "stand-in"));
    }
    standin_log("arithmetic: %zu operators", registrations->size());
}

__attribute__((constructor)) void at_load() {
    const char *compute = getenv("STANDIN_COMPUTE");
    if (compute && std::string_view(compute) == "0") return;
    // libtorch's own, which this library hides.
    auto *switch_cudnn = dlsym(dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD), "_ZN2at7Context19setUserEnabledCuDNNEb");
    reinterpret_cast<void (*)(at::Context *, bool)>(switch_cudnn)(&at::globalContext(), false);
    at::globalContext().setSDPUseCuDNN(false);
    wrap_operators();
}

}   // namespace

at::Tensor host_view(const at::Tensor &tensor) {
    if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != at::kStrided || tensor.is_quantized() ||
        tensor.is_nested())
        return tensor;
    // What makes it larger moves it elsewhere, and write_back sees that.
    c10::Storage storage(c10::Storage::use_byte_size_t(), tensor.storage().nbytes(),
                         c10::DataPtr(tensor.storage().mutable_data(), c10::Device(c10::kCPU)), c10::GetCPUAllocator(),
                         /*resizable=*/true);
    auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(DispatchKey::CPU),
                                                           tensor.dtype());
    auto *impl = result.unsafeGetTensorImpl();
    impl->set_storage_offset(tensor.storage_offset());
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    if (tensor.is_conj()) result._set_conj(true);
    if (tensor.is_neg()) result._set_neg(true);
    return result;
}

// Mixed well (splitmix64), so that neighbouring offsets have nothing in common.
at::Generator Numbers::generator() const {
    uint64_t mixed = seed + offset * 0x9E3779B97F4A7C15ULL;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    return at::detail::createCPUGenerator(mixed ^ (mixed >> 31));
}

}   // namespace standin

// In the place of libtorch's own for whoever finds this library before that one, as Python does: what the program asks
// for is noted, and cuDNN stays off.
void at::Context::setUserEnabledCuDNN(bool on) { standin::cudnn_wanted = on; }
