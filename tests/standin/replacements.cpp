// Operators that have no CPU kernel, or one that asks for something else, said with operators that have
// one; operators.cpp calls them.

#include "operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace standin {
namespace {

using at::Tensor;
using c10::IValue;

Tensor tensor(const IValue &value) { return value.isTensor() ? value.toTensor() : Tensor(); }

std::vector<Tensor> chunks(const Tensor &tensor, int64_t count) { return tensor.chunk(count, -1); }

// --- Dropout -----------------------------------------------------------------------------------------

// One for what is kept.
Tensor kept(const Tensor &like, double dropped, const Numbers &numbers) {
    return at::empty_like(like, at::MemoryFormat::Contiguous).bernoulli_(1 - dropped, numbers.generator());
}

double scale_of_kept(double dropped) { return dropped < 1 ? 1 / (1 - dropped) : 0; }

// native_dropout(input, p, train): it has no argument for a generator.
Stack dropout(const Call &call) {
    Tensor input = tensor(call.args[0]);
    double p = call.args[1].toDouble();
    if (call.args[2].isBool() && !call.args[2].toBool()) return {input.clone(), at::ones(input.sizes(), at::kBool)};
    Tensor mask = kept(input, p, call.numbers);
    return {input * mask * scale_of_kept(p), mask.to(at::kBool)};
}

// _fused_dropout(self, p, generator): p is how much is kept.
Stack fused_dropout(const Call &call) {
    Tensor input = tensor(call.args[0]);
    double p = call.args[1].toDouble();
    Tensor mask = kept(input, 1 - p, call.numbers);
    return {input * mask / p, mask.to(at::kByte)};
}

// _masked_scale(self, mask, scale)
Stack masked_scale(const Call &call) {
    Tensor input = tensor(call.args[0]);
    return {input * tensor(call.args[1]).to(input.scalar_type()) * call.args[2].toDouble()};
}

// --- Softmax -----------------------------------------------------------------------------------------

// _softmax(self, dim, half_to_float): a CPU knows no softmax of halves that is a float.
template <Tensor (*softmax)(const Tensor &, int64_t, bool)> Stack wide_softmax(const Call &call) {
    Tensor input = tensor(call.args[0]);
    return {softmax(call.args[2].toBool() ? input.to(at::kFloat) : input, call.args[1].toInt(), false)};
}

// _softmax_backward_data(grad_output, output, dim, input_dtype)
template <Tensor (*backward)(const Tensor &, const Tensor &, int64_t, at::ScalarType)>
Stack wide_softmax_backward(const Call &call) {
    Tensor grad = tensor(call.args[0]);
    return {
        backward(grad, tensor(call.args[1]), call.args[2].toInt(), grad.scalar_type()).to(call.args[3].toScalarType())};
}

// --- Attention ---------------------------------------------------------------------------------------
//
// By the formula, in single precision at least. The backward computes the probabilities again, because
// what a CUDA kernel keeps of them has another shape for each kernel.

struct Attention {
    Tensor query, key, value, bias;
    double dropped;
    bool causal;
    IValue scale;
    Numbers numbers;

    at::ScalarType type() const { return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
    double factor() const {
        return scale.isDouble() ? scale.toDouble() : 1 / std::sqrt(static_cast<double>(query.size(-1)));
    }

    // Some heads of the query may share one of the key's and the value's.
    Tensor for_all_heads(const Tensor &tensor) const {
        return tensor.to(type()).repeat_interleave(query.size(1) / tensor.size(1), 1);
    }
    static Tensor of_shared_heads(const Tensor &grad, const Tensor &like) {
        auto split = grad.reshape({like.size(0), like.size(1), -1, grad.size(2), grad.size(3)});
        return split.sum(2).to(like.scalar_type());
    }

    Tensor probabilities() const {
        Tensor scores = at::matmul(query.to(type()), for_all_heads(key).transpose(-2, -1)) * factor();
        if (bias.defined() && bias.scalar_type() == at::kBool)
            scores = scores.masked_fill(bias.logical_not(), -std::numeric_limits<double>::infinity());
        else if (bias.defined())
            scores = scores + bias;
        if (causal) {
            Tensor past = at::ones({scores.size(-2), scores.size(-1)}, at::kBool).tril();
            scores = scores.masked_fill(past.logical_not(), -std::numeric_limits<double>::infinity());
        }
        return at::_safe_softmax(scores, -1);
    }

    // By what dropout multiplies the probabilities.
    Tensor dropout(const Tensor &probabilities) const {
        if (dropped == 0) return at::ones({}, type());
        return kept(probabilities, dropped, numbers) * scale_of_kept(dropped);
    }

    Tensor output() const {
        Tensor p = probabilities();
        return at::matmul(p * dropout(p), for_all_heads(value)).to(query.scalar_type());
    }

    // Of query, key, value and bias.
    std::array<Tensor, 4> gradients(const Tensor &narrow) const {
        Tensor grad = narrow.to(type()), p = probabilities(), d = dropout(p);
        Tensor of_value = at::matmul((p * d).transpose(-2, -1), grad);
        Tensor of_p = at::matmul(grad, for_all_heads(value).transpose(-2, -1)) * d;
        Tensor of_scores = p * (of_p - (of_p * p).sum(-1, true));
        Tensor of_query = at::matmul(of_scores, for_all_heads(key)) * factor();
        Tensor of_key = at::matmul(of_scores.transpose(-2, -1), query.to(type())) * factor();
        Tensor of_bias;
        if (bias.defined() && bias.is_floating_point())
            of_bias = of_scores.sum_to_size(bias.sizes()).to(bias.scalar_type());
        return {of_query.to(query.scalar_type()), of_shared_heads(of_key, key), of_shared_heads(of_value, value),
                of_bias};
    }
};

IValue or_nothing(const Tensor &tensor) { return tensor.defined() ? IValue(tensor) : IValue(); }

// (query, key, value, dropout_p, is_causal, return_debug_mask, scale) -> (output, logsumexp,
// cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_attn_mask)
Stack flash_attention(const Call &call) {
    const Stack &a = call.args;
    Attention attention{tensor(a[0]),    tensor(a[1]),  tensor(a[2]), {},
                        a[3].toDouble(), a[4].toBool(), a[6],         call.numbers};
    // The real kernel writes the numbers for the backward, on the device.
    Tensor state = host_view(tensor(call.real[6]));
    if (attention.dropped > 0 && state.defined() && state.nbytes() == sizeof(Numbers))
        *static_cast<Numbers *>(state.mutable_data_ptr()) = call.numbers;
    Stack results(9);
    results[0] = attention.output();
    return results;
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
// is_causal, rng_state, unused, scale)
Stack flash_attention_backward(const Call &call) {
    const Stack &a = call.args;
    Attention attention{tensor(a[1]), tensor(a[2]), tensor(a[3]), {}, a[10].toDouble(), a[11].toBool(), a[14], {}};
    if (attention.dropped > 0) attention.numbers = *static_cast<const Numbers *>(tensor(a[12]).const_data_ptr());
    auto [query, key, value, bias] = attention.gradients(tensor(a[0]));
    return {query, key, value};
}

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale) -> (output,
// log_sumexp, philox_seed, philox_offset): the last two come from the host, they are right already.
Stack efficient_attention(const Call &call) {
    const Stack &a = call.args;
    Attention attention{tensor(a[0]),    tensor(a[1]),  tensor(a[2]), tensor(a[3]),
                        a[5].toDouble(), a[6].toBool(), a[7],         call.numbers};
    Stack results(4);
    results[0] = attention.output();
    return results;
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
// grad_input_mask, is_causal, scale)
Stack efficient_attention_backward(const Call &call) {
    const Stack &a = call.args;
    Attention attention{tensor(a[1]),    tensor(a[2]),   tensor(a[3]), tensor(a[4]),
                        a[9].toDouble(), a[11].toBool(), a[12],        {}};
    if (attention.dropped > 0)
        attention.numbers = {static_cast<uint64_t>(tensor(a[7]).item<int64_t>()),
                             static_cast<uint64_t>(tensor(a[8]).item<int64_t>())};
    auto [query, key, value, bias] = attention.gradients(tensor(a[0]));
    return {query, key, value, a[10].toBoolList()[3] ? or_nothing(bias) : IValue()};
}

// --- Norms -------------------------------------------------------------------------------------------

// Of a mean and the like the real kernels keep floats, where the CPU's take the type of the input and
// know another one only if the weights have it.
at::ScalarType type_of_statistics(const Tensor &input, const Tensor &weight) {
    return weight.defined() ? weight.scalar_type() : input.scalar_type();
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd)
Stack layer_norm(const Call &call) {
    const Stack &a = call.args;
    auto [output, mean, rstd] =
        at::native_layer_norm(tensor(a[0]), a[1].toIntVector(), tensor(a[2]), tensor(a[3]), a[4].toDouble());
    auto type = tensor(call.real[1]).scalar_type();
    return {output, mean.to(type), rstd.to(type)};
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
Stack layer_norm_backward(const Call &call) {
    const Stack &a = call.args;
    auto type = type_of_statistics(tensor(a[1]), tensor(a[5]));
    auto mask = a[7].toBoolList();
    auto [input, weight, bias] =
        at::native_layer_norm_backward(tensor(a[0]), tensor(a[1]), a[2].toIntVector(), tensor(a[3]).to(type),
                                       tensor(a[4]).to(type), tensor(a[5]), tensor(a[6]), {mask[0], mask[1], mask[2]});
    return {input, weight, bias};
}

// --- RMS norm ----------------------------------------------------------------------------------------

// _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask)
Stack rms_norm_backward(const Call &call) {
    const Stack &a = call.args;
    Tensor input = tensor(a[1]), weight = tensor(a[4]);
    int64_t length = 1;
    for (int64_t size : a[2].toIntVector()) length *= size;
    Tensor x = input.reshape({-1, length}).to(at::kFloat), g = tensor(a[0]).reshape({-1, length}).to(at::kFloat);
    Tensor normal = x * tensor(a[3]).reshape({-1, 1});
    Tensor weighted = weight.defined() ? g * weight.reshape({length}) : g;
    Tensor of_input = (weighted - normal * (weighted * normal).mean(-1, true)) * tensor(a[3]).reshape({-1, 1});
    Stack results{of_input.reshape(input.sizes()).to(input.scalar_type()), IValue()};
    if (weight.defined()) results[1] = (g * normal).sum(0).reshape(weight.sizes()).to(weight.scalar_type());
    return results;
}

// --- Cells of recurrent layers ------------------------------------------------------------------------
//
// What a cell keeps for its backward is as in the CUDA kernels: activated gates, in their order.

Tensor with_bias(const Tensor &gates, const Tensor &bias) { return bias.defined() ? gates + bias : gates; }

// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace)
Stack lstm_cell(const Call &call) {
    const Stack &a = call.args;
    auto gates = chunks(with_bias(tensor(a[0]), tensor(a[3])) + with_bias(tensor(a[1]), tensor(a[4])), 4);
    Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
    Tensor cy = forget * tensor(a[2]) + in * cell;
    return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, -1)};
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (grad of gates, of cx, of the bias)
Stack lstm_cell_backward(const Call &call) {
    const Stack &a = call.args;
    auto gates = chunks(tensor(a[4]), 4);
    const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
    Tensor of_hy = tensor(a[0]), of_cy = tensor(a[1]), state = tensor(a[3]).tanh();
    if (!of_hy.defined()) of_hy = at::empty_like(state).zero_();
    Tensor of_state = of_hy * out * (1 - state * state);
    if (of_cy.defined()) of_state = of_state + of_cy;
    Tensor of_gates = at::cat({of_state * cell * in * (1 - in), of_state * tensor(a[2]) * forget * (1 - forget),
                               of_state * in * (1 - cell * cell), of_hy * state * out * (1 - out)},
                              -1);
    return {of_gates, of_state * forget, a[5].toBool() ? IValue(of_gates.sum(0)) : IValue()};
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
Stack gru_cell(const Call &call) {
    const Stack &a = call.args;
    auto input = chunks(with_bias(tensor(a[0]), tensor(a[3])), 3),
         hidden = chunks(with_bias(tensor(a[1]), tensor(a[4])), 3);
    Tensor hx = tensor(a[2]);
    Tensor reset = (input[0] + hidden[0]).sigmoid(), update = (input[1] + hidden[1]).sigmoid();
    Tensor fresh = (input[2] + reset * hidden[2]).tanh();
    return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, -1)};
}

// (grad_hy, workspace, has_bias) -> (grad of input_gates, hidden_gates, hx, input_bias, hidden_bias)
Stack gru_cell_backward(const Call &call) {
    const Stack &a = call.args;
    auto kept = chunks(tensor(a[1]), 5);
    const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3], &hidden = kept[4];
    Tensor grad = tensor(a[0]);
    Tensor of_update = grad * (hx - fresh) * (1 - update) * update;
    Tensor of_fresh = grad * (1 - update) * (1 - fresh * fresh);
    Tensor of_reset = of_fresh * hidden * (1 - reset) * reset;
    Tensor of_input = at::cat({of_reset, of_update, of_fresh}, -1),
           of_hidden = at::cat({of_reset, of_update, of_fresh * reset}, -1);
    if (!a[2].toBool()) return {of_input, of_hidden, grad * update, IValue(), IValue()};
    return {of_input, of_hidden, grad * update, of_input.sum(0), of_hidden.sum(0)};
}

struct Named {
    const char *name;
    Replacement replacement;
};

constexpr Named REPLACEMENTS[] = {
    {"native_dropout", dropout},
    {"_fused_dropout", fused_dropout},
    {"_masked_scale", masked_scale},
    {"_softmax", wide_softmax<at::_softmax>},
    {"_log_softmax", wide_softmax<at::_log_softmax>},
    {"_softmax_backward_data", wide_softmax_backward<at::_softmax_backward_data>},
    {"_log_softmax_backward_data", wide_softmax_backward<at::_log_softmax_backward_data>},
    {"_scaled_dot_product_flash_attention", flash_attention},
    {"_scaled_dot_product_flash_attention_backward", flash_attention_backward},
    {"_scaled_dot_product_efficient_attention", efficient_attention},
    {"_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
    {"native_layer_norm", layer_norm},
    {"native_layer_norm_backward", layer_norm_backward},
    {"_fused_rms_norm_backward", rms_norm_backward},
    {"_thnn_fused_lstm_cell", lstm_cell},
    {"_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
    {"_thnn_fused_gru_cell", gru_cell},
    {"_thnn_fused_gru_cell_backward", gru_cell_backward},
};

}   // namespace

Replacement replacement(std::string_view name) {
    for (const Named &named : REPLACEMENTS)
        if (name == named.name) return named.replacement;
    return nullptr;
}

}   // namespace standin
