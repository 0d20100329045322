//! The text form as a text: its parts, and its escapes. Pure.

use std::fmt;

/// `family://target/interface/method?name:type=value&name:type=value->name:type&name:type`, in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextCall {
    /// The part before `://`: `finder`, or a forced family. `finder` if left out.
    pub family: String,
    /// Class or instance.
    pub target: String,
    /// Package and service, or the package alone.
    pub interface: String,
    /// The method.
    pub method: String,
    /// The arguments.
    pub arguments: Vec<Atom>,
}

/// `name:type=value`, the value without its escapes except for those of a list's elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    /// The field's name.
    pub name: String,
    /// The type, as `u32` or `list<ipv4>`.
    pub kind: String,
    /// The value as written.
    pub value: String,
}

/// A syntax error in an XRL's text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at character {offset}: expected {expected}")]
pub struct SyntaxError {
    /// Octets before the place.
    pub offset: usize,
    /// The expected token.
    pub expected: &'static str,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// Returns the text before `->`. Space around the arrow and around the whole text is ignored.
fn before_results(text: &str) -> &str {
    text.split("->").next().unwrap_or(text).trim_end()
}

/// Splits a text into its parts. The results after `->`, if there are any, are a reminder for people and left aside.
pub fn parse(text: &str) -> Result<TextCall, SyntaxError> {
    let wrong = |part: &str, expected| {
        // Every part is a piece of the text, so the distance is where it begins.
        SyntaxError { offset: part.as_ptr() as usize - text.as_ptr() as usize, expected }
    };
    let call = text.trim();
    // A value may hold anything, so what comes after the question mark does not decide the family.
    let head = call.split('?').next().unwrap_or(call);
    let (family, rest) = match head.find("://") {
        Some(at) => (&call[..at], &call[at + 3..]),
        None => ("finder", call),
    };
    if family.is_empty() || !family.chars().all(is_name) {
        return Err(wrong(call, "a family, as `finder`"));
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, query),
        None => (before_results(rest), ""),
    };
    let mut parts = path.split('/');
    let mut part = |expected| match parts.next() {
        Some(p) if !p.is_empty() && p.chars().all(is_name) => Ok(p.to_owned()),
        Some(p) => Err(wrong(p, expected)),
        None => Err(wrong(&rest[path.len()..], expected)),
    };
    let target = part("a target, as `bgp`")?;
    let interface = part("/ and an interface, as `bgp.v1.Bgp`")?;
    let method = part("/ and a method, as `SetLocalAs`")?;
    if let Some(more) = parts.next() {
        return Err(wrong(more, "? and arguments, or the end"));
    }
    let query = before_results(query);
    let mut arguments = Vec::new();
    for atom in query.split('&').filter(|_| !query.is_empty()) {
        let (head, value) = atom.split_once('=').ok_or_else(|| wrong(atom, "an argument NAME:TYPE=VALUE"))?;
        let (name, kind) = head.split_once(':').ok_or_else(|| wrong(atom, "an argument NAME:TYPE=VALUE"))?;
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(wrong(atom, "an argument's name"));
        }
        if kind.is_empty() || !kind.chars().all(|c| is_name(c) || matches!(c, '<' | '>')) {
            return Err(wrong(kind, "a type, as `u32`"));
        }
        arguments.push(Atom { name: name.to_owned(), kind: kind.to_owned(), value: value.to_owned() });
    }
    Ok(TextCall { family: family.to_owned(), target, interface, method, arguments })
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.name, self.kind, self.value)
    }
}

impl fmt::Display for TextCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}/{}", self.family, self.target, self.interface, self.method)?;
        for (i, atom) in self.arguments.iter().enumerate() {
            write!(f, "{}{atom}", if i == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// Appends octets as a value: a space as `+`, special characters and characters outside printable ASCII as `%HH`.
pub fn escape(octets: &[u8], out: &mut String) {
    for octet in octets {
        match octet {
            b' ' => out.push('+'),
            b'[' | b']' | b'&' | b'=' | b'+' | b'%' | b'$' | b',' | b';' | b'{' | b'}' | b'#' | b'>' => {
                out.push_str(&format!("%{octet:02X}"));
            }
            0x21..=0x7e => out.push(char::from(*octet)),
            _ => out.push_str(&format!("%{octet:02X}")),
        }
    }
}

/// The octets of a value. `None` if a `%` is not followed by two hexadecimal digits.
pub fn unescape(value: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => out.push(b' '),
            b'%' => {
                let (digits, tail) = tail.split_first_chunk::<2>()?;
                let hex = |d: u8| char::from(d).to_digit(16);
                out.push((hex(digits[0])? * 16 + hex(digits[1])?) as u8);
                rest = tail;
            }
            other => out.push(*other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts() {
        let call = parse("finder://bgp/bgp.v1.Bgp/SetLocalAs?as:u32=65001&name:txt=a+b->ok:bool").unwrap();
        assert_eq!(call.to_string(), "finder://bgp/bgp.v1.Bgp/SetLocalAs?as:u32=65001&name:txt=a+b");
        assert_eq!(
            (call.target.as_str(), call.method.as_str(), call.arguments.len()),
            ("bgp", "SetLocalAs", 2)
        );
        assert_eq!(parse("bgp/bgp.v1/Get").unwrap().to_string(), "finder://bgp/bgp.v1/Get");
        assert_eq!(parse("bgp/bgp.v1/Get?").unwrap().arguments, []);
        assert_eq!(parse("bgp/bgp.v1/Get -> x:u32").unwrap().to_string(), "finder://bgp/bgp.v1/Get");
        assert_eq!(parse("bgp/bgp.v1/Get?x:txt=a\n-> y").unwrap().arguments[0].value, "a");
        assert_eq!(parse("bgp/bgp.v1/Get?x:txt=a://b").unwrap().arguments[0].value, "a://b");
    }

    #[test]
    fn what_is_wrong_and_where() {
        let check = |text, offset, expected: &str| {
            let e = parse(text).unwrap_err();
            assert_eq!((e.offset, &e.expected[..expected.len()]), (offset, expected), "{text}");
        };
        check("", 0, "a target");
        check("finder://", 9, "a target");
        check("://bgp/x/m", 0, "a family");
        check("bgp", 3, "/ and an interface");
        check("bgp/x", 5, "/ and a method");
        check("bgp/x/", 6, "/ and a method");
        check("bgp/x/m/n", 8, "? and arguments");
        check("bgp/x/m?as", 8, "an argument");
        check("bgp/x/m?as=1", 8, "an argument");
        check("bgp/x/m?a:u32=1&:u32=1", 16, "an argument's name");
        check("bgp/x/m?a:=1", 10, "a type");
    }

    proptest! {
        #[test]
        fn escapes_come_back(octets: Vec<u8>) {
            let mut text = String::new();
            escape(&octets, &mut text);
            let plain = |b: u8| b.is_ascii_graphic() && !b"&=,;{}#[]$ ".contains(&b);
            prop_assert!(text.bytes().all(plain));
            prop_assert_eq!(unescape(&text), Some(octets));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            if let Ok(call) = parse(&text) {
                prop_assert_eq!(parse(&call.to_string()), Ok(call));
            }
            let _ = unescape(&text);
        }
    }
}
