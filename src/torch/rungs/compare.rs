//! A computation on a device beside the same one on the CPU.

use anyhow::{Context, Result, ensure};
use rand::{Rng, RngExt};
use tch::{Device, Kind, Tensor};

use super::at;

/// Tensors of a computation, by what they are.
pub type Named = Vec<(String, Tensor)>;

/// The greatest difference that is no error, as a share of the greatest magnitude: TensorFloat-32 keeps 10 bits of a
/// factor, and sums of some hundred products of both signs lose a few more.
const TOLERANCE: f64 = 2e-2;

/// So many numbers between -1 and 1, of this shape, on the CPU.
///
/// # Errors
/// libtorch throws.
pub fn numbers(shape: &[i64], rng: &mut impl Rng) -> Result<Tensor> {
    let count = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
    Ok(Tensor::f_from_slice(&values)?.f_view(shape)?)
}

/// A copy on a device that collects gradients.
///
/// # Errors
/// libtorch throws.
pub fn leaf(tensor: &Tensor, device: Device) -> Result<Tensor> {
    let there = tensor.f_detach()?.f_to_device(device)?;
    let mut copy = there.f_empty_like()?;
    copy.f_copy_(&there)?;
    Ok(copy.f_set_requires_grad(true)?)
}

/// The gradients of these leaves after the way back from the mean square of `out`, and `out` itself; each is read
/// back, so that what fails on the device shows here. Leaves that `out` does not depend on are left out.
///
/// # Errors
/// libtorch throws, or a number is not finite.
pub fn there_and_back(what: &str, out: &Tensor, leaves: &[(String, Tensor)]) -> Result<Named> {
    let mut all = vec![(what.to_owned(), out.f_detach()?.f_to_device(Device::Cpu)?)];
    finite(&all)?;
    at(&format!("{what}, backward"));
    out.f_to_kind(Kind::Float)?
        .f_square()?
        .f_mean(Kind::Float)?
        .f_backward()?;
    for (name, leaf) in leaves {
        let gradient = leaf.f_grad()?;
        if gradient.defined() {
            let name = format!("{what}, gradient of {name}");
            all.push((name, gradient.f_to_device(Device::Cpu)?));
        }
    }
    finite(&all)?;
    Ok(all)
}

/// Requires all numbers to be finite.
///
/// # Errors
/// libtorch throws, or a number is not; the first tensor is named.
pub fn finite(all: &[(String, Tensor)]) -> Result<()> {
    for (name, tensor) in all {
        let odd = tensor.f_isfinite()?.f_logical_not()?.f_sum(Kind::Int64)?;
        let odd = odd.f_int64_value(&[])?;
        let count = tensor.numel();
        ensure!(
            odd == 0,
            "{name}: {odd} of {count} numbers are NaN or infinite"
        );
    }
    Ok(())
}

/// Reads a result back and requires it to be finite, before anything else is begun.
///
/// # Errors
/// libtorch throws, or a number is not finite; `what` is named.
pub fn looked_at(what: &str, tensor: &Tensor) -> Result<()> {
    let here = tensor
        .f_detach()?
        .f_to_device(Device::Cpu)
        .context(what.to_owned())?;
    finite(&[(what.to_owned(), here)])
}

/// Goes the way back from a loss, and looks at every gradient that it leaves, from the last leaf to the first.
///
/// # Errors
/// libtorch throws, or a number is not finite; the gradient is named.
pub fn back(loss: &Tensor, leaves: &[(String, Tensor)]) -> Result<String> {
    at("backward");
    loss.f_backward()?;
    for (name, leaf) in leaves.iter().rev() {
        let gradient = leaf.f_grad()?;
        if gradient.defined() {
            looked_at(&format!("backward, gradient of {name}"), &gradient)?;
        }
    }
    Ok("one pass over them, there and back, is finite".to_owned())
}

/// Does the same on the device and, where that is a GPU, on the CPU, and compares: what differs most, for people.
///
/// # Errors
/// `compute` fails, or numbers differ by more than rounding explains.
pub fn on_both(device: Device, compute: &dyn Fn(Device) -> Result<Named>) -> Result<String> {
    let here = compute(device)?;
    if device == Device::Cpu {
        let count: usize = here.iter().map(|(_, tensor)| tensor.numel()).sum();
        return Ok(format!("{count} numbers, all finite"));
    }
    at("the same on the CPU");
    against(&here, &compute(Device::Cpu)?)
}

/// Compares tensors with those that they should be.
///
/// # Errors
/// libtorch throws, or they differ by more than rounding explains.
pub fn against(found: &[(String, Tensor)], expected: &[(String, Tensor)]) -> Result<String> {
    let mut most = 0.0f64;
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        let expected = expected.f_to_kind(Kind::Double)?;
        let off = found
            .f_to_kind(Kind::Double)?
            .f_sub(&expected)?
            .f_abs()?
            .f_max()?;
        let scale = expected.f_abs()?.f_max()?.f_double_value(&[])?.max(1e-6);
        let off = off.f_double_value(&[])? / scale;
        ensure!(
            off <= TOLERANCE,
            "{name} came out wrong: it differs from the CPU's by {off:.2e} of its greatest value, rounding explains {TOLERANCE:.0e}"
        );
        most = most.max(off);
    }
    Ok(format!("as on the CPU, within {most:.1e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(values: &[f32]) -> Named {
        vec![("sum".to_owned(), Tensor::from_slice(values))]
    }

    #[test]
    fn rounding_is_no_error_and_more_than_that_is() {
        let expected = named(&[1000.0, 1.0]);
        against(&named(&[1001.0, 2.0]), &expected).unwrap();
        let error = against(&named(&[1000.0, 31.0]), &expected).unwrap_err();
        assert!(
            error.to_string().starts_with("sum came out wrong"),
            "{error}"
        );
    }

    #[test]
    fn numbers_that_are_not_finite_are_counted() {
        finite(&named(&[0.0, f32::MAX])).unwrap();
        let error = finite(&named(&[f32::NAN, 1.0, f32::INFINITY])).unwrap_err();
        assert_eq!(error.to_string(), "sum: 2 of 3 numbers are NaN or infinite");
    }

    #[test]
    fn the_gradients_are_those_of_the_mean_square() {
        let x = leaf(&Tensor::from_slice(&[1.0f32, -2.0]), Device::Cpu).unwrap();
        let out = &x * 3.0;
        let found = there_and_back("out", &out, &[("x".to_owned(), x)]).unwrap();
        let gradient: Vec<f32> = Vec::try_from(&found[1].1).unwrap();
        // The mean of (3 x)^2 over two numbers: 9 x.
        assert_eq!(
            (found[1].0.as_str(), gradient),
            ("out, gradient of x", vec![9.0, -18.0])
        );
    }
}
