//! The wall clock, which only tells people when something was. A machine may have any time: what
//! lies outside the years that can be written is taken for the nearest that can.

use std::time::SystemTime;

use jiff::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    nearest(SystemTime::now())
}

fn nearest(time: SystemTime) -> Timestamp {
    let beyond = match time < SystemTime::UNIX_EPOCH {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    Timestamp::try_from(time).unwrap_or(beyond)
}

/// A time of a database, naive UTC (`2026-11-21 23:59:59.5`); `None` for other text.
pub fn stored(text: &str) -> Option<Timestamp> {
    let time: jiff::civil::DateTime = text.parse().ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// A time as [`stored`] reads it, with microseconds: as SQLAlchemy writes it.
pub fn to_store(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_beyond_the_year_9999_stands_still() {
        let after = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(nearest(after(1)), Timestamp::from_second(1).unwrap());
        assert_eq!(nearest(after(1 << 40)), Timestamp::MAX);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 40);
        assert_eq!(nearest(before), Timestamp::MIN);
    }
}
