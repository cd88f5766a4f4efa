//! `tune explain [FILE|-]`: reads a text, needs no project and no database.

use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::path::Path;

use super::{Common, ExplainArgs, answer};
use files::bounded;
use messages::exit::{Exit, Failure};

/// How much of a log's beginning and of its end is read, in bytes each; what lies between is left
/// out. Enough for logs of 64 MiB as a whole: the first cause often stands in the middle, with follow-ups
/// behind it.
const PART: u64 = 32 << 20;

pub(super) fn explain(common: &Common, args: &ExplainArgs) -> Result<Exit, Failure> {
    let name = args.file.as_deref().filter(|f| *f != Path::new("-"));
    let bytes = match name {
        Some(path) => read_file(path),
        None => read_stdin(common),
    };
    let shown = name.map_or("standard input".into(), |p| p.display().to_string());
    let bytes = bytes.map_err(|e| Failure::input(format!("{shown} cannot be read: {e}")))?;
    let text = decode(&bytes);
    if text
        .trim_matches(|c: char| c.is_whitespace() || c.is_control())
        .is_empty()
    {
        return Err(Failure::input(format!(
            "{shown} is empty: expected an error's text or a log, as in\n  \
             python train.py 2>&1 | tune explain"
        )));
    }
    answer(common, &fault::explain(&text))
}

fn read_stdin(common: &Common) -> std::io::Result<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() && !common.quiet {
        report::err("reading an error's text from the terminal; Ctrl-D ends it");
    }
    both_ends(&mut stdin.lock(), PART)
}

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = bounded::open_stream(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.len() > 2 * PART {
        let mut bytes = Vec::new();
        (&mut file).take(PART).read_to_end(&mut bytes)?;
        bytes.push(b'\n');
        file.seek(SeekFrom::Start(meta.len() - PART))?;
        file.take(PART).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    both_ends(&mut file, PART)
}

/// The first and the last part, of so many bytes each, of what may be endless.
fn both_ends(from: &mut dyn Read, part: u64) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    from.take(part).read_to_end(&mut head)?;
    let mut tail: Vec<u8> = Vec::new();
    let mut left_out = false;
    loop {
        if from.take(part).read_to_end(&mut tail)? == 0 {
            break;
        }
        let surplus = tail.len().saturating_sub(part as usize);
        left_out |= surplus > 0;
        tail.drain(..surplus);
    }
    if left_out {
        head.push(b'\n');
    }
    head.append(&mut tail);
    Ok(head)
}

/// UTF-8 with whatever is none replaced; UTF-16 where its mark says so, as PowerShell writes files.
fn decode(bytes: &[u8]) -> String {
    let units = |from: fn([u8; 2]) -> u16| -> Vec<u16> {
        bytes[2..]
            .chunks_exact(2)
            .map(|c| from([c[0], c[1]]))
            .collect()
    };
    match bytes {
        [0xFF, 0xFE, ..] => String::from_utf16_lossy(&units(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => String::from_utf16_lossy(&units(u16::from_be_bytes)),
        _ => {
            let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_both_ends_are_read() {
        let part = 4096;
        let long = format!("first\n{}\nlast", "x\n".repeat(part * 2));
        let read = both_ends(&mut long.as_bytes(), part as u64).unwrap();
        assert_eq!(read.len(), 2 * part + 1);
        assert!(read.starts_with(b"first\n") && read.ends_with(b"\nlast"));
        let short = both_ends(&mut "a\nb".as_bytes(), part as u64).unwrap();
        assert_eq!(short, b"a\nb");
    }

    #[test]
    fn utf_16_is_read_by_its_mark() {
        let text: Vec<u8> = "\u{feff}CUDA"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(decode(&text), "CUDA");
        assert_eq!(decode(b"\xEF\xBB\xBFCUDA\xFF"), "CUDA\u{fffd}");
    }
}
