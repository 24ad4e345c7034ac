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

/// Likewise for the runtime, whose calls are told their own names: what one does before its own work is looked up by
/// its name.
macro_rules! runtime_symbols {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $call:ident($($work:tt)*);)*) => {
        $crate::symbols::symbols! {$(
            $(#[$about])*
            fn $name($($argument: $type),*) = $call(stringify!($name), $($work)*);
        )*}
    };
}

pub(crate) use {runtime_symbols, symbols};
