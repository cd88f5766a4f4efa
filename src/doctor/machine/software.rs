//! Checks of libraries and of the environment.

use std::path::Path;

use super::libraries::{Unloaded, runs_on, twice};
use super::{Facts, Finding, failed, graded, not_run, passed, some_of, warning};
use crate::Outcome;

/// Variables that harm, whether that explains a crash, and what they do. Mostly those that NVIDIA's DCGM looks for.
#[rustfmt::skip] // A table: a line a variable.
const HARMFUL: [(&str, Outcome, &str); 15] = [
    ("NSIGHT_CUDA_DEBUGGER", Outcome::Failed, "kernels wait for a debugger"),
    ("CUDA_DEVICE_WAITS_ON_EXCEPTION", Outcome::Failed, "a kernel's error waits for a debugger, and the program hangs"),
    ("CUDA_INJECTION32_PATH", Outcome::Failed, "a foreign library runs in every CUDA program"),
    ("CUDA_INJECTION64_PATH", Outcome::Failed, "a foreign library runs in every CUDA program"),
    ("CUDA_LAUNCH_BLOCKING", Outcome::Warning, "every kernel is waited for"),
    ("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", Outcome::Warning, "errors write gigabytes"),
    ("CUDA_COREDUMP_FILE", Outcome::Warning, "errors write gigabytes"),
    ("CUDA_AUTO_BOOST", Outcome::Warning, "clocks change by themselves"),
    ("CUDA_PROFILE", Outcome::Warning, "a profiler slows every kernel"),
    ("COMPUTE_PROFILE", Outcome::Warning, "a profiler slows every kernel"),
    ("OPENCL_PROFILE", Outcome::Warning, "a profiler slows every kernel"),
    ("CUDA_FORCE_PTX_JIT", Outcome::Warning, "all kernels are compiled anew"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", Outcome::Warning, "every tensor is allocated by the driver"),
    ("NVIDIA_TF32_OVERRIDE", Outcome::Warning, "it overrides the precision that the program asks for"),
    ("LD_PRELOAD", Outcome::Warning, "a foreign library runs in every program"),
];

pub(super) fn variables(facts: &Facts) -> Finding {
    let set: Vec<_> = HARMFUL
        .iter()
        .filter_map(|(name, level, does)| {
            let value = facts.variable(name).filter(|value| *value != "0")?;
            Some((*level, format!("{name}={value}: {does}")))
        })
        .collect();
    let seen: Vec<&str> = set.iter().map(|(_, text)| text.as_str()).collect();
    let seen = seen.join("; ");
    match set.iter().any(|(level, _)| *level == Outcome::Failed) {
        true => failed(seen),
        false if !set.is_empty() => warning(seen),
        false => passed(format!("none of {} is set", HARMFUL.len())),
    }
}

/// What the value of an allocator's option may be.
enum Kind {
    AtLeast(u64),
    Share,
    Switch,
    Words(&'static [&'static str]),
    Any,
}

/// The options of libtorch's allocators (c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp).
const OPTIONS: [(&str, Kind); 13] = [
    ("max_split_size_mb", Kind::AtLeast(21)),
    ("max_non_split_rounding_mb", Kind::AtLeast(21)),
    ("garbage_collection_threshold", Kind::Share),
    ("per_process_memory_fraction", Kind::Share),
    ("expandable_segments", Kind::Switch),
    ("release_lock_on_cudamalloc", Kind::Switch),
    ("pinned_use_cuda_host_register", Kind::Switch),
    ("pinned_use_background_threads", Kind::Switch),
    ("graph_capture_record_stream_reuse", Kind::Switch),
    ("pinned_num_register_threads", Kind::AtLeast(1)),
    ("pinned_reserve_segment_size_mb", Kind::AtLeast(1)),
    ("roundup_power2_divisions", Kind::Any),
    ("backend", Kind::Words(&["native", "cudaMallocAsync"])),
];

/// What is wrong with the settings of an allocator: whether libtorch refuses them, and why.
fn wrong_setting(settings: &str) -> Option<(bool, String)> {
    // Lists stand in brackets: `roundup_power2_divisions:[256:1,512:2]`.
    let mut depth = 0;
    let parts = settings.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    });
    let wrong = parts
        .filter(|part| !part.trim().is_empty())
        .filter_map(|part| {
            let Some((name, value)) = part.split_once(':') else {
                return Some((true, format!("`{}` has no value", part.trim())));
            };
            let (name, value) = (name.trim(), value.trim());
            let Some((_, option)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
                return Some((false, format!("libtorch 2.11 knows no `{name}`")));
            };
            let fits = match option {
                Kind::AtLeast(least) => value.parse::<u64>().is_ok_and(|v| v >= *least),
                Kind::Share => value.parse::<f64>().is_ok_and(|v| v > 0.0 && v <= 1.0),
                Kind::Switch => matches!(value, "True" | "False"),
                Kind::Words(words) => words.contains(&value),
                Kind::Any => true,
            };
            (!fits).then(|| (true, format!("`{name}` cannot be `{value}`")))
        });
    wrong.max_by_key(|(refused, _)| *refused)
}

pub(super) fn allocator(facts: &Facts) -> Finding {
    let (new, old) = (
        facts.variable("PYTORCH_ALLOC_CONF"),
        facts.variable("PYTORCH_CUDA_ALLOC_CONF"),
    );
    let Some(settings) = new.or(old) else {
        return passed("no settings");
    };
    let expandable = settings.contains("expandable_segments:True");
    match wrong_setting(settings) {
        Some((true, why)) if facts.has_gpu() => failed(why),
        Some((_, why)) => warning(why),
        None if new.is_some() && old.is_some() && new != old => {
            warning("PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF differ; the first holds")
        }
        None if expandable && facts.host.wsl => warning(format!(
            "{settings}: WSL lacks what expandable segments need"
        )),
        None => passed(settings.to_owned()),
    }
}

fn shown(paths: &[&Path]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    some_of(&paths)
}

pub(super) fn libraries(facts: &Facts) -> Finding {
    let loaded = match &facts.loaded {
        Ok(loaded) => loaded,
        Err(Unloaded::Signal(libc::SIGILL)) => {
            return failed(
                "loading libtorch ended with SIGILL: the processor lacks an instruction that libtorch was built for. This \
                 is the processor's \"Illegal instruction\", not the GPU's (error 715)",
            );
        }
        Err(Unloaded::Signal(signal)) => {
            let name = nix::sys::signal::Signal::try_from(*signal)
                .map_or_else(|_| format!("signal {signal}"), |s| s.to_string());
            return failed(format!("loading libtorch ended with {name}"));
        }
        Err(Unloaded::Other(why)) => return not_run(why.clone()),
    };
    let twice = twice(&loaded.files);
    if let Some(same) = twice.first() {
        return failed(format!("mapped from two places: {}", shown(same)));
    }
    let foreign: Vec<&Path> = loaded
        .files
        .iter()
        .map(|p| p.as_path())
        .filter(|p| {
            facts
                .shadows
                .iter()
                .any(|shadow| shadow.parent() == p.parent())
        })
        .collect();
    if !foreign.is_empty() {
        return failed(format!("mapped from LD_LIBRARY_PATH: {}", shown(&foreign)));
    }
    if let Some(why) = &loaded.why {
        return not_run(
            why.split(['\n', ';'])
                .next()
                .unwrap_or("libtorch cannot be loaded")
                .to_owned(),
        );
    }
    let main: Vec<&Path> = [
        "libtorch_cpu",
        "libtorch_cuda.so",
        "libcudnn.so",
        "libcublas.so",
        "libcuda.so",
    ]
    .iter()
    .flat_map(|name| loaded.named(name))
    .collect();
    passed(format!("mapped: {}", shown(&main)))
}

pub(super) fn library_path(facts: &Facts) -> Finding {
    let shadows: Vec<&Path> = facts.shadows.iter().map(|p| p.as_path()).collect();
    let cuda_only = shadows.iter().all(|path| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        !name.starts_with("libtorch") && !name.starts_with("libc10")
    });
    match (facts.variable("LD_LIBRARY_PATH"), shadows.is_empty()) {
        (None, _) => passed("LD_LIBRARY_PATH is not set"),
        (Some(path), true) => passed(format!(
            "LD_LIBRARY_PATH={path} has none of libtorch's libraries"
        )),
        (Some(_), false) => {
            let seen = format!(
                "on LD_LIBRARY_PATH, before libtorch's own: {}",
                shown(&shadows)
            );
            // Without a GPU nothing loads CUDA's libraries.
            graded(!cuda_only || facts.has_gpu(), true, seen)
        }
    }
}

pub(super) fn gpu_architecture(facts: &Facts) -> Finding {
    super::gpu::each(facts, |gpu| {
        let Some((major, minor)) = gpu.capability else {
            return not_run("NVML does not tell the compute capability");
        };
        let Some(found) = &facts.architectures else {
            return not_run(
                "libtorch's CUDA library is not there, or does not name its architectures",
            );
        };
        let seen = format!(
            "sm_{major}{minor}; libtorch has code for {}",
            found.join(", ")
        );
        graded(!runs_on(found, (major, minor)), false, seen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocators_settings_are_checked_as_libtorch_does() {
        let wrong = |text| wrong_setting(text);
        assert_eq!(
            wrong("expandable_segments:True,max_split_size_mb:128"),
            None
        );
        assert_eq!(
            wrong("roundup_power2_divisions:[256:1,512:2,>:4], backend:native"),
            None
        );
        assert!(wrong("max_split_size_mb:16").is_some_and(|(refused, _)| refused));
        assert!(wrong("expandable_segments:true").is_some_and(|(refused, _)| refused));
        assert!(wrong("expandable_segments").is_some_and(|(refused, _)| refused));
        assert!(
            wrong("some_new_thing:1")
                .is_some_and(|(refused, why)| !refused && why.contains("some_new_thing"))
        );
    }
}
