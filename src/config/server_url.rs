//! The URL of a database server, as far as a configuration is about it.

/// The part of a URL behind `postgresql://`, also with a driver of SQLAlchemy's; `None`: another scheme.
pub fn of_postgresql(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.split('+').next().unwrap_or_default();
    matches!(scheme, "postgresql" | "postgres").then_some(rest)
}

/// Whether such a part holds a password, which may hold a slash, a question mark or another `@` itself.
pub fn has_password(rest: &str) -> bool {
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let in_user = |(user, _): (&str, &str)| user.contains(':');
    let is_one = |pair: &str| {
        let key = pair.split_once('=').map_or(pair, |(key, _)| key);
        decoded(key).is_ok_and(|key| key == "password")
    };
    rest.split_once('@').is_some_and(in_user)
        || base.rsplit_once('@').is_some_and(in_user)
        || query.split('&').any(is_one)
}

/// A part of a URL without its `%20` and the like.
///
/// # Errors
/// It is not UTF-8.
pub fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        let code = digits.and_then(|two| str::from_utf8(two).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| "a parameter of the URL is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_seen_wherever_it_is() {
        let has = |url: &str| of_postgresql(url).is_some_and(has_password);
        for url in [
            "postgresql://me:secret@db/s",
            "postgresql+psycopg2://me:se?cret@db/s",
            "postgres://me@db/s?pass%77ord=secret",
        ] {
            assert!(has(url), "{url}");
        }
        for url in [
            "postgresql://me@db:5432/s?service=a",
            "postgresql:///s",
            "sqlite:////data/run:1@2/tune.db",
        ] {
            assert!(!has(url), "{url}");
        }
    }
}
