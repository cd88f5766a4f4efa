// What the parts of the operators' arithmetic share; operators.cpp tells what it is.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <cstdint>
#include <string_view>

namespace standin {

using Stack = torch::jit::Stack;

// Where the device's random numbers stood when an operator began.
struct Numbers {
    uint64_t seed = 0, offset = 0;

    // A CPU generator that depends on nothing else.
    at::Generator generator() const;
};

// An operator that the real CUDA kernel has been through.
struct Call {
    Stack args;   // device tensors are CPU tensors here, which lie in the same memory
    Stack real;   // what the real kernel returned
    Numbers numbers;
};

// What an operator returns, on the CPU; nothing in a place: what the real kernel returned there.
using Replacement = Stack (*)(const Call &);

// For operators whose CPU kernel does not exist or asks for something else; otherwise null.
Replacement replacement(std::string_view name);

// A CPU tensor in a device tensor's memory; other tensors as they are.
at::Tensor host_view(const at::Tensor &tensor);

}   // namespace standin
