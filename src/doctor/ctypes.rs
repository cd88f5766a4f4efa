//! Functions of libraries that Python calls by `ctypes`, without a word of what they take.

use std::fs;

use crate::signature::RunEnd;

/// Signals of native code that was given what it cannot use.
const NATIVE: [i32; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT];

/// The line of a program that native code has ended, where that line calls by `ctypes` in a file that says of no function
/// what it takes: integers are passed with 32 bits then, pointers among them.
pub fn untyped_call(end: &RunEnd) -> Option<String> {
    end.signal().filter(|signal| NATIVE.contains(signal))?;
    let line = fault::own_line(&end.output)?;
    let place = line.rsplit_once(" in ").map_or(&*line, |(place, _)| place);
    let (file, number) = place.rsplit_once(':')?;
    let source = fs::read_to_string(file).ok()?;
    is_untyped(&source, number.parse().ok()?).then_some(line)
}

fn is_untyped(source: &str, number: usize) -> bool {
    let loads = |line: &str| {
        ["CDLL(", "PyDLL(", "LoadLibrary("]
            .iter()
            .any(|call| line.contains(call))
    };
    let libraries = source
        .lines()
        .filter(|line| loads(line))
        .filter_map(|line| {
            let (name, _) = line.split_once('=')?;
            Some(format!("{}.", name.trim()))
        });
    let line = number.checked_sub(1).and_then(|at| source.lines().nth(at));
    let calls = |line: &str| {
        let of_library = libraries.into_iter().any(|library| line.contains(&library));
        (of_library || loads(line)) && line.contains('(')
    };
    line.is_some_and(calls) && source.contains("ctypes") && !source.contains("argtypes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_untyped_where_its_file_says_of_no_function_what_it_takes() {
        let source = "import ctypes\nlibc = ctypes.CDLL(None)\n\ndef copy(a, b, n):\n    libc.memcpy(a, b, n)\n";
        assert!(is_untyped(source, 5));
        let other = source.replace("libc.memcpy(a, b, n)", "loss.backward()");
        assert!(!is_untyped(&other, 5), "another call of that file");
        assert!(!is_untyped(source, 3));
        assert!(!is_untyped(source, 99));
        assert!(!is_untyped(
            &source.replace("CDLL(None)", "CDLL(None)\nlibc.memcpy.argtypes = []"),
            6
        ));
        assert!(!is_untyped(&source.replace("ctypes", "numpy"), 5));
    }
}
