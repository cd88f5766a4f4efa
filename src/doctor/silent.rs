//! Mistakes of a training that raise no error, as the start-up module notes them (`startup/_tune_doctor/silent.py`).

use std::fmt;

use serde::Deserialize;

/// A mistake of a training that raises no error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SilentError {
    /// What it is.
    pub kind: SilentKind,
    /// The program's own line: the operation, or the optimiser's step.
    pub line: Option<String>,
    /// What it is about, in words: numbers, or a name.
    #[serde(default)]
    pub told: Option<String>,
}

messages::table! {
    /// What goes wrong without an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SilentKind;

    /// What is known of it.
    pub struct Row {
        /// It is often meant so: worth a word where nothing else is wrong, and not the likely cause of a failure.
        pub doubtful: bool,
        /// What was seen, for people.
        pub says: &'static str,
        /// What to do.
        pub remedy: &'static str,
    }

    /// Broadcasting makes the shapes fit.
    Crossed(false, "results of shape [n, 1] meet targets of shape [n], so that each is compared with each",
        "Give results and targets one shape: results.squeeze(1), or targets.unsqueeze(1).");
    ProbabilitiesAsLogits(false, "a loss of logits is given the result of a softmax or a sigmoid",
        "Give the loss what the last layer computes, without softmax or sigmoid.");
    GradientsKept(false, "gradients of earlier steps are never cleared",
        "Call optimizer.zero_grad() before each backward().");
    NoGradients(false, "no parameter of the optimizer has a gradient",
        "Give the optimizer the parameters of the network that is trained, and call loss.backward() before its step().");
    /// More batches are to be accumulated than an epoch has.
    NeverStepped(false, "gradients are cleared again and again before the optimizer has made its first step",
        "Call optimizer.step() before zero_grad(); accumulate no more batches than an epoch has, or across epochs.");
    /// A sign, a factor or a term of it.
    GradientDiffers(false, "an autograd function's backward does not give the gradient of its forward",
        "Compare them with torch.autograd.gradcheck, in float64, and correct backward; a gradient that is meant to be another one is right as it is.");
    RateOfZero(false, "the learning rate is 0",
        "Give the optimizer a learning rate above 0; a schedule may have set it.");
    UpdatesLost(false, "steps of the optimizer, or of an average of the weights, change nothing: they are less than 16-bit floats can tell apart",
        "Keep the weights, and averages of them, in 32 bits and compute in 16 (torch.autocast), or make larger steps.");
    /// By a view of it.
    RowsChanged(false, "a row is changed in place where the dataset keeps it, each time it is read: from epoch to epoch it is another one",
        "Change a copy in __getitem__: row.clone(), or `row - mean` in the place of row.sub_(mean).");
    /// Rows that have lost their targets, or rows beyond them.
    LengthsDiffer(false, "zip leaves out what is longer in one than in the other, and pairs may not belong together",
        "Find out why they differ, such as rows that a reader merges or skips; zip(..., strict=True) raises an error.");
    /// Points in time, for one.
    Rounded(false, "32-bit floats round large numbers that differ little from each other",
        "Compute in float64 what is made of them, or subtract the smallest, and convert the result.");
    /// Each has a copy of the dataset as it was.
    WorkersStale(false, "what is set on the dataset does not reach the loader's persistent workers",
        "Make the loader without persistent_workers, or share the setting (torch.Tensor.share_memory_, multiprocessing.Value).");
    /// Each process begins with the generator as the dataset was made with it.
    RowsAgain(false, "the loader's processes draw the same random numbers in each pass over the data: each begins with a copy of the dataset's own generator",
        "Seed it in each process anew (worker_init_fn, or torch.initial_seed() at the first row), or from epoch and row.");
    /// By who has put it there, for the next one.
    Overwritten(false, "a tensor in a queue is written over before it is taken out",
        "Put a copy into the queue (tensor.clone()).");
    /// Averages of its weights that nothing is written to.
    CopyStale(false, "a copy of the trained network is evaluated that never changes, though the network is trained on",
        "Write to the copy's weights in place (p.mul_(d).add_(w, alpha=1 - d), or copy_): `p = ...` gives a new tensor a name.");
    /// Of an average of the weights, for one, which takes over the parameters alone.
    StatisticsUnset(false, "a normalisation whose weights have changed is evaluated with the statistics that it was made with",
        "Take over buffers as well as parameters (module.buffers(), state_dict()), or compute them anew (torch.optim.swa_utils.update_bn).");
    /// After the first evaluation, mostly.
    StaysInEvaluation(false, "the network was trained in training mode and goes on in evaluation mode, without dropout, and with statistics that stay",
        "Call model.train() after each evaluation, before the next step.");
    /// Without `batch_first=True`.
    TimeFirst(false, "a module takes the first dimension for time, which is that of the rows: it mixes rows of the batch, and no steps of a sequence",
        "Make it with batch_first=True, or transpose what it is given: x.transpose(0, 1).");
    /// Each changes the result, again and again.
    HooksKept(false, "forward hooks of a module are registered again and again, and never removed",
        "Keep what register_forward_hook() gives, and call its remove() once the hook has done its work.");
    Wrapped(false, "a result is beyond what integers of 8 or 16 bits hold, and begins again at their other end",
        "Convert before computing: frames.float(), or x.int() * 32.");
    /// As `best = model.state_dict()` has it.
    OwnState(false, "a state is loaded into the network whose own weights it holds: they have changed since it was kept, and stay",
        "Keep a copy: copy.deepcopy(model.state_dict()), or {k: v.clone() for k, v in model.state_dict().items()}.");
    /// A mask of the opposite meaning.
    PaddingRead(false, "attention leaves the words out and reads the padding alone",
        "key_padding_mask and attn_mask mean different things by True: PyTorch's key_padding_mask leaves those places out, scaled_dot_product_attention's attn_mask reads them. Invert the mask (~mask).");
    /// As `type=bool` does.
    NoIsTrue(false, "an option of the type bool is given a text that means no, and is true",
        "Any text but the empty one is true: use action=argparse.BooleanOptionalAction (--name, --no-name), or compare the text.");
    ClippedScaled(false, "gradients are clipped while the GradScaler has them scaled up, which leaves next to nothing of them",
        "Call scaler.unscale_(optimizer) before clip_grad_norm_().");
    /// As `signal(SIGCHLD, SIG_IGN)` has it: the kernel tells nobody how a child has ended.
    ChildrenIgnored(false, "the signal SIGCHLD is ignored, so that the program never learns that a process it has started has ended",
        "Leave SIGCHLD as it is (signal.SIG_DFL), and wait for what you start: Popen.wait(), or subprocess.run().");
    /// A validation set that is smaller than a batch.
    EmptyLoader(false, "a loader gives no batch at all: drop_last drops the only one, which is not full",
        "Leave drop_last to the loader that is trained on, or take smaller batches.");
    /// With a byte-order mark, spaces, another case, or an accent that is a letter of its own.
    NameDiffers(false, "a name is looked for that is there in another form, which looks the same or nearly so",
        "Read texts with encoding=\"utf-8-sig\", and bring names into one form: unicodedata.normalize(\"NFC\", name).strip().");
    /// A folder that is deleted with the object that stands for it, for one.
    RemovedBefore(false, "a file or folder is looked for that the program has deleted itself",
        "Keep it for as long as it is needed: a TemporaryDirectory is deleted with the last reference to its object.");
    /// Names of classes, for one.
    NumberedSet(true, "the items of a set are numbered, whose order is another one in each process and run",
        "Number sorted(...) of the set.");
    /// With what it does.
    AssertSkipped(true, "PYTHONOPTIMIZE or -O leaves out an assert that calls a function",
        "Call the function outside of the assert, or run without PYTHONOPTIMIZE and -O.");
    /// All calls share it.
    DefaultChanged(true, "a default argument, an empty list or dictionary where it is written, keeps what earlier calls have put there",
        "Write `x=None`, and make the list in the function. One that is meant as a cache is right as it is.");
    /// As slices of a large buffer.
    SavedWhole(true, "torch.save writes whole tensors of which the program has parts",
        "Save copies of the parts: part.clone().");
    /// An average of the weights, for one, that begins anew.
    PartUnread(true, "a training goes on from a checkpoint of which a part is not used",
        "Load that part, too, where the training is to go on as if it had not been interrupted.");
    TrainingMode(true, "a network computes without gradients in training mode, with dropout or batch normalisation on",
        "Call model.eval() before scoring, and model.train() after.");
}

impl fmt::Display for SilentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.row().says)?;
        if let Some(told) = &self.told {
            write!(f, " ({told})")?;
        }
        match &self.line {
            Some(line) => write!(f, ", at {line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_with_its_line_where_it_has_one() {
        let told = |note: &str| {
            serde_json::from_str::<SilentError>(note)
                .unwrap()
                .to_string()
        };
        assert_eq!(
            told(r#"{"what": "silent", "kind": "rate_of_zero", "line": "a.py:3 in fit"}"#),
            "the learning rate is 0, at a.py:3 in fit"
        );
        assert_eq!(
            told(r#"{"what": "silent", "kind": "overwritten", "line": "a.py:3", "told": "x"}"#),
            "a tensor in a queue is written over before it is taken out (x), at a.py:3"
        );
        assert_eq!(
            told(r#"{"what": "silent", "kind": "gradients_kept", "line": null}"#),
            "gradients of earlier steps are never cleared"
        );
    }
}
