// What check_operators.cpp evaluates on both devices.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

using at::Tensor;
using at::indexing::None;
using at::indexing::Slice;
using Tensors = std::vector<Tensor>;

namespace {

struct Case {
    std::string name;
    Tensors inputs;   // floating-point ones get gradients
    std::function<Tensors(const Tensors &)> body;
    double tolerance = 1e-5;
};

Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes); }
Tensor positive(at::IntArrayRef sizes) { return at::rand(sizes) + 0.5; }
Tensor unit(at::IntArrayRef sizes) { return at::rand(sizes) * 0.9 + 0.05; }
Tensor below(int64_t most, at::IntArrayRef sizes) { return at::randint(most, sizes); }
Tensor mask(at::IntArrayRef sizes) { return at::rand(sizes) < 0.5; }
Tensor half(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); }
Tensor well_formed(int64_t n) {
    auto a = at::randn({n, n});
    return a.matmul(a.t()) + at::eye(n) * n;
}

template <typename Tuple> Tensors all(const Tuple &tuple) {
    return std::apply([](const auto &...tensors) { return Tensors{tensors...}; }, tuple);
}

#define BODY(...) [](const Tensors &x) -> Tensors { return {__VA_ARGS__}; }
#define DO(...) [](const Tensors &x) -> Tensors __VA_ARGS__

std::vector<Case> pointwise() {
    return {
        {"add, broadcast", {normal({3, 4}), normal({4})}, BODY(x[0] + x[1])},
        {"sub and alpha", {normal({3, 4}), normal({3, 4})}, BODY(at::sub(x[0], x[1], 2))},
        {"mul of a column", {normal({3, 4}), normal({3, 1})}, BODY(x[0] * x[1])},
        {"div", {normal({3, 4}), positive({3, 4})}, BODY(x[0] / x[1])},
        {"div, rounded",
         {normal({3, 4}), positive({3, 4})},
         BODY(at::div(x[0], x[1], "floor"), at::div(x[0], x[1], "trunc"))},
        {"remainder, fmod",
         {normal({3, 4}), positive({3, 4})},
         BODY(at::remainder(x[0], x[1].detach()), at::fmod(x[0], x[1].detach()))},
        {"scalars", {normal({3, 4})}, BODY(2 * x[0] + 1, 1 / (x[0] * x[0] + 1), 3 - x[0])},
        {"a CPU scalar", {normal({3, 4})}, BODY(x[0] * at::scalar_tensor(2.5, at::kDouble))},
        {"transposed", {normal({4, 3}), normal({3, 4})}, BODY(x[0].t() * x[1], (x[0].t() + x[1]).exp())},
        {"exp, log",
         {positive({3, 4})},
         BODY(x[0].exp(), x[0].log(), x[0].log1p(), x[0].expm1(), x[0].log2(), x[0].log10())},
        {"roots", {positive({3, 4})}, BODY(x[0].sqrt(), x[0].rsqrt(), x[0].reciprocal(), x[0].square())},
        {"pow", {positive({3, 4}), normal({3, 4})}, BODY(x[0].pow(2.5), x[0].pow(x[1]), at::pow(2, x[1]))},
        {"trigonometry",
         {unit({3, 4})},
         BODY(x[0].sin(), x[0].cos(), x[0].tan(), x[0].asin(), x[0].acos(), x[0].atan())},
        {"hyperbolic", {unit({3, 4})}, BODY(x[0].sinh(), x[0].cosh(), x[0].tanh(), x[0].atanh(), x[0].asinh())},
        {"atan2, hypot", {normal({3, 4}), positive({3, 4})}, BODY(at::atan2(x[0], x[1]), at::hypot(x[0], x[1]))},
        {"erf", {normal({3, 4})}, BODY(x[0].erf(), x[0].erfc(), (x[0] * 0.1).erfinv())},
        {"gamma", {positive({3, 4})}, BODY(x[0].lgamma(), x[0].digamma(), at::polygamma(1, x[0]))},
        {"sigmoid, logit", {unit({3, 4})}, BODY(x[0].sigmoid(), x[0].logit(), at::log_sigmoid(x[0]))},
        {"relu and its like",
         {normal({3, 4})},
         BODY(at::relu(x[0]), at::leaky_relu(x[0], 0.1), at::elu(x[0]), at::selu(x[0]), at::relu6(x[0]))},
        {"gelu", {normal({3, 4})}, BODY(at::gelu(x[0]), at::gelu(x[0], "tanh"))},
        {"silu, mish",
         {normal({3, 4})},
         BODY(at::silu(x[0]), at::mish(x[0]), at::hardswish(x[0]), at::hardsigmoid(x[0]), at::softplus(x[0]))},
        {"shrinks",
         {normal({3, 4})},
         BODY(at::hardshrink(x[0]), at::softshrink(x[0]), at::threshold(x[0], 0, 1), at::hardtanh(x[0]))},
        {"prelu, glu", {normal({3, 4}), positive({1})}, BODY(at::prelu(x[0], x[1]), at::glu(x[0], 1))},
        {"abs, sign", {normal({3, 4})}, BODY(x[0].abs(), x[0].sign(), x[0].neg(), x[0].sgn())},
        {"rounding", {normal({3, 4})}, BODY(x[0].floor(), x[0].ceil(), x[0].round(), x[0].trunc(), x[0].frac())},
        {"clamp",
         {normal({3, 4}), normal({3, 4})},
         BODY(x[0].clamp(-0.5, 0.5), x[0].clamp_min(0), at::clamp_max(x[0], x[1]))},
        {"maximum, minimum",
         {normal({3, 4}), normal({3, 4})},
         BODY(at::maximum(x[0], x[1]), at::minimum(x[0], x[1]), at::fmax(x[0], x[1]))},
        {"lerp",
         {normal({3, 4}), normal({3, 4}), unit({3, 4})},
         BODY(at::lerp(x[0], x[1], 0.3), at::lerp(x[0], x[1], x[2]))},
        {"addcmul, addcdiv",
         {normal({3}), normal({3}), positive({3})},
         BODY(at::addcmul(x[0], x[1], x[2], 0.5), at::addcdiv(x[0], x[1], x[2], 0.5))},
        {"where",
         {mask({3, 4}), normal({3, 4}), normal({4})},
         BODY(at::where(x[0], x[1], x[2]), at::where(x[0], x[1], 7.0))},
        {"comparisons",
         {normal({3, 4}), normal({3, 4})},
         BODY(x[0] < x[1], x[0] >= x[1], x[0] == x[0], x[0] != x[1], x[0] > 0)},
        {"logic",
         {mask({3, 4}), mask({3, 4})},
         BODY(x[0] & x[1], x[0] | x[1], x[0] ^ x[1], x[0].logical_not(), at::logical_xor(x[0], x[1]))},
        {"integers",
         {below(9, {3, 4}), below(9, {3, 4}) + 1},
         BODY(x[0] + x[1], x[0] / x[1], at::floor_divide(x[0], x[1]), at::gcd(x[0], x[1]), x[0].bitwise_and(x[1]))},
        {"isnan and its like",
         {normal({3, 4})},
         BODY((x[0] / 0).isinf(), x[0].isnan(), x[0].isfinite(), (x[0] / 0).nan_to_num(0, 1, -1))},
        {"xlogy, logaddexp",
         {positive({3, 4}), positive({3, 4})},
         BODY(at::xlogy(x[0], x[1]), at::logaddexp(x[0], x[1]), at::special_entr(x[0]))},
        {"heaviside, copysign",
         {normal({3, 4}), normal({3, 4})},
         BODY(at::heaviside(x[0], x[1]).detach(), at::copysign(x[0], x[1]))},
        {"complex", {normal({3, 4}), normal({3, 4})}, DO({
             auto z = at::complex(x[0], x[1]);
             return {z.abs(), at::real(z * z.conj()), at::view_as_real(z.exp())};
         })},
    };
}

std::vector<Case> reductions() {
    return {
        {"sum", {normal({3, 4, 5})}, BODY(x[0].sum(), x[0].sum(1), x[0].sum(at::IntArrayRef({0, 2}), true))},
        {"mean", {normal({3, 4, 5})}, BODY(x[0].mean(), x[0].mean(-1), x[0].mean(at::IntArrayRef({0, 1})))},
        {"sum of what is transposed",
         {normal({3, 4, 5})},
         BODY(x[0].transpose(0, 2).sum(0), x[0].permute({1, 2, 0}).mean(1))},
        {"prod", {positive({3, 4})}, BODY(x[0].prod(), x[0].prod(1))},
        {"var, std",
         {normal({3, 4})},
         BODY(x[0].var(), x[0].std(1), x[0].var(1, false), std::get<1>(at::std_mean(x[0], 1)))},
        {"max, min", {normal({3, 4})}, DO({
             auto [v, i] = x[0].max(1);
             auto [w, j] = x[0].min(0, true);
             return {x[0].max(), x[0].min(), v, i, w, j};
         })},
        {"amax, aminmax",
         {normal({3, 4})},
         BODY(x[0].amax(1), x[0].amin(0), std::get<0>(at::aminmax(x[0].detach(), 1)))},
        {"argmax, argmin", {normal({3, 4})}, BODY(x[0].argmax(), x[0].argmax(1), x[0].argmin(0))},
        {"any, all", {mask({3, 4})}, BODY(x[0].any(), x[0].all(), x[0].any(1), x[0].all(0))},
        {"logsumexp", {normal({3, 4})}, BODY(x[0].logsumexp(1), x[0].logsumexp(at::IntArrayRef({0, 1})))},
        {"norms", {normal({3, 4})}, BODY(x[0].norm(), x[0].norm(1), x[0].norm(2, 1), at::linalg_vector_norm(x[0], 3))},
        {"median, mode", {normal({3, 5})}, DO({
             auto [v, i] = x[0].median(1);
             auto [w, j] = x[0].mode(1);
             return {x[0].median(), v, i, w, j};
         })},
        {"kthvalue", {normal({3, 5})}, BODY(all(x[0].kthvalue(2, 1)))},
        {"nansum, count_nonzero",
         {normal({3, 4})},
         BODY(x[0].nansum(), at::count_nonzero(x[0] > 0), at::count_nonzero(x[0] > 0, at::IntArrayRef({1})))},
        {"cumsum, cumprod", {positive({3, 4})}, BODY(x[0].cumsum(1), x[0].cumprod(0), x[0].logcumsumexp(1))},
        {"cummax", {normal({3, 4})}, BODY(all(x[0].cummax(1)))},
        {"sort", {normal({3, 8})}, BODY(all(x[0].sort(1)))},
        {"sort, stable, descending", {below(4, {3, 20})}, BODY(all(x[0].sort(true, 1, true)))},
        {"argsort", {normal({3, 8})}, BODY(x[0].argsort(int64_t(1)), x[0].argsort(int64_t(0), true))},
        {"topk", {normal({3, 8})}, BODY(all(x[0].topk(3, 1)))},
        {"topk, smallest", {normal({3, 8})}, BODY(all(x[0].topk(2, 0, false)))},
        {"unique", {below(5, {20})}, DO({
             auto [v, inverse, counts] = at::_unique2(x[0], true, true, true);
             return {v, inverse, counts};
         })},
        {"unique_consecutive", {below(3, {20})}, BODY(all(at::unique_consecutive(x[0], true, true)))},
        {"bincount, histc",
         {below(5, {20}), unit({20})},
         BODY(at::bincount(x[0]), at::bincount(x[0], x[1].detach(), 8), at::histc(x[1].detach(), 4, 0, 1))},
        {"nonzero", {mask({4, 5})}, BODY(x[0].nonzero(), at::argwhere(x[0]))},
        {"bucketize, searchsorted", {normal({4, 5})}, DO({
             auto edges = at::arange(-2, 3, x[0].options().requires_grad(false)).to(at::kFloat);
             return {at::bucketize(x[0], edges), at::searchsorted(edges, x[0])};
         })},
        {"equal",
         {normal({3})},
         BODY(at::scalar_tensor(at::equal(x[0], x[0])), at::scalar_tensor(at::equal(x[0], x[0] + 1)))},
        {"isin", {below(9, {3, 4}), below(9, {3})}, BODY(at::isin(x[0], x[1]))},
        {"allclose, item",
         {normal({3})},
         BODY(at::scalar_tensor(at::allclose(x[0], x[0])), at::scalar_tensor(x[0].sum().item<double>()))},
        {"diff, trace", {normal({4, 4})}, BODY(x[0].diff(), x[0].trace(), x[0].diagonal().sum())},
        {"cdist, pdist", {normal({4, 3}), normal({5, 3})}, BODY(at::cdist(x[0], x[1]), at::pdist(x[0]))},
        {"cosine similarity", {normal({4, 3}), normal({4, 3})}, BODY(at::cosine_similarity(x[0], x[1]))},
        {"quantile", {normal({11})}, BODY(at::quantile(x[0], 0.3))},
    };
}

std::vector<Case> products() {
    return {
        {"mm", {normal({3, 4}), normal({4, 5})}, BODY(x[0].mm(x[1]))},
        {"mm of transposed", {normal({4, 3}), normal({5, 4})}, BODY(x[0].t().mm(x[1].t()))},
        {"matmul, batches", {normal({2, 3, 4}), normal({4, 5})}, BODY(x[0].matmul(x[1]))},
        {"matmul, broadcast", {normal({2, 1, 3, 4}), normal({5, 4, 3})}, BODY(x[0].matmul(x[1]))},
        {"mv, dot, outer", {normal({3, 4}), normal({4})}, BODY(x[0].mv(x[1]), x[1].dot(x[1]), at::outer(x[1], x[1]))},
        {"bmm", {normal({2, 3, 4}), normal({2, 4, 5})}, BODY(x[0].bmm(x[1]))},
        {"bmm of transposed",
         {normal({2, 4, 3}), normal({2, 5, 4})},
         BODY(x[0].transpose(1, 2).bmm(x[1].transpose(1, 2)))},
        {"addmm", {normal({5}), normal({3, 4}), normal({4, 5})}, BODY(at::addmm(x[0], x[1], x[2], 0.5, 2))},
        {"baddbmm",
         {normal({2, 3, 5}), normal({2, 3, 4}), normal({2, 4, 5})},
         BODY(at::baddbmm(x[0], x[1], x[2], 0.5, 2), at::addbmm(x[0][0], x[1], x[2]))},
        {"addmv, addr",
         {normal({3}), normal({3, 4}), normal({4})},
         BODY(at::addmv(x[0], x[1], x[2]), at::addr(x[1], x[0], x[2]))},
        {"baddbmm_ on transposed", {normal({2, 5, 3}), normal({2, 3, 4}), normal({2, 4, 5})}, DO({
             auto y = (x[0] * 1).transpose(1, 2);
             y.baddbmm_(x[1], x[2]);
             return {y};
         })},
        {"addmm_ on a part", {normal({3, 9}), normal({3, 4}), normal({4, 4})}, DO({
             auto y = x[0] * 1;
             y.slice(1, 2, 6).addmm_(x[1], x[2]);
             return {y};
         })},
        {"linear",
         {normal({2, 3, 4}), normal({5, 4}), normal({5})},
         BODY(at::linear(x[0], x[1], x[2]), at::linear(x[0], x[1]))},
        {"linear, bf16", {half({6, 4}), half({5, 4}), half({5})}, BODY(at::linear(x[0], x[1], x[2])), 2e-2},
        {"bilinear", {normal({3, 4}), normal({3, 5}), normal({2, 4, 5})}, BODY(at::bilinear(x[0], x[1], x[2], {}))},
        {"einsum",
         {normal({2, 3, 4}), normal({2, 4, 5})},
         BODY(at::einsum("bij,bjk->bik", {x[0], x[1]}), at::einsum("bij->ji", {x[0]}))},
        {"tensordot, kron",
         {normal({3, 4}), normal({4, 2})},
         BODY(at::tensordot(x[0], x[1], {1}, {0}), at::kron(x[0], x[1]))},
        {"cholesky", {well_formed(4)}, BODY(at::linalg_cholesky(x[0]), at::linalg_cholesky(x[0], true))},
        {"cholesky, solved",
         {well_formed(4), normal({4, 2})},
         BODY(at::cholesky_solve(x[1], at::linalg_cholesky(x[0])), at::cholesky_inverse(at::linalg_cholesky(x[0]))),
         1e-4},
        {"inverse, det",
         {well_formed(4)},
         BODY(at::linalg_inv(x[0]), at::linalg_det(x[0]), std::get<1>(at::linalg_slogdet(x[0]))),
         1e-4},
        {"solve", {well_formed(4), normal({4, 2})}, BODY(at::linalg_solve(x[0], x[1])), 1e-4},
        {"triangular solve",
         {well_formed(4), normal({4, 2})},
         BODY(at::linalg_solve_triangular(x[0].tril(), x[1], false)),
         1e-4},
        {"qr", {normal({5, 3})}, BODY(all(at::linalg_qr(x[0]))), 1e-4},
        {"eigenvalues",
         {well_formed(4)},
         BODY(at::linalg_eigvalsh(x[0]), at::linalg_svdvals(x[0]), at::linalg_matrix_norm(x[0], 2)),
         1e-4},
        {"lstsq",
         {normal({6, 3}), normal({6, 2})},
         BODY(std::get<0>(at::linalg_lstsq(x[0], x[1], std::nullopt, "gels"))),
         1e-4},
        {"lu", {well_formed(4)}, BODY(all(at::linalg_lu(x[0]))), 1e-4},
        {"pinv, matrix_exp", {normal({4, 4})}, BODY(at::linalg_pinv(x[0]), at::linalg_matrix_exp(x[0] * 0.1)), 1e-3},
        {"cross", {normal({4, 3}), normal({4, 3})}, BODY(at::linalg_cross(x[0], x[1]))},
        {"fft",
         {normal({4, 8})},
         BODY(at::view_as_real(at::fft_rfft(x[0])), at::fft_irfft(at::fft_rfft(x[0])), at::real(at::fft_fft2(x[0]))),
         1e-4},
    };
}

std::vector<Case> indexing() {
    return {
        {"gather", {normal({3, 4}), below(4, {3, 2})}, BODY(x[0].gather(1, x[1]))},
        {"scatter",
         {normal({3, 4}), below(3, {1, 4}), normal({1, 4})},
         BODY(x[0].scatter(0, x[1], x[2]), x[0].scatter(0, x[1], 5))},
        {"scatter_add", {normal({3, 4}), below(3, {5, 4}), normal({5, 4})}, BODY(x[0].scatter_add(0, x[1], x[2]))},
        {"scatter_reduce",
         {normal({3, 4}), below(3, {5, 4}), normal({5, 4})},
         BODY(x[0].scatter_reduce(0, x[1], x[2], "sum"), x[0].scatter_reduce(0, x[1], x[2], "amax"),
              x[0].scatter_reduce(0, x[1], x[2], "mean"))},
        {"index_select", {normal({3, 4}), below(4, {6})}, BODY(x[0].index_select(1, x[1]))},
        {"index_add", {normal({3, 4}), below(3, {5}), normal({5, 4})}, BODY(x[0].index_add(0, x[1], x[2], 0.5))},
        {"index_copy, index_fill", {normal({3, 4}), normal({2, 4})}, DO({
             auto i = at::arange(2, x[0].options().dtype(at::kLong).requires_grad(false));
             return {x[0].index_copy(0, i, x[1]), x[0].index_fill(0, i, 3)};
         })},
        {"index",
         {normal({3, 4}), below(3, {5}), below(4, {5})},
         BODY(x[0].index({x[1]}), x[0].index({x[1], x[2]}), x[0].index({Slice(), x[2]}))},
        {"index by a mask", {normal({3, 4}), mask({3, 4})}, BODY(x[0].index({x[1]}), x[0].masked_select(x[1]))},
        {"index_put", {normal({3, 4}), below(3, {5}), normal({5, 4})}, BODY(x[0].index_put({x[1]}, x[2], true))},
        {"index_put by a mask",
         {normal({3, 4}), mask({3, 4})},
         BODY(x[0].index_put({x[1]}, at::scalar_tensor(2.0, x[0].options().requires_grad(false))))},
        {"take, put",
         {normal({3, 4}), below(12, {5}), normal({5})},
         BODY(x[0].take(x[1]), x[0].put(x[1], x[2], true),
              at::take_along_dim(x[0], x[1].slice(0, 0, 3).unsqueeze(1) % 4, 1))},
        {"slices",
         {normal({6, 8})},
         BODY(x[0].slice(0, 1, 5, 2), x[0].select(1, 3), x[0].narrow(1, 2, 3),
              x[0].index({Slice(None, 3), Slice(2, None)}))},
        {"assignment to a slice", {normal({6, 8}), normal({2, 8})}, DO({
             auto y = x[0] * 1;
             y.slice(0, 1, 3).copy_(x[1]);
             y.select(1, 0).zero_();
             y.slice(1, 4, 6).fill_(2);
             return {y};
         })},
        {"masked_fill",
         {normal({3, 4}), mask({3, 4})},
         BODY(x[0].masked_fill(x[1], -1),
              x[0].masked_fill(x[1], at::scalar_tensor(2.0, x[0].options().requires_grad(false))))},
        {"masked_scatter", {normal({3, 4}), mask({3, 4}), normal({12})}, BODY(x[0].masked_scatter(x[1], x[2]))},
        {"embedding",
         {normal({7, 4}), below(7, {2, 3})},
         BODY(at::embedding(x[0], x[1]), at::embedding(x[0], x[1], 2))},
        {"embedding, many rows",
         {normal({7, 4}), below(7, {4000})},
         BODY(at::embedding(x[0], x[1]).view({40, 100, 4}).sum(1)),
         1e-4},
        {"embedding_bag", {normal({7, 4}), below(7, {6})}, DO({
             auto offsets = at::arange(0, 6, 2, x[1].options());
             return {std::get<0>(at::embedding_bag(x[0], x[1], offsets, false, 0)),
                     std::get<0>(at::embedding_bag(x[0], x[1], offsets, false, 1))};
         })},
        {"one_hot", {below(4, {5})}, BODY(at::one_hot(x[0]), at::one_hot(x[0], 6))},
        {"repeat_interleave",
         {normal({3, 2}), below(3, {3})},
         BODY(x[0].repeat_interleave(x[1], 0), x[0].repeat_interleave(2, 1))},
        {"tril, triu",
         {normal({4, 5})},
         BODY(x[0].tril(), x[0].triu(1), at::tril_indices(3, 3, 0, at::TensorOptions(x[0].device()).dtype(at::kLong)))},
    };
}

std::vector<Case> shapes() {
    return {
        {"views",
         {normal({2, 3, 4})},
         BODY(x[0].view({6, 4}), x[0].reshape({-1}), x[0].permute({2, 0, 1}).contiguous(),
              x[0].transpose(0, 1).reshape({6, 4}), x[0].unsqueeze(1).squeeze(1))},
        {"expand, repeat",
         {normal({3, 1})},
         BODY(x[0].expand({3, 4}), x[0].repeat({2, 3}), x[0].expand({3, 4}).contiguous())},
        {"cat", {normal({2, 3}), normal({4, 3})}, BODY(at::cat({x[0], x[1]}), at::cat({x[0], x[0].slice(1, 0, 2)}, 1))},
        {"stack",
         {normal({2, 3}), normal({2, 3})},
         BODY(at::stack({x[0], x[1]}), at::stack({x[0], x[1]}, -1), at::hstack({x[0], x[1]}),
              at::vstack({x[0], x[1]}))},
        {"split, chunk", {normal({6, 4})}, DO({
             Tensors r = x[0].split(4);
             for (auto &t : x[0].chunk(3)) r.push_back(t * 2);
             for (auto &t : x[0].split_with_sizes({1, 3}, 1)) r.push_back(t.contiguous());
             return r;
         })},
        {"unbind, tensor_split", {normal({5, 4})}, DO({
             Tensors r = x[0].unbind(1);
             for (auto &t : x[0].tensor_split(at::arange(1, 4, at::kLong))) r.push_back(t + 1);
             return r;
         })},
        {"flip, roll, rot90", {normal({3, 4})}, BODY(x[0].flip({0, 1}), x[0].roll(1, 1), x[0].rot90())},
        {"unfold", {normal({3, 8})}, BODY(x[0].unfold(1, 3, 2).contiguous())},
        {"pads",
         {normal({1, 2, 5, 5})},
         BODY(at::constant_pad_nd(x[0], {1, 2, 0, 1}, 3), at::reflection_pad2d(x[0], {1, 1, 2, 2}),
              at::replication_pad2d(x[0], {1, 1, 2, 2}), at::pad(x[0], {1, 1, 1, 1}, "circular"))},
        {"meshgrid, diag", {normal({3}), normal({4})}, DO({
             Tensors r = at::meshgrid({x[0], x[1]}, "ij");
             r.push_back(x[0].diag());
             r.push_back(at::diag_embed(x[1]));
             return r;
         })},
        {"to other types",
         {normal({3, 4})},
         BODY(x[0].to(at::kHalf), x[0].to(at::kBFloat16), x[0].to(at::kDouble), x[0].to(at::kLong), x[0].to(at::kBool),
              x[0].to(at::kHalf).to(at::kFloat))},
        {"to other types, transposed",
         {normal({3, 4})},
         BODY(x[0].t().to(at::kDouble), x[0].t().to(at::kHalf).contiguous())},
        {"mixed types",
         {normal({3, 4}), below(5, {3, 4})},
         BODY(x[0] + x[1], x[1] * 1.5, x[0].to(at::kDouble) * x[0], x[1] / 2)},
        {"factories", {normal({3, 4})}, DO({
             auto o = x[0].options().requires_grad(false);
             return {at::zeros({2, 3}, o), at::ones({2}, o),         at::full({2}, 7, o),
                     at::arange(5, o),     at::linspace(0, 1, 5, o), at::eye(3, o),
                     at::zeros_like(x[0]), at::full_like(x[0], 2),   at::logspace(0, 2, 3, 10, o)};
         })},
        {"in place", {normal({3, 4}), normal({3, 4})}, DO({
             auto y = x[0] * 1;
             y.add_(x[1]).mul_(2).sub_(1).clamp_(-3, 3).div_(2).tanh_();
             return {y};
         })},
        {"in place, transposed", {normal({3, 4}), normal({4, 3})}, DO({
             auto y = x[0] * 1;
             y.t().mul_(x[1]).add_(x[1], 2);
             y.t().copy_(y.t() * 3);
             return {y};
         })},
        {"into a given tensor", {normal({3, 4}), normal({4, 3})}, DO({
             c10::NoGradGuard guard;
             auto o = x[0].options().requires_grad(false);
             auto a = at::empty({0}, o), b = at::empty({3, 3}, o), c = at::empty({3, 6}, o).slice(1, 0, 3),
                  v = at::empty({0}, o), i = at::empty({0}, o.dtype(at::kLong));
             at::add_out(a, x[0], x[0]);
             at::mm_out(b, x[0], x[1]);
             at::mm_out(c, x[0], x[1]);
             at::max_out(v, i, x[0], 1);
             return {a, b, c, v, i};
         })},
        {"lists of results into given tensors",
         {normal({3, 8})},
         DO({
             c10::NoGradGuard guard;
             auto o = x[0].options().requires_grad(false);
             auto v = at::empty({0}, o), i = at::empty({0}, o.dtype(at::kLong)), q = at::empty({0}, o),
                  r = at::empty({0}, o);
             at::kthvalue_out(v, i, x[0], 2, 1);
             at::linalg_qr_out(q, r, x[0]);
             return {v, i, q.matmul(r)};
         }),
         1e-4},
        {"foreach", {normal({3, 4}), normal({5})}, DO({
             c10::NoGradGuard guard;
             Tensors a{x[0].detach() * 1, x[1].detach() * 1};
             at::_foreach_mul_(a, 2);
             at::_foreach_add_(a, a, 0.5);
             at::_foreach_addcmul_(a, a, a, 0.1);
             auto n = at::_foreach_norm(a);
             auto s = at::_foreach_sqrt(at::_foreach_abs(a));
             a.insert(a.end(), n.begin(), n.end());
             a.insert(a.end(), s.begin(), s.end());
             return a;
         })},
        {"channels last",
         {normal({2, 3, 4, 4})},
         BODY(x[0].contiguous(at::MemoryFormat::ChannelsLast) * 2, at::relu(x[0].to(at::MemoryFormat::ChannelsLast)))},
        {"bf16",
         {half({3, 4}), half({4, 5})},
         BODY(x[0].matmul(x[1]), x[0] * 2 + 1, x[0].exp(), x[0].sum(1), x[0].softmax(1), at::gelu(x[0])),
         2e-2},
        {"fp16, softmax",
         {normal({3, 4}).to(at::kHalf)},
         BODY(x[0].softmax(1), at::softmax(x[0].to(at::kFloat), 1)),
         2e-3},
        {"fp16",
         {normal({3, 4})},
         BODY(x[0].to(at::kHalf) * 2, x[0].to(at::kHalf).softmax(1), x[0].to(at::kHalf).mean()),
         2e-3},
        {"nothing",
         {at::randn({0, 4}), at::randn({4, 3})},
         BODY(x[0].sum(), x[0].matmul(x[1]), x[0] * 2, at::cat({x[0], x[1].t()}))},
    };
}

std::vector<Case> layers() {
    return {
        {"softmax", {normal({3, 4})}, BODY(x[0].softmax(1), x[0].log_softmax(0), at::softmax(x[0], 0, at::kDouble))},
        {"layer norm",
         {normal({3, 4, 5}), normal({5}), normal({5})},
         BODY(at::layer_norm(x[0], {5}, x[1], x[2]), at::layer_norm(x[0], {4, 5}))},
        {"layer norm, bf16", {half({6, 8}), half({8}), half({8})}, BODY(at::layer_norm(x[0], {8}, x[1], x[2])), 4e-2},
        {"layer norm, bf16, no weights", {half({6, 8})}, BODY(at::layer_norm(x[0], {8})), 4e-2},
        {"rms norm, bf16", {half({6, 8}), half({8})}, BODY(at::rms_norm(x[0], {8}, x[1])), 4e-2},
        {"group norm, bf16",
         {half({2, 4, 3, 3}), half({4}), half({4})},
         BODY(at::group_norm(x[0], 2, x[1], x[2])),
         4e-2},
        {"batch norm, bf16",
         {half({4, 3, 5}), normal({3}), normal({3})},
         BODY(at::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, true)),
         4e-2},
        {"rms norm",
         {normal({3, 4, 5}), normal({5})},
         BODY(at::rms_norm(x[0], {5}, x[1]), at::rms_norm(x[0], {4, 5}), at::rms_norm(x[0], {5}, x[1], 1e-3))},
        {"group norm", {normal({2, 4, 3, 3}), normal({4}), normal({4})}, BODY(at::group_norm(x[0], 2, x[1], x[2]))},
        {"instance norm",
         {normal({2, 4, 3, 3}), normal({4}), normal({4})},
         BODY(at::instance_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, true))},
        {"batch norm", {normal({4, 3, 5}), normal({3}), normal({3})}, DO({
             auto o = x[0].options().requires_grad(false);
             auto mean = at::zeros({3}, o), var = at::ones({3}, o);
             auto y = at::batch_norm(x[0], x[1], x[2], mean, var, true, 0.1, 1e-5, true);
             return {y, mean, var, at::batch_norm(x[0], x[1], x[2], mean.clone(), var.clone(), false, 0.1, 1e-5, true)};
         })},
        {"weight norm, renorm",
         {normal({4, 3}), positive({4, 1})},
         BODY(at::_weight_norm(x[0], x[1], 0), x[0].renorm(2, 0, 1))},
        {"conv1d", {normal({2, 3, 9}), normal({4, 3, 3}), normal({4})}, BODY(at::conv1d(x[0], x[1], x[2], 2, 1))},
        {"conv2d",
         {normal({2, 3, 7, 7}), normal({4, 3, 3, 3}), normal({4})},
         BODY(at::conv2d(x[0], x[1], x[2]), at::conv2d(x[0], x[1], x[2], 2, 1)),
         1e-4},
        {"conv2d, dilated",
         {normal({2, 3, 7, 7}), normal({4, 3, 3, 3})},
         BODY(at::conv2d(x[0], x[1], {}, 1, at::IntArrayRef({0}), 2)),
         1e-4},
        {"conv2d, groups",
         {normal({2, 4, 7, 7}), normal({4, 2, 3, 3})},
         BODY(at::conv2d(x[0], x[1], {}, 1, 1, 1, 2)),
         1e-4},
        {"conv2d, depthwise",
         {normal({2, 4, 7, 7}), normal({4, 1, 3, 3}), normal({4})},
         BODY(at::conv2d(x[0], x[1], x[2], 1, 1, 1, 4)),
         1e-4},
        {"conv2d, channels last",
         {normal({2, 3, 7, 7}), normal({4, 3, 3, 3})},
         BODY(at::conv2d(x[0].contiguous(at::MemoryFormat::ChannelsLast), x[1])),
         1e-4},
        {"conv3d", {normal({1, 2, 4, 5, 5}), normal({3, 2, 2, 2, 2})}, BODY(at::conv3d(x[0], x[1])), 1e-4},
        {"conv transposed",
         {normal({2, 3, 5, 5}), normal({3, 4, 3, 3}), normal({4})},
         BODY(at::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1)),
         1e-4},
        {"conv1d transposed",
         {normal({2, 3, 5}), normal({3, 4, 3})},
         BODY(at::conv_transpose1d(x[0], x[1], {}, 2)),
         1e-4},
        {"max pools",
         {normal({2, 3, 8, 8})},
         BODY(at::max_pool2d(x[0], 2), at::max_pool2d(x[0], 3, 2, 1), at::max_pool1d(x[0][0], 2),
              std::get<0>(at::adaptive_max_pool2d(x[0], {3, 3})))},
        {"average pools",
         {normal({2, 3, 8, 8})},
         BODY(at::avg_pool2d(x[0], 2), at::adaptive_avg_pool2d(x[0], {3, 3}), at::adaptive_avg_pool2d(x[0], {1, 1}),
              at::avg_pool1d(x[0][0], 3))},
        {"pools in 3d",
         {normal({1, 2, 4, 4, 4})},
         BODY(at::max_pool3d(x[0], 2), at::avg_pool3d(x[0], 2), at::adaptive_avg_pool3d(x[0], {2, 2, 2}))},
        {"interpolation",
         {normal({1, 2, 4, 4})},
         BODY(at::upsample_nearest2d(x[0], {8, 8}), at::upsample_bilinear2d(x[0], {7, 7}, false),
              at::upsample_bicubic2d(x[0], {6, 6}, true), at::upsample_linear1d(x[0][0], {9}, false)),
         1e-4},
        {"grid sample",
         {normal({1, 2, 4, 4}), unit({1, 3, 3, 2})},
         BODY(at::grid_sampler(x[0], x[1], 0, 0, true), at::grid_sampler(x[0], x[1], 0, 1, false)),
         1e-4},
        {"affine grid, pixel shuffle",
         {normal({1, 2, 3}), normal({1, 4, 2, 2})},
         BODY(at::affine_grid_generator(x[0], {1, 1, 3, 3}, true), at::pixel_shuffle(x[1], 2))},
        {"im2col, col2im", {normal({1, 2, 4, 4})}, DO({
             auto c = at::im2col(x[0], {2, 2}, {1, 1}, {0, 0}, {1, 1});
             return {c, at::col2im(c, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1})};
         })},
        {"dropout of nothing", {normal({3, 4})}, BODY(at::dropout(x[0], 0, true), at::dropout(x[0], 0.5, false))},
        {"lstm", {normal({5, 2, 3}), normal({16, 3}), normal({16, 4}), normal({16}), normal({16})}, DO({
             auto h = at::zeros({1, 2, 4}, x[0].options().requires_grad(false));
             return all(at::lstm(x[0], {h, h}, {x[1], x[2], x[3], x[4]}, true, 1, 0, true, false, false));
         })},
        {"gru", {normal({5, 2, 3}), normal({12, 3}), normal({12, 4}), normal({12}), normal({12})}, DO({
             auto h = at::zeros({1, 2, 4}, x[0].options().requires_grad(false));
             return all(at::gru(x[0], h, {x[1], x[2], x[3], x[4]}, true, 1, 0, true, false, false));
         })},
        {"gru without bias, both ways",
         {normal({2, 5, 3}), normal({12, 3}), normal({12, 4}), normal({12, 3}), normal({12, 4})},
         DO({
             auto h = at::zeros({2, 2, 4}, x[0].options().requires_grad(false));
             return all(at::gru(x[0], h, {x[1], x[2], x[3], x[4]}, false, 1, 0, true, true, true));
         })},
        {"lstm, bf16",
         {half({5, 2, 3}), half({16, 3}), half({16, 4}), half({16}), half({16})},
         DO({
             auto h = at::zeros({1, 2, 4}, x[0].options().requires_grad(false));
             return all(at::lstm(x[0], {h, h}, {x[1], x[2], x[3], x[4]}, true, 1, 0, true, false, false));
         }),
         4e-2},
        {"conv2d, bf16", {half({2, 3, 7, 7}), half({4, 3, 3, 3}), half({4})}, BODY(at::conv2d(x[0], x[1], x[2])), 1e-1},
        {"rnn", {normal({5, 2, 3}), normal({4, 3}), normal({4, 4}), normal({4}), normal({4})}, DO({
             auto h = at::zeros({1, 2, 4}, x[0].options().requires_grad(false));
             return all(at::rnn_tanh(x[0], h, {x[1], x[2], x[3], x[4]}, true, 1, 0, true, false, false));
         })},
        {"transformer's attention",
         {normal({2, 5, 8}), normal({24, 8}), normal({24}), normal({8, 8}), normal({8})},
         DO({
             c10::NoGradGuard guard;
             return all(at::_native_multi_head_attention(x[0], x[0], x[0], 8, 2, x[1], x[2], x[3], x[4]));
         }),
         1e-4},
    };
}

std::vector<Case> losses() {
    return {
        {"cross entropy",
         {normal({4, 5}), below(5, {4}), positive({5})},
         BODY(at::cross_entropy_loss(x[0], x[1]), at::cross_entropy_loss(x[0], x[1], x[2].detach(), at::Reduction::Sum),
              at::cross_entropy_loss(x[0], x[1], {}, at::Reduction::None, -100, 0.1))},
        {"cross entropy, ignored",
         {normal({4, 5})},
         BODY(at::cross_entropy_loss(
             x[0], at::full({4}, -100, x[0].options().dtype(at::kLong).requires_grad(false))
                       .index_fill(0, at::zeros({1}, x[0].options().dtype(at::kLong).requires_grad(false)), 2)))},
        {"cross entropy of images",
         {normal({2, 5, 3, 3}), below(5, {2, 3, 3})},
         BODY(at::cross_entropy_loss(x[0], x[1]))},
        {"cross entropy of probabilities", {normal({4, 5}), unit({4, 5})}, BODY(at::cross_entropy_loss(x[0], x[1]))},
        {"nll", {normal({4, 5}), below(5, {4})}, BODY(at::nll_loss(x[0].log_softmax(1), x[1]))},
        {"mse, l1",
         {normal({3, 4}), normal({3, 4})},
         BODY(at::mse_loss(x[0], x[1]), at::l1_loss(x[0], x[1]), at::mse_loss(x[0], x[1], at::Reduction::None))},
        {"smooth l1, huber",
         {normal({3, 4}), normal({3, 4})},
         BODY(at::smooth_l1_loss(x[0], x[1]), at::huber_loss(x[0], x[1]))},
        {"binary cross entropy",
         {unit({3, 4}), unit({3, 4})},
         BODY(at::binary_cross_entropy(x[0], x[1].detach()),
              at::binary_cross_entropy_with_logits(x[0], x[1], {}, x[1].detach()))},
        {"kl, poisson",
         {unit({3, 4}), unit({3, 4})},
         BODY(at::kl_div(x[0].log(), x[1]), at::poisson_nll_loss(x[0], x[1], true, false, 1e-8, 1))},
        {"margins",
         {normal({3, 4}), normal({3, 4}), normal({3, 4})},
         BODY(at::triplet_margin_loss(x[0], x[1], x[2]), at::margin_ranking_loss(x[0], x[1], x[2].detach().sign(), 0.1),
              at::hinge_embedding_loss(x[0], x[1].detach().sign()))},
        {"cosine embedding",
         {normal({3, 4}), normal({3, 4})},
         BODY(at::cosine_embedding_loss(x[0], x[1], at::ones({3}, x[0].options().requires_grad(false))))},
        {"multi margin",
         {normal({3, 4}), below(4, {3})},
         BODY(at::multi_margin_loss(x[0], x[1]), at::soft_margin_loss(x[0], x[0].detach().sign()))},
        {"ctc",
         {normal({6, 2, 4}), below(3, {2, 2}) + 1},
         BODY(at::ctc_loss(x[0].log_softmax(2), x[1], at::IntArrayRef({6, 5}), at::IntArrayRef({2, 2}))),
         1e-4},
    };
}

Tensor attend(const Tensors &x, const std::optional<Tensor> &bias = {}, bool causal = false,
              std::optional<double> scale = {}, bool shared = false) {
    return at::scaled_dot_product_attention(x[0], x[1], x[2], bias, 0, causal, scale, shared);
}

std::vector<Case> attention() {
    auto heads = [](int64_t n, int64_t size) { return normal({2, n, 6, size}); };
    auto narrow = [](int64_t n, int64_t size) { return half({2, n, 6, size}); };
    return {
        {"attention", {heads(3, 8), heads(3, 8), heads(3, 8)}, BODY(attend(x))},
        {"attention, causal",
         {heads(3, 8), heads(3, 8), heads(3, 8)},
         BODY(attend(x, {}, true), attend(x, {}, true, 0.7))},
        {"attention, mask",
         {heads(3, 8), heads(3, 8), heads(3, 8), at::ones({2, 1, 6, 6}, at::kBool).tril(2)},
         BODY(attend(x, x[3]))},
        {"attention, bias", {heads(3, 8), heads(3, 8), heads(3, 8), normal({2, 3, 6, 6})}, BODY(attend(x, x[3]))},
        {"attention, bias of all", {heads(3, 8), heads(3, 8), heads(3, 8), normal({6, 6})}, BODY(attend(x, x[3]))},
        {"attention, lengths", {normal({2, 3, 4, 8}), heads(3, 8), heads(3, 8)}, BODY(attend(x))},
        {"attention, transposed",
         {normal({2, 6, 3, 8}), normal({2, 6, 3, 8}), normal({2, 6, 3, 8})},
         BODY(attend({x[0].transpose(1, 2), x[1].transpose(1, 2), x[2].transpose(1, 2)})
                  .transpose(1, 2)
                  .reshape({2, 6, 24}))},
        {"attention, odd size", {heads(3, 5), heads(3, 5), heads(3, 5)}, BODY(attend(x))},
        {"attention, bf16", {narrow(3, 8), narrow(3, 8), narrow(3, 8)}, BODY(attend(x), attend(x, {}, true)), 3e-2},
        {"attention, bf16, odd size", {narrow(3, 5), narrow(3, 5), narrow(3, 5)}, BODY(attend(x)), 3e-2},
        {"attention, bf16, mask",
         {narrow(3, 8), narrow(3, 8), narrow(3, 8), at::ones({2, 1, 6, 6}, at::kBool).tril(2)},
         BODY(attend(x, x[3])),
         3e-2},
        {"attention, bf16, bias",
         {narrow(3, 8), narrow(3, 8), narrow(3, 8), half({2, 3, 6, 6})},
         BODY(attend(x, x[3])),
         3e-2},
        {"attention, shared heads",
         {narrow(4, 8), narrow(2, 8), narrow(2, 8)},
         BODY(attend(x, {}, false, {}, true)),
         3e-2},
    };
}

const std::initializer_list<std::vector<Case> (*)()> ALL_CASES = {pointwise, reductions, products, indexing,
                                                                  shapes,    layers,     losses,   attention};

}   // namespace
