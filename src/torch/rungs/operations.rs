//! What all trainings are made of, against what is known, or the CPU in 64 bits.

use anyhow::{Result, ensure};
use tch::{Device, Kind, Tensor};

use super::at;
use super::compare::{Named, against, leaf, numbers, there_and_back};
use search::study::rng;

/// Numbers that are written.
const COUNT: i64 = 1 << 20;

/// Constants and a sequence, written on the device and read back.
///
/// # Errors
/// libtorch throws, or a number is another one.
pub fn fill(device: Device) -> Result<String> {
    let _no_grad = tch::no_grad_guard();
    for value in [0.0, 3.5, -1.0] {
        at(&format!("fill with {value}"));
        let tensor = Tensor::f_full([COUNT], value, (Kind::Float, device))?;
        let (least, most) = (tensor.f_min()?, tensor.f_max()?);
        let found = (least.f_double_value(&[])?, most.f_double_value(&[])?);
        ensure!(
            found == (value, value),
            "{value} was written and {} to {} read",
            found.0,
            found.1
        );
    }
    at("a sequence");
    let sum = Tensor::f_arange(COUNT, (Kind::Int64, device))?.f_sum(Kind::Int64)?;
    let sum = sum.f_int64_value(&[])?;
    ensure!(
        sum == COUNT * (COUNT - 1) / 2,
        "0 to {} sum up to {sum}",
        COUNT - 1
    );
    Ok(format!("{COUNT} numbers written and read back"))
}

/// A product of matrices and its gradients.
///
/// # Errors
/// libtorch throws, or a number is not as on the CPU.
pub fn matrix_product(device: Device, seed: u64) -> Result<String> {
    let mut rng = rng(seed, 0, "matrix product");
    let a = numbers(&[256, 192], &mut rng)?;
    let b = numbers(&[192, 128], &mut rng)?;
    let product = |device: Device, kind: Kind| -> Result<Named> {
        at("matrix product");
        let (a, b) = (
            leaf(&a.f_to_kind(kind)?, device)?,
            leaf(&b.f_to_kind(kind)?, device)?,
        );
        let leaves = [
            ("a".to_owned(), a.shallow_clone()),
            ("b".to_owned(), b.shallow_clone()),
        ];
        there_and_back("matrix product", &a.f_matmul(&b)?, &leaves)
    };
    against(
        &product(device, Kind::Float)?,
        &product(Device::Cpu, Kind::Double)?,
    )
}

/// A convolution and a transposed one, with their gradients.
///
/// # Errors
/// libtorch throws, or a number is not as on the CPU.
pub fn convolution(device: Device, seed: u64) -> Result<String> {
    let mut rng = rng(seed, 0, "convolution");
    let x = numbers(&[4, 8, 32, 32], &mut rng)?;
    let down = numbers(&[16, 8, 3, 3], &mut rng)?;
    let up = numbers(&[8, 4, 2, 2], &mut rng)?;
    let plain = |x: &Tensor, w: &Tensor| x.f_conv2d(w, None::<&Tensor>, 2, 1, 1, 1);
    let transposed =
        |x: &Tensor, w: &Tensor| x.f_conv_transpose2d(w, None::<&Tensor>, 2, 0, 0, 1, 1);
    type Convolve<'a> = &'a dyn Fn(&Tensor, &Tensor) -> Result<Tensor, tch::TchError>;
    let cases: [(&str, &Tensor, Convolve<'_>); 2] = [
        ("convolution", &down, &plain),
        ("transposed convolution", &up, &transposed),
    ];
    let all = |device: Device, kind: Kind| -> Result<Named> {
        let mut all = Named::new();
        for (what, weight, convolve) in &cases {
            at(what);
            let (x, w) = (
                leaf(&x.f_to_kind(kind)?, device)?,
                leaf(&weight.f_to_kind(kind)?, device)?,
            );
            let leaves = [
                ("input".to_owned(), x.shallow_clone()),
                ("weight".to_owned(), w.shallow_clone()),
            ];
            all.extend(there_and_back(what, &convolve(&x, &w)?, &leaves)?);
        }
        Ok(all)
    };
    against(&all(device, Kind::Float)?, &all(Device::Cpu, Kind::Double)?)
}
