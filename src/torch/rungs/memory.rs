//! Patterns in a device's memory: all of it is written before any is read back, so that what flips later, and what
//! answers at two addresses, shows. The patterns are those of memory testers: all bits, none, every other one, and
//! each word its own address (van de Goor, "Testing Semiconductor Memories", 1991).

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tch::{Kind, Tensor};

use super::at;
use crate::gpu;
use device::Device;

/// Words of a piece, of 4 bytes each.
const WORDS: i64 = 16 << 20;

/// Bytes that are tried of the host's memory.
const ON_HOST: u64 = 128 << 20;

/// No further pattern is begun after this time.
const LONGEST: Duration = Duration::from_secs(60);

/// What is written; `None`: each word its own number.
const PATTERNS: [(&str, Option<i64>); 5] = [
    ("zeros", Some(0)),
    ("ones", Some(-1)),
    ("01010101", Some(0x5555_5555)),
    ("10101010", Some(-0x5555_5556)),
    ("addresses", None),
];

/// Writes patterns to so much of the device's free memory, and reads them back.
///
/// # Errors
/// libtorch throws, or a word came back as another one.
pub fn patterns(device: Device, share: f64) -> Result<String> {
    let _no_grad = tch::no_grad_guard();
    let bytes = match device {
        Device::Cpu => ON_HOST,
        Device::Cuda(index) => {
            gpu::memory::first_allocation(device)?;
            (gpu::memory_info(index)?.0 as f64 * share) as u64
        }
    };
    let place = gpu::tch_device(device);
    let pieces = (bytes / (4 * WORDS as u64)).max(1) as i64;
    at(&format!(
        "{} of memory",
        report::size(pieces as u64 * 4 * WORDS as u64)
    ));
    let all: Vec<Tensor> = (0..pieces)
        .map(|_| Ok(Tensor::f_empty([WORDS], (Kind::Int, place))?))
        .collect::<Result<_>>()?;
    let begun = Instant::now();
    let mut tried = 0;
    for (name, value) in PATTERNS {
        if begun.elapsed() > LONGEST {
            break;
        }
        at(&format!("pattern {name}"));
        for (piece, tensor) in all.iter().enumerate() {
            write(tensor, value, piece as i64)?;
        }
        for (piece, tensor) in all.iter().enumerate() {
            check(tensor, value, piece as i64, name)?;
        }
        tried += 1;
    }
    let (fill, copy) = bandwidth(&all)?;
    Ok(format!(
        "{tried} patterns in {} came back; fill {fill:.1} GB/s, copy {copy:.1} GB/s",
        report::size(pieces as u64 * 4 * WORDS as u64)
    ))
}

fn addresses(piece: i64, device: tch::Device) -> Result<Tensor> {
    // Beyond 2^31 words they begin anew.
    let first = (piece * WORDS) % (1 << 31);
    Ok(Tensor::f_arange_start(
        first,
        first + WORDS,
        (Kind::Int, device),
    )?)
}

fn write(tensor: &Tensor, value: Option<i64>, piece: i64) -> Result<()> {
    let mut tensor = tensor.shallow_clone();
    match value {
        Some(value) => drop(tensor.f_fill_(value)?),
        None => tensor.f_copy_(&addresses(piece, tensor.device())?)?,
    }
    Ok(())
}

fn check(tensor: &Tensor, value: Option<i64>, piece: i64, name: &str) -> Result<()> {
    let other = match value {
        Some(value) => tensor.f_ne(value)?,
        None => tensor.f_ne_tensor(&addresses(piece, tensor.device())?)?,
    };
    let count = other.f_sum(Kind::Int64)?.f_int64_value(&[])?;
    if count == 0 {
        return Ok(());
    }
    let word = other
        .f_to_kind(Kind::Int)?
        .f_argmax(0, false)?
        .f_int64_value(&[])?;
    let found = tensor.f_int64_value(&[word])? as u32;
    let written = value.unwrap_or((piece * WORDS) % (1 << 31) + word) as u32;
    let bits: Vec<String> = (0..32)
        .filter(|bit| (found ^ written) >> bit & 1 == 1)
        .map(|bit| bit.to_string())
        .collect();
    bail!(
        "memory does not keep what is written: pattern {name}, {count} of {WORDS} words differ, the first {:#x} bytes into \
         what was tried: {written:#010x} was written, {found:#010x} read (bit {})",
        (piece * WORDS + word) * 4,
        bits.join(", ")
    )
}

/// GB/s of a fill, which writes, and of a copy, which reads and writes.
fn bandwidth(all: &[Tensor]) -> Result<(f64, f64)> {
    const TIMES: u32 = 4;
    let first = all.first();
    ensure!(first.is_some(), "no memory was tried");
    let mut from = all[0].shallow_clone();
    let mut to = from.f_empty_like()?;
    let bytes = f64::from(TIMES) * 4.0 * WORDS as f64;
    let waited = |tensor: &Tensor| tensor.f_int64_value(&[WORDS - 1]);
    to.f_copy_(&from)?;
    waited(&to)?;
    let begun = Instant::now();
    for _ in 0..TIMES {
        let _ = from.f_fill_(1)?;
    }
    waited(&from)?;
    let fill = bytes / begun.elapsed().as_secs_f64() / 1e9;
    let begun = Instant::now();
    for _ in 0..TIMES {
        to.f_copy_(&from)?;
    }
    waited(&to)?;
    Ok((fill, 2.0 * bytes / begun.elapsed().as_secs_f64() / 1e9))
}
