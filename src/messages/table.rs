//! The macro by which an enum and the table of what is known of its variants are one.

/// Makes an enum, the struct of its rows, and a row for each variant, so that none is written twice or kept in order by hand.
///
/// ```ignore
/// messages::table! {
///     /// A fruit.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub enum Fruit;
///
///     /// What is known of a fruit.
///     pub struct Row {
///         /// Its weight, in grams.
///         pub weight: u32,
///         /// What it is called, for people.
///         pub name: &'static str,
///     }
///
///     Apple(150, "an apple");
///     /// Of the tree, not of the cactus.
///     Pear(180, "a pear");
/// }
/// ```
///
/// makes `Fruit::Apple` and `Fruit::Pear`; `Fruit::ALL`, both in this order, which is that of the enum, too; and `row`, as
/// private or public as the struct: `Fruit::Pear.row().weight` is 180. A row has the struct's fields in their order. The enum
/// has to be `Copy`. Attributes of a variant stand above its row; a comment only where the row does not say it.
#[macro_export]
macro_rules! table {
    (
        $(#[$of_enum:meta])*
        $enum_visible:vis enum $Enum:ident;

        $(#[$of_struct:meta])*
        $row_visible:vis struct $Row:ident {
            $($(#[$of_field:meta])* $field_visible:vis $field:ident: $Field:ty,)+
        }

        $($(#[$of_variant:meta])* $Variant:ident $row:tt;)+
    ) => {
        $(#[$of_enum])*
        $enum_visible enum $Enum {
            $($(#[$of_variant])* #[allow(missing_docs)] $Variant,)+
        }

        $(#[$of_struct])*
        $row_visible struct $Row {
            $($(#[$of_field])* $field_visible $field: $Field,)+
        }

        impl $Enum {
            /// All of them, in the order of the table.
            pub const ALL: &'static [$Enum] = &[$($Enum::$Variant),+];

            /// What the table has of it.
            $row_visible fn row(self) -> &'static $Row {
                // As many as the row has columns.
                #[allow(clippy::too_many_arguments)]
                const fn of($($field: $Field),+) -> $Row {
                    $Row { $($field),+ }
                }
                const ROWS: &[$Row] = &[$(of $row),+];
                &ROWS[self as usize]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    crate::table! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Fruit;

        struct Row {
            weight: u32,
            name: &'static str,
        }

        Apple(150, "an apple");
        /// Of the tree, not of the cactus.
        Pear(180, "a pear");
    }

    #[test]
    fn each_variant_has_the_row_that_it_stands_in() {
        assert_eq!(Fruit::ALL, [Fruit::Apple, Fruit::Pear]);
        let rows = Fruit::ALL.iter().map(|fruit| fruit.row());
        let told: Vec<(u32, &str)> = rows.map(|row| (row.weight, row.name)).collect();
        assert_eq!(told, [(150, "an apple"), (180, "a pear")]);
    }
}
