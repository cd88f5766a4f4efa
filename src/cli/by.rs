//! `--by TIME`: until when all of a run is to be done.

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{DateTime, Time};

use messages::exit::Failure;

/// How long it is until the time that is named: a time of day that comes next (`08:00`), or one of a day
/// (`2026-11-25T08:00`), both of the time zone of `now`.
///
/// # Errors
/// It is no time, or has passed (2).
pub(super) fn until(text: &str, now: &Zoned) -> Result<Duration, Failure> {
    let wrong = |expected: &str| Failure::input(format!("--by {text}: expected {expected}"));
    let of_day = text.len() <= 8;
    let at = match of_day {
        true => text.parse::<Time>().ok().map(|time| {
            let day = now.date();
            match time > now.time() {
                true => day.to_datetime(time),
                false => day.tomorrow().unwrap_or(day).to_datetime(time),
            }
        }),
        false => text.parse::<DateTime>().ok(),
    };
    let at = at.ok_or_else(|| wrong("a time such as 08:00, or 2026-11-25T08:00"))?;
    let at = at
        .to_zoned(now.time_zone().clone())
        .map_err(|e| wrong(&format!("a time that there is: {e}")))?;
    let left = now.duration_until(&at);
    Duration::try_from(left)
        .ok()
        .filter(|left| !left.is_zero())
        .ok_or_else(|| {
            let now = now.strftime("%Y-%m-%dT%H:%M");
            wrong(&format!("a time after now, which is {now}"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> Result<u64, String> {
        let now = "2026-11-24T22:30:00+00:00[UTC]".parse().unwrap();
        until(text, &now)
            .map(|left| left.as_secs())
            .map_err(|e| e.message)
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        assert_eq!(left("08:00"), Ok(34_200));
        assert_eq!(left("23:00"), Ok(1800));
        assert_eq!(left("22:30"), Ok(86_400));
        assert_eq!(left("22:30:10"), Ok(10));
    }

    #[test]
    fn a_time_of_a_day_must_be_to_come() {
        assert_eq!(left("2026-11-25T08:00"), Ok(34_200));
        assert!(
            left("2026-11-24T08:00")
                .unwrap_err()
                .contains("2026-11-24T22:30")
        );
        for wrong in ["8", "25:00", "morning", "", "2026-11-31T08:00"] {
            assert!(left(wrong).unwrap_err().contains("08:00"), "{wrong}");
        }
    }
}
