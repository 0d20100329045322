//! A route in words: `10.1.0.0/16 as-path 65010 65020 community 65000:100 local-preference 100 med 5 next-hop 192.0.2.1`.

use crate::subject::Subject;
use sluice_base::{AnyPrefix, Asn, IpPrefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::attributes::private::Private;
use sluice_bgp::policy::RouteType;
use sluice_bgp::policy::vocabulary::{ORIGINS, PATH_VALIDATIONS, ROUTE_TYPES, VALIDATIONS};
use sluice_bgp::wire::attribute::{Flags, code};
use sluice_policy::community::{Kind, Pattern, put};
use sluice_policy::unknown;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use thiserror::Error;

/// The properties of a route in words, in the order of error messages.
pub(crate) const PROPERTIES: [&str; 17] = [
    "as-path",
    "community",
    "local-preference",
    "med",
    "origin",
    "next-hop",
    "weight",
    "tag",
    "rib-distance",
    "metric",
    "neighbor",
    "neighbor-as",
    "group",
    "protocol",
    "route-type",
    "validation",
    "aspa",
];
/// A further property, for the condition of the same name.
pub(crate) const PRESENT: &str = "route-present";

/// The properties of which a route may have several.
const REPEATABLE: [&str; 2] = ["tag", PRESENT];

/// The reason why words are no route.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RouteError {
    /// There are no words.
    #[error("expected a route: a prefix, then properties such as as-path, community and local-preference")]
    Empty,
    /// The first word is no prefix.
    #[error("`{0}` is neither a prefix nor a file: {1}")]
    Prefix(String, String),
    /// A property is unknown.
    #[error("{0}")]
    Property(String),
    /// A value is missing, or not one of the property's.
    #[error("{0}: {1}")]
    Value(&'static str, String),
    /// A property stands twice.
    #[error("`{0}` stands twice; a route has each property once, with all its values")]
    Twice(&'static str),
}

/// Reads a route. Lists of ASes and communities go on up to the next property.
pub fn parse(words: &[String]) -> Result<Subject, RouteError> {
    let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    // A route that is one argument of a shell may have quotes around its lists.
    let words: Vec<&str> = words.into_iter().map(|word| word.trim_matches('"')).collect();
    let (prefix, mut rest) = words.split_first().ok_or(RouteError::Empty)?;
    // Of an IP prefix, any address of the subnet will do.
    let parsed = IpPrefix::parse_subnet(prefix)
        .map(AnyPrefix::from)
        .or_else(|error| if prefix.contains('-') { prefix.parse() } else { Err(error) });
    let parsed = parsed.map_err(|error| RouteError::Prefix((*prefix).into(), error.to_string()))?;
    let mut subject = Subject::new(parsed);
    let mut private = Private::default();
    let known = || PROPERTIES.into_iter().chain([PRESENT]);
    let mut named = BTreeSet::new();
    while let Some((name, after)) = rest.split_first() {
        let Some(name) = known().find(|known| known == name) else {
            return Err(RouteError::Property(unknown("property", name, known())));
        };
        if !named.insert(name) && !REPEATABLE.contains(&name) {
            return Err(RouteError::Twice(name));
        }
        let count = after.iter().take_while(|word| !known().any(|known| known == **word)).count();
        let (values, behind) = after.split_at(count);
        property(&mut subject, &mut private, name, values)?;
        rest = behind;
    }
    let mut octets = Vec::new();
    canonical::put_with_private(&subject.octets, &private, &mut octets);
    subject.octets = octets;
    Ok(subject)
}

fn property(
    subject: &mut Subject,
    private: &mut Private,
    name: &'static str,
    values: &[&str],
) -> Result<(), RouteError> {
    let wrong = |expected: &str| RouteError::Value(name, format!("expected {expected}"));
    match name {
        "as-path" => {
            let path = as_path(&values.join(" ")).ok_or_else(|| wrong("AS numbers; sets stand in braces"))?;
            set(subject, Flags::TRANSITIVE, code::AS_PATH, &path);
            return Ok(());
        }
        "community" => return communities(subject, values),
        _ => {}
    }
    let [value] = values else { return Err(wrong("one value")) };
    let number = || read::<u32>(name, value);
    let place = |names: &[&str]| {
        let place = names.iter().position(|known| known == value);
        place.ok_or_else(|| wrong(&names.join(", ")))
    };
    match name {
        "local-preference" => set(subject, Flags::TRANSITIVE, code::LOCAL_PREF, &number()?.to_be_bytes()),
        "med" => set(subject, Flags::OPTIONAL, code::MULTI_EXIT_DISC, &number()?.to_be_bytes()),
        "origin" => set(subject, Flags::TRANSITIVE, code::ORIGIN, &[place(ORIGINS)? as u8]),
        "next-hop" => subject.next_hop = Some(read(name, value)?),
        "weight" => private.weight = read(name, value)?,
        "tag" => private.tags.push(number()?),
        "rib-distance" => private.rib_distance = Some(read(name, value)?),
        "metric" => private.metric = Some(number()?),
        "neighbor" => subject.neighbor = Some(read(name, value)?),
        "neighbor-as" => subject.neighbor_as = Some(number()?),
        "group" => subject.group = Some((*value).into()),
        "protocol" => subject.protocol = (*value).into(),
        "route-type" => {
            let types = [RouteType::External, RouteType::Internal, RouteType::Local];
            subject.route_type = types.get(place(ROUTE_TYPES)?).copied();
        }
        "validation" => subject.validation = Some(place(VALIDATIONS)? as u32),
        "aspa" => subject.aspa = Some(place(PATH_VALIDATIONS)? as u32),
        _ => drop(subject.present.insert(read(name, value)?)),
    }
    Ok(())
}

fn read<T: FromStr<Err: Display>>(name: &'static str, text: &str) -> Result<T, RouteError> {
    text.parse().map_err(|error| RouteError::Value(name, format!("`{text}`: {error}")))
}

fn set(subject: &mut Subject, flags: u8, code: u8, value: &[u8]) {
    let mut octets = Vec::new();
    canonical::put_with(&subject.octets, flags, code, Some(value), &mut octets);
    subject.octets = octets;
}

/// Returns the octets of a path with AS numbers of 4 octets.
fn as_path(text: &str) -> Option<Vec<u8>> {
    const AS_SET: u8 = 1;
    const AS_SEQUENCE: u8 = 2;
    let mut out = Vec::new();
    let mut put = |kind: u8, text: &str| {
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let asns: Option<Vec<Asn>> = words.map(|word| word.parse().ok().map(Asn)).collect();
        for part in asns?.chunks(255) {
            out.extend([kind, part.len() as u8]);
            part.iter().for_each(|asn| out.extend(asn.0.to_be_bytes()));
        }
        Some(())
    };
    let mut rest = text;
    while let Some((sequence, behind)) = rest.split_once('{') {
        let (members, behind) = behind.split_once('}')?;
        put(AS_SEQUENCE, sequence)?;
        put(AS_SET, members)?;
        rest = behind;
    }
    put(AS_SEQUENCE, rest)?;
    Some(out)
}

fn communities(subject: &mut Subject, values: &[&str]) -> Result<(), RouteError> {
    const NAME: &str = "community";
    let mut all: [(Kind, u8, Vec<u8>); 3] = [
        (Kind::Standard, code::COMMUNITIES, Vec::new()),
        (Kind::Extended, code::EXTENDED_COMMUNITIES, Vec::new()),
        (Kind::Large, code::LARGE_COMMUNITY, Vec::new()),
    ];
    if values.is_empty() {
        return Err(RouteError::Value(NAME, "expected communities such as 65000:100".into()));
    }
    for value in values {
        let pattern: Pattern = value.parse().map_err(|error| RouteError::Value(NAME, format!("{error}")))?;
        let community = pattern.exact().ok_or_else(|| {
            RouteError::Value(
                NAME,
                format!("`{value}` describes several; a route has communities without `*` and ranges"),
            )
        })?;
        all.iter_mut().filter(|(kind, ..)| *kind == pattern.kind).for_each(|(kind, _, octets)| {
            put(*kind, community, octets);
        });
    }
    for (_, code, octets) in all.iter().filter(|(.., octets)| !octets.is_empty()) {
        set(subject, Flags::OPTIONAL | Flags::TRANSITIVE, *code, octets);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{communities_of, path_of, value_of};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn routes_are_read() {
        let text = "10.1.0.0/16 as-path \"65010 {65020 65030} 4200000000\" community 65000:100 no-export 1:2:3 rt:1:2 local-preference 200 \
                    med 5 origin egp next-hop 192.0.2.1 weight 7 tag 9 rib-distance 20 metric 3 neighbor 10.0.0.2 neighbor-as 65010 \
                    group x protocol static route-type local validation invalid aspa valid route-present 10.0.0.0/8";
        let subject = parse(&words(text)).expect("a route");
        let route = subject.running(Asn(65000));
        assert_eq!(path_of(&route), "65010 {65020 65030} 4200000000");
        assert_eq!(communities_of(&route), ["65000:100", "no-export", "rt:1:2", "1:2:3"]);
        for (name, value) in [
            ("local-preference", "200"),
            ("med", "5"),
            ("origin", "egp"),
            ("next-hop", "192.0.2.1"),
            ("weight", "7"),
            ("tag", "9"),
            ("rib-distance", "20"),
            ("metric", "3"),
            ("neighbor", "10.0.0.2"),
            ("neighbor-as", "65010"),
            ("group", "x"),
            ("protocol", "static"),
            ("route-type", "local"),
            ("family", "ipv4"),
            ("as-path-length", "3"),
            ("origin-as", "4200000000"),
            ("path-neighbor-as", "65010"),
            ("prefix-length", "16"),
            ("aspa", "valid"),
        ] {
            assert_eq!(value_of(&route, name).as_deref(), Some(value), "{name}");
        }
        let plain = parse(&words("2001:db8::/32")).expect("a route");
        let route = plain.running(Asn(65000));
        assert_eq!((path_of(&route).as_str(), value_of(&route, "next-hop")), ("", None));
        assert_eq!(value_of(&route, "family").as_deref(), Some("ipv6"));
    }

    #[test]
    fn a_route_may_have_several_tags_and_facts() {
        let text = "10.0.0.0/8 tag 1 tag 2 route-present 10.0.0.0/8 route-present 192.0.2.0/24";
        let subject = parse(&words(text)).expect("a route");
        assert_eq!(subject.present.len(), 2);
        let tag = sluice_bgp::policy::vocabulary::TAG;
        assert!(sluice_policy::Route::number_is_in(&subject.running(Asn(1)), tag, &[(2, 2)]));
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, said) in [
            ("10.0.0.0", "neither a prefix nor a file"),
            ("10.0.0.0/8 local-pref 5", "there is no property `local-pref`; there are: as-path, community"),
            ("10.0.0.0/8 metirc 5", "did you mean `metric`?"),
            ("10.0.0.0/8 med", "med: expected one value"),
            ("10.0.0.0/8 med high", "med: `high`"),
            ("10.0.0.0/8 origin bgp", "origin: expected igp, egp, incomplete"),
            ("10.0.0.0/8 as-path 65000_", "as-path: expected AS numbers"),
            ("10.0.0.0/8 as-path {1 2", "as-path: expected AS numbers"),
            ("10.0.0.0/8 community 65000:*", "without `*` and ranges"),
            ("10.0.0.0/8 community x", "is no community"),
            ("10.0.0.0/8 weight 70000", "weight: `70000`"),
            ("10.0.0.0/8 med 5 med 7", "`med` stands twice; a route has each property once"),
            ("10.0.0.0/8 community 1:1 med 5 community 1:2", "once, with all its values"),
        ] {
            let error = parse(&words(text)).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert_eq!(parse(&[]), Err(RouteError::Empty));
    }
}
