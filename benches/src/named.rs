//! Enumerations whose variants have names.

/// Defines an enumeration by a table: each variant, and the name with which it is printed and stored.
macro_rules! named {
    ($(#[$of_all:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident: $name:literal,)* }) => {
        $(#[$of_all])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum $enum {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $enum {
            /// All variants, in the order in which they are printed.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name as it is printed.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

pub(crate) use named;
