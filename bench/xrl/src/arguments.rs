//! Requests with so many arguments, for both kinds of call.

/// As many as figure 9 has.
pub const MOST: usize = 25;

/// The value of an argument: three octets on the wire.
fn value(used: usize, index: usize) -> u32 {
    if index < used { 64_500 + index as u32 } else { 0 }
}

macro_rules! arguments {
    ($make:ident, $count:ident, $request:ty, $($field:ident $index:literal),*) => {
        /// A request with `n` arguments.
        pub fn $make(n: usize) -> $request {
            let mut request = <$request>::default();
            $(request.$field = value(n, $index);)*
            request
        }

        /// The number of arguments that a request has.
        pub fn $count(request: &$request) -> u32 {
            0 $(+ u32::from(request.$field != 0))*
        }
    };
}

arguments!(xrl, count_xrl, crate::idl::bench::v1::CountRequest,
    a1 0, a2 1, a3 2, a4 3, a5 4, a6 5, a7 6, a8 7, a9 8, a10 9, a11 10, a12 11, a13 12, a14 13, a15 14, a16 15, a17 16, a18 17, a19 18, a20 19, a21 20, a22 21, a23 22, a24 23, a25 24);
arguments!(grpc, count_grpc, crate::yardstick::proto::CountRequest,
    a1 0, a2 1, a3 2, a4 3, a5 4, a6 5, a7 6, a8 7, a9 8, a10 9, a11 10, a12 11, a13 12, a14 13, a15 14, a16 15, a17 16, a18 17, a19 18, a20 19, a21 20, a22 21, a23 22, a24 23, a25 24);
