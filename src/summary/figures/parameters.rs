//! Charts of parameters: what they matter, and where the good values lie.

use super::{Built, Kind, Panel, Places, beyond_text, chart, enough, spread, values_axis};
use super::{values_scale, wanted};
use crate::{Facts, Material, Scored, shown};
use ::chart::{Axis, Chart, Ink, LEVELS, Layer, Mark, Scale, Stroke};
use search::importance::Effect;

/// So many bars.
const BARS: usize = 15;

pub(super) fn importances(m: &Material, facts: &Facts) -> Built {
    enough(&m.scored())?;
    let all = &facts.importance;
    let told: Vec<_> = all.iter().take(BARS).enumerate().collect();
    if told.is_empty() {
        return Err("The trials have no parameters to compare.".to_owned());
    }
    let shows = |effect: Effect| match effect {
        Effect::Shows { .. } => true,
        Effect::Constant | Effect::TooFew | Effect::Nothing { .. } => false,
    };
    let bars = |real: bool| -> Vec<[f64; 4]> {
        let of = told.iter().filter(|(_, p)| shows(p.effect) == real);
        of.map(|(i, p)| {
            let row = *i as f64;
            [0.0, row - 0.32, p.importance, row + 0.32]
        })
        .collect()
    };
    let share = |x: f64| format!("{:.0} %", 100.0 * x);
    let words = told
        .iter()
        .map(|(i, p)| (p.importance, *i as f64, share(p.importance)));
    let layers = vec![
        Layer::new("shows an effect", Ink::Main, Mark::Boxes(bars(true))),
        Layer::new("no effect seen", Ink::Faint, Mark::Boxes(bars(false))),
        Layer::new("", Ink::Text, Mark::Words(words.collect())),
    ];
    let real = all.iter().filter(|p| shows(p.effect)).count();
    let first = told
        .first()
        .map(|(_, p)| (shown(&p.name), share(p.importance)));
    let first = first.map_or_else(String::new, |(name, share)| {
        format!(" {name} makes {share}.")
    });
    let more = match all.len().saturating_sub(told.len()) {
        0 => String::new(),
        n => format!(" {n} that matter less are left out."),
    };
    let see = format!(
        "The part of each parameter in what distinguishes the best tenth of the trials; of {} show {real} an effect that chance does not explain.{first}{more}",
        all.len()
    );
    let most = told.iter().map(|(_, p)| p.importance).fold(0.01, f64::max);
    let x = Scale::between(0.0, 1.12 * most);
    let names = told.iter().map(|(_, p)| shown(&p.name));
    let axes = (Axis::new("share", x), Axis::new("", Scale::names(names)));
    let panel = Panel::new(chart(Kind::Importances, &see, axes, layers)).rows(told.len());
    Ok((see, vec![panel]))
}

/// So many slices, of so many dots each.
const SLICES: usize = 9;
const DOTS: usize = 1500;

/// Why there is no picture of these parameters.
fn known(asked: &[String], scored: &[Scored<'_>]) -> Result<(), String> {
    let missing = asked.iter().find(|name| {
        let has = |s: &Scored<'_>| s.trial.params.contains_key(*name);
        !scored.iter().any(has)
    });
    match missing {
        None => Ok(()),
        Some(name) => Err(format!(
            "No complete trial has a parameter {}.",
            shown(name)
        )),
    }
}

pub(super) fn slices(m: &Material, facts: &Facts, asked: &[String]) -> Built {
    let scored = m.scored();
    enough(&scored)?;
    known(asked, &scored)?;
    let values: Vec<f64> = scored.iter().map(|s| s.value).collect();
    let (scale, beyond) = values_scale(m, &values, &[]);
    let see = format!(
        "Each dot is a complete trial: where the good ones crowd, and whether the later ones went there. Strong colour is the last third of the trials.{}",
        beyond_text(beyond)
    );
    let panel = |(i, name): (usize, &str)| {
        let places = Places::new(name, &scored);
        let third = |age: usize| {
            let n = scored.len();
            let part = &scored[n * age / 3..n * (age + 1) / 3];
            let some = spread(part, DOTS / 3);
            let dots = some.iter().filter_map(|s| dot(&places, name, s));
            Mark::Dots(dots.collect(), 1.7)
        };
        let best = scored.iter().filter(|s| Some(s.trial.number) == m.winner);
        let best = best.filter_map(|s| dot(&places, name, s)).collect();
        let layers = vec![
            Layer::new("", Ink::Level(2), third(0)),
            Layer::new("", Ink::Level(4), third(1)),
            Layer::new("", Ink::Level(6), third(2)),
            Layer::new("", Ink::Second, Mark::Dots(best, 4.5)),
        ];
        let axes = (places.axis(name), values_axis(m, scale.clone()));
        let mut chart = chart(Kind::Slice, &see, axes, layers);
        chart.id = format!("slice-{i}");
        chart.title = format!("{} by {}", shown(m.metric()), shown(name));
        Panel::new(chart).small()
    };
    let names = wanted(facts, asked, SLICES);
    let panels = names.into_iter().enumerate().map(panel).collect();
    let see = format!("{see} The large dot is the best.");
    Ok((see, panels))
}

/// Where a trial is in a slice: of a choice beside its place, so that trials do not hide each other.
fn dot(places: &Places, name: &str, s: &Scored<'_>) -> Option<(f64, f64)> {
    let x = places.at(name, s.trial)?;
    // The golden ratio's multiples are spread evenly.
    let aside = (s.trial.number as f64 * 0.618_033_988_749_895).fract() - 0.5;
    let x = if places.scale_is_names() {
        x + 0.5 * aside
    } else {
        x
    };
    Some((x, s.value))
}

impl Places {
    fn scale_is_names(&self) -> bool {
        !self.choices.is_empty()
    }

    /// Cells along the axis: their ends as shares of it.
    fn cells(&self, most: usize) -> Vec<(f64, f64)> {
        let n = match self.scale_is_names() {
            true => self.choices.len(),
            false => most,
        };
        (0..n)
            .map(|i| (i as f64 / n as f64, (i + 1) as f64 / n as f64))
            .collect()
    }

    /// How near two shares of the axis are, 0 to 1; choices are the same or not.
    fn near(&self, a: f64, b: f64) -> f64 {
        const WIDTH: f64 = 0.07;
        match self.scale_is_names() {
            true if (a - b).abs() > 1e-6 => 0.0,
            true => 1.0,
            false => (-0.5 * ((a - b) / WIDTH).powi(2)).exp(),
        }
    }
}

/// Cells from left to right, and from bottom to top.
const ACROSS: usize = 28;
const UP: usize = 18;

/// The two are sought among so many: those of a condition are in some trials only.
const PAIRED: usize = 6;

/// Of more trials, so many make the picture.
const PICTURE: usize = 2000;

pub(super) fn contour(m: &Material, facts: &Facts, asked: &[String]) -> Built {
    let scored = m.scored();
    enough(&scored)?;
    known(asked, &scored)?;
    let names = wanted(facts, asked, PAIRED);
    let pairs = names.iter().enumerate();
    let pairs = pairs.flat_map(|(i, b)| names[..i].iter().map(move |a| (*a, *b)));
    let both = |(a, b): (&str, &str)| -> Vec<Scored<'_>> {
        let has = |s: &&Scored<'_>| [a, b].iter().all(|name| s.trial.params.contains_key(*name));
        scored.iter().filter(has).copied().collect()
    };
    let mut pairs = pairs.map(|pair| (pair, both(pair)));
    let Some(((a, b), with)) = pairs.find(|(_, with)| with.len() >= search::importance::FEWEST)
    else {
        return Err("It takes two parameters that enough complete trials both have.".to_owned());
    };
    let (across, up) = (Places::new(a, &with), Places::new(b, &with));
    let some = spread(&with, PICTURE);
    let placed = some.iter().filter_map(|s| {
        let at = (across.share(a, s.trial)?, up.share(b, s.trial)?);
        Some((at, m.study.direction().loss(s.value)))
    });
    let placed: Vec<((f64, f64), f64)> = placed.collect();
    let mut losses: Vec<f64> = placed.iter().map(|p| p.1).collect();
    losses.sort_by(f64::total_cmp);
    // Ranks, so that one bad value does not paint a region.
    let rank = |loss: f64| losses.partition_point(|x| *x < loss) as f64 / losses.len() as f64;
    let ranked: Vec<_> = placed.iter().map(|(at, loss)| (*at, rank(*loss))).collect();
    let cells = painted(&across, &up, &ranked);
    let named = |level: usize| match level {
        0 => "worst trials",
        3 => "middle",
        6 => "best trials",
        _ => "",
    };
    let mut layers: Vec<Layer> = (cells.into_iter().enumerate())
        .map(|(level, boxes)| Layer::new(named(level), Ink::Level(level as u8), Mark::Boxes(boxes)))
        .collect();
    let dots = |s: &Scored<'_>| Some((across.at(a, s.trial)?, up.at(b, s.trial)?));
    layers.push(Layer::new(
        "a trial",
        Ink::Faint,
        Mark::Dots(some.iter().filter_map(dots).collect(), 1.1),
    ));
    let best = with.iter().filter(|s| Some(s.trial.number) == m.winner);
    let best: Vec<(f64, f64)> = best.filter_map(dots).collect();
    if !best.is_empty() {
        layers.push(Layer::new("the best", Ink::Second, Mark::Dots(best, 5.0)));
    }
    let see = format!(
        "How good the trials around each place of {} and {} are, by rank; nothing is painted where too few were tried.",
        shown(a),
        shown(b)
    );
    let axes = (across.axis(a), up.axis(b));
    let mut panel = Panel::new(chart(Kind::Contour, &see, axes, layers));
    panel.height = 400.0;
    Ok((see, vec![panel]))
}

/// The cells of each level, by the ranks (0 the best, 1 the worst) of the trials around them; none where there are too few.
fn painted(across: &Places, up: &Places, ranked: &[((f64, f64), f64)]) -> Vec<Vec<[f64; 4]>> {
    let mut cells: Vec<Vec<[f64; 4]>> = vec![Vec::new(); usize::from(LEVELS)];
    let (columns, rows) = (&across.scale, &up.scale);
    for (y0, y1) in up.cells(UP) {
        for (x0, x1) in across.cells(ACROSS) {
            let (x, y) = ((x0 + x1) / 2.0, (y0 + y1) / 2.0);
            let weight = |at: (f64, f64)| across.near(x, at.0) * up.near(y, at.1);
            let sums = ranked.iter().fold((0.0, 0.0), |(sum, all), (at, rank)| {
                let w = weight(*at);
                (sum + w * rank, all + w)
            });
            if sums.1 < 1.0 {
                continue;
            }
            let level = ((1.0 - sums.0 / sums.1) * f64::from(LEVELS)) as usize;
            let cell = [
                columns.back(x0),
                rows.back(y0),
                columns.back(x1),
                rows.back(y1),
            ];
            cells[level.min(usize::from(LEVELS) - 1)].push(cell);
        }
    }
    cells
}

/// Axes beside each other: on a wide page, on a phone.
const AXES: usize = 8;
const AXES_NARROW: usize = 3;

/// Lines: of the best, and of the others.
const BEST: usize = 60;
const OTHERS: usize = 180;

pub(super) fn parallel(m: &Material, facts: &Facts, asked: &[String]) -> Built {
    let scored = m.scored();
    enough(&scored)?;
    known(asked, &scored)?;
    let names = wanted(facts, asked, AXES);
    if names.is_empty() {
        return Err("The trials have no parameter with more than one value.".to_owned());
    }
    let see = format!(
        "Each line is a trial, from its parameters to its {}; strong lines are the best tenth. Where they run together, that value matters. {} of {} complete trials are drawn.",
        shown(m.metric()),
        scored.len().min(BEST + OTHERS),
        scored.len()
    );
    let mut panel = Panel::new(lines_of(m, &scored, &names, &see));
    let few = &names[..names.len().min(AXES_NARROW)];
    panel.narrow = (few.len() < names.len()).then(|| lines_of(m, &scored, few, &see));
    Ok((see, vec![panel]))
}

fn lines_of(m: &Material, scored: &[Scored<'_>], names: &[&str], see: &str) -> Chart {
    let direction = m.study.direction();
    let places: Vec<Places> = names.iter().map(|name| Places::new(name, scored)).collect();
    let values: Vec<f64> = scored.iter().map(|s| s.value).collect();
    let (scale, _) = values_scale(m, &values, &[]);
    let line = |s: &Scored<'_>| -> Vec<(f64, f64)> {
        let params = names.iter().zip(&places).enumerate();
        let params =
            params.filter_map(|(i, (name, place))| Some((i as f64, place.share(name, s.trial)?)));
        let value = scale.held(s.value).map(|share| (names.len() as f64, share));
        params.chain(value).collect()
    };
    let mut order: Vec<Scored<'_>> = scored.to_vec();
    order.sort_by(|a, b| direction.loss(a.value).total_cmp(&direction.loss(b.value)));
    let (best, others) = order.split_at(order.len().div_ceil(10));
    let drawn = |trials: &[Scored<'_>], most: usize| Mark::Lines {
        lines: spread(trials, most).iter().map(line).collect(),
        stroke: Stroke::Apart,
    };
    let scales = places.iter().map(|p| &p.scale).chain([&scale]).enumerate();
    let words = scales.flat_map(|(i, scale)| {
        let texts = marked(scale).into_iter();
        texts.map(move |(share, text)| (i as f64, share, text))
    });
    let layers = vec![
        Layer::new("other trials", Ink::Faint, drawn(others, OTHERS)),
        Layer::new("the best tenth", Ink::Main, drawn(best, BEST)),
        Layer::new("", Ink::Text, Mark::Words(words.collect())),
    ];
    let metric = shown(m.metric());
    let titles = names.iter().map(|name| shown(name)).chain([metric]);
    let y = Scale::bare(-0.04, 1.04);
    let axes = (Axis::new("", Scale::names(titles)), Axis::new("", y));
    chart(Kind::Parallel, see, axes, layers)
}

/// What is written along an axis: all names, or the least and the greatest round number; with their places.
fn marked(scale: &Scale) -> Vec<(f64, String)> {
    let ticks = scale.ticks(6);
    let all = scale.of_names().is_some();
    let last = ticks.len().saturating_sub(1);
    let kept = ticks.into_iter().enumerate();
    let kept = kept.filter(|(i, _)| all || *i == 0 || *i == last);
    kept.filter_map(|(_, tick)| Some((scale.place(tick.at)?, ::chart::shortened(&tick.text, 9))))
        .collect()
}
