//! Sends a call in text form: `call FINDER SECRET_HEX SOCKET_DIR XRL`. Prints the reply in the text form.

use sluice_xrl::{EndpointOptions, Secret, XrlEndpoint, text};

fn secret(hex: &str) -> Option<Secret> {
    let digits =
        hex.as_bytes().chunks_exact(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
    digits.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [finder, secret_hex, folder, call] = args.as_slice() else {
        return Err("usage: call FINDER SECRET SOCKET_DIR XRL".into());
    };
    let secret = secret(secret_hex).ok_or("the secret is 32 hexadecimal digits")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let router = XrlEndpoint::connect(EndpointOptions::new(finder, secret, folder)).await?;
        println!("{}", text::call_text(&router, call).await?.text);
        Ok(())
    })
}
