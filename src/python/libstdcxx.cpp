// What the headers of a newer compiler take from its libstdc++ and the one of manylinux_2_28 (GCC 8) does not have, from
// what that one has. Hidden: it is linked into the wheel's library and seen by nobody else.
//
// torch-sys is compiled by the compiler of this machine; PyTorch's wheels ask no more of the machine they run on.

#include <exception>
#include <ios>
#include <new>
#include <sstream>

#define HIDDEN(name) __asm__(name) __attribute__((visibility("hidden"), used))

extern "C" {

// GLIBCXX_3.4.29
[[noreturn]] void tune_bad_length() HIDDEN("_ZSt28__throw_bad_array_new_lengthv");
void tune_bad_length() { throw std::bad_array_new_length(); }

// GLIBCXX_3.4.26: a stream for writing, as its constructor with a mode makes it.
void tune_text_stream(void *stream) HIDDEN("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void tune_text_stream(void *stream) { new (stream) std::ostringstream(std::ios_base::out); }

// CXXABI_1.3.13: the count of those who hold an exception. The copying constructor and the destructor of
// std::exception_ptr, which headers of GCC 10 and older call, change it by one.
void tune_copied(void *copy, const void *of) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void tune_dropped(void *pointer) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");

void tune_hold(void **exception) HIDDEN("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void tune_hold(void **exception) {
    void *copy;
    tune_copied(&copy, exception);
}

void tune_release(void **exception) HIDDEN("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void tune_release(void **exception) {
    tune_dropped(exception);
    *exception = nullptr;
}
}
