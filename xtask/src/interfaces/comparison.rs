//! The differences between a recorded description of a package and the package's files.

use super::description::{Item, Key, Name, Package, Row};
use std::ops::RangeInclusive;

/// The differences of a package.
#[derive(Default, Debug)]
pub struct Differences {
    /// The names of what older versions neither send nor expect, such as a new field.
    pub additions: Vec<String>,
    /// The differences because of which an older version misreads, or is misread.
    pub breaks: Vec<Break>,
}

/// An incompatible difference.
#[derive(Debug)]
pub struct Break {
    /// The full name of the message, enum, service or method, as the changelog names it.
    pub name: String,
    /// The place in the package, as in `message rib.v1.Route, field 3 (metric)`.
    pub place: String,
    /// The recorded state.
    pub was: String,
    /// The state in the files.
    pub now: String,
    /// The change of the files that restores compatibility.
    pub remedy: String,
    /// True if no renewal may record the difference: a number would be free for another use.
    pub frees_number: bool,
}

/// Returns the differences between the recorded and the present description of `package`.
pub fn compare(package: &str, recorded: &Package, present: &Package) -> Differences {
    let mut found = Differences::default();
    for (name, item) in &recorded.0 {
        let place = Place { package, name };
        match present.0.get(name) {
            Some(now) => place.compare(item, now, &mut found),
            None => found.breaks.push(Break {
                name: place.full_name(),
                place: format!("{} {}", name.kind, place.full_name()),
                was: "recorded".into(),
                now: "missing".into(),
                remedy: format!("keep the {}", name.kind),
                frees_number: false,
            }),
        }
    }
    let is_new = |name: &&Name| !recorded.0.contains_key(name);
    found
        .additions
        .extend(present.0.keys().filter(is_new).map(|name| format!("{} {}", name.kind, name.name)));
    found
}

/// A message, an enum or a service of a package.
#[derive(Clone, Copy)]
struct Place<'a> {
    package: &'a str,
    name: &'a Name,
}

impl Place<'_> {
    fn full_name(self) -> String {
        format!("{}.{}", self.package, self.name.name)
    }

    /// Returns the difference at a row of the item.
    fn at(self, key: &Key, row: &Row, was: String, now: String, remedy: String) -> Break {
        let (full, kind) = (self.full_name(), &self.name.kind);
        let is_method = kind == "service";
        let row_kind = match kind.as_str() {
            "service" => "method",
            "enum" => "value",
            _ => "field",
        };
        let label = row.get("name").map(|name| format!(" ({name})")).unwrap_or_default();
        Break {
            name: if is_method { format!("{full}/{key}") } else { full.clone() },
            place: format!("{kind} {full}, {row_kind} {key}{label}"),
            was,
            now,
            remedy,
            frees_number: false,
        }
    }

    fn compare(self, recorded: &Item, present: &Item, found: &mut Differences) {
        for (key, row) in &recorded.rows {
            match present.rows.get(key) {
                Some(now) => self.compare_rows(key, row, now, &present.reserved, found),
                None => found.breaks.push(self.removed(key, row, present)),
            }
        }
        for (key, row) in &present.rows {
            if recorded.rows.contains_key(key) {
                continue;
            }
            found.additions.push(format!("{}: {key}", self.name.name));
            if let Some(number) = number(key, row).filter(|number| contains(&recorded.reserved, *number)) {
                let was = format!("the number {number} was reserved, because something removed had it");
                let remedy = "take a number that was never used".to_owned();
                let reused = self.at(key, row, was, "the number is used again".into(), remedy);
                found.breaks.push(Break { frees_number: true, ..reused });
            }
        }
        let lifted = recorded.reserved.iter().filter_map(|range| lifted(range, &present.reserved));
        found.breaks.extend(lifted.filter(|number| is_free(present, *number)).map(|number| Break {
            name: self.full_name(),
            place: format!("{} {}", self.name.kind, self.full_name()),
            was: format!("the number {number} was reserved"),
            now: "the number is free".into(),
            remedy: format!("write `reserved {number};` again"),
            frees_number: true,
        }));
        if recorded.reserved != present.reserved {
            found.additions.push(format!("{}: reserved", self.name.name));
        }
    }

    fn compare_rows(
        self,
        key: &Key,
        recorded: &Row,
        present: &Row,
        reserved: &[RangeInclusive<i64>],
        found: &mut Differences,
    ) {
        let names: std::collections::BTreeSet<&String> = recorded.keys().chain(present.keys()).collect();
        for name in names {
            let (was, now) = (recorded.get(name), present.get(name));
            if was == now {
                continue;
            }
            // A method that has lost its effects: older callers have all the rights that they need.
            if name == "only" && was.is_none() {
                found.additions.push(format!("{}: {key}: {name}", self.name.name));
                continue;
            }
            let text = |value: Option<&String>| value.map_or_else(|| "none".to_owned(), Clone::clone);
            let remedy = match (self.name.kind.as_str(), name.as_str()) {
                (_, "name") => "restore the name, which JSON output has; a new meaning gets a new field",
                ("service", _) => "restore the method and add a new one",
                ("enum", _) => "restore the number and add a new value",
                _ => "restore the field and add a new one with a new number",
            };
            let (was, now) = (format!("{name} was {}", text(was)), format!("{name} is {}", text(now)));
            let frees_number =
                name == "number" && number(key, recorded).is_some_and(|old| !contains(reserved, old));
            found.breaks.push(Break { frees_number, ..self.at(key, recorded, was, now, remedy.into()) });
        }
    }

    /// Returns the difference that a removed row is. Its number has to be reserved.
    fn removed(self, key: &Key, row: &Row, present: &Item) -> Break {
        let properties: Vec<&str> = row.values().map(String::as_str).collect();
        let was = format!("recorded ({})", properties.join(", "));
        let open = number(key, row).filter(|number| is_free(present, *number));
        let is_renumbered = |other: &Row| row.get("name").is_some_and(|name| other.get("name") == Some(name));
        let elsewhere = present.rows.iter().find(|(_, other)| is_renumbered(other));
        let now = elsewhere.map_or_else(|| "missing".to_owned(), |(key, _)| format!("has the number {key}"));
        let remedy = match open {
            Some(number) => format!("keep it, or write `reserved {number};` in its place"),
            None => "keep it".to_owned(),
        };
        Break { frees_number: open.is_some(), ..self.at(key, row, was, now, remedy) }
    }
}

/// Returns the number of a field or an enum value.
fn number(key: &Key, row: &Row) -> Option<i64> {
    match key {
        Key::Number(number) => Some(*number),
        Key::Name(_) => row.get("number")?.parse().ok(),
    }
}

/// Returns true if the number is neither in use nor reserved.
fn is_free(item: &Item, wanted: i64) -> bool {
    !contains(&item.reserved, wanted) && !item.rows.iter().any(|(key, row)| number(key, row) == Some(wanted))
}

fn contains(ranges: &[RangeInclusive<i64>], number: i64) -> bool {
    ranges.iter().any(|range| range.contains(&number))
}

/// Returns the first number of `range` that none of `ranges` contains.
fn lifted(range: &RangeInclusive<i64>, ranges: &[RangeInclusive<i64>]) -> Option<i64> {
    let mut number = *range.start();
    while let Some(covering) = ranges.iter().find(|range| range.contains(&number)) {
        number = covering.end() + 1;
    }
    (number <= *range.end()).then_some(number)
}
