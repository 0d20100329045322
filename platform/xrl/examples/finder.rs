//! A Finder on its own, for tests in different languages: `finder SOCKET SECRET_HEX`. The owner of the secret has
//! every right. The Finder ends with its standard input.

use sluice_xrl::finder::Finder;
use sluice_xrl::{Acl, Principal, Secret};
use tokio::io::AsyncReadExt;

fn secret(hex: &str) -> Option<Secret> {
    let digits =
        hex.as_bytes().chunks_exact(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
    digits.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(secret)) = (args.next(), args.next().as_deref().and_then(secret)) else {
        return Err("usage: finder SOCKET SECRET (32 hexadecimal digits)".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let acl = Acl::from([(secret, Principal::all_powerful("test"))]);
        let _finder = Finder::bind(&path, acl).await?;
        println!("ready");
        let (mut input, mut buf) = (tokio_stdin()?, [0; 64]);
        while input.read(&mut buf).await? > 0 {}
        Ok(())
    })
}

/// Standard input as a source for the event loop; must be a pipe or a socket.
fn tokio_stdin() -> std::io::Result<tokio::net::unix::pipe::Receiver> {
    use std::os::fd::AsFd;
    tokio::net::unix::pipe::Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)
}
