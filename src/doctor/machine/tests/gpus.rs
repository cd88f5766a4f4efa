//! Causes that were planted in a sound GPU and its driver.

use super::super::gpu::User;
use super::*;
use device::probe::GpuDetails;

#[test]
fn each_planted_cause_of_a_gpu_is_found_and_nothing_else() {
    use Outcome::{Failed, Warning};
    let gpu = |plant: fn(&mut GpuDetails), name, outcome, part| {
        let one = |f: &mut Facts| plant(&mut f.gpus.as_mut().unwrap().gpus[0]);
        planted(with_gpu, one, name, outcome, part);
    };
    gpu(
        |g| g.clock_offsets = Some((150, 0)),
        "gpu_clocks",
        Failed,
        "overclocked: offsets +150 MHz",
    );
    gpu(
        |g| g.application_clocks = Some((1200, 1980)),
        "gpu_clocks",
        Warning,
        "1200 MHz, by default 1980",
    );
    gpu(
        |g| g.power_caps = Some((300.0, 700.0)),
        "gpu_heat_and_power",
        Warning,
        "power cap 300 W",
    );
    gpu(
        |g| g.sample.temperature = Some(86),
        "gpu_heat_and_power",
        Warning,
        "86 °C, slows down at 87 °C",
    );
    gpu(
        |g| g.sample.throttle = vec!["hw_slowdown".into()],
        "gpu_heat_and_power",
        Warning,
        "hw_slowdown",
    );
    gpu(
        |g| g.sample.ecc_uncorrected = Some(2),
        "gpu_memory_errors",
        Failed,
        "2 uncorrected",
    );
    gpu(
        |g| g.remap_failed = Some(true),
        "gpu_memory_errors",
        Failed,
        "could not be replaced",
    );
    gpu(
        |g| g.sample.remapped_rows = Some(3),
        "gpu_memory_errors",
        Warning,
        "3 rows",
    );
    gpu(
        |g| g.sample.recovery_action = Some("reset".into()),
        "recovery_action",
        Failed,
        "reset",
    );
    gpu(
        |g| g.compute_mode = Some("prohibited".into()),
        "compute_mode",
        Failed,
        "prohibited",
    );
    gpu(
        |g| g.compute_mode = Some("exclusive_process".into()),
        "compute_mode",
        Warning,
        "exclusive",
    );
    gpu(|g| g.mig = Some(true), "compute_mode", Warning, "MIG");
    gpu(
        |g| g.pcie.as_mut().unwrap().width = 4,
        "pcie",
        Warning,
        "x4 now, at most 5 x16",
    );
    gpu(
        |g| g.replays = Some((3, 9)),
        "pcie",
        Warning,
        "6 of them in 0.3 s",
    );
    gpu(
        |g| g.persistence = Some(false),
        "persistence",
        Warning,
        "off",
    );
    gpu(
        |g| g.capability = Some((10, 0)),
        "gpu_architecture",
        Failed,
        "sm_100; libtorch has code for sm_80, sm_90",
    );
    gpu(
        |g| g.sample.memory_used = 20 << 30,
        "gpu_processes",
        Warning,
        "not listed",
    );
    gpu(
        |g| g.sample.processes = [(7, 5 << 30)].into(),
        "gpu_processes",
        Warning,
        "process 7 (not to be seen",
    );
}

#[test]
fn each_planted_cause_of_the_driver_is_found_and_nothing_else() {
    use Outcome::{Failed, Warning};
    let driver =
        |plant: fn(&mut Facts), name, outcome, part| planted(with_gpu, plant, name, outcome, part);
    driver(
        |f| f.devices.kernel_driver = Some("575.57.08".into()),
        "driver_versions",
        Failed,
        "kernel 575.57.08, libcuda 580.65.06",
    );
    driver(
        |f| f.gpus.as_mut().unwrap().cuda = Some(12080),
        "driver_versions",
        Failed,
        "up to 12.8; libtorch needs CUDA 13",
    );
    driver(
        |f| f.devices.files[0].1 = false,
        "gpus",
        Failed,
        "/dev/nvidia0",
    );
    driver(|f| f.devices.uvm = false, "gpus", Failed, "nvidia-uvm");
    driver(
        |f| f.gpus = Err("the probe gave no answer within 60 s".into()),
        "gpus",
        Failed,
        "no answer",
    );
    driver(
        |f| f.devices.mps = true,
        "compute_mode",
        Warning,
        "MPS runs",
    );
    let orphan = |f: &mut Facts| {
        f.gpus.as_mut().unwrap().gpus[0].sample.processes = [(7, 5 << 30)].into();
        let name = "python".to_owned();
        f.users.insert(7, User { name, orphan: true });
    };
    planted(
        with_gpu,
        orphan,
        "gpu_processes",
        Failed,
        "process 7 (python, left by a run of tune that is gone) uses 5.0 GB",
    );
    let xid = |code: u32| {
        move |f: &mut Facts| {
            f.log = Ok(vec![format!("NVRM: Xid (PCI:0000:01:00): {code}, pid=7")]);
        }
    };
    planted(with_gpu, xid(79), "xids", Failed, "79");
    planted(with_gpu, xid(13), "xids", Warning, "13");
    let hidden = |f: &mut Facts| {
        f.gpus.as_mut().unwrap().gpus.clear();
        f.variables
            .insert("CUDA_VISIBLE_DEVICES".into(), String::new());
    };
    planted(with_gpu, hidden, "gpus", Warning, "hides every GPU");
    let wsl = |f: &mut Facts| {
        f.host.wsl = true;
        f.devices.dxg = true;
    };
    planted(
        with_gpu,
        wsl,
        "wsl",
        Failed,
        "libcuda is /usr/lib64/libcuda.so.1",
    );
    let usual = |f: &mut Facts| {
        wsl(f);
        f.devices.libcuda = Some(("/usr/lib/wsl/lib/libcuda.so.1".into(), None));
    };
    planted(with_gpu, usual, "wsl", Warning, "more than 2 s (TDR)");
}
