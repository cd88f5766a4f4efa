// What the parts of the shim share: no exception may cross into Rust.
//
// Result: 0 = done; otherwise `message` holds the text (cut to `capacity`, ended by 0), and the code
// is the accelerator's own (> 0, c10::AcceleratorError), -2 for out of memory, -1 for anything else.
#pragma once

#include <c10/util/Exception.h>

#include <cstring>
#include <exception>

namespace tune {

inline void put(const char* text, char* message, size_t capacity) {
  if (message == nullptr || capacity == 0) return;
  std::strncpy(message, text, capacity - 1);
  message[capacity - 1] = 0;
}

template <typename F>
int guarded(char* message, size_t capacity, F&& body) {
  try {
    body();
    return 0;
  } catch (const c10::OutOfMemoryError& e) {
    put(e.what_without_backtrace(), message, capacity);
    return -2;
  } catch (const c10::AcceleratorError& e) {
    put(e.what_without_backtrace(), message, capacity);
    int code = e.get_error_code();
    return code > 0 ? code : -1;
  } catch (const c10::Error& e) {
    put(e.what_without_backtrace(), message, capacity);
  } catch (const std::exception& e) {
    put(e.what(), message, capacity);
  } catch (...) {
    put("an exception of unknown type", message, capacity);
  }
  return -1;
}

}  // namespace tune
