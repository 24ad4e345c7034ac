//! Macros for the C functions: one line for each prototype, and the work of the call.

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

/// Defines symbols of the runtime. Each call is passed its own name, which determines its effect before its own work.
macro_rules! runtime_symbols {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $call:ident($($work:tt)*);)*) => {
        $crate::symbols::symbols! {$(
            $(#[$about])*
            fn $name($($argument: $type),*) = $call(stringify!($name), $($work)*);
        )*}
    };
}

pub(crate) use {runtime_symbols, symbols};
