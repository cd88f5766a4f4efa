//! Checks by facts that were planted.

mod gpus;

use std::path::PathBuf;

use super::gpu::Devices;
use super::libraries::Unloaded;
use super::*;
use device::GpuSample;
use device::probe::{GpuDetails, Link};

const PAGE: &str = include_str!("../../../../docs/doctor.md");

/// A sound machine without a GPU.
fn sound() -> Facts {
    let gib = 1_u64 << 30;
    let meminfo = [("MemTotal", 32 * gib), ("SwapTotal", 0), ("SwapFree", 0)];
    Facts {
        host: host::Host {
            features: ["avx", "avx2", "fma"].map(str::to_owned).into(),
            architecture: "x86_64",
            cores: Some(8),
            usable: Some(8),
            memory: Some(device::HostSample {
                total: 32 * gib,
                available: 30 * gib,
                processes: BTreeMap::new(),
            }),
            cgroups: vec![(16 * gib, 15 * gib)],
            oom_kills: Some(0),
            meminfo: meminfo.map(|(n, v)| (n.to_owned(), v)).into(),
            overcommit: Some(0),
            files: Some((1024, 524_288)),
            processes: Some((100_000, 200)),
            address_space: Some(libc::RLIM_INFINITY),
            locked: Some(8 << 20),
            shm: Some((16 * gib, 16 * gib)),
            clock: Some(("tsc".into(), "tsc hpet".into())),
            pressure: BTreeMap::from([("io", (1.0, 0.0))]),
            ..host::Host::default()
        },
        disk: disk::Disk {
            dir: "/project".into(),
            kind: Some(("ext4".into(), "/dev/sda rw".into())),
            space: Some((100 * gib, 50 * gib)),
            inodes: Some((1_000_000, 900_000)),
            syncs: Ok(vec![1.0; 100]),
            read_only: false,
        },
        variables: BTreeMap::new(),
        loaded: Ok(Loaded {
            why: None,
            files: vec!["/torch/lib/libtorch_cpu.so".into()],
        }),
        shadows: vec![],
        gpus: Ok(Details::default()),
        users: BTreeMap::new(),
        devices: Devices::default(),
        architectures: None,
        log: Ok(vec!["Linux version 6.18".into()]),
        sums: Some(arithmetic::Sums {
            cores: 8,
            products: 100,
            wrong: 0,
        }),
    }
}

/// The same with a sound GPU.
fn with_gpu() -> Facts {
    let gib = 1_u64 << 30;
    let gpu = GpuDetails {
        name: "Some GPU".into(),
        sample: GpuSample {
            memory_total: 80 * gib,
            memory_used: gib,
            temperature: Some(40),
            ecc_uncorrected: Some(0),
            remapped_rows: Some(0),
            ..GpuSample::default()
        },
        capability: Some((9, 0)),
        persistence: Some(true),
        power_caps: Some((700.0, 700.0)),
        application_clocks: Some((1980, 1980)),
        clock_offsets: Some((0, 0)),
        slowdown_at: Some(87),
        ecc: Some(true),
        remap_pending: Some(false),
        remap_failed: Some(false),
        compute_mode: Some("default".into()),
        mig: Some(false),
        pcie: Some(Link {
            generation: 1,
            width: 16,
            max_generation: 5,
            max_width: 16,
        }),
        replays: Some((3, 3)),
    };
    let mut facts = sound();
    facts.gpus = Ok(Details {
        driver: Some("580.65.06".into()),
        nvml: Some("13.580.65.06".into()),
        cuda: Some(13000),
        gpus: vec![gpu],
        error: None,
    });
    facts.devices = Devices {
        files: vec![("/dev/nvidia0".into(), true)],
        uvm: true,
        kernel_driver: Some("580.65.06".into()),
        libcuda: Some(("/usr/lib64/libcuda.so.1".into(), Some("580.65.06".into()))),
        ..Devices::default()
    };
    facts.architectures = Some(vec!["sm_80".into(), "sm_90".into()]);
    if let Ok(loaded) = &mut facts.loaded {
        loaded.files.push("/torch/lib/libcudart.so.13".into());
    }
    facts
}

fn outcomes(facts: &Facts, outcome: Outcome) -> Vec<&'static str> {
    let checks = judge(facts);
    let those = checks.iter().filter(|c| c.outcome == outcome);
    those.map(|c| c.name).collect()
}

/// A cause is planted in a machine that is sound otherwise: exactly this check says so, with these words.
fn planted(
    base: fn() -> Facts,
    plant: impl FnOnce(&mut Facts),
    name: &str,
    outcome: Outcome,
    part: &str,
) {
    let mut facts = base();
    plant(&mut facts);
    let checks = judge(&facts);
    let bad: Vec<_> = checks
        .iter()
        .filter(|c| matches!(c.outcome, Outcome::Failed | Outcome::Warning))
        .collect();
    assert_eq!(bad.len(), 1, "{name}: {bad:#?}");
    assert_eq!((bad[0].name, bad[0].outcome), (name, outcome), "{bad:#?}");
    assert!(bad[0].evidence.contains(part), "{}", bad[0].evidence);
    assert!(bad[0].remedy.is_some());
}

#[test]
fn a_sound_machine_has_nothing_to_be_looked_at() {
    for facts in [sound(), with_gpu()] {
        assert_eq!(outcomes(&facts, Outcome::Failed), [""; 0]);
        assert_eq!(outcomes(&facts, Outcome::Warning), [""; 0]);
    }
    assert_eq!(outcomes(&with_gpu(), Outcome::NotRun), [""; 0]);
    let without = judge(&sound());
    let unknown = without.iter().filter(|c| c.outcome == Outcome::NotRun);
    assert!(unknown.clone().count() > 5 && unknown.clone().all(|c| c.evidence == "no NVIDIA GPU"));
}

#[test]
fn each_planted_cause_of_the_host_is_found_and_nothing_else() {
    use Outcome::{Failed, Warning};
    let host =
        |plant: fn(&mut Facts), name, outcome, part| planted(sound, plant, name, outcome, part);
    host(
        |f| f.host.files = Some((64, 64)),
        "open_files",
        Failed,
        "ulimit -n is 64",
    );
    host(
        |f| f.host.files = Some((512, 1024)),
        "open_files",
        Warning,
        "at most 1024",
    );
    host(
        |f| f.host.shm = Some((64 << 20, 60 << 20)),
        "shared_memory",
        Failed,
        "60 MB free of 64 MB",
    );
    host(
        |f| f.host.shm = Some((64 << 20, 64 << 20)),
        "shared_memory",
        Warning,
        "64 MB free",
    );
    host(
        |f| f.host.cgroups = vec![(1 << 30, 10 << 20)],
        "cgroup_memory",
        Failed,
        "10 MB left of 1.0 GB",
    );
    host(
        |f| f.host.oom_kills = Some(3),
        "cgroup_memory",
        Warning,
        "killed 3 processes",
    );
    host(
        |f| f.host.memory.as_mut().unwrap().available = 1 << 30,
        "memory",
        Failed,
        "1.0 GB of 32.0 GB",
    );
    host(
        |f| f.host.overcommit = Some(2),
        "overcommit",
        Failed,
        "overcommit_memory=2",
    );
    host(
        |f| f.host.pids = Some((128, 100)),
        "processes",
        Failed,
        "pids.max of the cgroup is 128",
    );
    host(
        |f| f.host.address_space = Some(8 << 30),
        "address_space",
        Failed,
        "8.0 GB",
    );
    host(
        |f| f.host.clock = Some(("hpet".into(), "tsc hpet".into())),
        "clock_source",
        Warning,
        "hpet",
    );
    host(
        |f| f.host.stuck = vec!["python (7)".into()],
        "stuck_processes",
        Warning,
        "python (7)",
    );
    host(
        |f| f.host.zombies = vec!["x (1)".into(); 25],
        "zombies",
        Warning,
        "25 zombies",
    );
    host(
        |f| f.host.usable = Some(2),
        "threads",
        Warning,
        "lets 2 be used",
    );
    host(
        |f| {
            f.host.pressure.insert("memory", (60.0, 30.0));
        },
        "pressure",
        Warning,
        "memory 60 %",
    );
    host(
        |f| {
            f.host.meminfo.insert("SwapTotal".into(), 4 << 30);
        },
        "swap",
        Warning,
        "4.0 GB of 4.0 GB used",
    );
    host(
        |f| {
            f.host.features.clear();
            f.host.features.insert("sse2".into());
        },
        "cpu_features",
        Failed,
        "no AVX",
    );
    host(
        |f| f.disk.kind = Some(("nfs4".into(), "host:/x rw".into())),
        "file_system",
        Warning,
        "nfs4",
    );
    host(
        |f| f.disk.kind = Some(("9p".into(), "C: rw,aname=drvfs".into())),
        "file_system",
        Warning,
        "9p",
    );
    host(
        |f| f.disk.read_only = true,
        "file_system",
        Failed,
        "read-only",
    );
    host(
        |f| f.disk.inodes = Some((1000, 0)),
        "disk_space",
        Failed,
        "0 of 1000 inodes",
    );
    host(
        |f| f.disk.syncs = Ok(vec![150.0; 10]),
        "disk_latency",
        Warning,
        "150.0 ms (p99 of 10)",
    );
    host(
        |f| f.sums.as_mut().unwrap().wrong = 1,
        "arithmetic",
        Failed,
        "1 of 100",
    );
    let killed = "Out of memory: Killed process 17 (python)";
    planted(
        sound,
        |f| f.log = Ok(vec![killed.into()]),
        "kernel_log",
        Warning,
        killed,
    );
    let disk = "I/O error, dev sda, sector 5";
    planted(
        sound,
        |f| f.log = Ok(vec![disk.into(), killed.into()]),
        "kernel_log",
        Failed,
        disk,
    );
}

#[test]
fn each_planted_cause_of_the_software_is_found_and_nothing_else() {
    use Outcome::{Failed, Warning};
    let set = |name: &'static str, value: &'static str| {
        move |f: &mut Facts| {
            f.variables.insert(name.into(), value.into());
        }
    };
    planted(
        sound,
        set("CUDA_LAUNCH_BLOCKING", "1"),
        "variables",
        Warning,
        "CUDA_LAUNCH_BLOCKING=1",
    );
    planted(
        sound,
        set("NSIGHT_CUDA_DEBUGGER", "1"),
        "variables",
        Failed,
        "debugger",
    );
    planted(
        sound,
        set("OMP_NUM_THREADS", "64"),
        "threads",
        Warning,
        "OMP_NUM_THREADS=64",
    );
    planted(
        sound,
        set("ATEN_CPU_CAPABILITY", "avx512"),
        "cpu_features",
        Failed,
        "avx512f",
    );
    planted(
        with_gpu,
        set("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:8"),
        "allocator",
        Failed,
        "cannot be `8`",
    );
    let shadow = |f: &mut Facts| {
        f.variables.insert("LD_LIBRARY_PATH".into(), "/old".into());
        f.shadows = vec!["/old/libcudnn.so.8".into()];
    };
    planted(sound, shadow, "library_path", Warning, "/old/libcudnn.so.8");
    planted(
        with_gpu,
        shadow,
        "library_path",
        Failed,
        "/old/libcudnn.so.8",
    );
    let illegal = |f: &mut Facts| f.loaded = Err(Unloaded::Signal(libc::SIGILL));
    planted(
        sound,
        illegal,
        "libraries",
        Failed,
        "not the GPU's (error 715)",
    );
    let twice = |f: &mut Facts| {
        f.loaded.as_mut().unwrap().files = ["/a/libcudnn.so.9", "/b/libcudnn.so.9"]
            .map(PathBuf::from)
            .into();
    };
    planted(
        sound,
        twice,
        "libraries",
        Failed,
        "/a/libcudnn.so.9, /b/libcudnn.so.9",
    );
}

#[test]
fn the_documentation_has_every_check_with_its_row() {
    let rows: Vec<String> = table::ROWS
        .iter()
        .map(|row| format!("| `{}` | {} | {} |", row.name, row.when, row.remedy))
        .collect();
    let section = PAGE
        .split("\n## ")
        .find(|s| s.starts_with("The machine"))
        .unwrap_or("");
    let found: Vec<&str> = section.lines().filter(|l| l.starts_with("| `")).collect();
    for (at, row) in rows.iter().enumerate() {
        let stands = found.get(at).copied().unwrap_or("no row");
        assert_eq!(stands, row, "docs/doctor.md should have this row:\n{row}\n");
    }
    assert_eq!(found.len(), rows.len(), "docs/doctor.md has a row too many");
}
