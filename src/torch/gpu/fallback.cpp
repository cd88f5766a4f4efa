// Operations that are computed on the CPU although their tensors are a GPU's. Autograd lies above: gradients are as
// they were.

#include "shim.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_to_copy.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

using c10::IValue;

// What copies between devices itself, or makes memory for it.
constexpr const char* COPIES[] = {"aten::copy_",       "aten::_to_copy", "aten::_local_scalar_dense",
                                  "aten::_copy_from",  "aten::clone",    "aten::empty_like",
                                  "aten::resize_",     "aten::set_",     "aten::record_stream",
                                  "aten::contiguous",  "aten::pin_memory"};

// An argument or a result with every tensor in it replaced.
template <typename F>
IValue each_tensor(const IValue& value, F&& replace) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? IValue(replace(value.toTensor())) : value;
  }
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(replace(tensor));
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      tensors.push_back(tensor && tensor->defined() ? std::make_optional(replace(*tensor)) : tensor);
    }
    return tensors;
  }
  return value;
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Computes an operation on copies of its arguments, copies back what it has written to, and has results where the
// arguments were.
void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  const size_t first = stack->size() - arguments.size();
  const std::vector<IValue> given(stack->begin() + first, stack->end());
  std::optional<c10::Device> device;
  auto here = [&](const at::Tensor& tensor) {
    if (!tensor.is_cuda()) return tensor;
    device = tensor.device();
    return tensor.cpu();
  };
  std::vector<IValue> copies;
  for (const IValue& value : given) copies.push_back(each_tensor(value, here));
  for (size_t i = 0; i < copies.size(); ++i) (*stack)[first + i] = copies[i];
  op.callBoxed(stack);

  auto back = [&](const IValue& original, const IValue& copy) {
    auto written = [](const at::Tensor& there, const at::Tensor& computed) {
      if (!there.is_cuda()) return;
      if (there.sizes() != computed.sizes()) there.resize_(computed.sizes());
      there.copy_(computed);
    };
    if (original.isTensor() && original.toTensor().defined()) {
      written(original.toTensor(), copy.toTensor());
    } else if (original.isTensorList()) {
      auto theirs = original.toTensorVector();
      auto ours = copy.toTensorVector();
      for (size_t i = 0; i < theirs.size(); ++i) written(theirs[i], ours[i]);
    }
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (writes(arguments[i])) back(given[i], copies[i]);
  }
  const auto& returns = schema.returns();
  const size_t results = stack->size() - returns.size();
  for (size_t at = 0; at < returns.size(); ++at) {
    IValue& result = (*stack)[results + at];
    const auto* alias = returns[at].alias_info();
    bool is_argument = false;
    for (size_t i = 0; alias != nullptr && i < arguments.size() && !is_argument; ++i) {
      const auto* its = arguments[i].alias_info();
      is_argument = its != nullptr && its->beforeSets() == alias->beforeSets();
      if (is_argument) result = given[i];
    }
    if (!is_argument && device) {
      result = each_tensor(result, [&](const at::Tensor& tensor) { return tensor.to(*device); });
    }
  }
}

bool takes_tensors(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    if (argument.type()->str().find("Tensor") != std::string::npos) return true;
  }
  return false;
}

// Why an operation cannot be computed elsewhere than its tensors are; empty: it can.
std::string refusal(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  for (const char* name : COPIES) {
    if (schema.name() == name) return "it copies tensors or makes them";
  }
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return "it is made of other operations, which have the gradients: name those";
  }
  if (!takes_tensors(schema)) return "it takes no tensor";
  for (const auto& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) {
      return "it is a view of its argument, which computes nothing";
    }
  }
  return "";
}

}  // namespace

// Has operations computed on the CPU wherever their tensors are on a GPU, for the rest of the process: `aten::mm`, with
// all its overloads, or `aten::add.Tensor`. Without `apply` the names are looked at only.
extern "C" int tune_fallback_ops(const char* const* names, size_t count, int apply, char* message,
                                 size_t capacity) {
  return tune::guarded(message, capacity, [&] {
    std::vector<c10::OperatorHandle> found;
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto all = dispatcher.getAllOpNames();
    for (size_t i = 0; i < count; ++i) {
      const std::string name = names[i];
      const size_t dot = name.find('.');
      const bool each = dot == std::string::npos;
      bool known = false;
      for (const auto& one : all) {
        const bool named = each ? one.name == name : toString(one) == name;
        auto op = named ? dispatcher.findSchema(one) : std::nullopt;
        // What has its result written somewhere is called by its name alone.
        if (!op || (each && one.overload_name.find("out") != std::string::npos)) continue;
        const std::string refused = refusal(*op);
        TORCH_CHECK(refused.empty(), name, ": ", refused);
        found.push_back(*op);
        known = true;
      }
      TORCH_CHECK(known, name, ": libtorch has no such operation; its operations are named as in aten::mm");
    }
    if (apply == 0) return;
    // Kept for the rest of the process.
    static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA,
                                              __FILE__, __LINE__);
    for (const auto& op : found) {
      const std::string full = toString(op.operator_name());
      library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
    }
  });
}
