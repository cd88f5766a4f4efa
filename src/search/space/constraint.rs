//! Declared constraints: a comparison between two arithmetic expressions over parameters and fixed
//! training keys, such as `train.batch_size * train.grad_accum <= 64`.
//!
//! Grammar (whitespace is free):
//! ```text
//! expr       = sum compare sum
//! compare    = "<=" | "<" | ">=" | ">" | "==" | "!="
//! sum        = product { ("+" | "-") product }
//! product    = unary { ("*" | "/") unary }
//! unary      = [ "-" ] atom
//! atom       = number | name | "(" sum ")"
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Condition, Value};

/// A declared constraint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Must hold.
    pub expr: Expr,
    /// Applies only while all of these hold.
    pub when: Vec<Condition>,
}

/// A parsed constraint expression; keeps its text for messages and serialisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expr {
    text: String,
    left: Sum,
    compare: Compare,
    right: Sum,
}

/// Why an expression could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("at character {at}: found {found}, expected {expected}")]
pub struct ConstraintError {
    /// Position, counted in characters from 1.
    pub at: usize,
    /// What stands there.
    pub found: String,
    /// What could stand there.
    pub expected: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
enum Sum {
    Number(f64),
    Name(String),
    Negative(Box<Sum>),
    Binary(Box<Sum>, Operator, Box<Sum>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Compare {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Equal,
    NotEqual,
}

impl Expr {
    /// Whether the constraint holds. `lookup` gives the value of a name; a constraint that names a
    /// value which is absent (an inactive parameter) or no number says nothing and holds.
    pub fn holds(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> bool {
        let (Some(a), Some(b)) = (self.left.value(lookup), self.right.value(lookup)) else {
            return true;
        };
        match self.compare {
            Compare::LessEqual => a <= b,
            Compare::Less => a < b,
            Compare::GreaterEqual => a >= b,
            Compare::Greater => a > b,
            Compare::Equal => a == b,
            Compare::NotEqual => a != b,
        }
    }

    /// Every name in the expression, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.left.collect_names(&mut names);
        self.right.collect_names(&mut names);
        names
    }
}

impl Sum {
    fn value(&self, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<f64> {
        Some(match self {
            Sum::Number(x) => *x,
            Sum::Name(name) => lookup(name)?.as_f64()?,
            Sum::Negative(inner) => -inner.value(lookup)?,
            Sum::Binary(a, operator, b) => {
                let (a, b) = (a.value(lookup)?, b.value(lookup)?);
                match operator {
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                }
            }
        })
    }

    fn collect_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Sum::Number(_) => {}
            Sum::Name(name) => names.push(name),
            Sum::Negative(inner) => inner.collect_names(names),
            Sum::Binary(a, _, b) => {
                a.collect_names(names);
                b.collect_names(names);
            }
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Expr> for String {
    fn from(expr: Expr) -> String {
        expr.text
    }
}

impl TryFrom<String> for Expr {
    type Error = ConstraintError;
    fn try_from(text: String) -> Result<Expr, ConstraintError> {
        text.parse()
    }
}

/// The longest expression, in characters: its parts are computed one within the other.
const LONGEST: usize = 4096;

/// How many parentheses may stand within each other: each is read within the one before.
const DEEPEST: usize = 100;

impl FromStr for Expr {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Expr, ConstraintError> {
        let mut parser = Parser {
            chars: text.chars().collect(),
            at: 0,
            open: 0,
        };
        if parser.chars.len() > LONGEST {
            return Err(ConstraintError {
                at: LONGEST + 1,
                found: format!("one of {}", parser.chars.len()),
                expected: "an expression of at most 4096 characters",
            });
        }
        let left = parser.sum()?;
        let compare = parser.compare()?;
        let right = parser.sum()?;
        parser.skip_space();
        if parser.at < parser.chars.len() {
            return Err(parser.error("the end of the expression"));
        }
        Ok(Expr {
            text: text.to_owned(),
            left,
            compare,
            right,
        })
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    /// Parentheses that have not been closed.
    open: usize,
}

impl Parser {
    fn sum(&mut self) -> Result<Sum, ConstraintError> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Sum::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Sum, ConstraintError> {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Sum::Binary(Box::new(left), operator, Box::new(self.unary()?));
        }
    }

    fn unary(&mut self) -> Result<Sum, ConstraintError> {
        if self.peek() == Some('-') {
            self.at += 1;
            return Ok(Sum::Negative(Box::new(self.atom()?)));
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Sum, ConstraintError> {
        const EXPECTED: &str = "a number, a parameter's name or '('";
        match self.peek() {
            Some('(') => {
                if self.open == DEEPEST {
                    return Err(self.error("at most 100 '(' within each other"));
                }
                self.at += 1;
                self.open += 1;
                let inner = self.sum()?;
                if self.peek() != Some(')') {
                    return Err(self.error("')'"));
                }
                self.at += 1;
                self.open -= 1;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => {
                let start = self.at;
                let text = self.number_text();
                text.parse().map(Sum::Number).map_err(|_| ConstraintError {
                    at: start + 1,
                    found: format!("'{text}'"),
                    expected: "a number",
                })
            }
            Some(c) if c.is_alphabetic() || c == '_' => {
                Ok(Sum::Name(self.take_while(|c| {
                    c.is_alphanumeric() || c == '_' || c == '.'
                })))
            }
            Some(_) | None => Err(self.error(EXPECTED)),
        }
    }

    /// Digits, a point and an exponent (`5e-6`).
    fn number_text(&mut self) -> String {
        let mut text = self.take_while(|c| c.is_ascii_digit() || c == '.');
        if matches!(self.chars.get(self.at), Some('e' | 'E')) {
            self.at += 1;
            text.push('e');
            if let Some(sign @ ('-' | '+')) = self.chars.get(self.at).copied() {
                self.at += 1;
                text.push(sign);
            }
            text += &self.take_while(|c| c.is_ascii_digit());
        }
        text
    }

    fn compare(&mut self) -> Result<Compare, ConstraintError> {
        self.skip_space();
        let rest: String = self.chars[self.at..].iter().take(2).collect();
        let (compare, length) = match rest.as_str() {
            "<=" => (Compare::LessEqual, 2),
            ">=" => (Compare::GreaterEqual, 2),
            "==" => (Compare::Equal, 2),
            "!=" => (Compare::NotEqual, 2),
            r if r.starts_with('<') => (Compare::Less, 1),
            r if r.starts_with('>') => (Compare::Greater, 1),
            _ => return Err(self.error("an operator or one of <=, <, >=, >, ==, !=")),
        };
        self.at += length;
        Ok(compare)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.chars.get(self.at).is_some_and(|&c| keep(c)) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    fn skip_space(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.chars.get(self.at).copied()
    }

    fn error(&mut self, expected: &'static str) -> ConstraintError {
        self.skip_space();
        ConstraintError {
            at: self.at + 1,
            found: match self.chars.get(self.at) {
                Some(c) => format!("'{c}'"),
                None => "the end".into(),
            },
            expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let expr: Expr = text.parse().unwrap();
        expr.holds(&|name| match name {
            "train.batch_size" => Some(Value::Int(16)),
            "lr" => Some(Value::Float(5e-6)),
            "act" => Some("relu".into()),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_binds_as_usual() {
        assert!(holds("2 + 3 * 4 == 14"));
        assert!(holds("(2 + 3) * 4 == 20"));
        assert!(holds("-2 - 3 - 1 == -6"));
        assert!(holds("8 / 4 / 2 == 1"));
        assert!(holds("lr <= 5e-6"));
        assert!(!holds("train.batch_size*4 < 64"));
        assert!(holds("train.batch_size*4 <= 64"));
        assert!(holds("1 != 2"));
    }

    #[test]
    fn a_constraint_on_an_absent_or_textual_value_holds() {
        assert!(holds("sched.cosine_cycles > 1000"));
        assert!(holds("act > 3"));
    }

    #[test]
    fn errors_say_where_and_what_was_expected() {
        let error = |text: &str| text.parse::<Expr>().unwrap_err();
        assert_eq!(error("a * <= 3").at, 5);
        assert_eq!(
            error("a b").expected,
            "an operator or one of <=, <, >=, >, ==, !="
        );
        assert_eq!(error("(a <= 3").expected, "')'");
        assert_eq!(error("a <= 3 4").at, 8);
        assert_eq!(error("1.2.3 < 4").found, "'1.2.3'");
        assert_eq!(error("").found, "the end");
    }

    #[test]
    fn an_expression_that_no_stack_holds_is_refused() {
        let error = |text: &str| text.parse::<Expr>().unwrap_err().to_string();
        let sum = |terms: usize| format!("1{} > 0", "+1".repeat(terms));
        assert!(holds(&sum(2045)), "as long as one may be");
        assert_eq!(
            error(&sum(100_000)),
            "at character 4097: found one of 200005, expected an expression of at most 4096 characters"
        );
        let nested = |n: usize| format!("{}1{} > 0", "(".repeat(n), ")".repeat(n));
        assert!(holds(&nested(DEEPEST)));
        assert!(error(&nested(DEEPEST + 1)).contains("at most 100 '('"));
    }

    #[test]
    fn serialisation_keeps_the_text() {
        let expr: Expr = "a*b <= 64".parse().unwrap();
        let json = serde_json::to_string(&expr).unwrap();
        assert_eq!(json, "\"a*b <= 64\"");
        assert_eq!(serde_json::from_str::<Expr>(&json).unwrap(), expr);
        assert_eq!(expr.names(), ["a", "b"]);
    }
}
