//! Every check: when it fails or warns, what to do then, and the function that judges.

use super::{Facts, Finding, gpu, limits, process_checks as host, software};
use crate::{Check, Outcome};

/// A check.
pub struct Row {
    /// Its name, for scripts.
    pub name: &'static str,
    /// When it fails, and when it only warns.
    pub when: &'static str,
    /// What to do then.
    pub remedy: &'static str,
    pub(super) judge: fn(&Facts) -> Finding,
}

impl Row {
    /// The check with what it has found; what to do is said where something is wrong.
    pub(super) fn check(&self, (outcome, evidence): Finding) -> Check {
        let wrong = matches!(outcome, Outcome::Failed | Outcome::Warning);
        Check {
            name: self.name,
            outcome,
            evidence,
            remedy: wrong.then(|| self.remedy.to_owned()),
        }
    }
}

const fn row(
    name: &'static str,
    judge: fn(&Facts) -> Finding,
    when: &'static str,
    remedy: &'static str,
) -> Row {
    Row {
        name,
        when,
        remedy,
        judge,
    }
}

/// All checks, the most frequent true cause of a crash first.
#[rustfmt::skip] // One block a check.
pub const ROWS: &[Row] = &[
    row("gpus", gpu::gpus,
        "NVML fails, hangs or knows no GPU although the driver is there; device files are missing or closed. Warns: CUDA_VISIBLE_DEVICES hides every GPU",
        "Run nvidia-smi. In a container give it the GPUs (docker run --gpus all); after an update of the driver restart the machine."),
    row("gpu_processes", gpu::gpu_processes,
        "a process of a run that is gone holds a GPU, or others hold more than half of its memory. Warns: any other process, or memory that nobody is listed for",
        "End the processes that are named (kill PID), or choose another GPU with --device cuda:N."),
    row("memory", limits::memory,
        "less than 5 % and 2 GB of memory are available. Warns: less than 10 %",
        "End what uses memory, lower --parallel or the number of data-loader workers, or give the machine more memory."),
    row("cgroup_memory", limits::cgroup_memory,
        "less than 5 % of a cgroup's limit is left. Warns: the kernel has killed processes there for memory",
        "Raise the container's memory (docker run --memory, Kubernetes limits), or lower --parallel and the number of data-loader workers."),
    row("driver_versions", gpu::driver_versions,
        "the driver in the kernel, libcuda and NVML's library are of different versions, or the driver is older than the CUDA that libtorch needs",
        "Restart the machine after an update of the driver. If the driver is too old, install a newer one, or a libtorch for an older CUDA."),
    row("libraries", software::libraries,
        "libtorch ends the process that loads it, or a library is mapped from two places or from LD_LIBRARY_PATH",
        "After SIGILL use a libtorch that was built for this processor. Otherwise unset LD_LIBRARY_PATH, and leave one copy of each library."),
    row("library_path", software::library_path,
        "a directory of LD_LIBRARY_PATH has libraries of libtorch or CUDA that stand before libtorch's own. Warns: only CUDA's, and there is no GPU",
        "Take that directory out of LD_LIBRARY_PATH: it goes before the places that libtorch was built with."),
    row("gpu_architecture", software::gpu_architecture,
        "libtorch has no code for the card (\"no kernel image is available\")",
        "Install a libtorch whose CUDA has code for this card, or use a card of the list."),
    row("cpu_features", host::cpu_features,
        "the processor has no AVX, or ATEN_CPU_CAPABILITY asks for what it lacks (SIGILL, \"Illegal instruction\"). Warns: no AVX2",
        "Unset ATEN_CPU_CAPABILITY. In a virtual machine pass the host's processor through (cpu host)."),
    row("shared_memory", limits::shared_memory,
        "less than 64 MB of /dev/shm are free (data loaders end with a bus error). Warns: it is smaller than 1 GB in all",
        "docker run --shm-size=8g, or data loaders that share by files (set_sharing_strategy('file_system')); delete what is left in /dev/shm."),
    row("open_files", limits::open_files,
        "fewer than 256 files may be open. Warns: fewer than 1024",
        "ulimit -n 65536 before the run, or LimitNOFILE in the service."),
    row("processes", limits::processes,
        "fewer than 100 more processes and threads may be started. Warns: fewer than 500",
        "Raise ulimit -u, or the container's limit (docker run --pids-limit); end what is left of earlier runs."),
    row("address_space", limits::address_space,
        "ulimit -v is set, and there is a GPU or it is below 16 GB. Warns: it is set",
        "ulimit -v unlimited: CUDA reserves far more addresses than memory."),
    row("variables", software::variables,
        "NSIGHT_CUDA_DEBUGGER, CUDA_DEVICE_WAITS_ON_EXCEPTION or CUDA_INJECTION64_PATH is set. Warns: CUDA_LAUNCH_BLOCKING, LD_PRELOAD, profilers and others",
        "Unset what is named, unless it is meant."),
    row("allocator", software::allocator,
        "PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF has a value that libtorch refuses, and there is a GPU. Warns: any other such value, an option that libtorch does not know",
        "Mend the setting, or unset it: the defaults are good."),
    row("xids", gpu::xids,
        "the kernel's log has Xids of broken hardware or a lost card (48, 63, 64, 74, 79, 94, 95, 119, 154 and others). Warns: any other Xid",
        "`tune explain` says what an Xid means. Reset the card or restart the machine; if it comes again, have the card, its seat and its power looked at."),
    row("gpu_memory_errors", gpu::gpu_memory_errors,
        "errors of the card's memory could not be corrected, or a row waits to be replaced or cannot be. Warns: rows were replaced",
        "Reset the card (nvidia-smi --gpu-reset) or restart the machine; if a row cannot be replaced, replace the card."),
    row("recovery_action", gpu::recovery_action,
        "the driver asks for a reset, a drain or a reboot, or the card is lost",
        "Do what the driver asks for; nothing computes there rightly until then."),
    row("gpu_clocks", gpu::gpu_clocks,
        "the card is overclocked (wrong results, \"illegal instruction\" 715). Warns: clocks are off their defaults otherwise",
        "nvidia-smi --reset-gpu-clocks --reset-memory-clocks --reset-applications-clocks, and take out what sets offsets at start."),
    row("gpu_heat_and_power", gpu::gpu_heat_and_power,
        "never. Warns: within 3 °C of where the card slows down, slowed down by heat or power already, or its power cap below the default",
        "Look at fans and airflow; nvidia-smi --power-limit sets the cap; every power cable of the card must be in."),
    row("arithmetic", host::arithmetic,
        "a matrix product on the processor is not bit for bit what it must be",
        "The processor or its memory computes wrongly: take back overclocking, run a memory test, and trust no result of this machine."),
    row("kernel_log", limits::kernel_log,
        "the kernel's log tells of errors of processor, memory or disk. Warns: processes killed for memory, stuck, or ended by an illegal instruction",
        "Look at the lines with `journalctl -k`. Hardware that fails has to be replaced; a process that met an illegal instruction needs a build for this processor."),
    row("wsl", gpu::wsl,
        "under WSL /dev/dxg is missing, libcuda is not that of /usr/lib/wsl/lib, or the kernel's log has dxgkio errors. Warns: always under WSL, for Windows resets a GPU after 2 s",
        "Install the driver in Windows only and put /usr/lib/wsl/lib first. Keep kernels below 2 s (smaller batches), or raise TdrDelay in Windows' registry."),
    row("compute_mode", gpu::compute_mode,
        "the compute mode prohibits contexts, or allows one and another process has it. Warns: one context only, MIG, MPS",
        "nvidia-smi --compute-mode=DEFAULT. With MIG name a part in CUDA_VISIBLE_DEVICES; under MPS one client's crash ends all."),
    row("file_system", limits::file_system,
        "the project's file system is read-only. Warns: it is a network's or Windows' (NFS, SMB, 9p, drvfs, FUSE), on which SQLite's locks cannot be trusted",
        "Put the project on a local disk (-C DIR), or only the database (--storage PATH)."),
    row("disk_space", limits::disk_space,
        "less than 100 MB or 200 inodes are free. Warns: less than 2 GB, or 2 % of the inodes",
        "Delete what is not needed (tune delete STUDY), or choose another disk with -C DIR."),
    row("disk_latency", limits::disk_latency,
        "never. Warns: one durable write in a hundred takes more than 100 ms",
        "Every trial waits for one such write. Choose a faster disk for the database (--storage PATH)."),
    row("threads", host::threads,
        "never. Warns: OMP_NUM_THREADS is more than the processors that may be used, or a cgroup's share of them is not told to programs, or holds them back",
        "Set OMP_NUM_THREADS to the processors that may be used, divided by --parallel."),
    row("overcommit", limits::overcommit,
        "vm.overcommit_memory is 2, and there is a GPU or less than 4 GB can still be promised. Warns: it is 2",
        "sysctl vm.overcommit_memory=0 (as root)."),
    row("swap", limits::swap,
        "never. Warns: more than half of the swap is used",
        "The machine has too little memory for what runs: lower --parallel."),
    row("pressure", host::pressure,
        "never. Warns: all tasks waited for memory more than 10 %, or for disks more than 50 %, of the last 10 s",
        "Something else uses the machine: see what with top and iotop."),
    row("stuck_processes", host::stuck_processes,
        "never. Warns: a process waits in the kernel (state D) all the time",
        "It waits for a disk, a network's file system or a driver, and not even SIGKILL ends it: see `cat /proc/PID/wchan`; restart the machine."),
    row("zombies", host::zombies,
        "never. Warns: 20 or more processes have ended and nobody waits for them",
        "Their parent has to end; in a container start it with an init (docker run --init)."),
    row("clock_source", host::clock_source,
        "never. Warns: the kernel's clock is a slow one (hpet, acpi_pm, jiffies)",
        "Every look at the clock is a system call. If `dmesg` says that TSC is unstable, update the firmware."),
    row("pcie", gpu::pcie,
        "never. Warns: a card has fewer lanes than it could have, or packets are sent again, while it is looked at or under what doctor runs",
        "Seat the card anew, or use another slot or cable: loading data is slower by that share."),
    row("persistence", gpu::persistence,
        "never. Warns: the driver unloads while nobody uses the card",
        "nvidia-smi --persistence-mode=1, or the service nvidia-persistenced: starts are faster, and settings stay."),
];
