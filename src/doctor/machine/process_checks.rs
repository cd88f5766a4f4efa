//! Checks of processors, of time, and of processes.

use super::{Facts, Finding, failed, graded, not_run, passed, some_of, warning};

/// Clocks that a processor reads without asking anybody, or that a hypervisor offers in their place.
const FAST_CLOCKS: [&str; 8] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "xen",
    "hyperv_clocksource_msr",
    "riscv_clocksource",
    "timebase",
];

/// What a program starts as many threads by as it has cores.
const THREADS: [&str; 2] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS"];

pub(super) fn cpu_features(facts: &Facts) -> Finding {
    let host = &facts.host;
    if host.features.is_empty() {
        return not_run("/proc/cpuinfo names no features");
    }
    let has = |name: &str| host.features.contains(name);
    // ATen/Version.cpp: what the variable asks for is taken without a look at the processor.
    let wanted = match facts.variable("ATEN_CPU_CAPABILITY") {
        Some("avx512") => &["avx512f", "avx512bw", "avx512vl", "avx512dq", "fma"][..],
        Some("avx2") => &["avx2", "fma"][..],
        Some(_) | None => &[][..],
    };
    let lacks: Vec<String> = wanted
        .iter()
        .filter(|f| !has(f))
        .map(|f| (*f).to_owned())
        .collect();
    if !lacks.is_empty() {
        let seen = lacks.join(", ");
        return failed(format!(
            "ATEN_CPU_CAPABILITY asks for what the processor lacks: {seen}"
        ));
    }
    match host.architecture {
        "x86_64" if has("avx512f") => passed("AVX-512, AVX2"),
        "x86_64" if has("avx2") && has("fma") => passed("AVX2, FMA, no AVX-512"),
        "x86_64" if !has("avx") => failed(
            "no AVX: libraries that libtorch uses end with SIGILL (\"Illegal instruction\") there",
        ),
        "x86_64" => warning("no AVX2"),
        other => passed(format!("{other}, {} features", host.features.len())),
    }
}

pub(super) fn threads(facts: &Facts) -> Finding {
    let (Some(cores), Some(usable)) = (facts.host.cores, facts.host.usable) else {
        return not_run("the processors cannot be counted");
    };
    let asked = THREADS
        .iter()
        .find_map(|name| Some((*name, facts.variable(name)?.parse::<usize>().ok()?)));
    let quota = match usable < cores {
        true => format!("{cores} processors, of which the cgroup lets {usable} be used at once"),
        false => format!("{cores} processors"),
    };
    let throttled = facts
        .host
        .throttled
        .filter(|(times, periods)| *times > 0 && *periods > 0);
    let held = throttled.map(|(times, periods)| {
        let share = 100.0 * times as f64 / periods as f64;
        (share, format!("; held back in {share:.0} % of the periods"))
    });
    let (share, held) = held.unwrap_or_default();
    match asked {
        Some((name, count)) if count > usable => warning(format!("{quota}; {name}={count}{held}")),
        None if usable < cores => {
            warning(format!("{quota}; a program starts {cores} threads{held}"))
        }
        _ if share > 20.0 => warning(format!("{quota}{held}")),
        Some((name, count)) => passed(format!("{quota}; {name}={count}{held}")),
        None => passed(format!("{quota}{held}")),
    }
}

pub(super) fn clock_source(facts: &Facts) -> Finding {
    match &facts.host.clock {
        None => not_run("/sys/devices/system/clocksource cannot be read"),
        Some((now, _)) if FAST_CLOCKS.contains(&now.as_str()) => passed(now.clone()),
        Some((now, all)) => warning(format!("{now} (there are: {all})")),
    }
}

pub(super) fn stuck_processes(facts: &Facts) -> Finding {
    match &facts.host.stuck[..] {
        [] => passed("none waits in the kernel (state D)"),
        stuck => warning(format!(
            "{} in state D at each of 4 looks: {}",
            stuck.len(),
            some_of(stuck)
        )),
    }
}

pub(super) fn zombies(facts: &Facts) -> Finding {
    let zombies = &facts.host.zombies;
    let seen = format!("{} zombies: {}", zombies.len(), some_of(zombies));
    match zombies.len() {
        0 => passed("none"),
        1..20 => passed(seen),
        _ => warning(seen),
    }
}

pub(super) fn pressure(facts: &Facts) -> Finding {
    if facts.host.pressure.is_empty() {
        return not_run("/proc/pressure cannot be read");
    }
    let seen: Vec<String> = facts
        .host
        .pressure
        .iter()
        .map(|(what, (some, full))| format!("{what} {some:.0} % (all tasks: {full:.0} %)"))
        .collect();
    let seen = format!("waited for in the last 10 s: {}", seen.join(", "));
    let full = |what| facts.host.pressure.get(what).map_or(0.0, |(_, full)| *full);
    graded(false, full("memory") > 10.0 || full("io") > 50.0, seen)
}

pub(super) fn arithmetic(facts: &Facts) -> Finding {
    match facts.sums {
        None => not_run("it takes too long here"),
        Some(sums) => {
            let seen = format!("{} matrix products on {} cores", sums.products, sums.cores);
            match sums.wrong {
                0 => passed(format!("{seen}, all as they must be, bit for bit")),
                wrong => failed(format!("{wrong} of {seen} were wrong")),
            }
        }
    }
}
