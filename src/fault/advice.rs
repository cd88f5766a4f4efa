//! What people can do about one fault in particular: by the assertion's file and condition, by the CUDA
//! error, by the library, by the figures.

use super::FaultKind;
use super::text::{Diagnosis, Memory, Place};

/// The advice for a diagnosis; `near` is the message with the lines after it.
pub fn advice(d: &Diagnosis, near: &str) -> String {
    let general = d.kind.row().advice;
    if let Some(place) = &d.place {
        return format!("{} {general}", of_place(place));
    }
    if d.text.contains("handles_.at(i)")
        && d.also.iter().any(|o| o.text.contains("device not ready"))
    {
        return format!("{WSL_TIMEOUT} {general}");
    }
    let special = match d.kind {
        FaultKind::Oom => of_memory(d.memory.as_ref(), near),
        FaultKind::TaskError => of_the_task(&d.text),
        FaultKind::CudaSticky | FaultKind::CudaTransient | FaultKind::DeviceLost => d
            .code
            .map(of_code)
            .filter(|a| !a.is_empty())
            .map_or_else(|| of_message(&d.text, near), |a| a.to_owned()),
        FaultKind::CudaUnclear | FaultKind::Crash | FaultKind::Hang => of_message(&d.text, near),
        FaultKind::HostOom => of_message(&d.text, ""),
        FaultKind::Interrupted
        | FaultKind::Killed
        | FaultKind::Poisoned
        | FaultKind::Descriptors
        | FaultKind::TimeLimit
        | FaultKind::Diverged
        | FaultKind::Protocol
        | FaultKind::OpenFailed => String::new(),
    };
    if special.is_empty() {
        general.to_owned()
    } else if d.kind == FaultKind::DeviceLost && special != XID {
        // A reset or a restart, which the general advice names, mends no installation.
        special
    } else {
        format!("{special} {general}")
    }
}

/// Parts of an assertion's file, function or condition, and what to check; the first that fits.
#[rustfmt::skip] // One line a case.
const PLACES: &[(&[&str], &str)] = &[
    (&["input_val >=", "target_val >=", "binary_cross_entropy"],
        "A value of binary cross entropy lies outside 0 to 1 or is NaN: take `binary_cross_entropy_with_logits`, and check that targets are 0 to 1."),
    (&["n_classes", "cur_target", "nll_loss", "ClassNLLCriterion", "MultiMargin", "Loss.cu"],
        "A label is out of range: every target of the loss must be at least 0 and below the number of classes (or be `ignore_index`). Compare the largest label with the width of the last layer."),
    (&["Class values must be", "num_classes"],
        "A label given to one_hot is negative, or not below num_classes."),
    (&["srcSelectDimSize", "srcIndex", "Embedding", "vectorized_gather"],
        "An index is out of the table's range: token ids must be below the vocabulary size of the embedding, positions below the model's longest sequence. Check tokenizer against model (added tokens need resize_token_embeddings) and the sequence length."),
    (&["ScatterGather", "idx_dim", "scatter", "gather"],
        "An index of gather or scatter is negative or not below the size of that dimension: check labels and token ids used as indices."),
    (&["probability", "cumdist", "Multinomial", "Distribution", "val >= zero"],
        "Probabilities are negative, NaN or sum to zero: the logits before them are not finite."),
    (&["LossCTC", "ctc_loss"],
        "A target of the CTC loss is out of the alphabet's range, or longer than its input."),
    (&["index out of bounds", "IndexKernel", "Indexing.cu", "THCTensorIndex", "sizes[i]", "out of bounds"],
        "An index is out of bounds: check the range of what is used as an index (labels, token ids, positions) on the CPU before it reaches the device."),
    (&["_assert_async", "TensorCompare.cu", "input[0] != 0", "input[0] != c10"],
        "A check that the task's own code makes on the device (`torch._assert_async`) did not hold."),
];

fn of_place(place: &Place) -> String {
    let parts = [&place.condition, &place.function, &place.file];
    let mentions = |needle: &&str| {
        parts
            .iter()
            .any(|p| p.as_ref().is_some_and(|p| p.contains(*needle)))
    };
    let known = PLACES
        .iter()
        .find(|(needles, _)| needles.iter().any(&mentions));
    known.map_or_else(
        || "The kernel checks what it is given, and this did not hold: check shapes, indices and values on the CPU.".to_owned(),
        |(_, advice)| (*advice).to_owned(),
    )
}

/// What the pair of these two errors means.
const WSL_TIMEOUT: &str = "\"device not ready\" and then the lost state of the allocator: so it looks under WSL2 where Windows resets the GPU under a kernel that runs longer than 2 s (TDR). Less work a launch (a smaller batch or length), or a larger TdrDelay in the registry of Windows. Elsewhere, run without expandable_segments.";

const XID: &str = "NVIDIA's catalogue of Xids tells more about this number.";

/// What a CUDA error by itself points to.
#[rustfmt::skip] // One line an error.
fn of_code(code: u32) -> &'static str {
    match code {
        1 => "A call got an argument that CUDA does not take: an empty or very large tensor, or memory of another device. At the very first allocation, under WSL2, run without expandable_segments.",
        4 => "CUDA was used while the process was ending: look for the error that ended it.",
        9 => "A kernel was launched with a grid that the GPU does not allow: often an empty batch, or a tensor of very many elements.",
        200 | 218 | 221 | 223 | 300..=303 => "The code of a kernel could not be loaded: the build is damaged, or made for another GPU or driver.",
        201 | 709 => "The context was destroyed while it was in use: the device was reset, or another error came before.",
        217 | 704 | 705 => "Two GPUs were to read each other's memory directly, which this machine does not offer, or which was switched on twice.",
        226 => "The hardware reports an error that is confined to this process: look at the kernel's log; if it comes back, take the GPU out of use.",
        304 | 800 | 801 => "The driver does not offer this call here: under WSL2, in a virtual machine or in a container it is often expandable_segments, pinned memory or peer access. Run without it.",
        400 => "A stream, an event or a library's handle was used on another device, or after a fork.",
        712 | 713 => "Memory of the host was pinned twice, or not at all.",
        714 | 717 | 718 | 721 => "A kernel ran wild: a defect of a custom kernel, a mismatched build, or failing hardware. The same work on another GPU or another build tells which; `tune doctor --run COMMAND` finds the operation, and what goes round it.",
        900..=908 => "Something ran while a CUDA graph was captured that cannot be captured (a synchronisation, `.item()`, a seeding): take it out, or run without the graph.",
        911 => "Something outside of CUDA that shares the GPU (graphics, a network card) has failed: look at the kernel's log.",
        3 | 34 | 35 | 36 | 803 | 804 => "Driver and CUDA libraries do not fit: compare the version that nvidia-smi shows with that of the libraries; after an update of the driver, restart the machine.",
        46 => "Another process holds the GPU in exclusive mode (nvidia-smi shows which).",
        98 | 209 | 222 => "The libraries have no code for this GPU: install a build that lists its compute capability.",
        100 | 101 => "Look at CUDA_VISIBLE_DEVICES and at what nvidia-smi lists.",
        214 | 220 => "The hardware reports an error: look at `nvidia-smi -q -d ECC` and the kernel's log; if it comes back, take the GPU out of use.",
        600 => "Work on the GPU was not done when it was asked for: mostly harmless. Under WSL2 it comes where Windows resets the GPU under a kernel that runs longer than 2 s (TDR): less work a launch, or a larger TdrDelay in the registry of Windows.",
        700 => "A kernel read or wrote outside its memory: an index without a check, a tensor freed too early on another stream, or a defect of a custom kernel. compute-sanitizer finds it.",
        701 => "A kernel wants more registers or shared memory than the GPU has: it was built for another GPU, or its block is too large.",
        702 => "A kernel ran too long for a GPU that also drives a display: use another GPU, or less work a launch.",
        710 => "An assertion in a kernel failed, nearly always an index out of range: labels not below the number of classes, token ids not below the vocabulary size. Its line, with file and condition, was printed on the process's own output: look there.",
        715 => "This is the GPU, not the processor: a kernel met an illegal instruction: a damaged or mismatched build, or a failing (overclocked, overheated) GPU. The same work on another GPU or another build tells which.",
        716 => "A kernel accessed a misaligned address: a custom kernel that casts to a vector type, or a view with an odd offset.",
        719 | 999 => "The device failed without saying where: look for an Xid in the kernel's log.",
        806..=810 => "The multi-process service is involved, where one client's fault hits all: do not run under it.",
        _ => "",
    }
}

/// Words of a message, and what to do.
#[rustfmt::skip] // One line a case.
const WORDS: &[(&[&str], &str)] = &[
    (&["handles_.at(i)"], "The allocator with expandable segments has lost its state, after an allocation that failed half-way: only a fresh process helps; if it comes back, run without expandable_segments."),
    (&["undefined symbol", "sublibrary", "SUBLIBRARY_LOADING", "VERSION_MISMATCH"], "Libraries of different versions are mixed: install CUDA's libraries in the versions that this libtorch was built with, and look at LD_LIBRARY_PATH."),
    (&["CUBLAS_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_ALLOC"], "cuBLAS could not make its workspace: often the GPU is full, or an earlier error has broken the context."),
    (&["cuDNN", "CUDNN", "FIND was unable", "GET was unable"], "cuDNN found no way to run this: often for want of memory, else for a shape or a version that it does not support."),
    (&["CUBLAS"], "cuBLAS failed in a kernel: often an earlier illegal access, an index out of range, or a full GPU."),
    (&["NCCL", "nccl"], "NCCL reports the failure of one rank on all others: look for the first error of the other ranks."),
    (&["CaptureStatus"], "Generators were seeded in a context that was broken before."),
    (&["/dev/shm", "shared memory", "</torch_", "Bus error. It is possible", "bus error encountered"], "Data-loader workers pass tensors through /dev/shm, and it is full: enlarge it (--shm-size or --ipc=host for a container), or use fewer workers."),
    (&["1455", "paging file"], "Windows has no room in its paging file: enlarge it, or use fewer data-loader workers."),
    (&["Bus error", "status=7/BUS"], "A file that was mapped into memory has become shorter, or /dev/shm is full."),
    (&["exited unexpectedly", "died unexpectedly"], "A helper process ended without a word: look above for its own error, and in the kernel's log for an OOM kill (journalctl -k)."),
    (&["OMP: Error #15"], "Two copies of the OpenMP runtime are loaded: keep one, by installing all packages from one source."),
    (&["nvrtc"], "A kernel could not be compiled at run time: the libraries of CUDA are incomplete or too old for this GPU."),
    (&["fallen off the bus", "Xid 79", "): 79"], "The GPU no longer answers on the bus (power, heat, riser, firmware): shut the machine down, not only restart it."),
    (&["version mismatch"], "The driver was updated under the running kernel: restart the machine."),
    (&["Xid"], XID),
    (&["could not select device driver", "nvidia-container-cli", "CDI devices"], "The container runtime cannot hand out the GPU: install and configure the NVIDIA container toolkit, and see that nvidia-smi works outside of the container."),
    (&["Found no NVIDIA driver", "libcuda.so", "libnvidia-ml.so", "module nvidia", "Module nvidia"], "The driver is not installed, not loaded, or not passed into the container (`--gpus all`)."),
    (&["compiled with CUDA enabled"], "This build of libtorch has no CUDA: install one that has."),
    (&["No CUDA GPUs", "No HIP GPUs", "No devices were found", "driver initialization failed", "num_gpus"], "Look at CUDA_VISIBLE_DEVICES and at what nvidia-smi lists."),
    (&["too old", "API mismatch"], "Driver and CUDA libraries do not fit: update the driver (and restart the machine), or install libraries for the older one."),
    (&["HSA_STATUS", "Memory access fault by GPU"], "A kernel read or wrote outside its memory."),
    (&["soft lockup", "self-detected stall", "stalls on CPU", "hard LOCKUP"], "A processor was stuck in the kernel: a driver's defect, failing hardware, or a virtual machine that was not given time."),
    (&["dxgkio_"], "WSL2's driver could not keep memory on the GPU, or has lost the GPU: `wsl --shutdown` in Windows, then start again; if it comes back, update the driver of Windows and WSL's kernel."),
    (&["driver_api.cpp"], "PyTorch could not open libcuda.so.1 or libnvidia-ml.so.1, or a function in them: often while it put an out of memory into words. Pass the driver into the container; under WSL2 put /usr/lib/wsl/lib first on LD_LIBRARY_PATH."),
    (&["llegal instruction", "llegal hardware instruction", "SIGILL", "trap invalid opcode"], "This is the processor, not the GPU: it met an instruction that it does not have (AVX2, AVX-512), or native code jumped to a wrong place. Compare the flags of /proc/cpuinfo with what the build wants."),
    (&["bad_alloc"], ""),
    (&["terminate called", "what():"], "A C++ exception left a destructor or a thread: what stands behind what() is the cause."),
];

/// Words of the task's own errors, and what to do.
#[rustfmt::skip] // One line a case.
const OF_TASKS: [(&[&str], &str); 14] = [
    (&["is out of bounds."], "A label is out of the range of classes: every target must be at least 0 and below the width of the last layer."),
    (&["index out of range in self"], "A token id or a position is not below the size of its embedding: check tokenizer against model, and the sequence length."),
    (&["cannot be multiplied", "size mismatch", "must match the size", "loading state_dict", "shape"], "Two sizes do not fit: compare the model's with those of the data or the checkpoint."),
    (&["on the same device", "and weight type", "device type tensor"], "Model and data are on different devices, or of different types."),
    (&["forked subprocess"], "Start helper processes with `spawn`, or do not touch CUDA before forking."),
    (&["is_available() is False"], "Load with `map_location='cpu'`, or find out why no GPU is seen."),
    (&["not implemented for 'Half'", "not implemented for 'BFloat16'", "bf16", "bfloat16"], "This precision is not available on that device: use another one."),
    (&["CachingAllocator option", "AllocatorConfig", "ALLOC_CONF"], "PYTORCH_CUDA_ALLOC_CONF has a key or value that this version does not know (`expandable_segments:True` with a capital T)."),
    (&["huggingface.co", "Name or service not known", "Max retries exceeded"], "A download was tried and failed: fetch model or data once while the network is there, and name the local path."),
    (&["out of resource: shared memory"], "The kernel wants more of the GPU's shared memory than it has: smaller blocks or fewer stages."),
    (&["undefined symbol", "cannot open shared object", "GLIBC", "compiled with different CUDA"], "Libraries are missing or of different versions: install those that this program was built with."),
    (&["database is locked"], "Another program holds the database: close it or let it finish."),
    (&["No space left", "Errno 28", "os error 28", "quota", "database or disk is full"], "The disk or the quota is full: make room, then start again."),
    (&["inplace operation"], "An operation changed a tensor that the backward pass still needs; anomaly detection names it."),
];

fn of_the_task(line: &str) -> String {
    find_words(&OF_TASKS, line)
}

/// By the line that decided, else by what stands below it.
fn of_message(line: &str, near: &str) -> String {
    let own = find_words(WORDS, line);
    if own.is_empty() {
        find_words(WORDS, near)
    } else {
        own
    }
}

fn find_words(table: &[(&[&str], &str)], near: &str) -> String {
    table
        .iter()
        .find(|(needles, _)| needles.iter().any(|n| near.contains(n)))
        .map_or_else(String::new, |(_, advice)| (*advice).to_owned())
}

/// Where the memory went, by the figures.
fn of_memory(memory: Option<&Memory>, near: &str) -> String {
    if near.contains("NVML_SUCCESS") {
        return "The GPU was full, and NVML, asked about it, failed: check that nvidia-smi works."
            .into();
    }
    let Some(memory) = memory else {
        return String::new();
    };
    let mut out = Vec::new();
    if let Some(tried) = memory.tried {
        let free = memory
            .free
            .map_or_else(String::new, |f| format!(", {} were free", size(f)));
        let total = memory
            .total
            .map_or_else(String::new, |t| format!(" of {}", size(t)));
        out.push(format!("{} were asked for{free}{total}.", size(tried)));
    }
    let unused = memory.reserved_unallocated.unwrap_or(0);
    if unused > memory.tried.unwrap_or(u64::MAX) {
        out.push(format!(
            "{} are reserved but unused: fragmentation; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` helps.",
            size(unused)
        ));
    }
    if let (Some(total), Some(free), Some(allocated)) =
        (memory.total, memory.free, memory.allocated)
    {
        let others = total.saturating_sub(free + allocated + unused);
        if others > total / 5 {
            out.push(format!(
                "Some {} belong to other processes and to contexts: nvidia-smi shows whose.",
                size(others)
            ));
        }
    }
    out.join(" ")
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    units
        .iter()
        .find(|(_, shift)| bytes >= 1 << shift)
        .map_or_else(
            || format!("{bytes} bytes"),
            |(unit, shift)| format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda;

    #[test]
    fn every_advice_on_a_code_belongs_to_an_error() {
        for code in 0..1000 {
            let known = cuda::ERRORS.iter().any(|e| e.code == code);
            assert!(known || of_code(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn fragmentation_and_foreign_processes_are_told_from_the_figures() {
        let gib = 1 << 30;
        let memory = Memory {
            tried: Some(gib),
            total: Some(24 * gib),
            free: Some(gib / 2),
            allocated: Some(8 * gib),
            reserved_unallocated: Some(3 * gib),
        };
        let text = of_memory(Some(&memory), "");
        assert!(text.contains("3.00 GiB are reserved but unused"), "{text}");
        assert!(
            text.contains("12.50 GiB belong to other processes"),
            "{text}"
        );
    }

    #[test]
    fn the_processor_the_gpu_and_windows_are_told_apart() {
        let advice = |text: &str| crate::explain(text).advice;
        assert!(advice("Illegal instruction (core dumped)").starts_with("This is the processor"));
        let gpu = "RuntimeError: CUDA error: an illegal instruction was encountered";
        assert!(advice(gpu).starts_with("This is the GPU"));
        let lost = "RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at \"a.cpp\":5";
        assert!(!advice(lost).contains("WSL2"));
        let after = format!("RuntimeError: CUDA driver error: device not ready\n{lost}");
        assert!(advice(&after).contains("TdrDelay"));
    }
}
