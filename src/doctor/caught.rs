//! Exceptions that a program has caught: what its own words at the end may hide. Pure.

use crate::notes::Raised;
use crate::signs::Sign;
use crate::texts;

/// Signs that are worth a look even in an exception that the program went on from: what it then lacks may fail much later.
const TELLING: [Sign; 4] = [
    Sign::UntrustedText,
    Sign::BrokenFileText,
    Sign::StateDictText,
    Sign::OutOfMemory,
];

/// The traceback of the exception that the program's last words hide, where there is one: its own code was handling it when
/// it raised the failure or ended itself. `taken`: batches that it had taken by the end.
pub fn hidden<'a>(raised: &'a [Raised], output: &str, taken: u64) -> Option<&'a str> {
    let end = texts::end(output);
    let of_failure = raised
        .iter()
        .enumerate()
        .rev()
        .take_while(|(_, r)| r.exits || says(&end, &r.message));
    let mut behind = of_failure.filter(|(_, r)| is_own(r));
    let found = behind.find_map(|(at, r)| Some((at, r.handled.as_deref()?)));
    let text = match found {
        Some((at, text)) => first_cause(&raised[..at], text),
        None => last_caught(raised, &end, taken)?,
    };
    let words = last_line(text);
    (!words.is_empty() && !end.contains(words)).then_some(text)
}

/// The exceptions that the program has gone on from although they may be why it failed in the end, with the signs of each.
pub fn earlier(raised: &[Raised], output: &str) -> Vec<(String, Vec<Sign>)> {
    let end = texts::end(output);
    let telling = |r: &Raised| {
        let mut signs = texts::signs(&r.text);
        signs.retain(|sign| TELLING.contains(sign));
        (!signs.is_empty() && !says(&end, &r.message)).then(|| (told(r), signs))
    };
    raised.iter().filter_map(telling).collect()
}

/// An exception in one line, with the program's own line.
fn told(raised: &Raised) -> String {
    let first = raised.message.lines().next().unwrap_or_default().trim();
    let line = fault::own_line(&raised.text).map(|line| format!(" ({line})"));
    format!("{}: {first}{}", raised.kind, line.unwrap_or_default())
}

/// Of what was raised while the program handled another exception, and so on, the first.
fn first_cause<'a>(raised: &'a [Raised], text: &'a str) -> &'a str {
    let mut text = text;
    // Each step goes back in time: there is an end.
    for r in raised.iter().rev() {
        if last_line(&r.text) != last_line(text) || !is_own(r) {
            continue;
        }
        match &r.handled {
            Some(handled) => text = handled,
            None => break,
        }
    }
    text
}

/// The last exception that was caught in the last batch, of a program that ends itself without a traceback.
fn last_caught<'a>(raised: &'a [Raised], end: &str, taken: u64) -> Option<&'a str> {
    let (last, before) = raised.split_last()?;
    let silent = last.exits && !end.contains("Traceback (most recent call last)");
    let caught = before.iter().rev().find(|r| !r.exits)?;
    (silent && taken > 0 && caught.taken == taken).then_some(caught.text.as_str())
}

/// Whether the program's own code raised it by a statement, or ended the program: it may stand for what it handles. What a
/// call raises while another exception is handled is a failure in its own right.
fn is_own(raised: &Raised) -> bool {
    raised.exits || texts::raises(&raised.text, fault::own_line(&raised.text).as_deref())
}

/// Whether the output has these words, as far as their first line goes.
fn says(output: &str, message: &str) -> bool {
    let first = message.lines().next().unwrap_or_default().trim();
    !first.is_empty() && output.contains(first)
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "Traceback (most recent call last):\n  File \"/w/data.py\", line 9, in read\n    \
                        return scale(row)\nRuntimeError: sizes should be greater than 0\n";

    fn raise(message: &str, handled: Option<&str>) -> Raised {
        Raised {
            message: message.to_owned(),
            text: format!(
                "Traceback (most recent call last):\n  File \"/w/data.py\", line 11, in read\n    \
                 raise RuntimeError(\"{message}\") from None\nRuntimeError: {message}\n"
            ),
            handled: handled.map(str::to_owned),
            ..Raised::default()
        }
    }

    fn called(text: &str, handled: Option<&str>) -> Raised {
        Raised {
            message: last_line(text).to_owned(),
            text: text.to_owned(),
            handled: handled.map(str::to_owned),
            ..Raised::default()
        }
    }

    fn exit(handled: Option<&str>) -> Raised {
        Raised {
            exits: true,
            handled: handled.map(str::to_owned),
            ..Raised::default()
        }
    }

    #[test]
    fn what_a_raise_stands_for_is_found_behind_it() {
        let own = raise("no batch", Some(READ));
        let raised = [called(READ, None), own.clone()];
        assert_eq!(hidden(&raised, &own.text, 0), Some(READ));
        // A loader's process had raised it: the program itself raises it anew.
        let again = called(
            "  File \"/w/train.py\", line 3, in main\n    for x in rows:\nRuntimeError: no batch",
            None,
        );
        let raised = [called(READ, None), own.clone(), again];
        let output = format!("Caught RuntimeError in a worker\n{}", own.text);
        assert_eq!(hidden(&raised, &output, 0), Some(READ));
        // Python has told both.
        let output = format!("{READ}\nDuring handling of it:\n{}", own.text);
        assert_eq!(hidden(&raised, &output, 0), None);
    }

    #[test]
    fn what_stands_for_what_stands_for_it_is_followed_to_the_first() {
        let inner = raise("no row", Some(READ));
        let outer = raise("no batch", Some(&inner.text));
        let raised = [called(READ, None), inner, outer.clone()];
        assert_eq!(hidden(&raised, &outer.text, 0), Some(READ));
    }

    #[test]
    fn an_exit_hides_what_was_being_handled() {
        let raised = [called(READ, None), exit(Some(READ))];
        assert_eq!(hidden(&raised, "stopped: check the data", 0), Some(READ));
    }

    #[test]
    fn an_exit_after_the_handler_hides_what_was_caught_in_the_last_batch_alone() {
        let mut caught = called(READ, None);
        caught.taken = 7;
        let raised = [caught, exit(None)];
        assert_eq!(hidden(&raised, "stopped", 7), Some(READ));
        assert_eq!(hidden(&raised, "stopped", 9), None);
        assert_eq!(hidden(&raised[1..], "stopped", 7), None);
    }

    #[test]
    fn what_a_call_raises_in_a_handler_is_a_failure_in_its_own_right() {
        let missed = "  File \"/w/data.py\", line 2, in get\n    return kept[row]\nKeyError: 4\n";
        let failed = called(READ, Some(missed));
        assert_eq!(hidden(&[called(missed, None), failed], READ, 0), None);
    }

    #[test]
    fn a_checkpoint_that_was_refused_is_told_though_the_program_went_on() {
        let text = "  File \"/w/store.py\", line 14, in latest\n    state = torch.load(path)\n\
                    _pickle.UnpicklingError: Weights only load failed\nUnsupported global\n";
        let mut refused = called(text, None);
        refused.kind = "UnpicklingError".to_owned();
        refused.message = "Weights only load failed\nUnsupported global".to_owned();
        let raised = [refused, called(READ, None)];
        let found = earlier(&raised, READ);
        let told = "UnpicklingError: Weights only load failed (/w/store.py:14 in latest)";
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, told);
        assert!(found[0].1.contains(&Sign::UntrustedText), "{found:?}");
        assert_eq!(earlier(&raised, text), []);
    }
}
