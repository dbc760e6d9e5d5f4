//! Enumerations whose variants have names.

/// Defines an enumeration by a table: variant, and its name as it is printed and kept.
macro_rules! named {
    ($(#[$of_all:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident: $name:literal,)* }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub enum $enum {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $enum {
            /// All of them, in the order in which they are printed.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name as it is printed.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

pub(crate) use named;
