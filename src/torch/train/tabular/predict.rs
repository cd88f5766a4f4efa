//! A trained model of a table that answers rows.
