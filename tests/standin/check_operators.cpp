// Compares the stand-in's device with the CPU: operators and their gradients, losses of small trainings,
// the state of the generator, and an index out of range. Says what differs, a line each, and then ends
// with 1. Run it where libtorch_cuda.so is the one of operators.cpp.
//
//   check_operators             everything
//   check_operators numbers     prints the numbers that random operators draw
//   check_operators assert OP   gives OP an index out of range

#include "check_cases.h"

#include <ATen/autocast_mode.h>
#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace {

const at::Device DEVICE(at::kCUDA, 0);

int compared = 0, differences = 0;

void differs(const std::string &what, const std::string &how) {
    printf("differs: %s: %s\n", what.c_str(), how.c_str());
    differences++;
}

void expect(bool holds, const std::string &what, const std::string &how) {
    compared++;
    if (!holds) differs(what, how);
}

std::string first_line(const std::exception &error) {
    std::string text = error.what();
    return text.substr(0, text.find('\n'));
}

// What fails is a difference, too.
template <typename Part> void attempt(const std::string &what, Part part) {
    try {
        part();
    } catch (const std::exception &error) {
        differs(what, first_line(error));
    }
}

// --- Operators ---------------------------------------------------------------------------------------

bool close(const Tensor &cpu, const Tensor &device, double tolerance) {
    if (cpu.is_floating_point() || cpu.is_complex()) {
        double scale =
            cpu.numel() ? std::max(1.0, cpu.abs().to(at::kDouble).nan_to_num(0, 0, 0).max().item<double>()) : 1;
        return at::allclose(device, cpu, tolerance, tolerance * scale, true);
    }
    return at::equal(device, cpu);
}

void compare(const std::string &name, const Tensor &cpu, const Tensor &device, double tolerance) {
    Tensor copy = device.to(at::kCPU);
    if (cpu.scalar_type() != copy.scalar_type()) return expect(false, name, "another type");
    if (cpu.sizes() != copy.sizes()) return expect(false, name, "another shape");
    if (close(cpu, copy, tolerance)) return expect(true, name, "");
    auto most = (cpu.to(at::kDouble) - copy.to(at::kDouble)).abs().max().item<double>();
    expect(false, name, "by up to " + std::to_string(most));
}

// Outputs, then gradients of the inputs that have one.
std::pair<Tensors, Tensors> evaluate(const Case &c, at::Device device) {
    Tensors inputs;
    for (const Tensor &input : c.inputs) {
        inputs.push_back(input.to(device, input.scalar_type(), false, true).detach());
        inputs.back().set_requires_grad(input.is_floating_point());
    }
    Tensors outputs = c.body(inputs), gradients;
    Tensor loss;
    for (const Tensor &output : outputs) {
        if (!output.requires_grad()) continue;
        // Weights that do not let the gradient vanish, as the sum of a softmax does.
        auto weights = at::arange(output.numel(), at::kFloat).sin().reshape(output.sizes()).to(device);
        auto part = (output.to(at::kFloat) * weights).sum();
        loss = loss.defined() ? loss + part : part;
    }
    if (loss.defined()) loss.backward();
    for (const Tensor &input : inputs) gradients.push_back(input.grad());
    return {outputs, gradients};
}

void check_case(const Case &c) {
    auto [outputs, gradients] = evaluate(c, at::kCPU);
    auto [others, their_gradients] = evaluate(c, DEVICE);
    expect(outputs.size() == others.size(), c.name, "another number of results");
    for (size_t i = 0; i < outputs.size(); i++)
        compare(c.name + ", result " + std::to_string(i), outputs[i].detach(), others[i].detach(), c.tolerance);
    for (size_t i = 0; i < gradients.size(); i++) {
        std::string name = c.name + ", gradient " + std::to_string(i);
        if (gradients[i].defined() != their_gradients[i].defined())
            differs(name, "only one of them has it");
        else if (gradients[i].defined())
            compare(name, gradients[i], their_gradients[i], c.tolerance * 5);
    }
}

int check_cases() {
    int count = 0;
    for (auto cases : ALL_CASES) {
        for (const Case &c : cases()) {
            attempt(c.name, [&] { check_case(c); });
            count++;
        }
    }
    return count;
}

// --- Attention's paths -------------------------------------------------------------------------------

// That the kernels meant are taken, and that with dropout the backward knows what was dropped: the
// output is linear in the value.
void check_attention_path(const std::string &name, at::ScalarType type, int64_t choice, double tolerance) {
    auto make = [&] { return at::randn({2, 4, 64, 32}, at::TensorOptions(DEVICE).dtype(type)); };
    Tensor q = make(), k = make(), v = make().requires_grad_(true), g = make();
    expect(at::_fused_sdp_choice(q, k, v) == choice, name, "another kernel");
    Tensor out = at::scaled_dot_product_attention(q, k, v, {}, 0.4);
    out.backward(g);
    double forward = (out.to(at::kDouble) * g.to(at::kDouble)).sum().item<double>();
    double backward = (v.to(at::kDouble) * v.grad().to(at::kDouble)).sum().item<double>();
    expect(std::abs(forward - backward) < tolerance * std::max(1.0, std::abs(forward)), name,
           "the backward has dropped something else");
    Tensor kept = at::scaled_dot_product_attention(q, k, v);
    expect(!at::allclose(out, kept, 1e-2, 1e-2), name, "nothing was dropped");
}

// --- Trainings ---------------------------------------------------------------------------------------

struct Model {
    const char *name;
    Tensors (*parameters)();
    Tensor (*loss)(const Tensors &parameters, const Tensors &batch);
    Tensors (*batch)();
};

Tensor weights(at::IntArrayRef sizes) {
    return at::randn(sizes) / std::sqrt(static_cast<double>(at::zeros(sizes)[0].numel()));
}

const Model PERCEPTRON{
    "perceptron",
    [] {
        return Tensors{weights({32, 20}), at::zeros({32}),  weights({32, 32}),
                       at::zeros({32}),   weights({5, 32}), at::zeros({5})};
    },
    [](const Tensors &p, const Tensors &batch) {
        auto h = at::gelu(at::linear(batch[0], p[0], p[1]));
        h = at::relu(at::linear(h, p[2], p[3]));
        return at::cross_entropy_loss(at::linear(h, p[4], p[5]), batch[1]);
    },
    [] { return Tensors{at::randn({16, 20}), at::randint(5, {16})}; },
};

const Model TRANSFORMER{
    "transformer",
    [] {
        return Tensors{at::randn({50, 32}) * 0.2, at::randn({12, 32}) * 0.1, at::ones({32}), at::zeros({32}),
                       weights({96, 32}),         weights({32, 32}),         at::ones({32}), at::zeros({32}),
                       weights({64, 32}),         weights({32, 64})};
    },
    [](const Tensors &p, const Tensors &batch) {
        auto h = at::embedding(p[0], batch[0]) + p[1];
        Tensors parts;
        for (auto &part : at::linear(at::layer_norm(h, {32}, p[2], p[3]), p[4]).chunk(3, -1))
            parts.push_back(part.view({4, 12, 4, 8}).transpose(1, 2));
        auto attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
        h = h + at::linear(attended.transpose(1, 2).reshape({4, 12, 32}), p[5]);
        h = h + at::linear(at::gelu(at::linear(at::layer_norm(h, {32}, p[6], p[7]), p[8])), p[9]);
        return at::cross_entropy_loss(at::linear(h, p[0]).view({-1, 50}), batch[1].view(-1));
    },
    [] { return Tensors{at::randint(50, {4, 12}), at::randint(50, {4, 12})}; },
};

const Model CONVOLUTIONS{
    "convolutions",
    [] {
        return Tensors{weights({8, 3, 3, 3}), at::ones({8}),   at::zeros({8}),   weights({16, 8, 3, 3}),
                       at::ones({16}),        at::zeros({16}), weights({5, 16}), at::zeros({5})};
    },
    [](const Tensors &p, const Tensors &batch) {
        auto norm = [](const Tensor &h, const Tensor &weight, const Tensor &bias) {
            return at::batch_norm(h, weight, bias, at::zeros_like(bias.detach()), at::ones_like(bias.detach()), true,
                                  0.1, 1e-5, true);
        };
        auto h = at::max_pool2d(at::relu(norm(at::conv2d(batch[0], p[0], {}, 1, 1), p[1], p[2])), 2);
        h = at::relu(norm(at::conv2d(h, p[3], {}, 1, 1), p[4], p[5]));
        return at::cross_entropy_loss(at::linear(at::adaptive_avg_pool2d(h, {1, 1}).flatten(1), p[6], p[7]), batch[1]);
    },
    [] { return Tensors{at::randn({8, 3, 12, 12}), at::randint(5, {8})}; },
};

void clip(const Tensors &gradients, double most) {
    auto total = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
    at::_foreach_mul_(gradients, (most / (total + 1e-6)).clamp_max(1));
}

struct AdamW {
    Tensors first, second, steps;
    explicit AdamW(const Tensors &parameters) {
        for (const Tensor &p : parameters) {
            first.push_back(at::zeros_like(p));
            second.push_back(at::zeros_like(p));
            steps.push_back(at::zeros({}, p.options().dtype(at::kFloat)));
        }
    }
    void step(const Tensors &parameters, const Tensors &gradients) {
        at::_foreach_add_(steps, 1);
        at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 1e-2, 0.9, 0.999, 0.01, 1e-8, false, false);
    }
};

struct Autocast {
    bool on;
    Autocast(bool on, at::DeviceType device) : on(on), device(device) {
        at::autocast::set_autocast_dtype(device, at::kBFloat16);
        at::autocast::set_autocast_enabled(device, on);
    }
    ~Autocast() {
        at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(device, false);
    }

private:
    at::DeviceType device;
};

std::vector<double> train(const Model &model, at::Device device, bool adamw, bool autocast) {
    at::manual_seed(3);
    Tensors parameters, batch, momenta;
    for (const Tensor &p : model.parameters()) parameters.push_back(p.to(device).set_requires_grad(true));
    for (const Tensor &part : model.batch()) batch.push_back(part.to(device));
    for (const Tensor &p : parameters) momenta.push_back(at::zeros_like(p, at::TensorOptions().requires_grad(false)));
    AdamW optimizer(parameters);
    std::vector<double> losses;
    for (int step = 0; step < 15; step++) {
        Tensor loss;
        {
            Autocast guard(autocast, device.type());
            loss = model.loss(parameters, batch);
        }
        loss.backward();
        losses.push_back(loss.item<double>());
        c10::NoGradGuard guard;
        Tensors gradients;
        for (const Tensor &p : parameters) gradients.push_back(p.grad());
        clip(gradients, 1);
        if (adamw) {
            optimizer.step(parameters, gradients);
        } else {
            at::_foreach_mul_(momenta, 0.9);
            at::_foreach_add_(momenta, gradients);
            at::_foreach_add_(parameters, momenta, -0.05);
        }
        for (const Tensor &gradient : gradients) gradient.zero_();
    }
    return losses;
}

void check_training(const Model &model, bool adamw, bool autocast) {
    std::string name = std::string(model.name) + (adamw ? ", AdamW" : ", SGD") + (autocast ? ", bf16" : "");
    attempt(name, [&] {
        auto cpu = train(model, at::kCPU, adamw, autocast), device = train(model, DEVICE, adamw, autocast);
        for (size_t i = 0; i < cpu.size(); i++) {
            double allowed = autocast ? 0.01 : 5e-5 * std::max(1.0, std::abs(cpu[i]));
            expect(std::abs(cpu[i] - device[i]) < allowed, name + ", step " + std::to_string(i),
                   std::to_string(cpu[i]) + " and " + std::to_string(device[i]));
        }
        expect(cpu.back() < cpu.front() * 0.9, name, "nothing was learned");
    });
}

// --- The generator -----------------------------------------------------------------------------------

struct Random {
    const char *name;
    Tensor (*draw)(const Tensor &ones);
};

const Random RANDOM[] = {
    {"rand", [](const Tensor &x) { return at::rand_like(x); }},
    {"randn", [](const Tensor &x) { return at::randn_like(x); }},
    {"randint", [](const Tensor &x) { return at::randint_like(x, 1000); }},
    {"randperm", [](const Tensor &x) { return at::randperm(40, x.options().dtype(at::kLong)); }},
    {"dropout", [](const Tensor &x) { return at::dropout(x, 0.5, true); }},
    {"dropout, bf16", [](const Tensor &x) { return at::dropout(x.to(at::kBFloat16), 0.5, true); }},
    {"native_dropout", [](const Tensor &x) { return std::get<1>(at::native_dropout(x, 0.3, true)); }},
    {"feature_dropout", [](const Tensor &x) { return at::feature_dropout(x.view({4, 10, 1}), 0.5, true); }},
    {"bernoulli", [](const Tensor &x) { return at::bernoulli(x * 0.5); }},
    {"bernoulli_", [](const Tensor &x) { return x.clone().bernoulli_(0.4); }},
    {"normal_", [](const Tensor &x) { return x.clone().normal_(); }},
    {"normal", [](const Tensor &x) { return at::normal(0.0, x); }},
    {"uniform_", [](const Tensor &x) { return x.clone().uniform_(); }},
    {"exponential_", [](const Tensor &x) { return x.clone().exponential_(); }},
    {"multinomial", [](const Tensor &x) { return at::multinomial(x, 20); }},
    {"multinomial, replaced", [](const Tensor &x) { return at::multinomial(x, 50, true); }},
    {"poisson", [](const Tensor &x) { return at::poisson(x * 5); }},
    {"rrelu", [](const Tensor &x) { return at::rrelu(-x, 0.1, 0.3, true); }},
    {"efficient attention",
     [](const Tensor &x) {
         auto q = x.view({1, 1, 5, 8});
         return at::scaled_dot_product_attention(q, q, q, {}, 0.5);
     }},
    {"flash attention",
     [](const Tensor &x) {
         auto q = x.view({1, 1, 5, 8}).to(at::kBFloat16);
         return at::scaled_dot_product_attention(q, q, q, {}, 0.5);
     }},
};

Tensors draw() {
    Tensors results;
    for (const Random &random : RANDOM) results.push_back(random.draw(at::ones({40}, DEVICE)));
    return results;
}

bool same(const Tensors &a, const Tensors &b) {
    for (size_t i = 0; i < a.size(); i++)
        if (!at::equal(a[i], b[i])) return false;
    return true;
}

uint64_t digest(const Tensors &tensors) {
    uint64_t hash = 14695981039346656037ULL;
    for (const Tensor &tensor : tensors) {
        auto bytes = tensor.contiguous().to(at::kCPU);
        for (size_t i = 0; i < bytes.nbytes(); i++)
            hash = (hash ^ static_cast<const uint8_t *>(bytes.const_data_ptr())[i]) * 1099511628211ULL;
    }
    return hash;
}

std::string numbers() {
    at::manual_seed(11);
    return std::to_string(digest(draw())) + " " + std::to_string(digest(draw()));
}

void check_generator() {
    auto ones = at::ones({40}, DEVICE);
    for (const Random &random : RANDOM)
        expect(!at::equal(random.draw(ones), random.draw(ones)), random.name, "drew the same again");
    at::manual_seed(11);
    auto first = draw(), second = draw();
    at::manual_seed(11);
    expect(same(first, draw()), "manual_seed", "drew other numbers");
    auto generator = at::globalContext().defaultGenerator(DEVICE);
    auto state = generator.get_state();
    auto third = draw();
    for (int i = 0; i < 2; i++) {
        generator.set_state(state);
        expect(same(third, draw()), "a restored state", "drew other numbers");
    }
    expect(same(second, third), "the state after a seed", "drew other numbers");
    // The device's generator is one thing and the CPU's another.
    at::manual_seed(5);
    auto before = at::rand({4});
    at::manual_seed(5);
    draw();
    expect(at::equal(before, at::rand({4})), "the CPU's generator", "was moved by the device");
    auto x = at::ones({10000}, DEVICE);
    expect(std::abs(at::dropout(x, 0.25, true).mean().item<double>() - 1) < 0.05, "dropout", "another mean");
    expect(std::abs(at::randn({10000}, DEVICE).std().item<double>() - 1) < 0.05, "randn", "another deviation");
}

// --- What needs a process of its own -----------------------------------------------------------------

void out_of_range(const std::string &op) {
    auto x = at::randn({4, 5}, DEVICE);
    auto index = at::full({4, 1}, 7, at::TensorOptions(DEVICE).dtype(at::kLong));
    if (op == "gather") x.gather(1, index);
    if (op == "scatter") x.scatter(1, index, 2);
    if (op == "index_select") x.index_select(0, index.view(-1));
    if (op == "index") x.index({index.view(-1)});
    if (op == "embedding") at::embedding(x, index);
    if (op == "nll_loss") at::nll_loss(x, index.view(-1));
}

// "launched" comes first when the launch did not say it, but the next synchronization.
int assert_out_of_range(const std::string &op) {
    try {
        out_of_range(op);
        puts("launched");
        at::ones({1}, DEVICE).item<float>();
    } catch (const std::exception &error) {
        puts(first_line(error).c_str());
    }
    return 0;
}

// What this program prints with these arguments.
std::string run_self(const std::string &environment, const std::string &arguments) {
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return "";
    std::string output, command = environment + " '" + self + "' " + arguments + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (pipe && fgets(buffer, sizeof buffer, pipe)) output += buffer;
    if (pipe) pclose(pipe);
    return output;
}

void check_assertion(const std::string &op, bool blocking) {
    std::string output = run_self(blocking ? "CUDA_LAUNCH_BLOCKING=1" : "CUDA_LAUNCH_BLOCKING=0", "assert " + op);
    std::string name = op + " out of range" + (blocking ? ", launches block" : "");
    expect(output.find(": block: [0,0,0], thread: [0,0,0] Assertion `") != std::string::npos, name,
           "no assertion's line: " + output);
    expect(output.find("device-side assert triggered") != std::string::npos, name, "no device-side assert: " + output);
    expect((output.find("launched") == std::string::npos) == blocking, name, "at another time: " + output);
}

// Prints what libtorch throws.
int thrown(const std::function<void()> &call) {
    try {
        call();
    } catch (const std::exception &error) {
        return printf("%s\n", error.what()) < 0;
    }
    return 1;
}

// What libtorch makes of a status of cuDNN's, which the stand-in otherwise does without.
void convolve_with_cudnn() {
    at::globalContext().setUserEnabledCuDNN(true);
    at::conv2d(at::ones({1, 1, 4, 4}, at::kCUDA), at::ones({1, 1, 2, 2}, at::kCUDA));
}

// More memory of the host than there is, to be pinned.
void pin_too_much() { at::empty({int64_t(1) << 46}, at::TensorOptions(at::kByte).pinned_memory(true)); }

}   // namespace

int main(int count, char **arguments) {
    setvbuf(stdout, nullptr, _IOLBF, 0);   // what differs is said even if the next part crashes
    if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
        printf("%s\n", dlerror());
        return 1;
    }
    std::string what = count > 1 ? arguments[1] : "";
    if (what == "assert") return assert_out_of_range(arguments[2]);
    if (what == "cudnn") return thrown(convolve_with_cudnn);
    if (what == "pinned") return thrown(pin_too_much);
    if (what == "numbers") return printf("%s\n", numbers().c_str()) < 0;

    at::manual_seed(1);
    int cases = check_cases();
    attempt("efficient attention", [] { check_attention_path("efficient attention", at::kFloat, 2, 1e-3); });
    attempt("flash attention", [] { check_attention_path("flash attention", at::kBFloat16, 1, 2e-2); });
    for (const Model *model : {&PERCEPTRON, &TRANSFORMER, &CONVOLUTIONS})
        for (bool adamw : {true, false})
            for (bool autocast : {false, true}) check_training(*model, adamw, autocast);
    attempt("the generator", check_generator);
    attempt("another process", [] {
        expect(run_self("", "numbers") == numbers() + "\n", "another process", "drew other numbers");
    });
    for (const char *op : {"gather", "index", "embedding"}) check_assertion(op, false);
    for (const char *op : {"scatter", "index_select", "nll_loss"}) check_assertion(op, true);
    printf("%d cases, %d comparisons, %d differences\n", cases, compared, differences);
    return differences ? 1 : 0;
}
