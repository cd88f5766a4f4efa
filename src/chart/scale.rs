//! Scales: from the data's units to a share of an axis, and round numbers along it.

/// How an axis is divided. Both ends are included.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    low: f64,
    /// Above the lower one.
    high: f64,
    kind: Kind,
}

/// What lies between the ends, and what is written beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Evenly.
    Linear,
    /// Evenly, of whole numbers.
    Whole,
    /// By powers; both ends above 0.
    Log,
    /// Seconds, told in units of time.
    Seconds,
    /// Evenly, and nothing is written beside it.
    Bare,
    /// Names beside each other; the i-th is at i.
    Names(Vec<String>),
}

/// A place on an axis that is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// In the data's units.
    pub at: f64,
    /// What is written there.
    pub text: String,
}

/// Part of the extent that is left free at each end.
const FREE: f64 = 0.04;

impl Scale {
    pub(crate) fn new(kind: Kind, low: f64, high: f64) -> Scale {
        Scale { low, high, kind }
    }

    /// Evenly from one end to the other, which lies above it.
    pub fn between(low: f64, high: f64) -> Scale {
        Scale::new(Kind::Linear, low, high)
    }

    /// The same, and nothing is written beside it.
    pub fn bare(low: f64, high: f64) -> Scale {
        Scale::new(Kind::Bare, low, high)
    }

    /// From 0 to so many seconds, told in units of time.
    pub fn seconds(most: f64) -> Scale {
        Scale::new(Kind::Seconds, 0.0, most)
    }

    /// Names beside each other; the i-th is at i.
    pub fn names(names: impl IntoIterator<Item = String>) -> Scale {
        let names: Vec<String> = names.into_iter().collect();
        let high = names.len() as f64 - 0.5;
        Scale::new(Kind::Names(names), -0.5, high)
    }

    /// Evenly over all finite values, with a little room at both ends.
    pub fn linear(values: impl IntoIterator<Item = f64>) -> Scale {
        let (low, high) = extent(values).unwrap_or((0.0, 1.0));
        let room = FREE * (high - low);
        Scale::between(low - room, high + room)
    }

    /// From the first whole number to the last.
    pub fn whole(values: impl IntoIterator<Item = f64>) -> Scale {
        let (low, high) = extent(values).unwrap_or((0.0, 1.0));
        Scale::new(Kind::Whole, low, high)
    }

    /// By powers over all values above 0; evenly where there are none.
    pub fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        let logs = values.into_iter().filter(|x| *x > 0.0).map(f64::ln);
        let Some((low, high)) = extent(logs) else {
            return Scale::linear([]);
        };
        let room = FREE * (high - low);
        // Beyond these the ends would be no numbers.
        let (low, high) = ((low - room).max(-700.0), (high + room).min(700.0));
        Scale::new(Kind::Log, low.exp(), high.exp())
    }

    /// Its names, where it is one of names.
    pub fn of_names(&self) -> Option<&[String]> {
        match &self.kind {
            Kind::Names(names) => Some(names),
            Kind::Linear | Kind::Whole | Kind::Log | Kind::Seconds | Kind::Bare => None,
        }
    }

    /// Kind and ends for a script, where between them there is a number at each place.
    pub(crate) fn attribute(&self) -> Option<String> {
        let kind = match self.kind {
            Kind::Linear => "linear",
            Kind::Whole => "whole",
            Kind::Log => "log",
            Kind::Seconds | Kind::Bare | Kind::Names(_) => return None,
        };
        Some(format!("{kind} {} {}", self.low, self.high))
    }

    pub(crate) fn is_log(&self) -> bool {
        self.kind == Kind::Log
    }

    /// By powers the logarithms are even; what has none is no number, or below all.
    fn even(&self, x: f64) -> f64 {
        if self.is_log() { x.ln() } else { x }
    }

    /// Where a value is, as a share of the axis, 0 to 1; `None` outside of it.
    pub fn place(&self, x: f64) -> Option<f64> {
        let [x, low, high] = [x, self.low, self.high].map(|x| self.even(x));
        let share = (x - low) / (high - low);
        // Rounding may carry an end a little beyond itself.
        ((-1e-9..=1.0 + 1e-9).contains(&share)).then(|| share.clamp(0.0, 1.0))
    }

    /// What is at a share of the axis, in the data's units.
    pub fn back(&self, share: f64) -> f64 {
        let [low, high] = [self.low, self.high].map(|x| self.even(x));
        let x = low + share * (high - low);
        if self.is_log() { x.exp() } else { x }
    }

    /// The place of an end of a mark, which stops at the end of the axis; `None` for what is no number.
    pub fn held(&self, x: f64) -> Option<f64> {
        // Not `clamp`: an axis of no names has no room between its ends.
        let within = x.max(self.low).min(self.high);
        self.place(within).filter(|_| !x.is_nan())
    }

    /// At most about `most` places with their words.
    pub fn ticks(&self, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        let (low, high) = (self.low, self.high);
        match &self.kind {
            Kind::Linear => linear(low, high, step(high - low, most)),
            Kind::Whole => linear(low, high, step(high - low, most).max(1.0)),
            Kind::Log => log(low, high, most),
            Kind::Seconds => seconds(low, high, most),
            Kind::Bare => Vec::new(),
            Kind::Names(names) => names
                .iter()
                .enumerate()
                .map(|(i, name)| Tick {
                    at: i as f64,
                    text: name.clone(),
                })
                .collect(),
        }
    }
}

/// The least and the greatest finite value; a single one gets room at both sides.
fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.into_iter().filter(|x| x.is_finite());
    let first = finite.next()?;
    let (low, high) = finite.fold((first, first), |(a, b), x| (a.min(x), b.max(x)));
    // Sums of the ends must stay numbers.
    let (low, high) = (low.max(-1e300), high.min(1e300));
    let least = 1e-9 * low.abs().max(high.abs());
    match high - low > least {
        true => Some((low, high)),
        false if low == 0.0 => Some((-0.5, 0.5)),
        false => Some((low - 0.1 * low.abs(), high + 0.1 * high.abs())),
    }
}

/// The distance of round numbers of which about `most` lie in an extent: 1, 2 or 5 times a power of ten.
fn step(extent: f64, most: usize) -> f64 {
    let rough = extent / most as f64;
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= rough);
    round.unwrap_or(10.0) * power
}

fn linear(low: f64, high: f64, step: f64) -> Vec<Tick> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let at = |i: usize| (first + i as f64) * step;
    let count = (last - first + 1.0).clamp(0.0, 100.0) as usize;
    let text = |x: f64| number(x, step);
    (0..count)
        .map(|i| Tick {
            at: at(i),
            text: text(at(i)),
        })
        .collect()
}

/// A tick's number, with the digits that tell it from its neighbours.
fn number(x: f64, step: f64) -> String {
    // What should be 0 is what is left of a subtraction.
    let x = if x.abs() < 1e-6 * step { 0.0 } else { x };
    let power = step.log10().floor();
    if x != 0.0 && (x.abs() >= 1e6 || power < -5.0) {
        let digits = (x.abs().log10().floor() - power).clamp(0.0, 6.0) as usize;
        return format!("{x:.digits$e}");
    }
    let decimals = (-power).clamp(0.0, 8.0) as usize;
    format!("{x:.decimals$}")
}

fn log(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let (first, last) = (low.log10(), high.log10());
    let decades = (last - first).max(1e-9);
    if decades < 0.7 {
        return linear(low, high, step(high - low, most));
    }
    // Several a decade where there is room for all of them.
    let of_decade: &[f64] = match most as f64 / decades {
        room if room >= 4.0 => &[1.0, 2.0, 5.0],
        room if room >= 2.5 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let every = (decades / most as f64).ceil().max(1.0) as i32;
    let decades = (first.floor() as i32)..=(last.ceil() as i32);
    let decades = decades.filter(|d| d.rem_euclid(every) == 0);
    let all = decades.flat_map(|d| of_decade.iter().map(move |m| m * 10f64.powi(d)));
    all.filter(|x| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(x))
        .map(|at| Tick {
            at,
            text: power(at),
        })
        .collect()
}

/// A number on an axis of powers.
fn power(x: f64) -> String {
    match (1e-3..1e5).contains(&x) {
        true => {
            let decimals = (-x.log10().floor()).clamp(0.0, 3.0) as usize;
            format!("{x:.decimals$}")
        }
        false => format!("{x:.0e}"),
    }
}

/// Distances of ticks on an axis of time, in seconds, with the unit that they are told in.
const STEPS: [(f64, &str, f64); 18] = [
    (1.0, "s", 1.0),
    (5.0, "s", 1.0),
    (15.0, "s", 1.0),
    (30.0, "s", 1.0),
    (60.0, "min", 60.0),
    (300.0, "min", 60.0),
    (900.0, "min", 60.0),
    (1800.0, "min", 60.0),
    (3600.0, "h", 3600.0),
    (7200.0, "h", 3600.0),
    (10_800.0, "h", 3600.0),
    (21_600.0, "h", 3600.0),
    (43_200.0, "h", 3600.0),
    (86_400.0, "d", 86_400.0),
    (172_800.0, "d", 86_400.0),
    (604_800.0, "d", 86_400.0),
    (1_209_600.0, "d", 86_400.0),
    (2_592_000.0, "d", 86_400.0),
];

fn seconds(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let rough = (high - low) / most as f64;
    let round = STEPS.iter().find(|(step, _, _)| *step >= rough);
    let (step, unit, size) = match round {
        Some((step, unit, size)) if rough >= 0.5 => (*step, *unit, *size),
        Some(_) => (step(high - low, most), "s", 1.0),
        None => (
            step((high - low) / 86_400.0, most) * 86_400.0,
            "d",
            86_400.0,
        ),
    };
    let text = |at: f64| format!("{} {unit}", number(at / size, step / size));
    let ticks = linear(low, high, step).into_iter();
    ticks
        .map(|tick| Tick {
            text: text(tick.at),
            ..tick
        })
        .collect()
}
