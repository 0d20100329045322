//! Lines on standard output and standard error, for every program of the house.
//!
//! The macros of the standard library panic when the reader has closed the pipe, as `head` does. These drop what nobody reads.
//! `clippy.toml` refuses the standard macros in the crates that print for people.

#![warn(clippy::disallowed_macros)]

use std::fmt::Arguments;
use std::io::{self, Write};

/// Prints a text on standard output. Used by [`out!`](crate::out) and [`outln!`](crate::outln).
pub fn to_output(text: Arguments<'_>) {
    put(io::stdout().lock(), text);
}

/// Prints a text on standard error. Used by [`errln!`](crate::errln).
pub fn to_error(text: Arguments<'_>) {
    put(io::stderr().lock(), text);
}

fn put(mut sink: impl Write, text: Arguments<'_>) {
    // A reader that is gone has read enough. What has no end of a line waits for nothing.
    let _ = sink.write_fmt(text).and_then(|()| sink.flush());
}

/// Prints a text on standard output, as `print!` does.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => { $crate::to_output(::std::format_args!($($text)*)) };
}

/// Prints a line on standard output, as `println!` does.
#[macro_export]
macro_rules! outln {
    () => { $crate::to_output(::std::format_args!("\n")) };
    ($($text:tt)*) => { $crate::to_output(::std::format_args!("{}\n", ::std::format_args!($($text)*))) };
}

/// Prints a line on standard error, as `eprintln!` does.
#[macro_export]
macro_rules! errln {
    () => { $crate::to_error(::std::format_args!("\n")) };
    ($($text:tt)*) => { $crate::to_error(::std::format_args!("{}\n", ::std::format_args!($($text)*))) };
}

#[cfg(test)]
mod tests {
    use super::put;
    use std::io::{self, Write};

    /// A pipe without a reader.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        put(Closed, format_args!("{}\n", 1));
    }

    #[test]
    fn a_text_comes_out_whole() {
        let mut sink = Vec::new();
        put(&mut sink, format_args!("{}-{:>3}\n", "a", 7));
        assert_eq!(sink, b"a-  7\n");
    }
}
