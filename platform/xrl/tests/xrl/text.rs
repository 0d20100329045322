//! The text form: round trips with the binary form, and a separate error for every fault.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::support::*;
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use sluice_xrl::idl::common::v1::{Addr, Mac, Net};
use sluice_xrl::text::{build, call_text, list, parse, render};

fn described() -> MessageDescriptor {
    let descriptors = &include_bytes!(concat!(env!("OUT_DIR"), "/tests/xrl-descriptors.bin"))[..];
    DescriptorPool::decode(descriptors).unwrap().get_message_by_name("echo.v1.Everything").unwrap()
}

fn to_text(message: &Everything) -> String {
    render(&DynamicMessage::decode(described(), &message.encode_to_vec()[..]).unwrap())
}

fn from_text(text: &str) -> Result<Everything, String> {
    let call = parse(&format!("t/i/m?{text}")).map_err(|e| e.to_string())?;
    let message = build(&described(), &call.arguments).map_err(|e| e.to_string())?;
    Ok(Everything::decode(&message.encode_to_vec()[..]).unwrap())
}

fn addr(text: &str) -> Addr {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

fn net(text: &str) -> Net {
    text.parse::<sluice_base::IpPrefix>().unwrap().into()
}

#[test]
fn every_type_both_ways() {
    let none = to_text(&Everything::default());
    let check = |message: Everything, expected: &str| {
        let text = to_text(&message);
        assert!(text.split('&').any(|atom| atom == expected), "{expected} in {text}");
        assert_eq!(from_text(expected), Ok(message.clone()));
        assert_eq!(from_text(&text), Ok(message));
    };
    assert_eq!(from_text(&none), Ok(Everything::default()));
    let d = Everything::default;
    check(Everything { i32: -5, ..d() }, "i32:i32=-5");
    check(Everything { u32: u32::MAX, ..d() }, "u32:u32=4294967295");
    check(Everything { i64: i64::MIN, ..d() }, "i64:i64=-9223372036854775808");
    check(Everything { u64: u64::MAX, ..d() }, "u64:u64=18446744073709551615");
    check(Everything { fp64: 0.1, ..d() }, "fp64:fp64=0.1");
    check(Everything { flag: true, ..d() }, "flag:bool=true");
    check(Everything { txt: "a b&c".to_owned(), ..d() }, "txt:txt=a+b%26c");
    check(Everything { binary: vec![0, b'x', 0xff], ..d() }, "binary:binary=%00x%FF");
    check(Everything { numbers: vec![1, 2], ..d() }, "numbers:list<u32>=1,2");
    check(Everything { texts: vec![String::new(), "b,".to_owned()], ..d() }, "texts:list<txt>=,b%2C");
    check(Everything { texts: vec!["a".to_owned(), String::new()], ..d() }, "texts:list<txt>=a,,");
    check(Everything { addr: Some(addr("192.0.2.1")), ..d() }, "addr:ipv4=192.0.2.1");
    check(Everything { addr: Some(addr("2001:db8::1")), ..d() }, "addr:ipv6=2001:db8::1");
    check(Everything { net: Some(net("10.0.0.0/8")), ..d() }, "net:ipv4net=10.0.0.0/8");
    check(Everything { net: Some(net("::/0")), ..d() }, "net:ipv6net=::/0");
    check(
        Everything { mac: Some(Mac { octets: vec![2, 0, 0, 0, 0, 0xfe] }), ..d() },
        "mac:mac=02:00:00:00:00:fe",
    );
    check(Everything { addrs: vec![addr("::1"), addr("::2")], ..d() }, "addrs:list<ipv6>=::1,::2");
    check(Everything { color: Color::Red.into(), ..d() }, "color:enum=RED");
    let inner = Inner { x: 1, y: "z".to_owned() };
    check(Everything { inner: Some(inner.clone()), ..d() }, "inner:json=%7B\"x\":1%2C\"y\":\"z\"%7D");
    check(Everything { inners: vec![inner], ..d() }, "inners:json=%5B%7B\"x\":1%2C\"y\":\"z\"%7D%5D");
    check(Everything { maybe: Some(0), ..d() }, "maybe:u32=0");
    check(Everything { table: [("k".to_owned(), 1)].into(), ..d() }, "table:json=%7B\"k\":1%7D");
    check(Everything { choice: Some(everything::Choice::Left(0)), ..d() }, "left:u32=0");
}

#[test]
fn what_a_type_cannot_say_is_json() {
    let mixed = Everything { addrs: vec![addr("::1"), addr("10.0.0.1")], ..Default::default() };
    assert_eq!(from_text(&to_text(&mixed)), Ok(mixed));
    let odd = Everything { addr: Some(Addr { octets: vec![1, 2], family: 0 }), ..Default::default() };
    assert_eq!(from_text(&to_text(&odd)), Ok(odd));
}

#[test]
fn wrong_arguments() {
    let check = |text, expected: &str| {
        let error = from_text(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("what:u32=1", "no argument `what`; there is `i32`");
    check("u32:u32=1&u32:u32=1", "argument `u32` twice");
    check("u32:txt=1", "argument `u32` is u32, not txt");
    check("numbers:u32=1", "argument `numbers` is list<u32>, not u32");
    check("u32:list<u32>=1", "argument `u32` is u32, not list<u32>");
    check("addr:txt=10.0.0.1", "argument `addr` is ipv4|ipv6, not txt");
    check("u32:u32=4294967296", "`4294967296` is out of the range of u32");
    check("u32:u32=-1", "`-1` is out of the range of u32");
    check("i32:i32=99999999999999999999999999999999999999999", "out of the range of i32");
    check("u32:u32=x", "`x` is no u32");
    check("u32:u32=", "`` is no u32");
    check("flag:bool=1", "`1` is no bool");
    check("addr:ipv4=::1", "`::1` is no ipv4");
    check("net:ipv4net=10.0.0.1/8", "is no ipv4net");
    check("net:ipv6net=10.0.0.0/8", "is no ipv6net");
    check("mac:mac=1:2", "is no mac");
    check("txt:txt=%4", "`%4` is no txt");
    check("txt:txt=%FF", "is no txt");
    check("color:enum=BLUE", "`BLUE` is no enum");
    check("inner:json=%7B\"q\":1%7D", "is no json");
}

fn everything() -> impl Strategy<Value = Everything> {
    let numbers =
        (any::<i32>(), any::<u32>(), any::<i64>(), any::<u64>(), any::<bool>(), any::<Option<u32>>());
    let texts = (any::<String>(), any::<Vec<u8>>(), any::<Vec<u32>>(), any::<Vec<String>>());
    let f32s = -1e6f32..1e6;
    (numbers, texts, -1e9f64..1e9, f32s, any::<Vec<[u8; 16]>>(), any::<Option<[u8; 4]>>()).prop_map(
        |((i32, u32, i64, u64, flag, maybe), (txt, binary, numbers, texts), fp64, fp32, addrs, addr)| {
            Everything {
                i32,
                u32,
                i64,
                u64,
                flag,
                maybe,
                txt: txt.clone(),
                binary,
                numbers,
                texts,
                fp64,
                fp32,
                addrs: addrs.iter().map(|a| Addr { octets: a.to_vec(), family: 0 }).collect(),
                addr: addr.map(|a| Addr { octets: a.to_vec(), family: 0 }),
                inner: Some(Inner { x: u32, y: txt.clone() }),
                inners: vec![Inner { x: 0, y: txt.clone() }],
                table: [(txt, u32)].into(),
                ..Default::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn text_and_binary_are_the_same(message in everything()) {
        prop_assert_eq!(from_text(&to_text(&message)), Ok(message));
    }

    #[test]
    fn any_text_is_taken_or_refused(text: String) {
        let _ = from_text(&text);
        let _ = from_text(&format!("txt:txt={text}"));
        let _ = from_text(&format!("inner:json={text}"));
    }
}

#[test]
fn calls_by_text() {
    run(async |world| {
        let router = world.router().await;
        let (noter, _handle) = noter(&router, echo()).await;
        let caller = world.router().await;
        for (n, text) in [
            "finder://echo/echo.v1.Echo/Note?number:u32=0",
            "echo/echo.v1/Note?number:u32=1->number:u32",
            "unix://echo/echo.v1/Note?number:u32=2",
            "udp://echo/echo.v1/Note?number:u32=3",
        ]
        .into_iter()
        .enumerate()
        {
            let reply = call_text(&caller, text).await.unwrap();
            assert_eq!(reply.text, format!("number:u32={n}"));
        }
        assert_eq!(*noter.notes.borrow(), [0, 1, 2, 3]);
        // The target's own process, by text: no types are shared here.
        assert_eq!(call_text(&router, "echo/echo.v1/Note?number:u32=4").await.unwrap().json["number"], 4);
        let check = async |text: &str, name: &str, part: &str| {
            let error = call_text(&caller, text).await.unwrap_err();
            assert_eq!(error.name(), name, "{text}: {error}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        };
        check("nobody/echo.v1/Note", "UnknownTarget", "nobody").await;
        check("echo/ohce.v1/Note", "UnknownInterface", "there is echo.v1.Echo").await;
        check("echo/echo.v1/Eton", "UnknownMethod", "echo/echo.v1/Eton").await;
        check("echo/echo.v1/Note?x:u32=1", "BadArguments", "no argument `x`").await;
        check("echo/echo.v1/Note?number:txt=1", "BadArguments", "is u32, not txt").await;
        check("echo/echo.v1/Note?number:u32=4294967296", "BadArguments", "out of the range").await;
        check("post://echo/echo.v1/Note", "BadArguments", "expected one of").await;
        check("echo/echo.v1/Fail?code:u32=7&message:txt=so+it+is", "Application", "so it is (code 7)").await;
        let reply = call_text(&caller, "finder/finder.v1/ListTargets").await.unwrap();
        assert_eq!(reply.json["targets"][0]["instance"], "echo");
        assert!(call_text(&caller, "echo/finder.v1/Signal?number:i32=4711").await.is_err());
        let listing = list(&caller, Some("echo")).await.unwrap();
        let lines: Vec<String> = listing.iter().map(ToString::to_string).collect();
        assert!(
            lines.contains(&"finder://echo/echo.v1.Echo/Note?number:u32&yields:u32->number:u32".to_owned())
        );
        assert!(lines.contains(&"finder://echo/finder.v1.Process/Signal?number:i32".to_owned()));
        assert!(list(&caller, Some("nobody")).await.is_err());
    });
}
