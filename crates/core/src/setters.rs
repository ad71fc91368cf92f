//! The setters of options: one shape for every store and broker.

/// Makes a setter for each field of a struct of options, named after it.
///
/// The struct keeps its fields and their documentation; here stands what a setter takes and, where that is not the
/// field's own type, what is kept of it:
///
/// ```
/// use std::path::PathBuf;
///
/// /// How something is opened.
/// #[derive(Default)]
/// #[non_exhaustive]
/// pub struct Options {
///     /// What it is called.
///     pub name: String,
///     /// Whether it is made when it is missing.
///     pub create: bool,
///     /// Where its password is.
///     pub password_file: Option<PathBuf>,
/// }
///
/// postrider_core::setters! {
///     Options {
///         name: impl Into<String> => name.into(),
///         create: bool,
///         /// It wins over any other password.
///         password_file: impl Into<PathBuf> => Some(password_file.into()),
///     }
/// }
///
/// let options = Options::default().name("orders").create(true);
/// assert_eq!((options.name.as_str(), options.create), ("orders", true));
/// ```
#[macro_export]
macro_rules! setters {
    ($options:ident { $($(#[$more:meta])* $field:ident: $given:ty $(=> $kept:expr)?,)* }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($options), "::", stringify!($field), "`].")]
                $(#[$more])*
                pub fn $field(mut self, $field: $given) -> Self {
                    $(let $field = $kept;)?
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}
