//! Causes of failures: how common each is, what signs it shows, and what ends it.
//!
//! The order of frequency follows what is reported of failed jobs (Zhang et al., An Empirical Study on Program Failures
//! of Deep Learning Jobs, ICSE 2020: about half are the platform's, not the model's) and a count of threads; the figures
//! are estimates, whose calibration docs/doctor.md shows.

use serde::Serialize;
use strum::Display;

use self::Tells::{Line, Operation, Rows};
use crate::change::Change as C;
use crate::signs::Sign as S;

/// What was found of a failure that is told with its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// The line of code that failed, and the error's own words: they say more than the cause alone.
    Line,
    /// The last operation, and the kernel that compute-sanitizer has named.
    Operation,
    /// The rows that alone make it fail.
    Rows,
}

messages::table! {
    /// A cause.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display, Hash)]
    #[serde(rename_all = "snake_case")]
    #[strum(serialize_all = "snake_case")]
    pub enum Cause;

    /// What is known of a cause.
    #[derive(Debug, Clone, Copy)]
    pub struct Profile {
        /// How common it is, relative to the others.
        pub weight: f64,
        /// What it is, in one sentence that goes on from "the cause is probably:".
        pub what: &'static str,
        /// What is told with it, where it was found.
        pub tells: &'static [Tells],
        /// Signs that it shows, each with how often it does, in 0 to 1. Others it shows as often as any cause.
        pub shows: &'static [(S, f64)],
        /// Changes that end the failure, each with how often they do, in 0 to 1. Others end it hardly ever.
        pub ends: &'static [(C, f64)],
        /// What to do.
        pub remedy: &'static str,
    }

    NonFiniteInput(6.0, "rows of the data have NaN or infinite values", &[Rows],
        &[(S::OwnRaise, 0.5), (S::NoBatch, 0.1), (S::Wanders, 0.01), (S::NotFiniteRows, 0.98), (S::NotFiniteText, 0.7), (S::Exception, 0.9)],
        &[(C::DropLast, 0.05), (C::Synthetic, 0.95)],
        "Leave the rows out, or fill the values in; check the step that made them.");
    LabelOutOfRange(7.0, "a label lies outside of the classes", &[Rows],
        &[(S::Various, 0.01), (S::Wanders, 0.15), (S::OwnRaise, 0.06), (S::NoBatch, 0.1), (S::LabelText, 0.85), (S::LossFrames, 0.85), (S::IndexText, 0.15), (S::CudaAssert, 0.3), (S::Exception, 0.95)],
        &[(C::Workers0, 0.001), (C::Seed, 0.001), (C::DropLast, 0.05), (C::Synthetic, 0.95)],
        "Compare the labels of the rows with the number of outputs of the last layer.");
    IndexOutOfRange(5.0, "an index lies outside of a table, such as a token id beyond the vocabulary", &[Rows],
        &[(S::Various, 0.01), (S::Wanders, 0.1), (S::OwnRaise, 0.03), (S::NoBatch, 0.1), (S::IndexText, 0.9), (S::EmbeddingFrames, 0.75), (S::CudaAssert, 0.3), (S::Exception, 0.95)],
        &[(C::Workers0, 0.001), (C::Seed, 0.001), (C::DropLast, 0.05), (C::Synthetic, 0.95), (C::OneRow, 0.05)],
        "Compare the greatest index with the size of the table: tokenizer and model may not belong together.");
    BadRow(6.0, "the program cannot digest one row of the data", &[Rows],
        &[(S::OwnRaise, 0.2), (S::NoBatch, 0.1), (S::Wanders, 0.01), (S::RowFrames, 0.5), (S::NativeCrash, 0.3), (S::NotFiniteText, 0.25), (S::NotFiniteModule, 0.25), (S::NotFiniteGradient, 0.35), (S::ShapeText, 0.05), (S::Exception, 0.7)],
        &[(C::DropLast, 0.05), (C::Synthetic, 0.3), (C::Seed, 0.1)],
        "Look at the row that is named, and leave it out.");
    ShapeMismatch(6.0, "shapes do not fit", &[Line],
        &[(S::OutOfMemory, 0.003), (S::OwnRaise, 0.03), (S::Wanders, 0.02), (S::ShapeText, 0.92), (S::LossFrames, 0.5), (S::Exception, 0.97)],
        &[(C::Seed, 0.001), (C::OneRow, 0.1), (C::HalfBatch, 0.05)],
        "Print the shapes before the line that is named; a last batch may be smaller than the others.");
    SilentError(3.0, "the program goes on with a mistake that raises no error where it is made", &[],
        &[(S::NoBatch, 0.01), (S::Wanders, 0.5), (S::SilentError, 0.97), (S::OwnRaise, 0.4), (S::OwnExit, 0.4), (S::NotFiniteText, 0.1), (S::Exception, 0.5)],
        &[(C::Seed, 0.03), (C::OneRow, 0.1)],
        "Compare the shapes of results and targets before the loss, and look at what the optimizer is given.");
    TypeMismatch(5.0, "types or devices of tensors do not belong together", &[Line],
        &[(S::Flaky, 0.02), (S::OutOfMemory, 0.003), (S::Wanders, 0.05), (S::OwnRaise, 0.02), (S::TypeText, 0.93), (S::ShapeText, 0.2), (S::LossFrames, 0.2), (S::Exception, 0.97)],
        &[(C::Fp32, 0.4), (C::Cpu, 0.15)],
        "Print dtype and device before the line that is named; .to(other) makes them alike.");
    TextForNumber(3.0, "a text, or nothing, stands where a number is meant, such as 1e-5 of a configuration file", &[Line],
        &[(S::Flaky, 0.02), (S::OutOfMemory, 0.003), (S::Wanders, 0.05), (S::OwnRaise, 0.02), (S::TextForNumberText, 0.95), (S::Exception, 0.98), (S::NoBatch, 0.4)],
        &[(C::CleanEnvironment, 0.05)],
        "Print repr() of both values. YAML reads 1e-5 as text (write 1.0e-5); variables of the environment, options without a type and cells of a CSV are texts: float(...).");
    CheckpointMismatch(4.0, "the weights are not those of this model", &[Line],
        &[(S::Flaky, 0.02), (S::OwnRaise, 0.04), (S::StateDictText, 0.95), (S::ShapeText, 0.4), (S::Exception, 0.97), (S::NoBatch, 0.9)],
        &[(C::NoLeftovers, 0.4)],
        "Build the model with the options that it was saved with, or load the checkpoint that belongs to it.");
    BrokenFile(3.0, "a file is broken, or of another kind than it should be", &[Line],
        &[(S::Various, 0.1), (S::OwnRaise, 0.05), (S::BrokenFileText, 0.85), (S::BusError, 0.25), (S::Exception, 0.9), (S::NoBatch, 0.7)],
        &[(C::NoLeftovers, 0.3)],
        "Fetch or write that file anew. Half of it is there where writing was interrupted, or where another thread or process is writing it just then: write it under another name, then os.replace().");
    AddressInUse(2.0, "a port is in use: by another program, or by an earlier run that is still there", &[Line],
        &[(S::AddressText, 0.97), (S::GroupFrames, 0.4), (S::RendezvousFrames, 0.4), (S::Exception, 0.9), (S::NoBatch, 0.95)], &[],
        "Find who listens there (ss -ltnp), end it, or choose another port (MASTER_PORT).");
    UnequalRanks(1.5, "the processes of a group do not make the same steps: one has fewer batches, or calls another collective operation", &[Line],
        &[(S::Various, 0.3), (S::OwnRaise, 0.02), (S::GroupFrames, 0.9), (S::Hang, 0.4), (S::WaitText, 0.2), (S::ShapeText, 0.3), (S::NativeCrash, 0.3), (S::Exception, 0.6), (S::NoBatch, 0.15)], &[],
        "Give each process as many batches (DistributedSampler, drop_last=True, or model.join()), and call collective operations in the same order in all; TORCH_DISTRIBUTED_DEBUG=DETAIL names them.");
    MissingRank(1.5, "a process of the group never came: fewer were started than its world size says", &[Line],
        &[(S::OwnRaise, 0.02), (S::GroupFrames, 0.95), (S::RendezvousFrames, 0.95), (S::Hang, 0.7), (S::WaitText, 0.3), (S::Exception, 0.3), (S::NoBatch, 0.97)],
        &[(C::CleanEnvironment, 0.6)],
        "Start as many processes as WORLD_SIZE says (torchrun, srun), or unset the variable that says so (WORLD_SIZE, SLURM_NTASKS).");
    EmptyData(4.0, "there is no data: a folder, a pattern or a filter finds nothing", &[Line],
        &[(S::Flaky, 0.01), (S::OwnRaise, 0.25), (S::EmptyText, 0.95), (S::Exception, 0.97), (S::NoBatch, 0.8)], &[(C::Seed, 0.003)],
        "Print how many files and rows there are and where they are looked for: paths are relative to the working directory.");
    NoDevice(4.0, "it asks for a GPU that is not there", &[Line],
        &[(S::NoDeviceText, 0.97), (S::Exception, 0.97), (S::NoBatch, 0.9)],
        &[(C::Cpu, 0.15)],
        "Load with map_location='cpu', choose the device by torch.cuda.is_available(), and compare CUDA_VISIBLE_DEVICES with nvidia-smi.");
    NeedsInput(1.5, "it asks a question, and nobody is there to answer", &[Line],
        &[(S::InputText, 0.97), (S::Exception, 0.95), (S::NoBatch, 0.9)], &[],
        "Give the answer beforehand, by an option or a variable (WANDB_MODE=offline, for one); doctor gives no input.");
    AutogradGraph(4.0, "the graph of gradients: a tensor changed in place, a graph used twice, none at all, or a tensor made in inference mode", &[Line],
        &[(S::OwnRaise, 0.02), (S::GraphText, 0.96), (S::Exception, 0.97), (S::Backward, 0.6)], &[],
        "x = x + 1 in place of x += 1, one backward() a forward pass, optimizer.step() only after every backward() that needs the weights as they were, no .detach() or no_grad() on the way, a parameter that is not frozen (requires_grad), no_grad() in place of inference_mode() for what is used in training; torch.autograd.set_detect_anomaly(True) names the operation.");
    NotPicklable(4.0, "something cannot be sent to another process: a lambda, an open file, or a program without `if __name__ == \"__main__\"`", &[Line],
        &[(S::OwnRaise, 0.02), (S::PickleText, 0.95), (S::LoaderWorkers, 0.8), (S::Exception, 0.97), (S::NoBatch, 0.7)],
        &[(C::Workers0, 0.85)],
        "Use functions and classes of a module's top level, open files in the process that reads them, and start the program below `if __name__ == \"__main__\":`.");
    UntrustedCheckpoint(3.0, "the checkpoint holds more than tensors, which torch.load refuses since version 2.6", &[Line],
        &[(S::UntrustedText, 0.97), (S::BrokenFileText, 0.7), (S::Exception, 0.97), (S::NoBatch, 0.9)], &[],
        "Save state_dict() alone, allow the class that is named (torch.serialization.add_safe_globals), or, of a file of your own, weights_only=False.");
    Locked(2.0, "another process holds a lock: of a database, a file or a cache", &[Line],
        &[(S::LockedText, 0.95), (S::Exception, 0.9), (S::NoBatch, 0.8)],
        &[(C::NoLeftovers, 0.4)],
        "Find who has it open (fuser, lsof), end what an earlier run has left, and keep SQLite off network file systems.");
    LeftBehind(2.0, "something of an earlier run is in the way, such as an old or half-written cache or checkpoint", &[Line],
        &[(S::ExistsText, 0.5), (S::ReadsLeftovers, 0.9), (S::IndexText, 0.1), (S::ShapeText, 0.15), (S::OwnRaise, 0.2), (S::Exception, 0.9), (S::NoBatch, 0.5)],
        &[(C::NoLeftovers, 0.95)],
        "Delete it, make it anew, give each run a directory of its own, or os.makedirs(path, exist_ok=True).");
    /// Of one that is restored, the steps are those of the earlier run.
    ScheduleEnds(1.5, "the schedule of learning rates is made for fewer steps than the training makes", &[Line],
        &[(S::ScheduleText, 0.97), (S::ReadsLeftovers, 0.4), (S::Exception, 0.99), (S::NoBatch, 0.1)], &[(C::NoLeftovers, 0.4)],
        "Give the scheduler the steps that are made, epochs times batches divided by accumulation. load_state_dict() brings those of the earlier run back: go on with as many epochs, or make a new schedule.");
    UnsetVariable(2.0, "a variable of the environment is not set", &[Line],
        &[(S::UnsetText, 0.95), (S::GroupFrames, 0.3), (S::RendezvousFrames, 0.3), (S::Exception, 0.97), (S::NoBatch, 0.9)], &[],
        "Set the variable that is named; for several processes torchrun sets RANK, WORLD_SIZE and MASTER_ADDR.");
    /// A limit of time, of the processor or of the clock.
    TimeLimit(1.5, "a limit of time ends it", &[],
        &[(S::ProcessorTime, 0.6), (S::OwnTimer, 0.6), (S::OwnRaise, 0.3), (S::WaitText, 0.05), (S::TimeText, 0.3), (S::Killed, 0.5)],
        &[(C::OneRow, 0.05)],
        "Raise the limit (timeout, ulimit -t, or the batch system's), or save checkpoints and go on from them; take a timer of the program's own back, signal.alarm(0), once what it is for is done.");
    SocketPath(1.5, "the path of a socket is too long: that of TMPDIR, or of a folder that is named", &[],
        &[(S::SocketPathText, 0.97), (S::Hang, 0.5), (S::LoaderWorkers, 0.7)],
        &[(C::Workers0, 0.6), (C::CleanEnvironment, 0.5)],
        "Set TMPDIR to a short path such as /tmp: a socket's path may have 107 bytes, and processes send each other tensors by sockets in TMPDIR.");
    ClosedPipe(2.0, "it writes to a program that has ended: one that it has started, or one that reads what it prints", &[],
        &[(S::PipeText, 0.97), (S::Exception, 0.5), (S::OwnExit, 0.1)], &[],
        "Look why the reader ends (its status, and its own error output), and wait for it before the end. By itself Python makes an exception of it, BrokenPipeError, with a line; signal(SIGPIPE, SIG_DFL) makes it a silent end.");
    CutMapping(1.5, "a file is cut short, or written anew, while it is mapped into memory", &[],
        &[(S::BusError, 0.97), (S::MappedFileCut, 0.95), (S::RowFrames, 0.3)], &[],
        "Write the new file under another name, then os.replace(): who has the old one mapped keeps it; look for what writes it during the run.");
    UntypedCall(1.5, "a function of a library is called by ctypes with arguments of other types than it takes", &[Line],
        &[(S::NativeCrash, 0.97), (S::UntypedCall, 0.95), (S::Flaky, 0.3)], &[],
        "Set the function's argtypes and restype (c_void_p for pointers, c_size_t for sizes): else ctypes passes and returns integers of 32 bits, which cuts pointers.");
    Recomputation(1.5, "a part of the network that is computed again for the backward pass does not compute the same (torch.utils.checkpoint)", &[Line],
        &[(S::RecomputedText, 0.97), (S::Backward, 0.9), (S::Exception, 0.97), (S::Flaky, 0.3)],
        &[(C::Seed, 0.1)],
        "Draw random numbers with torch inside that part, not with random or numpy, whose state is not brought back; let it depend on nothing that changes in between (a counter, a cache); or compute it once, without checkpoint().");
    Usage(4.0, "the arguments: one is missing, unknown or of another kind", &[],
        &[(S::UsageText, 0.95), (S::OwnExit, 0.85), (S::NoBatch, 0.95)], &[],
        "Compare the command with what its --help says.");
    ResourceLimit(2.0, "a limit of the system: on threads, processes, memory that is locked or sizes of files", &[Line],
        &[(S::LimitText, 0.95), (S::Exception, 0.8)],
        &[(C::Workers0, 0.2), (C::OneThread, 0.2)],
        "Look at `ulimit -a` and the container's limits (pids.max), and raise the one that is named.");
    BadValue(4.0, "a value in a file or an option does not have the form that the program expects", &[Line],
        &[(S::OwnRaise, 0.06), (S::ValueText, 0.9), (S::Exception, 0.97), (S::RowFrames, 0.3)],
        &[(C::Synthetic, 0.1)],
        "Look at the value that the message names, and at the row and column that it is from.");
    HotCard(1.0, "the card fails once it is hot", &[],
        &[(S::Hot, 0.95), (S::Cuda, 0.95), (S::CudaIllegalInstruction, 0.4), (S::CudaAddress, 0.3)],
        &[(C::Cpu, 0.9)],
        "Look at fans, dust and airflow; lower the power cap (nvidia-smi --power-limit, as root), take back overclocking; if it fails all the same, replace the card.");
    Diverged(4.0, "the network makes NaN or infinity of finite numbers", &[],
        &[(S::OwnRaise, 0.5), (S::NotFiniteText, 0.85), (S::NotFiniteModule, 0.5), (S::NotFiniteGradient, 0.1), (S::NotFiniteWeights, 0.4), (S::CudaAssert, 0.1), (S::Exception, 0.9)],
        &[(C::Seed, 0.15), (C::Synthetic, 0.2), (C::OneRow, 0.1), (C::Fp32, 0.1)],
        "Lower the learning rate, clip gradients, and use losses on logits in place of logarithms and sigmoids.");
    HalfOverflow(3.0, "16-bit floats overflow", &[],
        &[(S::OwnRaise, 0.4), (S::Half, 0.97), (S::NotFiniteText, 0.75), (S::NotFiniteModule, 0.5), (S::NotFiniteGradient, 0.3), (S::Exception, 0.9)],
        &[(C::Fp32, 0.95), (C::Bf16, 0.85), (C::Synthetic, 0.2)],
        "Use bfloat16, or compute the step that overflows with 32 bits; sigmoid(x) in place of 1 / (1 + exp(-x)).");
    /// Native code of an operation or a module.
    NativeCode(4.0, "native code crashes", &[Line, Operation],
        &[(S::NativeCrash, 0.9), (S::BusError, 0.04), (S::Backward, 0.4), (S::Exception, 0.05)],
        &[(C::OneThread, 0.08), (C::Synthetic, 0.1), (C::HalfBatch, 0.05), (C::Cpu, 0.1)],
        "Look at what the line that is named calls: rebuild or update the extension, or try another version of the library.");
    OnednnKernel(1.2, "a kernel of oneDNN, by which PyTorch computes on the CPU", &[Operation],
        &[(S::NativeCrash, 0.85), (S::Backward, 0.5), (S::OperationOfCudnn, 0.8), (S::Hang, 0.1), (S::Exception, 0.05)],
        &[(C::OnednnOff, 0.95), (C::OneThread, 0.1), (C::HalfBatch, 0.1), (C::OneRow, 0.15)],
        "Update PyTorch and report the operation with its shapes. Until then: ONEDNN_MAX_CPU_ISA=SSE41, torch.backends.mkldnn.set_flags(False) around that operation, or another number of channels.");
    LoaderWorker(7.0, "the processes of a loader", &[],
        &[(S::Various, 0.12), (S::OwnRaise, 0.05), (S::OutOfMemory, 0.003), (S::SharedMemory, 0.003), (S::Descriptors, 0.003), (S::PickleText, 0.003), (S::LabelText, 0.12), (S::IndexText, 0.12), (S::LossFrames, 0.1), (S::BrokenFileText, 0.03), (S::ShapeText, 0.03), (S::ValueText, 0.01), (S::NoFile, 0.003), (S::LoaderWorkers, 0.99), (S::LoaderWorkerDied, 0.6), (S::Hang, 0.4), (S::Flaky, 0.2)],
        &[(C::Workers0, 0.95), (C::Spawn, 0.3), (C::Synthetic, 0.2), (C::HalfBatch, 0.1), (C::OneRow, 0.15)],
        "Load without processes, or look for what the data set shares between them: an open file has one position for all of them (open it in the process that reads it), locks, global state.");
    ForkAfterThreads(2.5, "a process that has threads is forked, and a lock stays locked in the child", &[],
        &[(S::Various, 0.1), (S::ForkWithThreads, 0.97), (S::Hang, 0.85), (S::LoaderWorkers, 0.5)],
        &[(C::Workers0, 0.85), (C::Spawn, 0.9), (C::OtherThreads, 0.5), (C::OneThread, 0.4)],
        "Start children by spawn or forkserver, or before the threads.");
    ForkAfterCuda(1.0, "CUDA is used in a forked process", &[],
        &[(S::CudaInFork, 0.95), (S::LoaderWorkers, 0.8)],
        &[(C::Workers0, 0.9), (C::Spawn, 0.9), (C::Cpu, 0.5)],
        "Do not touch the GPU before the fork, or start children by spawn.");
    SharedMemory(4.0, "shared memory is too small for the loaders", &[],
        &[(S::OwnRaise, 0.01), (S::SharedMemory, 0.9), (S::BusError, 0.7), (S::LoaderWorkers, 0.97), (S::LoaderWorkerDied, 0.7)],
        &[(C::Workers0, 0.95), (C::HalfBatch, 0.3), (C::OneRow, 0.6)],
        "Start the container with --shm-size=8g (or --ipc=host), or lower the number of workers.");
    ShadowedModule(2.0, "a file bears the name of a module of Python's and is imported in its place", &[],
        &[(S::HidesStdlib, 0.97), (S::Exception, 0.95), (S::InImport, 0.5), (S::NoModule, 0.3)], &[],
        "Rename the file that is named, or take its directory out of PYTHONPATH.");
    ShadowedLibrary(2.5, "a library is loaded in place of another one of that name", &[],
        &[(S::LibraryPathSet, 0.95), (S::SymbolText, 0.7), (S::InImport, 0.4)],
        &[(C::LibraryPath, 0.93), (C::CleanEnvironment, 0.2)],
        "Take the directory of that library out of LD_LIBRARY_PATH, or out of LD_PRELOAD.");
    LibraryMismatch(3.0, "libraries do not belong together", &[Line],
        &[(S::OwnRaise, 0.04), (S::SymbolText, 0.5), (S::ApiText, 0.55), (S::InImport, 0.4), (S::Exception, 0.9)],
        &[(C::LibraryPath, 0.1)],
        "Use the version that the program was written for (its requirements.txt), or what has replaced the name; reinstall the package that is named for this version of Python, torch and NumPy.");
    /// Too little for one batch.
    HostMemory(4.0, "host memory does not suffice", &[],
        &[(S::OwnRaise, 0.01), (S::LoaderWorkerDied, 0.15), (S::Hang, 0.06), (S::OutOfMemory, 0.8), (S::OomKilled, 0.25), (S::Killed, 0.3)],
        &[(C::HalfBatch, 0.4), (C::OneRow, 0.7), (C::Workers0, 0.25)],
        "Raise the limit, or lower the batch size and the number of loader workers.");
    Leak(2.5, "memory grows from batch to batch: a leak", &[],
        &[(S::NoBatch, 0.1), (S::MemoryGrows, 0.95), (S::OutOfMemory, 0.6), (S::OomKilled, 0.4), (S::Killed, 0.4)],
        &[(C::Synthetic, 0.05)],
        "Look for what keeps tensors: losses that are summed without .item() or .detach(), lists that grow.");
    GpuMemory(5.0, "GPU memory does not suffice", &[],
        &[(S::OwnRaise, 0.02), (S::OutOfGpuMemory, 0.97), (S::Cuda, 0.5), (S::Exception, 0.9)],
        &[(C::HalfBatch, 0.6), (C::OneRow, 0.85), (C::Cpu, 0.8)],
        "Lower the batch size and raise accumulation, or shorten the sequences.");
    BatchSize(2.0, "it fails at this size of batch", &[],
        &[(S::Wanders, 0.01), (S::NoBatch, 0.03), (S::Exception, 0.5), (S::NativeCrash, 0.3)],
        &[(C::HalfBatch, 0.93), (C::OneRow, 0.9)],
        "Use another batch size; look for code that assumes one.");
    LastBatch(2.0, "the last batch, which is smaller than the others", &[Line],
        &[(S::SmallerBatch, 0.97), (S::ShapeText, 0.35), (S::OwnRaise, 0.1), (S::Exception, 0.9)],
        &[(C::DropLast, 0.95), (C::HalfBatch, 0.2), (C::OneRow, 0.2)],
        "DataLoader(drop_last=True), or code that takes any number of rows: .squeeze(1) in place of .squeeze(), no batch norm over one row, sizes from the tensor and not from the options.");
    /// An option of the command, or several together.
    Options(2.5, "the options that are named", &[],
        &[(S::Exception, 0.6)],
        &[(C::HalfBatch, 0.2), (C::OneRow, 0.2)],
        "Use other values of these options, or report them together.");
    Environment(2.0, "a variable of the environment", &[],
        &[(S::NotFiniteRows, 0.2), (S::NotFiniteText, 0.25), (S::Exception, 0.5)],
        &[(C::CleanEnvironment, 0.95)],
        "Unset the variable that is named.");
    SeedDependent(4.0, "random numbers: some seeds fail", &[],
        &[(S::OwnRaise, 0.25), (S::Flaky, 0.35), (S::Wanders, 0.1), (S::NoFile, 0.12), (S::LabelText, 0.12), (S::IndexText, 0.12), (S::ShapeText, 0.12), (S::EmptyText, 0.1), (S::LossFrames, 0.12)],
        &[(C::Seed, 0.7), (C::Synthetic, 0.2)],
        "Fix the seed to find the case, then mend the case: it comes back with another seed.");
    /// Whatever the seed.
    RandomDraws(2.0, "random numbers that the program draws, as in an augmentation or a sample: some draws are what it cannot digest", &[],
        &[(S::Various, 0.1), (S::Wanders, 0.95), (S::OwnRaise, 0.25), (S::RowFrames, 0.5), (S::ShapeText, 0.1), (S::EmptyText, 0.05), (S::Flaky, 0.2), (S::Exception, 0.9)],
        &[(C::Seed, 0.25), (C::OneRow, 0.2), (C::Synthetic, 0.1)],
        "Look at the least and the greatest value that the draw can have: sizes, offsets and counts at the edges.");
    ClockDependent(2.0, "the clock: it fails at some times", &[],
        &[(S::OwnRaise, 0.3), (S::Flaky, 0.4), (S::ExistsText, 0.2), (S::StampText, 0.2), (S::LabelText, 0.12), (S::IndexText, 0.12), (S::ShapeText, 0.1), (S::EmptyText, 0.1), (S::EmbeddingFrames, 0.12), (S::LossFrames, 0.1), (S::Exception, 0.7)],
        &[(C::Clock, 0.8), (C::Synthetic, 0.3)],
        "Look for dates, times of day, and seeds or names that are made of the time: two in the same second are the same (tempfile.mkdtemp gives a name of its own).");
    HashOrder(1.0, "the order of sets: Python's hash seed differs from run to run", &[],
        &[(S::Flaky, 0.85)],
        &[(C::HashSeed, 0.5), (C::Workers0, 0.25)],
        "Sort what comes out of sets; PYTHONHASHSEED=0 makes runs repeat.");
    ImportSideEffect(3.0, "an import changes what is not its own", &[],
        &[(S::ImportEffect, 0.95), (S::TypeText, 0.2), (S::Exception, 0.6)],
        &[(C::ImportEffects, 0.93)],
        "Set back what the module that is named changes, or import it elsewhere.");
    ThirdPartyThread(2.0, "a thread that another module starts", &[],
        &[(S::Various, 0.25), (S::OtherThreads, 0.97), (S::Hang, 0.3), (S::NativeCrash, 0.3)],
        &[(C::OtherThreads, 0.95), (C::CleanEnvironment, 0.1)],
        "Switch that module off (WANDB_MODE=offline, for one), or update it.");
    Locale(1.5, "the locale or the encoding", &[],
        &[(S::LocaleText, 0.85), (S::LocaleSet, 0.85), (S::Exception, 0.9)],
        &[(C::Locale, 0.95), (C::CleanEnvironment, 0.3)],
        "LC_ALL=C.UTF-8, or open files with encoding='utf-8'.");
    DiskFull(3.0, "a disk is full", &[],
        &[(S::OwnRaise, 0.04), (S::DiskFull, 0.95), (S::Exception, 0.8)], &[],
        "Free space on the file system of the file that is named; checkpoints fill disks.");
    Descriptors(2.0, "no file descriptor is left", &[],
        &[(S::OwnRaise, 0.03), (S::Descriptors, 0.95), (S::LoaderWorkers, 0.5)],
        &[(C::Workers0, 0.5)],
        "Raise `ulimit -n`, close files, or torch.multiprocessing.set_sharing_strategy('file_system').");
    MissingFile(4.0, "a file or module is missing, or not permitted", &[],
        &[(S::Flaky, 0.02), (S::NoFile, 0.6), (S::NoModule, 0.4), (S::Permission, 0.2), (S::DanglingLink, 0.2), (S::Exception, 0.9)], &[],
        "Mend the path, install the package, or give the permission that the message names.");
    Network(2.0, "the network does not answer", &[],
        &[(S::NetworkText, 0.95), (S::WaitText, 0.2), (S::Exception, 0.9)],
        &[(C::OtherThreads, 0.15)],
        "Fetch models and data beforehand (HF_HUB_OFFLINE=1), or set the proxy.");
    ArithmeticThreads(1.5, "threads of the arithmetic libraries", &[],
        &[(S::Various, 0.1), (S::Exception, 0.2), (S::OpenMpText, 0.6), (S::NativeCrash, 0.4), (S::Hang, 0.3)],
        &[(C::OneThread, 0.93), (C::CleanEnvironment, 0.1)],
        "OMP_NUM_THREADS=1, or one OpenMP library in the process in place of two.");
    Deadlock(3.0, "the program waits for something that never comes", &[Line],
        &[(S::Hang, 0.6), (S::Loops, 0.01), (S::WaitText, 0.35)],
        &[(C::OneThread, 0.05)],
        "Read the stacks in the bundle (--bundle FILE): they say what each thread waits for.");
    CrossedLocks(2.0, "threads wait for each other: each holds a lock that another one waits for, or a lock is taken twice", &[],
        &[(S::Hang, 0.97), (S::CrossedLocks, 0.95)],
        &[(C::OneRow, 0.1), (C::Synthetic, 0.2), (C::OtherThreads, 0.3)],
        "Take locks in the same order in all threads, and call nothing that takes a lock while another one is held; threading.RLock may be taken twice by one thread.");
    ChangedWhileIterated(1.5, "a dictionary, set or queue is changed while it is gone through, by the loop itself or by another thread", &[Line],
        &[(S::IterationText, 0.97), (S::Exception, 0.97), (S::Flaky, 0.5)],
        &[(C::OtherThreads, 0.1), (C::Workers0, 0.1), (C::OneThread, 0.1)],
        "Go through a copy: list(d.items()); where another thread writes to it, hold the same lock in both places.");
    CopiedGraph(1.0, "a tensor that gradients go through is kept, in a module for one, and copied with it", &[Line],
        &[(S::CopyText, 0.97), (S::Exception, 0.97)], &[],
        "Keep it detached (self.weights = w.detach()), set it to None before copy.deepcopy(), or copy state_dict() in the place of the module.");
    UnreadOutput(2.0, "a program that it has started waits for somebody to read what it writes: the pipe is full", &[],
        &[(S::Hang, 0.97), (S::Unread, 0.95)],
        &[(C::OneRow, 0.1), (C::Synthetic, 0.2)],
        "Read that pipe in a thread (or with communicate()), or give the program none there: stderr=None, or subprocess.DEVNULL. Take what a queue holds, queue.get(), before join().");
    EndlessLoop(3.0, "a loop that does not end", &[Line],
        &[(S::Hang, 0.97), (S::Loops, 0.95)],
        &[(C::Synthetic, 0.3), (C::Seed, 0.15), (C::HalfBatch, 0.1), (C::OneRow, 0.1)],
        "Look at the loop around the line that is named: what it waits for may never be so for these data, as a sample that has to find what is not there. What is merely slow needs a larger --budget.");
    Recursion(2.0, "the recursion is too deep", &[Line],
        &[(S::Recursion, 0.75), (S::NativeCrash, 0.4)],
        &[(C::Stack, 0.5)],
        "Look for a function that calls itself without end, or a very deep structure that is pickled or parsed; a thread has the stack that threading.stack_size() gives it.");
    ProcessorInstructions(2.0, "a library needs instructions that this processor lacks", &[],
        &[(S::IllegalInstruction, 0.97)], &[],
        "Install a build for this processor, or a machine that has AVX2; this is not the GPU's illegal instruction (715).");
    Tf32Kernel(1.2, "a kernel with TF32", &[Operation],
        &[(S::Cuda, 0.95), (S::CudaIllegalInstruction, 0.5), (S::CudaAddress, 0.3), (S::Backward, 0.5), (S::OperationWithTf32, 0.8), (S::OperationOfCudnn, 0.4)],
        &[(C::Tf32Off, 0.93), (C::Cpu, 0.95), (C::OperationOnCpu, 0.9), (C::CudnnOff, 0.4)],
        "Switch TF32 off, or update cuDNN and the driver; report the kernel.");
    CudnnKernel(1.8, "a kernel of cuDNN", &[Operation],
        &[(S::Cuda, 0.95), (S::CudaIllegalInstruction, 0.4), (S::CudaAddress, 0.3), (S::Backward, 0.5), (S::OperationOfCudnn, 0.8), (S::OperationWithTf32, 0.6)],
        &[(C::CudnnOff, 0.95), (C::Cpu, 0.95), (C::OperationOnCpu, 0.9), (C::Tf32Off, 0.3), (C::Deterministic, 0.3), (C::Fp32, 0.3)],
        "Switch cuDNN off for this layer, choose deterministic algorithms, or update cuDNN.");
    /// A kernel of the GPU, with any precision and library.
    GpuKernel(1.2, "a kernel of the operation that is named", &[Operation],
        &[(S::Cuda, 0.95), (S::CudaIllegalInstruction, 0.4), (S::CudaAddress, 0.3), (S::Backward, 0.4), (S::OperationOfCudnn, 0.2), (S::OperationWithTf32, 0.2)],
        &[(C::OperationOnCpu, 0.92), (C::Cpu, 0.95), (C::HalfBatch, 0.1), (C::Fp32, 0.2)],
        "Compute that operation on the CPU until the library is updated; report it with its shapes.");
    GpuOutOfBounds(1.5, "a kernel reads or writes beyond a tensor", &[Operation],
        &[(S::Various, 0.2), (S::Cuda, 0.9), (S::CudaAddress, 0.7), (S::Flaky, 0.5)],
        &[(C::Cpu, 0.8), (C::OperationOnCpu, 0.4), (C::Synthetic, 0.3)],
        "compute-sanitizer names the kernel; look at hand-written kernels and extensions first.");
    NondeterministicKernel(0.7, "an algorithm whose result differs from run to run", &[],
        &[(S::Flaky, 0.8)],
        &[(C::Deterministic, 0.9), (C::OneThread, 0.3)],
        "torch.use_deterministic_algorithms(True).");
    UnstableHardware(1.5, "unstable hardware: clocks, power, temperature or memory", &[],
        &[(S::Various, 0.3), (S::Flaky, 0.85), (S::CudaIllegalInstruction, 0.4), (S::Cuda, 0.7), (S::GpuLost, 0.2), (S::CudaAddress, 0.2)],
        &[(C::Cpu, 0.8), (C::Blocking, 0.15)],
        "Set clocks and power to the defaults, look at temperatures and the kernel log, test the memory.");
    CudaInstallation(3.0, "driver, CUDA's libraries and the card do not fit", &[],
        &[(S::CudaInstallation, 0.95), (S::Cuda, 0.6)],
        &[(C::Cpu, 0.8), (C::LibraryPath, 0.3)],
        "Compare the three versions that `tune doctor` prints; after an update of the driver, restart.");
    GpuLost(1.0, "the GPU is lost", &[],
        &[(S::GpuLost, 0.9), (S::Cuda, 0.8)],
        &[(C::Cpu, 0.9)],
        "Look at the kernel log for Xid, reset the GPU or restart the machine.");
    GpuBusy(1.0, "the GPU is in use or not permitted", &[],
        &[(S::GpuBusy, 0.9), (S::Cuda, 0.8)],
        &[(C::Cpu, 0.9)],
        "See who uses it (nvidia-smi), its compute mode and MIG.");
    WindowsTimeout(0.7, "Windows resets the GPU under a kernel that takes longer than 2 s", &[],
        &[(S::CudaNotReady, 0.95), (S::LongKernel, 0.7), (S::Cuda, 0.9)],
        &[(C::Cpu, 0.95), (C::HalfBatch, 0.5), (C::OneRow, 0.8)],
        "Raise TdrDelay in Windows' registry, or make kernels shorter by a smaller batch.");
    KilledFromOutside(1.0, "something outside kills it", &[],
        &[(S::Killed, 0.9)], &[],
        "Look for a time limit, a batch system or a person; `journalctl -k` tells of the kernel.");
    OwnCode(12.0, "the program's own code at the line that is named", &[Line],
        &[(S::OutOfMemory, 0.003), (S::OwnRaise, 0.4), (S::BusError, 0.002), (S::Wanders, 0.1), (S::Exception, 0.7), (S::OwnExit, 0.25), (S::Hang, 0.01), (S::NativeCrash, 0.02), (S::Killed, 0.005)], &[],
        "Read the line and the message: nothing that doctor changed makes a difference.");
}

/// How often a change ends a failure with which it has nothing to do.
const ENDS_BY_CHANCE: f64 = 0.01;

/// The same of a change that hardly touches the program, unless it is what the failure is about.
const NARROW_ENDS_BY_CHANCE: f64 = 0.001;

/// The same of another date, and of files left out: nothing that has nothing to do with them ever ends by that.
const APART_ENDS_BY_CHANCE: f64 = 1e-5;

/// A cause that a change ends at least so often explains that it has.
const EXPLAINS: f64 = 0.3;

/// How often a change ends a failure with which it has nothing to do, in 0 to 1.
fn ends_by_chance(change: C) -> f64 {
    const NARROW: [C; 7] = [
        C::CleanEnvironment,
        C::ImportEffects,
        C::LibraryPath,
        C::Locale,
        C::OtherThreads,
        C::HashSeed,
        C::Stack,
    ];
    if matches!(change, C::Clock | C::NoLeftovers) {
        APART_ENDS_BY_CHANCE
    } else if NARROW.contains(&change) {
        NARROW_ENDS_BY_CHANCE
    } else {
        ENDS_BY_CHANCE
    }
}

impl Cause {
    /// How often the failure comes every time under a change, where it came now and then before.
    pub fn always_under(self, change: C) -> f64 {
        match (self, change) {
            (Cause::HashOrder, C::HashSeed) => 0.4,
            (Cause::SeedDependent, C::Seed) => 0.3,
            _ => ENDS_BY_CHANCE,
        }
    }

    /// How often a change ends it, in 0 to 1.
    pub fn ends(self, change: C) -> f64 {
        let named = self.row().ends.iter().find(|e| e.0 == change);
        named.map_or_else(|| ends_by_chance(change), |e| e.1)
    }

    /// Whether a change ends it often enough to be explained by it.
    pub fn explains(self, change: C) -> bool {
        self.ends(change) >= EXPLAINS
    }
}

#[cfg(test)]
#[path = "causes_tests.rs"]
mod tests;
