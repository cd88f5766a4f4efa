//! Values on their way to and from a PostgreSQL server, in its binary format.
//!
//! The server says of which type a parameter or a column is; a value is converted to it. Times are
//! microseconds since 2000, and text to us; an enumeration's value is its name.

use std::error::Error;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use rusqlite::types::Value;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use messages::clock::to_store as stamp;

type Failed = Box<dyn Error + Sync + Send>;

/// A parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Parameter(pub(super) Value);

impl ToSql for Parameter {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        match &self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(n) => integer(*n, ty, out),
            Value::Real(x) => x.to_sql(ty, out),
            Value::Text(text) if *ty == Type::TIMESTAMP => since_2000(text)?.to_sql(ty, out),
            Value::Text(text) => text.to_sql(ty, out),
            Value::Blob(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn integer(n: i64, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
    match *ty {
        Type::BOOL => (n != 0).to_sql(ty, out),
        Type::INT2 => i16::try_from(n)?.to_sql(ty, out),
        Type::INT4 => i32::try_from(n)?.to_sql(ty, out),
        Type::FLOAT4 | Type::FLOAT8 => (n as f64).to_sql(&Type::FLOAT8, out),
        _ => n.to_sql(ty, out),
    }
}

/// A column's value.
pub(super) struct Cell(pub(super) Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Cell, Failed> {
        Ok(Cell(match *ty {
            Type::BOOL => Value::Integer(i64::from(bool::from_sql(ty, raw)?)),
            Type::INT2 => Value::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Integer(i64::from_sql(ty, raw)?),
            Type::FLOAT4 => Value::Real(f32::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Value::Real(f64::from_sql(ty, raw)?),
            Type::TIMESTAMP | Type::TIMESTAMPTZ => {
                // `infinity` is one, too: the last that its 8 bytes hold.
                let micros = i64::from_be_bytes(raw.try_into()?);
                let since = SignedDuration::from_micros(micros);
                Value::Text(stamp(beginning()?.checked_add(since)?))
            }
            // Text, and the names of an enumeration's values.
            _ => Value::Text(str::from_utf8(raw)?.to_owned()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Cell, Failed> {
        Ok(Cell(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A naive time, as microseconds since 2000.
struct Micros(i64);

impl Micros {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

fn since_2000(text: &str) -> Result<Micros, Failed> {
    let time: civil::DateTime = text.parse()?;
    let time = time.to_zoned(TimeZone::UTC)?.timestamp();
    let micros = time.duration_since(beginning()?).as_micros();
    Ok(Micros(i64::try_from(micros)?))
}

/// What the server counts microseconds from.
fn beginning() -> Result<Timestamp, jiff::Error> {
    Timestamp::from_second(946_684_800)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_as_it_was() {
        for time in [
            "2026-11-24 05:06:07.000008",
            "1999-12-31 23:59:59.999999",
            "2000-01-01 00:00:00.000000",
        ] {
            let mut out = BytesMut::new();
            let parameter = Parameter(Value::Text(time.to_owned()));
            parameter.to_sql(&Type::TIMESTAMP, &mut out).unwrap();
            let Cell(value) = Cell::from_sql(&Type::TIMESTAMP, &out).unwrap();
            assert_eq!(value, Value::Text(time.to_owned()));
        }
        let mut out = BytesMut::new();
        let wrong = Parameter(Value::Text("yesterday".to_owned()));
        assert!(wrong.to_sql(&Type::TIMESTAMP, &mut out).is_err());
        for infinite in [i64::MAX, i64::MIN] {
            let raw = infinite.to_be_bytes();
            assert!(Cell::from_sql(&Type::TIMESTAMP, &raw).is_err());
        }
    }

    #[test]
    fn an_integer_takes_the_column_s_type_or_is_refused() {
        let mut out = BytesMut::new();
        let big = Parameter(Value::Integer(i64::from(i32::MAX) + 1));
        assert!(big.to_sql(&Type::INT4, &mut out).is_err());
        big.to_sql(&Type::INT8, &mut out).unwrap();
        assert_eq!(out.len(), 8);
        let mut out = BytesMut::new();
        Parameter(Value::Integer(3))
            .to_sql(&Type::FLOAT8, &mut out)
            .unwrap();
        let Cell(value) = Cell::from_sql(&Type::FLOAT8, &out).unwrap();
        assert_eq!(value, Value::Real(3.0));
        let mut out = BytesMut::new();
        Parameter(Value::Integer(1))
            .to_sql(&Type::BOOL, &mut out)
            .unwrap();
        assert_eq!(
            Cell::from_sql(&Type::BOOL, &out).unwrap().0,
            Value::Integer(1)
        );
    }
}
