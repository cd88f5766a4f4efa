// Linear layers on the CPU by oneDNN, which libtorch brings.
//
// libtorch's own linear calls MKL, which on processors that are not Intel's leaves half of the vector
// width unused: there oneDNN is twice as fast, elsewhere about equal. The numbers are 32-bit floats
// either way.

#include "shim.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;
using Pointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             std::string_view, Scalars, std::optional<std::string_view>);

// a [m, k] times b [n, k], transposed, plus bias [n]; any strides.
at::Tensor product(const at::Tensor& a, const at::Tensor& b,
                   const std::optional<at::Tensor>& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                             .typed<Pointwise>();
  return op.call(a, b, bias, "none", Scalars(), "");
}

// The same function of input [.., in], weight [out, in] and bias [out] as at::linear.
struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias) {
    context->save_for_backward({input, weight});
    return product(input, weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1];
    auto output = outputs[0].reshape({-1, weight.size(0)});
    at::Tensor to_input, to_weight, to_bias;
    if (context->needs_input_grad(0)) {
      to_input = product(output, weight.t(), std::nullopt).view(input.sizes());
    }
    if (context->needs_input_grad(1)) {
      auto rows = input.reshape({-1, weight.size(1)});
      to_weight = product(output.t(), rows.t(), std::nullopt);
    }
    if (context->needs_input_grad(2)) to_bias = output.sum(0);
    return {to_input, to_weight, to_bias};
  }
};

// Small products are not worth oneDNN's overhead; what it is not made for goes to at::linear.
constexpr int64_t LEAST_WEIGHTS = 1 << 14;

bool by_onednn(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  for (const auto* t : {&input, &weight, &bias}) {
    if (!t->device().is_cpu() || t->scalar_type() != at::kFloat) return false;
  }
  const auto& context = at::globalContext();
  return weight.numel() >= LEAST_WEIGHTS && input.numel() > 0 && context.hasMKLDNN() &&
         context.userEnabledMkldnn() && !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace

// input [.., in] times weight [out, in], transposed, plus bias [out], as a new tensor in `out`.
extern "C" int tune_linear(at::Tensor* input, at::Tensor* weight, at::Tensor* bias,
                           at::Tensor** out, char* message, size_t capacity) {
  return tune::guarded(message, capacity, [&] {
    auto result = by_onednn(*input, *weight, *bias) ? Linear::apply(*input, *weight, *bias)
                                                    : at::linear(*input, *weight, *bias);
    *out = new at::Tensor(std::move(result));
  });
}
