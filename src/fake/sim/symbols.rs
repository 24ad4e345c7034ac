//! How the C functions are written: one line for each prototype, and what the call does.

/// Defines C functions that answer with a status.
macro_rules! symbols {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $status:expr;)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::unmodelled::told(stringify!($name), $status)
        }
    )*};
}

/// Defines symbols of the runtime. Each call is passed its own name, by which its effect before its own work is looked
/// up.
macro_rules! runtime_symbols {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $call:ident($($work:tt)*);)*) => {
        $crate::symbols::symbols! {$(
            $(#[$about])*
            fn $name($($argument: $type),*) = $call(stringify!($name), $($work)*);
        )*}
    };
}

pub(crate) use {runtime_symbols, symbols};
