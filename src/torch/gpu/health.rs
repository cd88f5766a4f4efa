//! The health check: small computations with known results on a device.
//!
//! In a lost CUDA context the caching allocator still gives out what it has, and the statistics can
//! still be read: only what reaches the device tells.

use device::Device;

use super::tch_device;

/// Has a kernel of libtorch's own launched and reads back what it made, which waits for the device;
/// then multiplies two small matrices, by a library. Both are compared with what is known. The first of
/// them fails in a lost CUDA context, and says how; where only the second fails for want of memory,
/// the device is full.
///
/// # Errors
/// The device gives an error or a wrong result.
pub fn health(device: Device) -> anyhow::Result<()> {
    use anyhow::Context;

    let device_text = format!("health check on {device}");
    let squares = launch(tch_device(device)).context(device_text.clone())?;
    anyhow::ensure!(
        squares == known_squares(),
        "{device_text}: a kernel's result came out wrong"
    );
    let (a, expected) = known_product();
    let product = multiply(&a, tch_device(device)).context(device_text.clone())?;
    anyhow::ensure!(
        product == expected,
        "{device_text}: a matrix product came out wrong"
    );
    Ok(())
}

const SIDE: usize = 8;

/// A matrix of small integers and its square: exact in every precision that a device may choose.
fn known_product() -> (Vec<f32>, Vec<f32>) {
    let a: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 7) as f32 - 3.0).collect();
    let mut square = vec![0.0; SIDE * SIDE];
    for row in 0..SIDE {
        for column in 0..SIDE {
            square[row * SIDE + column] = (0..SIDE)
                .map(|k| a[row * SIDE + k] * a[k * SIDE + column])
                .sum();
        }
    }
    (a, square)
}

/// The squares of 0 to 63.
fn known_squares() -> Vec<f32> {
    (0..SIDE * SIDE).map(|i| (i * i) as f32).collect()
}

fn launch(device: tch::Device) -> Result<Vec<f32>, tch::TchError> {
    let _no_grad = tch::no_grad_guard();
    let numbers = tch::Tensor::f_arange((SIDE * SIDE) as i64, (tch::Kind::Float, device))?;
    read_back(&numbers.f_square()?)
}

fn read_back(tensor: &tch::Tensor) -> Result<Vec<f32>, tch::TchError> {
    let mut values = vec![0.0f32; SIDE * SIDE];
    let here = tensor.f_to_device(tch::Device::Cpu)?;
    here.f_contiguous()?.f_copy_data(&mut values, SIDE * SIDE)?;
    Ok(values)
}

fn multiply(a: &[f32], device: tch::Device) -> Result<Vec<f32>, tch::TchError> {
    let side = SIDE as i64;
    let _no_grad = tch::no_grad_guard();
    let a = tch::Tensor::f_from_slice(a)?
        .f_view([side, side])?
        .f_to_device(device)?;
    read_back(&a.f_matmul(&a)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_product_is_exact_in_half_precision() {
        let (_, square) = known_product();
        assert!(square.iter().all(|x| x.fract() == 0.0 && x.abs() < 256.0));
    }

    #[test]
    fn the_known_squares_are_those_of_0_to_63() {
        let squares = known_squares();
        assert_eq!((squares[0], squares[1], squares[63]), (0.0, 1.0, 3969.0));
        assert_eq!(squares.len(), SIDE * SIDE);
    }

    #[test]
    fn the_cpu_is_healthy() {
        health(Device::Cpu).unwrap();
    }
}
