//! The health check: a small computation with a known result on a device.

use super::Device;

/// Multiplies two small matrices on the device and compares the product with the known one. A lost
/// CUDA context fails at the first call.
///
/// # Errors
/// The device gives an error or a wrong result.
#[cfg(feature = "torch")]
pub fn health(device: Device) -> anyhow::Result<()> {
    use anyhow::Context;

    let device_text = format!("health check on {device}");
    let (a, expected) = known_product();
    let product = multiply(&a, device.into()).context(device_text.clone())?;
    anyhow::ensure!(
        product == expected,
        "{device_text}: a matrix product came out wrong"
    );
    Ok(())
}

/// Without libtorch there is nothing that can be broken.
///
/// # Errors
/// None.
#[cfg(not(feature = "torch"))]
pub fn health(_device: Device) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(any(feature = "torch", test))]
const SIDE: usize = 8;

/// A matrix of small integers and its square: exact in every precision that a device may choose.
#[cfg(any(feature = "torch", test))]
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

#[cfg(feature = "torch")]
fn multiply(a: &[f32], device: tch::Device) -> Result<Vec<f32>, tch::TchError> {
    let side = SIDE as i64;
    let _no_grad = tch::no_grad_guard();
    let a = tch::Tensor::f_from_slice(a)?
        .f_view([side, side])?
        .f_to_device(device)?;
    let product = a.f_matmul(&a)?.f_to_device(tch::Device::Cpu)?;
    let mut values = vec![0.0f32; SIDE * SIDE];
    product
        .f_contiguous()?
        .f_copy_data(&mut values, SIDE * SIDE)?;
    Ok(values)
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
    fn the_cpu_is_healthy() {
        health(Device::Cpu).unwrap();
    }
}
